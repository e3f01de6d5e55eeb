"""Nodes in containers, with addresses of their own and the kernel's packet filter between them.

Owns the run's name, by which everything that is made for it is labelled, and the containers of the nodes' processes.
The harness stays on the machine, and reaches the containers by the engine's bridges. Nothing outlives it: what carries
the label is taken away by the reaper, a process that waits for the harness's end.
"""

from __future__ import annotations

import os
import secrets
from collections.abc import Mapping, Sequence
from pathlib import Path

from nemesis.cluster.closing import closed_by
from nemesis.cluster.containers_engine import Engine, find_engine
from nemesis.cluster.containers_network import ContainerNetwork, lacked_by_containers
from nemesis.cluster.containers_process import ContainerProcess
from nemesis.cluster.host import SERVICE_PORT
from nemesis.cluster.netns_links import KernelLinks
from nemesis.cluster.off_loop import off_loop
from nemesis.cluster.processes import ProcessesByNode
from nemesis.errors import NodeFailedError, UnsupportedError
from nemesis.faults.links import CONTROL
from nemesis.faults.needs import Need
from nemesis.reaper import LABEL, Reaper

IMAGE = "highwater-replica"
IMAGE_VARIABLE = "NEMESIS_IMAGE"
"""Names another image for the nodes."""
INSIDE = Path("/var/lib/highwater")
MEMORY = "1g"
"""What one node may use. Beyond it the kernel kills it."""
_PROTECTED = ("--cap-drop", "ALL", "--security-opt", "no-new-privileges")


class ContainersHost(ProcessesByNode[ContainerProcess]):
    """A ``Host`` for nodes 1 to ``count``, with their folders below ``folder``.

    Raises UnsupportedError where no engine answers, or it does not have the image.
    """

    def __init__(self, folder: Path, count: int, *, memory: str = MEMORY) -> None:
        super().__init__()
        self._engine: Engine = find_engine()
        self._image = os.environ.get(IMAGE_VARIABLE, IMAGE)
        if not self._engine.has_image(self._image):
            raise UnsupportedError(f"{self._engine.program} has no image {self._image}: `make images` builds it")
        self._folder = folder.absolute()
        self.nodes = tuple(range(1, count + 1))
        self._memory = memory
        self.run_id = secrets.token_hex(4)
        """The value of the label of all that is made for this run."""
        self._network = ContainerNetwork(self._engine, self.run_id, self.nodes, self._image)
        self._reaper: Reaper | None = None
        self._started = 0

    @property
    def links(self) -> KernelLinks:
        """The kernel's links."""
        return self._network.links

    @property
    def python(self) -> str:
        """The one of the image."""
        return "python"

    def lacks(self, need: Need) -> str | None:
        """What processes and links can suffer here; and memory, if the engine can limit it."""
        return self._engine.why_no_memory_limits() if need is Need.MEMORY else lacked_by_containers(need)

    async def open(self) -> None:
        """Make the networks, and what takes them away again. Raises NodeFailedError."""
        for node in self.nodes:
            self.folder(node).mkdir(parents=True, exist_ok=True)
        self._reaper = Reaper(self._engine.program, self.run_id)
        await off_loop(self._network.open)

    async def close(self) -> None:
        """Take every container and network away. Raises NodeFailedError if something is left."""
        async with closed_by(self._network.close, self._reap):
            for process in self._processes.values():
                process.leave()

    async def _reap(self) -> None:
        all_gone = self._reaper is None or await off_loop(self._reaper.reap)
        if not all_gone:
            raise NodeFailedError(f"containers or networks are left over: look for the label {LABEL}={self.run_id}")

    # --- the network --------------------------------------------------------------------------------------------------

    def addresses(self, source: int, port: int = SERVICE_PORT) -> Mapping[int, str]:
        """The addresses in the service network; for CONTROL those in the control network."""
        net = self._network.control_net if source == CONTROL else self._network.service_net
        return {node: f"{net}.{node}:{port}" for node in self.nodes if node != source}

    def listen_address(self, node: int, port: int = SERVICE_PORT) -> str:
        """That port of all of the node's addresses: nobody else has them."""
        del node
        return f"0.0.0.0:{port}"

    def listens(self, node: int, port: int) -> None:
        """Every node has the ports that it was told to take."""

    # --- processes ----------------------------------------------------------------------------------------------------

    def folder(self, node: int) -> Path:
        """``nodes/<id>/``."""
        return self._folder / "nodes" / str(node)

    def inside(self, node: int) -> Path:
        """Where the image has its volume."""
        del node
        return INSIDE

    async def run(
        self, node: int, command: Sequence[str], log_file: Path, environment: Mapping[str, str] | None = None
    ) -> None:
        """Start the node's process in a container of its own. Raises NodeFailedError."""
        assert not self.is_running(node), f"node {node} runs"
        if node in self._processes:
            await self._processes[node].remove()
        process = self._new_process(node, command, log_file, environment or {}, fate=())
        self._processes[node] = process
        await process.wait_started()

    async def run_once(self, node: int, command: Sequence[str], log_file: Path, *, at_most_s: float) -> int:
        """Run a command in a container to its end; its exit code. Raises TimeoutError."""
        process = self._new_process(node, command, log_file, {}, fate=("--rm",))
        try:
            return await process.wait_gone(at_most_s)
        except TimeoutError:
            await process.kill()
            raise
        finally:
            process.leave()

    def _new_process(
        self, node: int, command: Sequence[str], log_file: Path, environment: Mapping[str, str], fate: tuple[str, ...]
    ) -> ContainerProcess:
        """A container in the node's network. It runs as who runs the harness, so that its files are the harness's.

        With ``--rm`` for its fate it is forgotten with its end; else the engine can still say how it ended.
        """
        self._started += 1
        program, *arguments = command
        added = [word for name, value in environment.items() for word in ("--env", f"{name}={value}")]
        label = ("--label", f"{LABEL}={self.run_id}")
        where = ("--network", f"container:{self._network.holder(node)}", "--volume", f"{self.folder(node)}:{INSIDE}")
        limits = ("--memory", self._memory, "--memory-swap", self._memory, *_PROTECTED)
        who = ("--user", f"{os.geteuid()}:{os.getegid()}")
        # Nobody asks for the engine's own check of a node's health, which would take its time.
        what = ("--no-healthcheck", "--entrypoint", program, self._image, *arguments)
        name = f"highwater-{self.run_id}-node-{node}-{self._started}"
        words = (*fate, *label, *where, *limits, *who, *added, *what)
        return ContainerProcess(self._engine, name, words, log_file)

    # --- memory -------------------------------------------------------------------------------------------------------

    async def memory_used(self, node: int) -> int | None:
        """What the engine says, without files that the kernel merely remembers. Raises NodeFailedError."""
        return await self._processes[node].memory_used() if self.is_running(node) else None

    async def limit_memory(self, node: int, limit_bytes: int | None) -> bool:
        """Change the container's limit, and with it that of memory and swap together. Raises NodeFailedError."""
        if not self.is_running(node):
            return False
        limit = self._memory if limit_bytes is None else str(limit_bytes)
        return await self._processes[node].limit_memory(limit, is_usual=limit_bytes is None)

    async def killed_by_limit(self, node: int) -> bool:
        """Whether the engine says so of the last container, and its limit had been changed."""
        return node in self._processes and await self._processes[node].is_killed_by_limit()
