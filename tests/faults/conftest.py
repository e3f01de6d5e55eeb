"""The stage that most tests of faults begin with."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.faults.stage import Stage


@pytest.fixture
def stage(tmp_path: Path) -> Stage:
    """A fake system with an injector, recorded in a folder of the test's own."""
    return Stage(tmp_path)
