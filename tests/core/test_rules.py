"""The protocol's decisions are those of the tables."""

from __future__ import annotations

import pytest

from replica.core.rules import Rules
from replica.core.rules.log import LogRules
from replica.core.rules.quorum import QuorumRules
from tests.core.decisions import TABLES, Row, decide

CASES = [pytest.param(rule, row, id=f"{rule}-{row.name}") for rule, rows in TABLES.items() for row in rows]


@pytest.mark.parametrize(("rule", "row"), CASES)
def test_decision(rule: str, row: Row) -> None:
    """The right rules answer each question of a table as it says."""
    assert decide(Rules(), rule, row) == row.expected


def test_every_rule_has_its_table() -> None:
    """No decision about a quorum log is without a table, and they stand in the order of the rules."""
    rules = (name for part in (LogRules, QuorumRules) for name in vars(part) if not name.startswith("_"))
    assert list(TABLES) == list(rules)
