"""``nemesis`` as a process of its own: started, waited for, and ended whatever happens to whoever waits.

Owns the process and the bound on its time. A process and not a call: event loops, warnings that are errors, tracing and
signal handlers of a test runner do not reach the run, and the command that is told for a repetition is the one that
was run.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import IO

ENDED_S_MAX = 30.0
"""How long an interrupted run may take to undo its faults and to stop its replicas."""
TOLD_BY_THE_CALLER = frozenset({"GITHUB_ACTIONS", "GITHUB_STEP_SUMMARY"})
"""Whoever has started a run tells of it, once."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Finished:
    """How a command ended, and all that it printed."""

    exit_code: int
    out: str
    err: str


Execute = Callable[[Sequence[str], float], Finished]
"""Run ``nemesis`` with these words, at most for so many seconds. Raises TimeoutError when that is over."""


def execute(words: Sequence[str], at_most_s: float) -> Finished:
    """Run ``nemesis`` to its end; whoever is interrupted meanwhile ends it first.

    The process ends as well when this one is killed (on Linux), and takes its replicas along.
    """
    process = start(("-m", "nemesis.cli", *words))
    try:
        out, err = process.communicate(timeout=at_most_s)
    except subprocess.TimeoutExpired:
        raise TimeoutError(f"nemesis {words[0]} had not ended after {at_most_s:g} s") from None
    finally:
        end(process)
    return Finished(exit_code=process.returncode, out=out, err=err)


def start(
    arguments: Sequence[str], *, stdin: int = subprocess.DEVNULL, stderr: int | IO[bytes] = subprocess.PIPE
) -> subprocess.Popen[str]:
    """Start this Python with these arguments, in a session of its own, so that a Ctrl-C is not for it."""
    from nemesis.cluster.processes import LAUNCHER

    # What lies in the directory from which the tests are run must not be imported instead of what is installed.
    inherited = {name: value for name, value in os.environ.items() if name not in TOLD_BY_THE_CALLER}
    environment = {**inherited, "PYTHONSAFEPATH": "1", "PYTHONUNBUFFERED": "1"}
    return subprocess.Popen(
        [sys.executable, "-I", "-S", str(LAUNCHER), str(os.getpid()), sys.executable, *arguments],
        stdin=stdin,
        stdout=subprocess.PIPE,
        stderr=stderr,
        text=True,
        env=environment,
        start_new_session=True,
    )


def end(process: subprocess.Popen[str]) -> None:
    """SIGTERM, and SIGKILL if it does not heed that in time; nothing if it has ended."""
    try:
        if process.poll() is None:
            process.send_signal(signal.SIGTERM)
            process.communicate(timeout=ENDED_S_MAX)
    except subprocess.TimeoutExpired:
        process.kill()
        process.communicate()
    finally:
        for stream in (process.stdin, process.stdout, process.stderr):
            if stream is not None:
                stream.close()
