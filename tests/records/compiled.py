"""The library in C that the records are walked over with, compiled from the source tree: no older one is looked at."""

from __future__ import annotations

from ctypes import CDLL
from pathlib import Path
from shutil import which

import pytest

from hatch_build import RECORDS_WALK, compile_library
from replica.records import walking

ROOT = Path(__file__).resolve().parents[2]
needs_compiler = pytest.mark.skipif(which("cc") is None, reason="there is no C compiler")


def compiled(folder: Path) -> CDLL:
    """The library, in ``folder``."""
    target = folder / "walk.so"
    assert compile_library(ROOT, RECORDS_WALK, target) is None
    library = walking.load(str(target))
    assert library is not None
    return library
