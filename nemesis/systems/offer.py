"""What a system offers, as a value: everything that is known of it before its class is loaded.

Owns the form. Each system says it once, in its own room; ``catalogue`` lists them, and what the command line chooses
from, what is refused, and the documentation's table follow from that.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar, Protocol, Self

from nemesis.cluster.kinds import ClusterKind
from nemesis.cluster.store import Verb
from nemesis.cluster.system import System
from nemesis.faults.needs import Need
from nemesis.workload.catalogue import WORKLOADS

if TYPE_CHECKING:
    from nemesis.cluster.replica_options import ReplicaOptions

LACKED: Mapping[Need, str] = {
    Need.VOTERS: "the voters of another system cannot be changed",
    Need.OTHER_DISKS: "the voters of another system cannot be changed",
    Need.MOVES: "who has the logs of another system cannot be changed",
    Need.MEMORY: "what another system does without memory is not known",
    Need.CERTIFICATES: "the nodes of another system know each other without certificates",
    Need.STANDING_STILL: "another system does not stand still at points of its work",
    Need.TIMERS: "the timers of another system go by a clock that cannot be set",
    Need.DISKS: "another system writes to its disk by itself: what it has not flushed is not known",
    Need.WALL_CLOCKS: "nobody has said that libfaketime reaches the programs of this system",
}
"""What takes a hand in the nodes' own work."""
LACKED_BUT_WALL_CLOCKS: Mapping[Need, str] = {need: why for need, why in LACKED.items() if need is not Need.WALL_CLOCKS}
"""The same of programs that ask the C library for the time."""


def _no_logs(options: ReplicaOptions) -> dict[str, list[int]]:
    del options
    return {}


def _not_known(options: ReplicaOptions) -> Sequence[str]:
    del options
    return ()


def topic_logs(options: ReplicaOptions) -> Sequence[str]:
    """The partitions of all topics."""
    return options.topics.names


@dataclass(frozen=True, slots=True, kw_only=True)
class Offer:
    """What a system can be used for, and what it needs.

    ``verbs`` are what its clients can do, and ``reads`` the ways to read objects. With ``shows_logs`` a run has the
    nodes' logs in its folder; ``logs`` names those that it has for sure, each with the nodes that are sure to have it.
    ``gapless`` names those in which every offset holds a client's record: whoever leads writes nothing there by itself.
    ``settings`` are the options of the command line that are about this system alone, and ``lacks`` says why it cannot
    be struck by faults that need this or that, whatever the host can do. ``programs`` must be installed, and so must
    the Python packages ``libraries``; ``check`` looks for what is missing beyond that, and ``fetch`` gets it from a
    network that a cluster may not have. Both raise UnsupportedError. ``runs``, ``needs`` and ``expect`` are the words
    of the documentation.
    """

    verbs: frozenset[Verb]
    reads: tuple[str, ...] = ("linearizable",)
    shows_logs: bool = False
    logs: Callable[[ReplicaOptions], dict[str, list[int]]] = _no_logs
    gapless: Callable[[ReplicaOptions], Sequence[str]] = _not_known
    settings: frozenset[str] = frozenset()
    lacks: Mapping[Need, str] = field(default_factory=lambda: LACKED)
    programs: tuple[str, ...] = ()
    libraries: tuple[str, ...] = ()
    check: Callable[[], object] = object
    fetch: Callable[[], object] = object
    runs: str = ""
    needs: str = ""
    expect: str = ""

    @property
    def workloads(self) -> tuple[str, ...]:
        """Those that its clients can do all of."""
        return tuple(name for name, workload in WORKLOADS.items() if workload.verbs <= self.verbs)


class Offered(System, Protocol):
    """A cluster of a system. ``open`` it before use, ``close`` it whatever happens."""

    offer: ClassVar[Offer]

    @classmethod
    def on(cls, kind: ClusterKind, folder: Path, options: ReplicaOptions) -> Self:
        """One on that kind of host; nothing is made or started before it is opened.

        Raises UnsupportedError where this machine cannot have it.
        """

    async def open(self) -> None:
        """Make the network and start every node. Raises NodeFailedError."""

    async def close(self) -> None:
        """End every node and take the network down."""
