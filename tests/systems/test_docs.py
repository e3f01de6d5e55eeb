"""The example of the documentation, as it stands there."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from nemesis.cli.exit import Exit
from tests.systems.running import run

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(300)]


@pytest.fixture
def example(pytestconfig: pytest.Config, tmp_path: Path) -> Path:
    """``forgetful.py`` in a folder of its own."""
    text = (pytestconfig.rootpath / "docs" / "add-a-system.md").read_text(encoding="utf-8")
    (code,) = re.findall(r"```python\n(.*?)```", text, re.DOTALL)
    path = tmp_path / "forgetful.py"
    path.write_text(code, encoding="utf-8")
    return path


@pytest.mark.parametrize(("nemesis", "code"), [("pause", Exit.VALID), ("kill", Exit.INVALID)])
def test_the_example_is_run_and_judged(example: Path, nemesis: str, code: Exit) -> None:
    """The system of the documentation is found right while it is paused, and found out when it is killed."""
    words = ("--system", "forgetful:Forgetful", "--workload", "register", "--nemesis", nemesis)
    done = run(example.parent / "store", *words, "--time-limit", "8", "--rate", "50", "--seed", "1")

    assert done.returncode == code, done.stdout + done.stderr


def test_what_the_example_knows_no_workload_for_is_refused(example: Path) -> None:
    """A workload that a system's clients do not know is a wrong argument, and the known ones are named."""
    done = run(example.parent / "store", "--system", "forgetful:Forgetful", "--workload", "bank")

    assert done.returncode == Exit.BAD_ARGUMENTS
    assert "knows no workload bank: give register" in done.stderr
