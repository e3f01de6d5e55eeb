"""What only the night looks at: a debt that is written down."""

from __future__ import annotations

import re

import pytest

MARK = re.compile(r"\bat_night\(\s*\"([^\"]+)\"")


def test_what_is_left_to_the_night_is_listed_with_its_reason(pytestconfig: pytest.Config) -> None:
    """The table of the page has each file and reason that a test is marked with, and no other."""
    root = pytestconfig.rootpath
    marked = {
        (str(path.relative_to(root / "tests")), why)
        for path in (root / "tests").rglob("test_*.py")
        for why in MARK.findall(path.read_text(encoding="utf-8"))
    }
    page = (root / "docs" / "architecture.md").read_text(encoding="utf-8").partition("| why at night |")[2]
    listed = set(re.findall(r"^\| `(\S+\.py)` \| ([^|]+?) \|", page, re.MULTILINE))
    assert listed == marked
