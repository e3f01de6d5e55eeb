"""Processes of nodes: started so that nothing of them survives, signalled, and awaited; and which is whose.

Owns the process groups, the files that take their output, and whether they are paused. Knows nothing of what runs
inside.

A host has the last process of each node, whatever a process is to it (``ProcessesByNode``). Where nodes are processes
of this machine, each has a folder of its own, and which network it lives in is the business of the hosts that build on
``ProcessNodes``.
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
from typing import Generic, Protocol, TypeVar

LAUNCHER = Path(__file__).with_name("launcher.py")
GONE_S_MAX = 10.0
_POLL_S = 0.01


class Launched(Protocol):
    """A process that was started, in a group of its own: what ``subprocess.Popen`` says of one."""

    @property
    def pid(self) -> int:
        """Its process id."""

    def poll(self) -> int | None:
        """How it ended; absent while it is there."""

    def wait(self) -> int:
        """Wait for its end, and say how it ended."""


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
        self._process = self._launched(command, output, environment or {}, files)
        self.is_paused = False
        self._told_to_end = False
        self._gone_ns: int | None = None

    def _launched(
        self, command: Sequence[str], output: Path, environment: Mapping[str, str], files: Sequence[int]
    ) -> Launched:
        launch = [sys.executable, "-I", "-S", str(LAUNCHER), str(os.getpid()), *command]
        with output.open("ab") as lines:
            # A group of its own: a Ctrl-C at the terminal is for the harness, which then ends its nodes in order.
            return subprocess.Popen(
                launch,
                stdin=subprocess.DEVNULL,
                stdout=lines,
                stderr=lines,
                start_new_session=True,
                pass_fds=files,
                env={**os.environ, **environment},
            )

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


class Process(Protocol):
    """One process of a node, from its start to its end."""

    is_paused: bool

    @property
    def exit_code(self) -> int | None:
        """How it ended; absent while it is there."""

    @property
    def died(self) -> bool:
        """Whether it ended by itself."""

    @property
    def killed_ns(self) -> int | None:
        """When it was found ended by a SIGKILL of somebody else."""

    async def pause(self) -> bool:
        """Let it stand still; whether it ran."""

    async def resume(self) -> bool:
        """Let it go on; whether it was paused."""

    async def kill(self) -> bool:
        """SIGKILL, paused or not; whether it was there."""

    async def stop(self, grace_s: float) -> None:
        """SIGTERM, and SIGKILL if it is still there after that."""


ProcessT = TypeVar("ProcessT", bound=Process)


class ProcessesByNode(Generic[ProcessT]):
    """The part of a ``Host`` that passes on to processes what is done to nodes. Who starts them notes them here."""

    def __init__(self) -> None:
        self._processes: dict[int, ProcessT] = {}

    async def stop(self, node: int, grace_s: float) -> bool:
        was_there = self.is_running(node)
        if node in self._processes:
            await self._processes[node].stop(grace_s)
        return was_there

    async def kill(self, node: int) -> bool:
        return self.is_running(node) and await self._processes[node].kill()

    async def pause(self, node: int) -> bool:
        """Let it stand still; whether it ran."""
        return node in self._processes and await self._processes[node].pause()

    async def resume(self, node: int) -> bool:
        """Let it go on; whether it was paused."""
        return node in self._processes and await self._processes[node].resume()

    def is_running(self, node: int) -> bool:
        return node in self._processes and self._processes[node].exit_code is None

    def is_paused(self, node: int) -> bool:
        return self.is_running(node) and self._processes[node].is_paused

    def exit_code(self, node: int) -> int | None:
        return self._processes[node].exit_code if node in self._processes else None

    def died(self, node: int) -> bool:
        return node in self._processes and self._processes[node].died

    def killed_ns(self, node: int) -> int | None:
        """When the node's last process was found ended by a SIGKILL of somebody else; absent if it was not."""
        return self._processes[node].killed_ns if node in self._processes else None


_ONCE_POLL_S = 0.02


class ProcessNodes(ProcessesByNode[NodeProcess]):
    """The part of a ``Host`` that is about processes, for nodes 1 to ``count``."""

    def __init__(self, folder: Path, count: int) -> None:
        super().__init__()
        self._folder = folder
        self.nodes = tuple(range(1, count + 1))

    @property
    def python(self) -> str:
        """The interpreter of the harness."""
        return sys.executable

    @property
    def pids(self) -> dict[int, int]:
        """The process ids of the nodes that were ever started."""
        return {node: process.pid for node, process in self._processes.items()}

    def folder(self, node: int) -> Path:
        """``nodes/<id>/``."""
        return self._folder / "nodes" / str(node)

    def inside(self, node: int) -> Path:
        return self.folder(node)

    def make_folders(self) -> None:
        """Make the folder of each node."""
        for node in self.nodes:
            self.folder(node).mkdir(parents=True, exist_ok=True)

    def prefix(self, node: int) -> tuple[Sequence[str], Sequence[int]]:
        """The words before a command of a node, and the open files that they need."""
        del node
        return (), ()

    async def run(
        self, node: int, command: Sequence[str], log_file: Path, environment: Mapping[str, str] | None = None
    ) -> None:
        assert not self.is_running(node), f"node {node} runs"
        self._processes[node] = self._started(node, command, log_file, environment)

    async def run_once(self, node: int, command: Sequence[str], log_file: Path, *, at_most_s: float) -> int:
        process = self._started(node, command, log_file, None)
        try:
            async with asyncio.timeout(at_most_s):
                while (exit_code := process.exit_code) is None:
                    await asyncio.sleep(_ONCE_POLL_S)
            return exit_code
        finally:
            process.kill_now()

    def _started(
        self, node: int, command: Sequence[str], log_file: Path, environment: Mapping[str, str] | None
    ) -> NodeProcess:
        before, files = self.prefix(node)
        return NodeProcess((*before, *command), log_file, environment=environment, files=files)

    def kill_all_now(self) -> None:
        """SIGKILL every process, without waiting for anything: the last resort."""
        for process in self._processes.values():
            process.kill_now()
