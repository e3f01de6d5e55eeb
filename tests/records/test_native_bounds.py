"""The library in C never reads or writes outside of what it is given, whatever stands in there."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from hatch_build import RECORDS_WALK, compile_library
from tests.records.compiled import ROOT, needs_compiler

COUNT = 3000


@pytest.mark.slow
@needs_compiler
@pytest.mark.parametrize("seed", [1, 2])
def test_no_byte_behind_the_last_is_touched(tmp_path: Path, seed: int) -> None:
    """Thousands of bodies and columns in front of memory that ends the process: it lives, and has seen both kinds."""
    library = tmp_path / "walk.so"
    assert compile_library(ROOT, RECORDS_WALK, library) is None
    command = (sys.executable, "-m", "tests.records.fuzz_native", str(library), str(seed), str(COUNT))
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"{' '.join(command)}: {done.stderr}"
    assert all(int(seen) > COUNT // 20 for seen in done.stdout.split()), done.stdout
