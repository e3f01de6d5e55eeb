"""What faults ask of a system under test, whatever it is.

Owns the protocol through which nodes are started, killed, paused and parted, and the voters, disks, clocks and memory
of those systems that have such; and what is decided in a cluster, for whoever has to know whom a fault means.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol, runtime_checkable

from nemesis.disks.damage import Damage, DiskPart
from nemesis.disks.hindrance import Hindrance
from nemesis.faults.crash_points import Order
from nemesis.faults.dials import Dials
from nemesis.faults.links import Link, LinkMode
from nemesis.faults.needs import Need

if TYPE_CHECKING:
    from nemesis.faults.impairments import NetworkFault


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionState:
    """What is decided about one topic-partition: who has it, who of them is in sync, who leads in which epoch."""

    replicas: tuple[int, ...]
    isr: tuple[int, ...]
    leader: int | None
    leader_epoch: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Registration:
    """How a node has made itself known: by a number, which rises with each of its processes, and with which disk."""

    number: int
    disk: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterState:
    """The cluster as the node knows it that knows most: ``active`` nodes may be in sync and lead.

    ``registrations`` is empty where nodes do not make themselves known.
    """

    controller: int | None
    active: frozenset[int]
    partitions: Mapping[str, PartitionState]
    registrations: Mapping[int, Registration] = field(default_factory=dict)


class SystemLinks(Protocol):
    """The directed links of a cluster. All but ``tally`` raise NodeFailedError where it could not be done."""

    async def cut(self, key: str, links: frozenset[Link], mode: LinkMode) -> None:
        """Break links until ``heal(key)``."""

    async def impair(self, key: str, links: frozenset[Link], fault: NetworkFault, draw: int) -> None:
        """Let links suffer from a fault until ``heal(key)``; ``draw`` seeds its dice. Raises UnsupportedError."""

    def tally(self, key: str) -> Mapping[str, int]:
        """What an impairment has done so far, counted by name; nothing where nobody counts."""

    async def heal(self, key: str) -> None:
        """Take back what was done by this key."""

    async def heal_all(self) -> None:
        """Take everything back."""


class SystemVoters(Protocol):
    """Who votes in a cluster's quorum logs, asked and changed through links that no fault touches.

    Each change is tried for some seconds, and then raises NotDoneError or UnknownOutcomeError. A log is named as in a
    history; the metadata log is one of them.
    """

    @property
    def logs(self) -> tuple[str, ...]:
        """The logs whose voters can be changed; none where the voters are voters for ever."""

    async def of(self, log: str) -> tuple[int, ...] | None:
        """Those that vote in a log, on the disks that they have now, by the word of its leader.

        Absent if nobody leads who answers at once.
        """

    async def add(self, log: str, node: int) -> None:
        """Let a node vote, on the disk that it has now."""

    async def remove(self, log: str, node: int) -> None:
        """Let a voter vote no more; it goes on fetching."""

    async def transfer(self, log: str, node: int) -> None:
        """Let a voter lead."""


class SystemMoves(Protocol):
    """Who has the partitions of a system's topics, changed through links that no fault touches.

    Each change is tried for some seconds, and then raises NotDoneError or UnknownOutcomeError.
    """

    @property
    def logs(self) -> tuple[str, ...]:
        """The partitions that can be moved."""

    @property
    def replication_factor(self) -> int:
        """How many replicas each of them has when nothing is moved."""

    async def begin(self, log: str, replicas: Sequence[int]) -> None:
        """Begin to move a partition there, preferred leader first; another target takes the place of the last one."""

    async def cancel(self, log: str) -> None:
        """Cancel the move that is under way."""

    async def elect_preferred(self, log: str) -> None:
        """Let the preferred replica lead."""

    async def under_way(self) -> frozenset[str] | None:
        """The partitions that are moving, by the word of the controller; absent if it does not answer at once."""


@runtime_checkable
class HasMoves(Protocol):
    """What a system has beside the rest whose partitions can be moved."""

    @property
    def moves(self) -> SystemMoves:
        """Who has its partitions."""


class SystemMemory(Protocol):
    """How much memory the nodes of a system may use."""

    async def squeeze(self, node: int, key: int, percent: int) -> int | None:
        """Let a node use so much of what it uses now, or the least that can be had, until it is released of this key.

        The bytes that it may use now; absent if it does not run. Raises NodeFailedError.
        """

    async def press(self, node: int, key: int) -> int | None:
        """Go on towards what was asked for by this key; the bytes if it may use less now than before."""

    async def release(self, node: int, key: int) -> None:
        """Take back what was done by this key. Raises NodeFailedError."""

    async def killed(self, node: int) -> bool:
        """Whether a node's last process has ended because it wanted more memory than it might use."""


@runtime_checkable
class HasMemory(Protocol):
    """What a system has beside the rest whose nodes' memory can be limited."""

    @property
    def memory(self) -> SystemMemory:
        """How much of it its nodes may use."""


class SystemCertificates(Protocol):
    """The certificates by which nodes and clients know each other."""

    async def renew(self) -> None:
        """Let everybody believe a new authority beside the old one, and then have a certificate of the new one."""

    async def forget(self) -> None:
        """Let nobody believe the old authority any more."""

    async def shown(self, nodes: Sequence[int]) -> Mapping[int, bool]:
        """Whether each node shows its newest certificate to whoever dials it now; those that answer."""


@runtime_checkable
class HasCertificates(Protocol):
    """What a system has beside the rest whose certificates can be renewed."""

    @property
    def certificates(self) -> SystemCertificates:
        """Those of its nodes and clients."""


@runtime_checkable
class StandsStill(Protocol):
    """What a system can do beside the rest whose nodes stand still at named points of their work when told to."""

    def order(self, node: int, order: Order) -> None:
        """Let a node's process stand still for good at a point, until the order is taken back; also a later process."""

    def take_back(self, node: int) -> None:
        """Let it go on, if it does not stand still yet."""

    def stands_still(self, node: int) -> bool:
        """Whether the last order was carried out: then only a kill helps."""


@runtime_checkable
class KeepsTime(Protocol):
    """What a system can do beside the rest whose nodes have clocks that can be set."""

    def set_clocks(self, node: int, dials: Dials) -> None:
        """Let a node's clocks go by these settings from now on; also those of a later process."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PowerLost:
    """What a loss of power has done to a node: whether a process ran, and whether anything of its disk was lost."""

    ran: bool
    lost: bool


class SystemDisks(Protocol):
    """The disks of a system's nodes. Nodes are told by themselves: no call needs one that answers."""

    async def lose_power(self, node: int, draw: int) -> PowerLost:
        """Kill a node and take back what was not flushed on its disk; ``draw`` seeds how much of it.

        A start meanwhile waits. Who does not run loses as much: what a killed process wrote was in memory, too.
        """

    def hinder(self, node: int, key: int, hindrance: Hindrance) -> None:
        """Hinder a node's disk until it is relieved of this key; also for its later processes."""

    def relieve(self, node: int, key: int) -> None:
        """Take back what was done by this key."""

    async def damage(self, node: int, part: DiskPart, how: str, draw: int) -> Damage | None:
        """Kill a node and damage what it was promised to keep, so that its next start must notice; absent if it did not
        run. ``draw`` seeds what becomes of which file. A start meanwhile waits.
        """

    def is_damaged(self, node: int) -> bool:
        """Whether the disk is damaged and not repaired yet; one that has taken its place is not."""

    def replaced(self, node: int) -> None:
        """What was damaged is of no use any more, and has been replaced: by the node itself, or with its disk."""

    async def repair(self, node: int) -> str | None:
        """Put back what was damaged on the disk of a node that does not run; why not, if that cannot be."""

    def last_words(self, node: int) -> str | None:
        """What is wrong with a node's disk, by its own word, since that was damaged; absent if it has said nothing."""

    def ended_by_itself(self, node: int) -> bool:
        """Whether a node's process has ended and nobody had told it to."""


@runtime_checkable
class HasDisks(Protocol):
    """What a system has beside the rest whose nodes' disks can be broken."""

    @property
    def disks(self) -> SystemDisks:
        """The disks of its nodes."""


class Breakable(Protocol):
    """A cluster whose nodes can be started, killed, paused and parted. Everything is idempotent."""

    @property
    def nodes(self) -> tuple[int, ...]:
        """The ids of the nodes, ascending."""

    @property
    def topic_partitions(self) -> tuple[str, ...]:
        """The names of the logs that clients write to."""

    @property
    def links(self) -> SystemLinks:
        """The links between nodes, and from clients."""

    @property
    def voters(self) -> SystemVoters:
        """The voters of the quorum logs."""

    def lacks(self, need: Need) -> str | None:
        """Why this system cannot be struck by faults that need this; absent if it can. Also before it is opened."""

    async def start(self, node: int) -> None:
        """Start a node and wait until it serves; nothing if it runs. Raises NodeFailedError."""

    async def stop(self, node: int) -> bool:
        """Ask a node to stop, and kill it if it does not; whether there was something to stop."""

    async def kill(self, node: int) -> bool:
        """SIGKILL; whether there was something to kill."""

    async def wipe(self, node: int) -> None:
        """Give a node that does not run an empty disk, without a vote; a start waits meanwhile. NodeFailedError."""

    async def pause(self, node: int) -> bool:
        """SIGSTOP; whether the node was running."""

    async def resume(self, node: int) -> bool:
        """SIGCONT; whether the node was paused."""

    def is_running(self, node: int) -> bool:
        """Whether the node's process is there, paused or not."""

    async def cluster_state(self) -> ClusterState | None:
        """What is decided, by the word of whoever knows most through links that no fault touches; absent if nobody
        answers at once."""
