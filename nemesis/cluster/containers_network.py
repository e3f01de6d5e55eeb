"""Two networks of a container engine, and in each of them an address for every node that stays while its process goes.

Owns the networks and the *holders*: one container for each node that does nothing but have a network namespace, which
the containers of the node's processes join one after the other. So addresses and rules survive the process, as those of
a machine do. Over the service network nodes and clients reach each other; over the control network the harness looks,
and no fault touches that. Source: pods and their sandboxes in Kubernetes.

What the kernel is told about the network of containers, entered from the machine itself.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress

from nemesis.cluster.containers_engine import Engine, EngineError
from nemesis.cluster.netns_links import WHY_PROXIES_ONLY, KernelLinks, lacked_by_kernel
from nemesis.cluster.netns_tools import (
    Shaped,
    ToolError,
    filter_script,
    reset_words,
    run_tool,
    shape_script,
    tool,
    unshape_words,
)
from nemesis.errors import NodeFailedError
from nemesis.faults.links import CLIENTS
from nemesis.faults.needs import IMPAIRED_LINKS, IN_SIMULATOR_ONLY, Need
from nemesis.reaper import LABEL

NETS = tuple(f"10.79.{number}" for number in range(256))
"""The networks to choose from. One that the engine has given to another run is passed over."""
HARNESS = 254
"""The last number of the harness's address in either network; a node's is its id."""
_OVERLAP = ("overlap", "already used", "already in use")


class ContainerNetwork:
    """The two networks of ``run`` for ``nodes``, by holders of ``image``. Whoever makes it sees to its end."""

    def __init__(self, engine: Engine, run: str, nodes: Sequence[int], image: str) -> None:
        self._engine = engine
        self._run = run
        self._nodes = nodes
        self._image = image
        self._namespaces: dict[int, int] = {}
        self._services: dict[int, str] = {}
        self.service_net = self.control_net = ""
        self.links = KernelLinks(nodes, self._services, ContainerKernel(self._namespaces, self._services))
        """The links among the nodes, and from clients; they can be broken once the network is there."""

    def holder(self, node: int) -> str:
        """The name of the container that holds a node's network."""
        return f"{self._name('holder')}-{node}"

    def open(self) -> None:
        """Make both networks and every holder. Raises NodeFailedError."""
        self.service_net = self._make("service")
        self.control_net = self._make("control")
        with ThreadPoolExecutor(max_workers=len(self._nodes)) as pool:
            list(pool.map(self._hold, self._nodes))
        if why_not_entered() is None:
            for node in self._nodes:
                self._namespaces[node] = self._namespace(node)
        self._services |= {node: f"{self.service_net}.{node}" for node in self._nodes}
        self._services[CLIENTS] = f"{self.service_net}.{HARNESS}"

    async def close(self) -> None:
        """Do nothing more to the links, and let the namespaces go; containers and networks are the reaper's."""
        with suppress(NodeFailedError):
            await self.links.heal_all()
        while self._namespaces:
            os.close(self._namespaces.popitem()[1])

    def _name(self, what: str) -> str:
        return f"highwater-{self._run}-{what}"

    def _make(self, what: str) -> str:
        """Make a network that leads nowhere else, of addresses that no other network of the engine has."""
        for net in NETS:
            label = ("--label", f"{LABEL}={self._run}")
            where = ("--subnet", f"{net}.0/24", "--gateway", f"{net}.{HARNESS}")
            try:
                self._engine.call("network", "create", "--internal", *label, *where, self._name(what))
            except EngineError as error:
                if not any(word in str(error) for word in _OVERLAP):
                    raise
            else:
                return net
        raise NodeFailedError(f"no network for the run: {NETS[0]}.0/24 to {NETS[-1]}.0/24 are all taken")

    def _hold(self, node: int) -> None:
        label = ("--label", f"{LABEL}={self._run}")
        where = ("--network", self._name("service"), "--ip", f"{self.service_net}.{node}")
        name, what = self.holder(node), ("--no-healthcheck", "--entrypoint", "sleep", self._image, "infinity")
        self._engine.call("run", "--detach", "--name", name, *label, *where, *what)
        self._engine.call("network", "connect", "--ip", f"{self.control_net}.{node}", self._name("control"), name)

    def _namespace(self, node: int) -> int:
        """A node's network namespace, as an open file."""
        pid = self._engine.call("inspect", "--format", "{{.State.Pid}}", self.holder(node))
        try:
            return os.open(f"/proc/{pid}/ns/net", os.O_RDONLY | os.O_CLOEXEC)
        except OSError as error:
            raise NodeFailedError(f"the network of node {node} cannot be entered: {error}") from error


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
