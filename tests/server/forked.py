"""Processes of replicas that are forked from one that has imported already what they need.

Most of what a start computes is its imports, and tests start hundreds of replicas. All that a process has of its own
these have as well: arguments, environment, group, limits, what they ignore, and how they end. None outlives its test's
process.
"""

from __future__ import annotations

import atexit
import ctypes
import os
import resource
import signal
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from importlib import import_module
from multiprocessing import get_context
from multiprocessing.connection import Connection
from pathlib import Path

from nemesis.cluster.launcher import PR_SET_PDEATHSIG

MAIN = {"replica.cli": "replica.cli.__main__", "nemesis.variants.server": "nemesis.variants.server"}
"""Where the command is that ``python -m`` runs."""
_FORKS = get_context("forkserver")
_FORKS.set_forkserver_preload(["tests.server.loaded"])


class ForkedReplica:
    """``python -m MODULE ARGUMENT...``, begun at once, with the part of ``subprocess.Popen`` that tests use.

    ``module`` is one of ``MAIN``. What it says goes to ``output``, appended; ``environment`` is added to that of this
    process, and it may open so many files as ``descriptors`` says.
    """

    def __init__(
        self,
        module: str,
        arguments: Sequence[str],
        output: Path,
        *,
        environment: Mapping[str, str] | None = None,
        descriptors: int | None = None,
    ) -> None:
        output.touch()
        environment = {**os.environ, **(environment or {})}
        ignored = [number for number in (signal.SIGHUP,) if signal.getsignal(number) is signal.SIG_IGN]
        ours, theirs = _FORKS.Pipe(duplex=False)
        self._process = _FORKS.Process(
            target=_run,
            args=(theirs, MAIN[module], arguments, output, environment, descriptors, ignored),
            daemon=True,
        )
        self._process.start()
        theirs.close()
        with ours, suppress(EOFError):
            ours.recv_bytes()  # It is closed when there is the process' own group.

    @property
    def pid(self) -> int:
        """Its process id, also that of its group."""
        assert self._process.pid is not None
        return self._process.pid

    def poll(self) -> int | None:
        """How it ended (negative: by that signal); absent while it is there."""
        return self._process.exitcode

    def wait(self, timeout: float | None = None) -> int:
        """Wait until it has ended, and say how. Raises TimeoutError."""
        self._process.join(timeout)
        if (code := self.poll()) is None:
            raise TimeoutError(f"process {self.pid} runs after {timeout} s")
        return code

    def send_signal(self, number: int) -> None:
        """Signal it, if it is there."""
        if self.poll() is None:
            os.kill(self.pid, number)

    def kill(self) -> None:
        """SIGKILL it, if it is there."""
        self.send_signal(signal.SIGKILL)


def _run(
    begun: Connection,
    module: str,
    arguments: Sequence[str],
    output: Path,
    environment: Mapping[str, str],
    descriptors: int | None,
    ignored: Sequence[signal.Signals],
) -> None:
    """What the process does that was forked."""
    os.setsid()
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    begun.close()
    with output.open("ab") as lines:
        os.dup2(lines.fileno(), 1)
        os.dup2(lines.fileno(), 2)
    os.environ.clear()
    os.environ.update(environment)
    for number in ignored:
        signal.signal(number, signal.SIG_IGN)
    if descriptors is not None:
        resource.setrlimit(resource.RLIMIT_NOFILE, (descriptors, descriptors))
    try:
        import_module(module).main([*arguments])
    finally:
        atexit._run_exitfuncs()  # Which processes of multiprocessing leave out.
