"""The accelerator as fixtures: compiled once for all tests of a process."""

from __future__ import annotations

from ctypes import CDLL
from pathlib import Path

import pytest

from nemesis.linearizability.accelerator import load
from tests.linearizability.native import compiled


@pytest.fixture(scope="session")
def library_path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The file of a library that is compiled once."""
    return compiled(tmp_path_factory.mktemp("native"))


@pytest.fixture(scope="session")
def native(library_path: Path) -> CDLL:
    """The library."""
    return load(library_path)
