"""docs/checks.md, held against the checks."""

from __future__ import annotations

from pathlib import Path

from nemesis.checks import CHECKS

PAGE = Path(__file__).parents[2] / "docs" / "checks.md"


def test_the_page_explains_each_anomaly() -> None:
    """Each has a paragraph that begins with its name."""
    text = PAGE.read_text(encoding="utf-8")
    assert [check.name for check in CHECKS if f"**{check.name}**" not in text] == []
