"""The workers that share the tests: what has one session, or one cluster for a file, is not torn apart."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

CONFTEST = Path(__file__).parents[1] / "conftest.py"
TESTS = """
import os
from pathlib import Path
import pytest

pytestmark = pytest.mark.{mark}

@pytest.mark.parametrize("number", range(6))
def test_something(number):
    with Path({told!r}).open("a") as told:
        told.write(os.environ["PYTEST_XDIST_WORKER"] + "\\n")
"""


@pytest.mark.slow
def test_a_group_has_one_worker(tmp_path: Path) -> None:
    """All tests of Spark run on one worker, and a file whose tests share a cluster on one."""
    shutil.copy(CONFTEST, tmp_path / "conftest.py")
    (tmp_path / "pytest.ini").write_text("[pytest]\nmarkers =\n    spark\n    cluster\n")
    told = [tmp_path / f"{number}.txt" for number in range(3)]
    for number, (mark, file) in enumerate(zip(("spark", "spark", 'xdist_group("cluster")'), told, strict=True)):
        (tmp_path / f"test_{number}.py").write_text(TESTS.format(mark=mark, told=str(file)))
    run = (sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "-p", "xdist", "-n", "2", "--dist", "loadgroup")
    environment = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST_")}
    environment["PYTEST_DISABLE_PLUGIN_AUTOLOAD"] = "1"

    done = subprocess.run(run, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False)

    assert done.returncode == 0, done.stdout + done.stderr
    workers = [set(file.read_text().split()) for file in told]
    assert [len(seen) for seen in workers] == [1, 1, 1]
    assert workers[0] == workers[1]
