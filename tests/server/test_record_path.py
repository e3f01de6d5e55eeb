"""One record on its way through three brokers, held against the table of docs/architecture.md."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "architecture.md"
ROW = re.compile(r"^\|[^|]*\|[^|]*\|(?P<names>[^|]*)\|$", re.M)
NAME = re.compile(r"`([\w.]+)`")
STATIONS = 20
"""Rows of the table: what is done with a record, one after the other."""


def table() -> list[list[str]]:
    """The functions of each row."""
    section = PAGE.read_text(encoding="utf-8").split("### Function by function")[1].split("\n## ")[0]
    return [names for row in ROW.finditer(section) if (names := NAME.findall(row["names"]))]


@pytest.fixture(scope="module")
def stacks(tmp_path_factory: pytest.TempPathFactory) -> list[list[str]]:
    """The stacks of all calls while one record was on its way."""
    output = tmp_path_factory.mktemp("path") / "stacks.json"
    command = (sys.executable, "-m", "tests.server.record_path", str(output))
    subprocess.run(command, cwd=ROOT, check=True, stdout=subprocess.DEVNULL, timeout=120)
    seen: list[list[str]] = json.loads(output.read_text())
    return seen


@pytest.mark.slow
def test_a_record_passes_the_functions_of_the_table_in_its_order(stacks: list[list[str]]) -> None:
    """Each row's last function is called behind that of the row before, by functions that are named and no others.

    Meanwhile the brokers do other things: calls that others lead to are passed over. A flush is in its own thread.
    """
    rows = table()
    assert len(rows) == STATIONS
    named = {name for row in rows for name in row}
    at = 0
    for row in rows:
        begin = 0 if row[-1] == "LogStore.flush" else at
        found = [at for at in range(begin, len(stacks)) if stacks[at][-1] == row[-1] and _is_named(stacks[at], named)]
        assert found, f"{row[-1]} is called by functions that the table does not name"
        at = at if row[-1] == "LogStore.flush" else found[0]


def _is_named(stack: list[str], named: set[str]) -> bool:
    return all(name in named or "<" in name for name in stack)


def test_the_page_counts_the_functions_of_the_table() -> None:
    """As many as the page says: one more is a decision."""
    said = re.search(r"three replicas: (\d+),", PAGE.read_text(encoding="utf-8"))
    assert said is not None
    assert len({name for row in table() for name in row}) == int(said[1])


def test_every_function_of_the_table_is_passed(stacks: list[list[str]]) -> None:
    """What no record passes any more is not named."""
    called = {stack[-1] for stack in stacks}
    assert {name for row in table() for name in row} <= called
