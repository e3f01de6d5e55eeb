"""Whoever reads what ``nemesis`` says may leave: no command ends by it, and no verdict is lost."""

from __future__ import annotations

import io
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path

import pytest

from nemesis.cli.__main__ import main
from nemesis.cli.exit import VERDICT_EXITS, Exit, exit_code_of
from nemesis.cli.progress import progress_shown
from nemesis.runner import Progress
from tests.cli.commands import TIMEOUT_S
from tests.cli.test_nemesis_cli import stored_run


@pytest.fixture
def unread() -> Iterator[int]:
    """The writing end of a pipe whose reader has left."""
    read, write = os.pipe()
    os.close(read)
    yield write
    os.close(write)


@pytest.mark.slow
@pytest.mark.parametrize(("read", "code"), [((7,), Exit.VALID), ((), Exit.INVALID)])
def test_a_listener_who_leaves_costs_no_verdict(read: tuple[int, ...], code: Exit, tmp_path: Path, unread: int) -> None:
    """When nobody reads the output, as after ``head``, the run is judged, results and report written, the code kept."""
    run = stored_run(tmp_path / "run", read=read)
    words = (sys.executable, "-m", "nemesis.cli", "check", str(run), "--engine", "local")

    assert subprocess.run(words, stdout=unread, stderr=unread, check=False, timeout=TIMEOUT_S).returncode == code
    assert json.loads((run / "results.json").read_text())["verdict"] == code.name.lower()
    assert (run / "report.html").exists()


COMMANDS = {
    "list-variants": (["list-variants"], Exit.VALID),
    "follow": (["check", "RUN", "--follow", "--engine", "local"], Exit.INVALID),
    "runs": (["check", "RUN", "OTHER", "--engine", "local"], Exit.INVALID),
    "sim": (["sim", "--seeds", "1", "--time-limit", "2", "--jobs", "1"], Exit.VALID),
    "explain": (["explain", "RUN"], Exit.UNKNOWN),
    "history": (["history", "RUN", "--json"], Exit.VALID),
    "traced": (["sim", "--seed", "1", "--time-limit", "2", "--trace"], Exit.VALID),
    "bad arguments": (["frobnicate"], Exit.BAD_ARGUMENTS),
}


@pytest.mark.parametrize(("words", "code"), COMMANDS.values(), ids=COMMANDS)
def test_no_command_ends_by_its_listener(words: list[str], code: Exit, tmp_path: Path, unread: int) -> None:
    """Whatever is asked, the code is the one that it ends with when somebody listens."""
    runs = {name: str(stored_run(tmp_path / name, read=())) for name in ("RUN", "OTHER")}
    given = [runs.get(word, word) for word in words]
    out, err = (os.fdopen(os.dup(unread), "w") for _ in range(2))
    with out, err, redirect_stdout(out), redirect_stderr(err), pytest.raises(SystemExit) as ended:
        main(given)

    assert ended.value.code == code


@pytest.mark.slow
def test_a_listener_may_leave_in_the_middle(tmp_path: Path) -> None:
    """``2>&1 | head -1``: the first line is read, and the rest of what is told is no error."""
    run = stored_run(tmp_path / "run", read=())
    command = [sys.executable, "-m", "nemesis.cli", "check", str(run), "--engine", "local"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "judging with local\n"
        process.stdout.close()
        assert process.wait(TIMEOUT_S) == Exit.INVALID
    assert (run / "results.json").exists()


@pytest.mark.slow
def test_a_full_disk_is_no_listener_who_left(tmp_path: Path) -> None:
    """An output that cannot be written is a fault, and not the code of a verdict; what was found is on disk."""
    run = stored_run(tmp_path / "run", read=[7])
    command = [sys.executable, "-m", "nemesis.cli", "check", str(run), "--engine", "local"]
    with Path("/dev/full").open("w") as full:
        done = subprocess.run(command, stdout=full, check=False, timeout=TIMEOUT_S)
    assert done.returncode not in set(VERDICT_EXITS.values())
    assert (run / "results.json").exists()


def _other_pipe() -> object:
    raise BrokenPipeError("the JVM is gone")


def test_a_broken_pipe_of_another_kind_is_said(capsys: pytest.CaptureFixture[str]) -> None:
    """What breaks between processes is a fault of the harness that somebody must be able to read."""
    assert exit_code_of(_other_pipe) == Exit.INTERNAL_ERROR
    assert "the JVM is gone" in capsys.readouterr().err


class NobodyListens(io.StringIO):
    """A stream whose reader has left."""

    def write(self, text: str, /) -> int:
        raise BrokenPipeError


def test_the_progress_goes_on_without_a_listener() -> None:
    """A run is recorded to its end though nobody reads how far it is."""
    progress = Progress(
        phase="running", elapsed_s=1.0, time_limit_s=5.0, acknowledged=0, failed=0, unknown=0, polls=0, faults=()
    )
    with redirect_stderr(NobodyListens()), progress_shown() as show:
        show(progress)
