"""Takes away the containers and networks of a run when the run is over, however it ended.

Owns the process that does it. It lives in a session of its own and reads a pipe that nobody but the harness can write
to: the kernel closes the pipe when the harness is gone, by SIGKILL too. There is no other way of clean-up that could
work where this one does not: an orderly end closes the same pipe, and waits. Run as a script:
``reaper.py ENGINE RUN``. Uses the standard library alone, for it starts without the packages.
"""

from __future__ import annotations

import signal
import subprocess
import sys
import time

LABEL = "highwater.run"
"""The label of everything that an engine makes for a run; its value is the run."""
REAPED_S_MAX = 60.0
_CALL_S_MAX = 30.0
_LOOK_S = 0.5
_IGNORED = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class Reaper:
    """Takes away what ``engine`` has made for ``run``, as soon as this process ends or says so. Started at once."""

    def __init__(self, engine: str, run: str) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-I", "-S", __file__, engine, run],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )

    @property
    def pid(self) -> int:
        """The process that waits."""
        return self._process.pid

    def reap(self) -> bool:
        """Take all of it away now; whether nothing is left. May be called again."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        try:
            return self._process.wait(REAPED_S_MAX) == 0
        except subprocess.TimeoutExpired:
            return False


def main() -> int:
    """Wait for the end of the pipe, and then take away; 1 if something is left."""
    for number in _IGNORED:
        signal.signal(number, signal.SIG_IGN)
    engine, run = sys.argv[1:]
    sys.stdin.buffer.read()
    deadline_s = time.monotonic() + REAPED_S_MAX
    while time.monotonic() < deadline_s:
        if _take_away(engine, run):
            # Once more, for what the engine was just making when its client was killed may appear later.
            time.sleep(_LOOK_S)
            if _take_away(engine, run):
                return 0
    return 1


def _take_away(engine: str, run: str) -> bool:
    """Remove what is there; whether nothing was."""
    label = f"label={LABEL}={run}"
    containers = _call(engine, "ps", "--all", "--quiet", "--filter", label)
    if containers:
        _call(engine, "rm", "--force", "--volumes", *containers)
    networks = _call(engine, "network", "ls", "--quiet", "--filter", label)
    if networks:
        _call(engine, "network", "rm", *networks)
    return containers == [] and networks == []


def _call(engine: str, *words: str) -> list[str] | None:
    """The words that the engine printed; absent if it could not do it."""
    try:
        done = subprocess.run([engine, *words], capture_output=True, text=True, timeout=_CALL_S_MAX, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return None
    return done.stdout.split() if done.returncode == 0 else None


if __name__ == "__main__":
    sys.exit(main())
