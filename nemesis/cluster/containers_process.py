"""One process of a node in a container of its own, followed by a client of the engine that is attached to it.

Owns the container's life from start to end. The client writes what the process prints, and ends with its exit code;
that it dies with the harness ends no container: see ``nemesis.reaper``.
"""

from __future__ import annotations

import asyncio
import math
import signal
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from nemesis.cluster.containers_engine import Engine, EngineError
from nemesis.cluster.off_loop import off_loop
from nemesis.cluster.processes import NodeProcess
from nemesis.errors import NodeFailedError

GONE_S_MAX = 20.0
STARTED_S_MAX = 30.0
KILLED = 128 + signal.SIGKILL
TOLD_S_MAX = 2.0
"""How long after a container's end the engine may take to know that it was the kernel's want of memory."""
REFUSED = range(125, 128)
"""The exit codes by which the client says that there never was a process."""
_POLL_S = 0.02
_AGAIN_S = 0.5
_UNITS = {"GiB": 1 << 30, "MiB": 1 << 20, "KiB": 1 << 10, "B": 1}


class ContainerProcess:
    """A command in a container ``name``; ``words`` are the image, the options before it, and its arguments."""

    def __init__(self, engine: Engine, name: str, words: Sequence[str], output: Path) -> None:
        self._engine = engine
        self._name = name
        self._output = output
        self._client = NodeProcess((engine.program, "run", "--name", name, *words), output)
        self._has_changed_limit = False
        self._told_to_end = False
        self.is_paused = False

    @property
    def exit_code(self) -> int | None:
        """How it ended; absent while it is there."""
        return self._client.exit_code

    @property
    def died(self) -> bool:
        """Whether it ended by itself."""
        return self.exit_code is not None and not self._told_to_end

    @property
    def killed_ns(self) -> int | None:
        """When it, or whoever follows it, was found ended by a SIGKILL that nobody here has sent; absent if not."""
        return self._client.gone_ns if self.died and self.exit_code in (KILLED, -signal.SIGKILL) else None

    async def wait_started(self) -> None:
        """Wait until the process runs, or has ended again. Raises NodeFailedError if there never was one."""
        with suppress(TimeoutError):
            async with asyncio.timeout(STARTED_S_MAX):
                while self.exit_code is None and not await asyncio.to_thread(self._is_there):
                    await asyncio.sleep(_POLL_S)
            if self.exit_code not in REFUSED:
                return
        raise NodeFailedError(f"container {self._name} does not start: see {self._output}")

    async def wait_gone(self, at_most_s: float) -> int:
        """Wait for its end; its exit code. Raises TimeoutError."""
        async with asyncio.timeout(at_most_s):
            while (exit_code := self.exit_code) is None:
                await asyncio.sleep(_POLL_S)
        return exit_code

    async def pause(self) -> bool:
        """Freeze it; whether it ran."""
        if self.exit_code is not None or self.is_paused:
            return False
        self.is_paused = await off_loop(self._done, "pause")
        return self.is_paused

    async def resume(self) -> bool:
        """Let it go on; whether it was paused."""
        if self.exit_code is not None or not self.is_paused:
            return False
        self.is_paused = not await off_loop(self._done, "unpause")
        return not self.is_paused

    async def kill(self) -> bool:
        """SIGKILL, paused or not, and wait until it is gone; whether it was there. Raises NodeFailedError."""
        was_there = self.exit_code is None
        self._told_to_end |= was_there
        await self._end("kill")
        return was_there

    async def stop(self, grace_s: float) -> None:
        """SIGTERM, and SIGKILL if it is still there after ``grace_s``. Raises NodeFailedError."""
        await self.resume()
        self._told_to_end |= self.exit_code is None
        await self._end("stop", "--time", str(math.ceil(grace_s)))

    async def remove(self) -> None:
        """Let the engine forget it, which has ended. What is left over is taken away at the end of the run."""
        with suppress(EngineError):
            await asyncio.to_thread(self._engine.call, "rm", "--volumes", self._name)

    # --- memory -------------------------------------------------------------------------------------------------------

    async def memory_used(self) -> int | None:
        """The bytes that it uses, by the engine's word; absent if it has just ended. Raises NodeFailedError."""
        words = ("stats", "--no-stream", "--format", "{{.MemUsage}}", self._name)
        try:
            said = await asyncio.to_thread(self._engine.call, *words)
        except EngineError:
            if await asyncio.to_thread(self._is_there):
                raise
            return None
        return bytes_of(said.partition("/")[0].strip()) or None

    async def limit_memory(self, limit: str, *, is_usual: bool) -> bool:
        """Change its limit; whether it was there. Raises NodeFailedError if the engine refuses."""
        before, self._has_changed_limit = self._has_changed_limit, True
        try:
            was_there = await asyncio.to_thread(self._done, "update", "--memory", limit, "--memory-swap", limit)
        except EngineError:
            self._has_changed_limit = before
            raise
        if not was_there:
            self._has_changed_limit = before
        elif is_usual:
            self._has_changed_limit = False
        return was_there

    async def is_killed_by_limit(self) -> bool:
        """Whether the kernel has killed it because of a limit that it was not started with."""
        if not self.died or self.exit_code != KILLED or not self._has_changed_limit:
            return False
        with suppress(TimeoutError):
            async with asyncio.timeout(TOLD_S_MAX):
                while not await asyncio.to_thread(self._is_out_of_memory):
                    await asyncio.sleep(_POLL_S)
                return True
        return False

    def _is_out_of_memory(self) -> bool:
        try:
            return self._engine.call("inspect", "--format", "{{.State.OOMKilled}}", self._name) == "true"
        except EngineError:
            return False

    def leave(self) -> None:
        """Follow it no more, without an event loop: the last resort. Whoever calls this sees to the container."""
        self._client.kill_now()

    async def _end(self, *words: str) -> None:
        """Say it until it has ended: the engine may just be making the container, and then knows of none."""
        with suppress(TimeoutError):
            async with asyncio.timeout(GONE_S_MAX):
                while self.exit_code is None:
                    await asyncio.to_thread(self._done, *words)
                    with suppress(TimeoutError):
                        await self.wait_gone(_AGAIN_S)
            return
        raise NodeFailedError(f"container {self._name} is still there after {GONE_S_MAX} s of {words[0]}")

    def _done(self, *words: str) -> bool:
        """Whether the engine could do it. A container that has just ended by itself is no error."""
        try:
            self._engine.call(*words, self._name)
        except EngineError:
            if self._is_there():
                raise
            return False
        return True

    def _is_there(self) -> bool:
        try:
            return self._engine.call("inspect", "--format", "{{.State.Running}}", self._name) == "true"
        except EngineError:
            return False


def bytes_of(said: str) -> int:
    """``33.75MiB`` in bytes. Raises NodeFailedError for what is no size."""
    for unit, size in _UNITS.items():
        if said.endswith(unit):
            with suppress(ValueError):
                return int(float(said.removesuffix(unit)) * size)
    raise NodeFailedError(f"the engine says that {said!r} of memory is used")
