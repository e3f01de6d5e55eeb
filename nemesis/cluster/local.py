"""Nodes as processes of this machine, every link between them through a proxy. Needs no privileges.

Owns the proxies and the ports. No port is ever guessed: proxies bind port 0 and keep what they get, a node takes port 0
and says which it got, and the proxies follow. So a node may come back on another port, and nobody can take one
meanwhile.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from nemesis.cluster.host import SERVICE_PORT
from nemesis.cluster.link_proxy import LOOPBACK
from nemesis.cluster.links import Links
from nemesis.cluster.processes import ProcessNodes
from nemesis.errors import UnsupportedError
from nemesis.faults.needs import IN_SIMULATOR_ONLY, Need


class LocalHost(ProcessNodes):
    """A ``Host`` for nodes 1 to ``count``, with their folders below ``folder``."""

    def __init__(self, folder: Path, count: int) -> None:
        super().__init__(folder, count)
        self.links = Links(self.nodes)

    def lacks(self, need: Need) -> str | None:
        """Processes, their files and clocks, and the links between them can be broken, but not clogged."""
        return lacked_by_processes(need)

    async def open(self) -> None:
        """Take one port for each link."""
        self.make_folders()
        await self.links.start()

    async def close(self) -> None:
        """End every process, and give every port back."""
        try:
            await self.links.close()
        finally:
            self.kill_all_now()

    def addresses(self, source: int, port: int = SERVICE_PORT) -> Mapping[int, str]:
        """The proxies' ports for this source."""
        _check_port(port)
        return self.links.addresses(source)

    def listen_address(self, node: int, port: int = SERVICE_PORT) -> str:
        """Any port: the proxies follow."""
        del node
        _check_port(port)
        return f"{LOOPBACK}:0"

    def listens(self, node: int, port: int) -> None:
        """Let the proxies to a node lead there."""
        self.links.set_upstream(node, port)

    async def stop(self, node: int, grace_s: float) -> bool:
        """SIGTERM; the node is reached to its end."""
        was_there = await super().stop(node, grace_s)
        self.links.set_upstream(node, None)
        return was_there

    async def kill(self, node: int) -> bool:
        """SIGKILL; the node is reached no more."""
        self.links.set_upstream(node, None)
        return await super().kill(node)


def lacked_by_processes(need: Need) -> str | None:
    """Why no process of this machine can be struck by what needs this; absent if one can."""
    if need is Need.MEMORY:
        return "only containers have a limit of memory of their own: use --cluster containers"
    return IN_SIMULATOR_ONLY if need is Need.SIMULATOR else None


def _check_port(port: int) -> None:
    if port != SERVICE_PORT:
        raise UnsupportedError(f"a node of a local cluster has one port, and port {port} is asked for")
