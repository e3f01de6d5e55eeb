"""The command as a process: it is ended whatever happens to whoever waits."""

from __future__ import annotations

import time

import psutil
import pytest

from nemesis.ci.command import end, execute, start

SLEEPS = ("-c", "import time; print('ready', flush=True); time.sleep(600)")
PATIENCE_S = 20.0


@pytest.mark.slow
def test_a_command_tells_its_exit_and_its_words() -> None:
    """Standard output, standard error and the exit code come back apart."""
    finished = execute(("run", "--nodes", "2"), PATIENCE_S)
    assert (finished.exit_code, finished.out) == (254, "")
    assert "'--nodes': 2 is not in the range" in finished.err


def test_a_command_that_does_not_end_is_ended() -> None:
    """When the time is up the process is gone, and the time is told."""
    # Another test of this process may have started a JVM, which stays.
    before = psutil.Process().children()
    process = start(SLEEPS)
    assert process.stdout is not None
    assert process.stdout.readline() == "ready\n"
    end(process)
    end(process)
    assert process.returncode == -15
    with pytest.raises(TimeoutError, match="had not ended after"):
        execute(("sim", "--seeds", "100000"), 0.2)
    assert psutil.Process().children() == before


def test_nothing_outlives_whoever_started_it() -> None:
    """A process that is killed takes along what it had started by this."""
    program = (
        "from nemesis.ci.command import start, end\nimport time\n"
        f"child = start({SLEEPS!r})\nchild.stdout.readline()\nprint(child.pid, flush=True)\ntime.sleep(600)\n"
    )
    parent = start(("-c", program))
    assert parent.stdout is not None
    child = psutil.Process(int(parent.stdout.readline()))
    parent.kill()
    end(parent)
    deadline = time.monotonic() + PATIENCE_S
    while child.is_running() and child.status() != psutil.STATUS_ZOMBIE:
        assert time.monotonic() < deadline, "it lives on"
        time.sleep(0.02)
