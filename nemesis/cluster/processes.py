"""One process of a node: started so that nothing of it survives, signalled, and awaited.

Owns the process group, the file that takes its output, and whether it is paused. Knows nothing of what runs inside.
"""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path

LAUNCHER = Path(__file__).with_name("launcher.py")
GONE_S_MAX = 10.0
_POLL_S = 0.01


class NodeProcess:
    """A program that runs in its own process group and writes to ``output``, appending. Started by the constructor.

    ``environment`` is added to that of the harness, and it inherits the open ``files``.
    """

    def __init__(
        self,
        command: Sequence[str],
        output: Path,
        *,
        environment: Mapping[str, str] | None = None,
        files: Sequence[int] = (),
    ) -> None:
        launch = [sys.executable, "-I", "-S", str(LAUNCHER), str(os.getpid()), *command]
        with output.open("ab") as lines:
            # A group of its own: a Ctrl-C at the terminal is for the harness, which then ends its nodes in order.
            self._process = subprocess.Popen(
                launch,
                stdin=subprocess.DEVNULL,
                stdout=lines,
                stderr=lines,
                start_new_session=True,
                pass_fds=files,
                env={**os.environ, **(environment or {})},
            )
        self.is_paused = False
        self._told_to_end = False
        self._gone_ns: int | None = None

    @property
    def pid(self) -> int:
        """The process id, also that of its group."""
        return self._process.pid

    @property
    def exit_code(self) -> int | None:
        """How it ended (negative: by that signal); absent while it is there."""
        exit_code = self._process.poll()
        if exit_code is not None and self._gone_ns is None:
            self._gone_ns = time.monotonic_ns()
        return exit_code

    @property
    def gone_ns(self) -> int | None:
        """When it was found to have ended; absent while it is there."""
        return None if self.exit_code is None else self._gone_ns

    @property
    def died(self) -> bool:
        """Whether it ended by itself: nobody had told it to, or killed it, before."""
        return self.exit_code is not None and not self._told_to_end

    @property
    def killed_ns(self) -> int | None:
        """When it was found ended by a SIGKILL that nobody here has sent; absent if it was not."""
        return self._gone_ns if self.died and self.exit_code == -signal.SIGKILL else None

    async def pause(self) -> bool:
        """SIGSTOP; whether it ran."""
        if self.exit_code is not None or self.is_paused:
            return False
        self._signal(signal.SIGSTOP)
        self.is_paused = True
        return True

    async def resume(self) -> bool:
        """SIGCONT; whether it was paused."""
        if self.exit_code is not None or not self.is_paused:
            return False
        self._signal(signal.SIGCONT)
        self.is_paused = False
        return True

    async def kill(self) -> bool:
        """SIGKILL the whole group and wait until it is gone; whether it was there."""
        was_there = self.exit_code is None
        self._told_to_end |= was_there
        self._signal(signal.SIGKILL)
        await self._wait_gone(GONE_S_MAX)
        return was_there

    async def stop(self, grace_s: float) -> None:
        """SIGTERM, and SIGKILL if it is still there after ``grace_s``."""
        await self.resume()
        self._told_to_end |= self.exit_code is None
        self._signal(signal.SIGTERM)
        if not await self._wait_gone(grace_s):
            await self.kill()

    def kill_now(self) -> None:
        """SIGKILL and reap, without an event loop: the last resort."""
        self._signal(signal.SIGKILL)
        self._process.wait()

    async def _wait_gone(self, at_most_s: float) -> bool:
        with suppress(TimeoutError):
            async with asyncio.timeout(at_most_s):
                while self.exit_code is None:
                    await asyncio.sleep(_POLL_S)
        return self.exit_code is not None

    def _signal(self, number: signal.Signals) -> None:
        """Signal the group; a group is only signalled while its leader is not reaped, so the id is still ours."""
        if self.exit_code is None:
            with suppress(ProcessLookupError):
                os.killpg(self.pid, number)
