"""The decisions about groups are those of the tables."""

from __future__ import annotations

import pytest

from replica.core.rules import Rules
from replica.core.rules.group import GroupRules
from tests.core.decisions import Row, decide
from tests.core.group.decisions import GROUP_TABLES

CASES = [pytest.param(rule, row, id=f"{rule}-{row.name}") for rule, rows in GROUP_TABLES.items() for row in rows]


@pytest.mark.parametrize(("rule", "row"), CASES)
def test_decision(rule: str, row: Row) -> None:
    """The right rules answer each question of a table as it says."""
    assert decide(Rules(), rule, row) == row.expected


def test_every_rule_has_its_table() -> None:
    """No decision about a group is without a table, and they stand in the order of the rules."""
    assert list(GROUP_TABLES) == [name for name in vars(GroupRules) if not name.startswith("_")]
