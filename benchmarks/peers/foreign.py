"""What the systems that are not ours have in common here: nodes that the harness can start, kill and look at.

Owns the host of their nodes and the wait until all are in sync. The nodes are those of ``nemesis.systems``, as far as
it has them, with the settings of a server instead of those of a test.
"""

from __future__ import annotations

import asyncio
import time
from abc import abstractmethod
from pathlib import Path

import click

from benchmarks.peers.system import NODES, Durability, System
from nemesis.systems.foreign import ForeignSystem
from nemesis.systems.loopback import LoopbackHost

WHOLE_S_MAX = 120
POLL_S = 0.1


class ForeignPeer(System):
    """A system whose nodes are a ``ForeignSystem``."""

    def __init__(self, folder: Path, durability: Durability) -> None:
        super().__init__(folder, durability)
        self.nodes = self.cluster(LoopbackHost(folder, NODES))
        self._killed: set[int] = set()

    @abstractmethod
    def cluster(self, host: LoopbackHost) -> ForeignSystem:
        """Its nodes, on that host."""

    @abstractmethod
    async def close_clients(self) -> None:
        """Close all clients."""

    async def start(self) -> None:
        """Start all nodes, and wait until each serves: with less than a majority a start waits for nothing."""
        await self.nodes.open()
        end_s = time.monotonic() + WHOLE_S_MAX
        while not all([await self.nodes.answers(node) for node in self.nodes.nodes]):
            if time.monotonic() > end_s:
                raise click.ClickException(f"not all nodes of {self.name} serve after {WHOLE_S_MAX} s")
            await asyncio.sleep(POLL_S)

    async def stop(self) -> None:
        """Close the clients, and kill all nodes: what they have written is deleted."""
        try:
            await self.close_clients()
        finally:
            await self.nodes.close()

    async def wait_whole(self, log: str) -> int:
        """Wait until the log has a leader and all its replicas are in sync; who leads it."""
        end_s = time.monotonic() + WHOLE_S_MAX
        while time.monotonic() < end_s:
            state = await self.nodes.look()
            found = None if state is None else state.partitions.get(log)
            if found is not None and found.leader is not None and len(found.isr) == NODES:
                return found.leader
            await asyncio.sleep(POLL_S)
        raise click.ClickException(f"{self.name}: {log} is not whole after {WHOLE_S_MAX} s")

    async def kill(self, node: int) -> float:
        """SIGKILL a node; when that was, by ``time.perf_counter``."""
        self._killed.add(node)
        killed_s = time.perf_counter()
        await self.nodes.kill(node)
        return killed_s

    async def start_killed(self) -> None:
        """Start whoever was killed."""
        while self._killed:
            await self.nodes.start(self._killed.pop())
