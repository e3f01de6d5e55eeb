"""Nodes as processes in network namespaces of their own: faults are the kernel's, and no proxy is in between.

Owns the network: two bridges in the harness's namespace, and in each node's namespace an interface to either. Over one
of them nodes and clients reach each other's *service* addresses; over the other the harness looks at *control*
addresses. The harness has entered a namespace of its own before. Namespaces are held open by files of the harness, and
by the nodes' processes, which die with it: nothing has a name that could be left over, and the kernel cleans up.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path

from nemesis.cluster.host import SERVICE_PORT
from nemesis.cluster.local import lacked_by_processes
from nemesis.cluster.netns_enter import is_inside, new_namespace
from nemesis.cluster.netns_links import KernelLinks, lacked_by_kernel
from nemesis.cluster.netns_tools import (
    Shaped,
    ToolError,
    filter_script,
    inside_of,
    reset_words,
    run_tool,
    shape_script,
    unshape_words,
)
from nemesis.cluster.off_loop import off_loop
from nemesis.cluster.processes import ProcessNodes
from nemesis.errors import NodeFailedError, UnsupportedError
from nemesis.faults.links import CLIENTS, CONTROL
from nemesis.faults.needs import IMPAIRED_LINKS, Need

SERVICE_NET, CONTROL_NET = "10.77.0", "10.78.0"
HARNESS = 254
"""The last number of the harness's address in either network; a node's is its id."""
SERVICE_LINK, CONTROL_LINK = "service", "control"
"""The names of the bridges, and of the interfaces in a node's namespace."""


class NetnsHost(ProcessNodes):
    """A ``Host`` for nodes 1 to ``count``, with their folders below ``folder``."""

    def __init__(self, folder: Path, count: int) -> None:
        super().__init__(folder, count)
        services = {node: f"{SERVICE_NET}.{node}" for node in self.nodes} | {CLIENTS: f"{SERVICE_NET}.{HARNESS}"}
        self.links = KernelLinks(self.nodes, services, self)
        self._namespaces: dict[int, int] = {}

    def lacks(self, need: Need) -> str | None:
        """Processes, their files and clocks can be broken; what can be done to links, the kernel says."""
        return lacked_by_kernel(need) if need in IMPAIRED_LINKS else lacked_by_processes(need)

    async def open(self) -> None:
        """Make the network. Raises UnsupportedError outside of a namespace of our own, NodeFailedError."""
        if not is_inside():
            raise UnsupportedError("the harness has not entered a network namespace of its own")
        self.make_folders()
        try:
            await off_loop(self._make)
        except (OSError, ToolError) as error:
            raise NodeFailedError(f"the network cannot be made: {error}") from error

    def _make(self) -> None:
        with ThreadPoolExecutor(max_workers=1) as pool:
            for node in self.nodes:
                self._namespaces[node] = pool.submit(new_namespace).result()
        run_tool(("ip", "-batch", "-"), _bridges())
        for node, namespace in self._namespaces.items():
            run_tool(("ip", "-batch", "-"), _cables(node, namespace), files=(namespace,))
            run_tool(("ip", "-batch", "-"), _plugged_in(node), namespace=namespace)

    async def close(self) -> None:
        """End every process, and take the network down."""
        self.kill_all_now()
        with suppress(NodeFailedError):
            await self.links.heal_all()
        # The kernel would do it by itself, but later, and the next cluster of this process uses the same names.
        for words in _unplugged(self.nodes):
            with suppress(ToolError):
                await off_loop(run_tool, words)
        while self._namespaces:
            os.close(self._namespaces.popitem()[1])

    def addresses(self, source: int, port: int = SERVICE_PORT) -> Mapping[int, str]:
        """The service addresses; for CONTROL the control addresses."""
        net = CONTROL_NET if source == CONTROL else SERVICE_NET
        return {node: f"{net}.{node}:{port}" for node in self.nodes if node != source}

    def listen_address(self, node: int, port: int = SERVICE_PORT) -> str:
        """That port of all of the node's addresses: nobody else has them."""
        del node
        return f"0.0.0.0:{port}"

    def listens(self, node: int, port: int) -> None:
        """Every node has the ports that it was told to take."""

    def prefix(self, node: int) -> tuple[Sequence[str], Sequence[int]]:
        """What enters the node's namespace."""
        return inside_of(self._namespaces[node])

    # --- what the links tell the kernel -------------------------------------------------------------------------------

    def filter(self, end: int, rules: tuple[str, ...]) -> None:
        """Let these rules decide on what comes in at a node, or at the clients."""
        run_tool(("nft", "-f", "-"), filter_script(rules), namespace=self._namespace(end))

    def shape(self, end: int, shaped: tuple[Shaped, ...]) -> None:
        """Let what goes out from a node, or from the clients, be shaped so."""
        namespace = self._namespace(end)
        with suppress(ToolError):  # There is nothing to take away at first.
            run_tool(unshape_words(SERVICE_LINK), namespace=namespace)
        if shaped:
            run_tool(("tc", "-batch", "-"), shape_script(SERVICE_LINK, shaped), namespace=namespace)

    def reset(self, source: int, destination: str) -> int:
        """Reset what is dialled from a node, or by clients, to an address."""
        return len(run_tool(reset_words(destination), namespace=self._namespace(source)).splitlines())

    def _namespace(self, end: int) -> int | None:
        return None if end == CLIENTS else self._namespaces[end]


def _bridges() -> str:
    lines = []
    for bridge, net in ((SERVICE_LINK, SERVICE_NET), (CONTROL_LINK, CONTROL_NET)):
        lines += [
            f"link add {bridge} type bridge",
            f"addr add {net}.{HARNESS}/24 dev {bridge}",
            f"link set {bridge} up",
        ]
    return "\n".join(lines) + "\n"


def _cables(node: int, namespace: int) -> str:
    """Two pairs of interfaces: one end at the bridge, the other in the node's namespace."""
    lines = []
    for bridge in (SERVICE_LINK, CONTROL_LINK):
        here = f"{bridge}{node}"
        lines += [
            f"link add {here} type veth peer name {here}p",
            f"link set {here}p netns /proc/self/fd/{namespace}",
            f"link set {here} master {bridge} up",
        ]
    return "\n".join(lines) + "\n"


def _plugged_in(node: int) -> str:
    lines = ["link set lo up"]
    for bridge, net in ((SERVICE_LINK, SERVICE_NET), (CONTROL_LINK, CONTROL_NET)):
        lines += [
            f"link set {bridge}{node}p name {bridge}",
            f"addr add {net}.{node}/24 dev {bridge}",
            f"link set {bridge} up",
        ]
    return "\n".join(lines) + "\n"


def _unplugged(nodes: Sequence[int]) -> list[tuple[str, ...]]:
    """Commands that take down what is in the harness's namespace; the other end of a pair goes with it."""
    links = [f"{bridge}{node}" for bridge in (SERVICE_LINK, CONTROL_LINK) for node in nodes]
    return [("ip", "link", "del", name) for name in (*links, SERVICE_LINK, CONTROL_LINK)]
