"""Nodes that are processes of this machine: one for each, in a folder of its own.

Owns the processes. Which network they live in is the business of the hosts that build on it: ``prefix`` is what their
commands begin with.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from nemesis.cluster.processes import NodeProcess
from nemesis.cluster.processes_by_node import ProcessesByNode

_POLL_S = 0.02


class ProcessNodes(ProcessesByNode[NodeProcess]):
    """The part of a ``Host`` that is about processes, for nodes 1 to ``count``."""

    def __init__(self, folder: Path, count: int) -> None:
        super().__init__()
        self._folder = folder
        self._nodes = tuple(range(1, count + 1))

    @property
    def nodes(self) -> tuple[int, ...]:
        """The ids of the nodes, from 1."""
        return self._nodes

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
        """The same."""
        return self.folder(node)

    def make_folders(self) -> None:
        """Make the folder of each node."""
        for node in self._nodes:
            self.folder(node).mkdir(parents=True, exist_ok=True)

    def prefix(self, node: int) -> tuple[Sequence[str], Sequence[int]]:
        """The words before a command of a node, and the open files that they need."""
        del node
        return (), ()

    async def run(
        self, node: int, command: Sequence[str], log_file: Path, environment: Mapping[str, str] | None = None
    ) -> None:
        """Start the node's process."""
        assert not self.is_running(node), f"node {node} runs"
        self._processes[node] = self._started(node, command, log_file, environment)

    async def run_once(self, node: int, command: Sequence[str], log_file: Path, *, at_most_s: float) -> int:
        """Run a command to its end; its exit code. Raises TimeoutError."""
        process = self._started(node, command, log_file, None)
        try:
            async with asyncio.timeout(at_most_s):
                while (exit_code := process.exit_code) is None:
                    await asyncio.sleep(_POLL_S)
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
