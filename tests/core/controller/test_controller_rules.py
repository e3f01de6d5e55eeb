"""The controller's decisions are those of the tables."""

from __future__ import annotations

import pytest

from replica.core.rules import Rules
from replica.core.rules.controller import ControllerRules
from tests.core.controller.decisions import CONTROLLER_TABLES
from tests.core.decisions import Row, decide

CASES = [pytest.param(rule, row, id=f"{rule}-{row.name}") for rule, rows in CONTROLLER_TABLES.items() for row in rows]


@pytest.mark.parametrize(("rule", "row"), CASES)
def test_decision(rule: str, row: Row) -> None:
    """The right rules answer each question of a table as it says."""
    assert decide(Rules(), rule, row) == row.expected


def test_every_rule_has_its_table() -> None:
    """No decision of the controller is without a table, and they stand in the order of the rules."""
    assert list(CONTROLLER_TABLES) == [name for name in vars(ControllerRules) if not name.startswith("_")]
