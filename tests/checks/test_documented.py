"""The table of checks in docs/checks.md, held against the checks."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

from nemesis.checks import CHECKS, Check

PAGE = Path(__file__).parents[2] / "docs" / "checks.md"


def table() -> Iterator[str]:
    """A row for each check: what the declaration of each says."""
    yield "| anomaly | what is promised | what is looked at | a prefix proves | rests on every line |"
    yield "|---|---|---|---|---|"
    yield from map(_row, CHECKS)


def _row(check: Check) -> str:
    others = sorted(check.implies - {check.name})
    proves = ", ".join((["the same"] if check.implies else ["nothing"]) + others)
    rests = "yes" if check.rests_on_all else ""
    return f"| {check.name} | {check.promise} | {check.needs} | {proves} | {rests} |"


def test_the_page_has_a_row_for_each_check() -> None:
    """The table says what the declarations say, in their order; to write it anew: ``python -m`` this module."""
    assert "\n".join(table()) in PAGE.read_text(encoding="utf-8")


def test_the_page_explains_each_anomaly() -> None:
    """Each has a paragraph that begins with its name."""
    text = PAGE.read_text(encoding="utf-8")
    assert [check.name for check in CHECKS if f"**{check.name}**" not in text] == []


if __name__ == "__main__":
    sys.stdout.write("\n".join(table()) + "\n")
