"""Nodes as processes of this machine, each with a loopback address of its own. Needs no privileges.

Owns the addresses. Servers that tell each other under which address they are known cannot be dialled through proxies,
and they want ports that stay theirs: so every run takes a block of 127.0.0.0/8 by chance, and each node has all ports
of one address in it. Links cannot be cut here; ``--cluster netns`` can do that.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from random import Random, SystemRandom
from typing import TYPE_CHECKING

from nemesis.cluster.host import SERVICE_PORT
from nemesis.cluster.processes import ProcessNodes
from nemesis.errors import UnsupportedError
from nemesis.faults.links import Link, LinkMode
from nemesis.faults.needs import IN_SIMULATOR_ONLY, Need

if TYPE_CHECKING:
    from nemesis.faults.impairments import NetworkFault

WHY_NO_CUT = "the nodes of another system dial each other directly on a local cluster: use --cluster netns"
BLOCK_MIN, BLOCK_MAX = 1, 254


class NoLinks:
    """The links of a host that cannot cut any."""

    async def cut(self, key: str, links: frozenset[Link], mode: LinkMode) -> None:
        """Refuse. Raises UnsupportedError."""
        del key, links, mode
        raise UnsupportedError(WHY_NO_CUT)

    async def impair(self, key: str, links: frozenset[Link], fault: NetworkFault, draw: int) -> None:
        """Refuse. Raises UnsupportedError."""
        del key, links, fault, draw
        raise UnsupportedError(WHY_NO_CUT)

    def tally(self, key: str) -> Mapping[str, int]:
        """Nothing is ever impaired."""
        del key
        return {}

    async def heal(self, key: str) -> None:
        """Nothing is ever cut."""
        del key

    async def heal_all(self) -> None:
        """Nothing is ever cut."""


class LoopbackHost(ProcessNodes):
    """A ``Host`` for nodes 1 to ``count``, with their folders below ``folder``; ``random`` chooses the addresses."""

    def __init__(self, folder: Path, count: int, random: Random | None = None) -> None:
        super().__init__(folder, count)
        dice = SystemRandom() if random is None else random
        self._block = f"127.{dice.randint(BLOCK_MIN, BLOCK_MAX)}.{dice.randint(BLOCK_MIN, BLOCK_MAX)}"
        self.links = NoLinks()

    def lacks(self, need: Need) -> str | None:
        """Processes can be ended and paused, and asked for more, and nothing else."""
        if need in (Need.PROCESSES, Need.CLIENTS):
            return None
        return IN_SIMULATOR_ONLY if need is Need.SIMULATOR else WHY_NO_CUT

    async def open(self) -> None:
        self.make_folders()

    async def close(self) -> None:
        self.kill_all_now()

    def addresses(self, source: int, port: int = SERVICE_PORT) -> Mapping[int, str]:
        """The same for every source, as for every port."""
        return {node: self.listen_address(node, port) for node in self.nodes if node != source}

    def listen_address(self, node: int, port: int = SERVICE_PORT) -> str:
        """That port of the node's own address."""
        return f"{self._block}.{node}:{port}"

    def listens(self, node: int, port: int) -> None:
        """Ports are given, and never taken by a node."""
        raise AssertionError(f"node {node} says that it took port {port}, and was told which to take")
