"""What the kernel is told about the network of containers, entered from the machine itself.

Owns where each rule is put. No container gets privileges or programs for it: a node's namespace is entered with the
machine's own programs, which takes root. Clients are in the machine's own namespace, which is not ours to filter: what
nodes send to clients is filtered where it leaves the nodes.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from contextlib import suppress

from nemesis.cluster.netns_links import WHY_PROXIES_ONLY, lacked_by_kernel
from nemesis.cluster.netns_rules import Shaped, filter_script, reset_words, shape_script, unshape_words
from nemesis.cluster.netns_tools import ToolError, run_tool, tool
from nemesis.errors import NodeFailedError
from nemesis.faults.links import CLIENTS
from nemesis.faults.needs import IMPAIRED_LINKS, IN_SIMULATOR_ONLY, Need


def why_not_entered() -> str | None:
    """Why no container's network can be entered from here; absent if it can."""
    if sys.platform != "linux":
        return "the networks of containers can be entered on Linux only"
    if os.geteuid() != 0:
        return "entering the network of a container takes root"
    try:
        for name in ("nsenter", "nft", "tc", "ss", "ip"):
            tool(name)
    except ToolError as error:
        return str(error)
    return None


def lacked_by_containers(need: Need) -> str | None:
    """Why containers cannot be struck by what needs this; absent if they can.

    Processes can be broken by whoever may use the engine, links by root alone, disks not at all.
    """
    match need:
        case Need.STANDING_STILL:
            return "the first process of a container cannot stand still: signals that it sends itself do not reach it"
        case Need.DISKS:
            return "what a container writes belongs to its own users: disks are broken where nodes are processes"
        case Need.SIMULATOR:
            return IN_SIMULATOR_ONLY
        case Need.CUTS:
            return why_not_entered()
        case Need.CONVERSATIONS:
            return WHY_PROXIES_ONLY
        case _:
            return (why_not_entered() or lacked_by_kernel(need)) if need in IMPAIRED_LINKS else None


class ContainerKernel:
    """The ``Kernel`` of ``KernelLinks``: ``namespaces`` are those of nodes, ``services`` the address of each end."""

    def __init__(self, namespaces: Mapping[int, int], services: Mapping[int, str]) -> None:
        self._namespaces = namespaces
        self._services = services

    def filter(self, end: int, rules: tuple[str, ...]) -> None:
        """Let these rules decide on what comes in at a node; or on what goes out from every node, for the clients."""
        if end == CLIENTS:
            for node in self._namespaces:
                self._tell(node, "nft", "-f", "-", script=filter_script(rules, hook="output"))
        else:
            self._tell(end, "nft", "-f", "-", script=filter_script(rules))

    def shape(self, end: int, shaped: tuple[Shaped, ...]) -> None:
        """Let what goes out from a node, or by the engine's bridge from the clients, be shaped so."""
        device = self._device(end)
        with suppress(NodeFailedError):  # There is nothing to take away at first.
            self._tell(end, *unshape_words(device))
        if shaped:
            self._tell(end, "tc", "-batch", "-", script=shape_script(device, shaped))

    def reset(self, source: int, destination: str) -> int:
        """Reset what is dialled from a node, or by clients, to an address."""
        return len(self._tell(source, *reset_words(destination)).splitlines())

    def _device(self, end: int) -> str:
        """The interface that has the end's service address: of the clients, the bridge."""
        return self._tell(end, "ip", "-oneline", "addr", "show", "to", self._services[end]).split()[1]

    def _tell(self, end: int, *words: str, script: str = "") -> str:
        try:
            return run_tool(words, script, namespace=None if end == CLIENTS else self._namespaces[end])
        except ToolError as error:
            raise NodeFailedError(f"the links of node {end} cannot be cut or healed: {error}") from error
