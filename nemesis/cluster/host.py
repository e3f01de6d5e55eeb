"""Where nodes run: the small protocol through which a system reaches processes and the network between them.

Owns the words only. A host knows no system: it runs one process for each node, whatever that is, says who reaches whom
at which address, and cuts links. Which faults it cannot do it says before anything is started.

When a node's process ends and nobody here has brought that about, this says which of two it is: a process that ends by
itself, by an exit code or a signal of its own making, *died*. SIGKILL comes from outside only: from the kernel, which
wants memory, or from somebody else; so that says nothing of the node.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Protocol, runtime_checkable

from nemesis.cluster.system import Report
from nemesis.faults.breakable import SystemLinks
from nemesis.faults.needs import Need
from nemesis.history import KILLED_FROM_OUTSIDE

SERVICE_PORT = 9092
"""Where a node serves if it has one port only."""


class Host(Protocol):
    """Processes of numbered nodes. ``open`` it before use, and ``close`` it whatever happens.

    Nothing of it outlives the harness, however that ends: no process, no namespace, no container, no rule.
    """

    @property
    def nodes(self) -> tuple[int, ...]:
        """The ids of the nodes, ascending."""

    @property
    def links(self) -> SystemLinks:
        """The links between nodes, and from clients."""

    @property
    def python(self) -> str:
        """The interpreter that has our packages, where nodes run."""

    def lacks(self, need: Need) -> str | None:
        """Why this host cannot do faults that need this; absent if it can. Also before ``open``."""

    async def open(self) -> None:
        """Make the network. Raises NodeFailedError."""

    async def close(self) -> None:
        """End every process, and take down what was made. Also after an ``open`` that has failed."""

    # --- the network --------------------------------------------------------------------------------------------------

    def addresses(self, source: int, port: int = SERVICE_PORT) -> Mapping[int, str]:
        """Where ``source`` (a node, CLIENTS, CONTROL) dials each other node that listens on that port.

        Addresses stay the same while nodes come and go. Those for CONTROL are touched by no fault. Raises
        UnsupportedError for a port that this host does not have.
        """

    def listen_address(self, node: int, port: int = SERVICE_PORT) -> str:
        """What a node is told to listen at, so that it is reached there; a port of 0 is one that it takes itself."""

    def listens(self, node: int, port: int) -> None:
        """Say which port a node took that was told to take one."""

    # --- processes ----------------------------------------------------------------------------------------------------

    def folder(self, node: int) -> Path:
        """A folder of this machine that is a node's alone, and outlives its process. It is made with ``open``."""

    def inside(self, node: int) -> Path:
        """The same folder as the node's process sees it."""

    async def run(
        self, node: int, command: Sequence[str], log_file: Path, environment: Mapping[str, str] | None = None
    ) -> None:
        """Start the node's process, which does not run; its output is appended to ``log_file`` of this machine.

        ``environment`` is added to what it has anyway. It is followed to its own end: whoever asks finds it ended.
        """

    async def run_once(self, node: int, command: Sequence[str], log_file: Path, *, at_most_s: float) -> int:
        """Run a command in the place of the node's process to its end; its exit code. Raises TimeoutError."""

    async def stop(self, node: int, grace_s: float) -> bool:
        """SIGTERM, and SIGKILL if it is still there after that; whether it was there."""

    async def kill(self, node: int) -> bool:
        """SIGKILL, paused or not; whether it was there."""

    async def pause(self, node: int) -> bool:
        """SIGSTOP; whether it ran."""

    async def resume(self, node: int) -> bool:
        """SIGCONT; whether it was paused."""

    def is_running(self, node: int) -> bool:
        """Whether the process is there, paused or not."""

    def is_paused(self, node: int) -> bool:
        """Whether the process is there and paused."""

    def exit_code(self, node: int) -> int | None:
        """How the node's last process ended; absent while it is there, or if there never was one."""

    def died(self, node: int) -> bool:
        """Whether the node's last process ended by itself: nobody had told it to."""

    def killed_ns(self, node: int) -> int | None:
        """When the node's last process was found ended by a SIGKILL that nobody here has sent; absent if it was not."""


@runtime_checkable
class ShowsProcesses(Protocol):
    """What a host has beside the rest whose nodes are processes that this machine sees."""

    @property
    def pids(self) -> Mapping[int, int]:
        """The process ids of the nodes that were ever started, each of its last process."""


@runtime_checkable
class LimitsMemory(Protocol):
    """What a host has beside the rest whose nodes have a limit of memory each, which can be changed while they run."""

    async def memory_used(self, node: int) -> int | None:
        """How many bytes the node's process cannot do without, as far as anybody knows; absent if it does not run.

        Raises NodeFailedError.
        """

    async def limit_memory(self, node: int, limit_bytes: int | None) -> bool:
        """Let the node's process use so much, or as much as usual; whether it ran. NodeFailedError: refused."""

    async def killed_by_limit(self, node: int) -> bool:
        """Whether the node's last process was killed because of a limit that was set while it ran."""


DIED = "died"


def death_of(host: Host, node: int) -> Report | None:
    """How the node's last process has ended, if nobody here had ended it."""
    if not host.died(node):
        return None
    killed_ns = host.killed_ns(node)
    if killed_ns is not None:
        return Report(node=node, monotonic_ns=killed_ns, event=KILLED_FROM_OUTSIDE, detail="SIGKILL")
    return Report(node=node, monotonic_ns=time.monotonic_ns(), event=DIED, detail=f"exit code {host.exit_code(node)}")
