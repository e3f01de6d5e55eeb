"""Two networks of a container engine, and in each of them an address for every node that stays while its process goes.

Owns the networks and the *holders*: one container for each node that does nothing but have a network namespace, which
the containers of the node's processes join one after the other. So addresses and rules survive the process, as those of
a machine do. Over the service network nodes and clients reach each other; over the control network the harness looks,
and no fault touches that. Source: pods and their sandboxes in Kubernetes.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress

from nemesis.cluster.containers_engine import Engine, EngineError
from nemesis.cluster.containers_kernel import ContainerKernel, why_not_entered
from nemesis.cluster.netns_links import KernelLinks
from nemesis.errors import NodeFailedError
from nemesis.faults.links import CLIENTS
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
