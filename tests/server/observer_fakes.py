"""Fakes of what an observer looks at: a replica with its logs and partitions, by their facts alone."""

from __future__ import annotations

from collections.abc import Container, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import count

import structlog

from replica.core.broker.hosting import OfflinePartition
from replica.core.log.recovered import StoredSnapshot
from replica.core.messages import CurrentLeader
from replica.core.metadata.image import MetadataImage
from replica.core.metadata.records import PartitionRegistration
from replica.core.metadata.replay import METADATA_LOG
from replica.core.quorum.voter_history import VoterHistory
from replica.ids import BrokerEpoch, Epoch, Offset, ReplicaId, TopicPartition
from replica.server.metrics import Metrics
from replica.server.observer import ReplicaObserver
from replica.server.view import NamedRole
from replica.voters import VoterSet
from tests.core.harness import voters_of
from tests.server.driver_fakes import LOG

ONE, TWO = ReplicaId(1), ReplicaId(2)
EPOCH, START, END = Epoch(3), Offset(0), Offset(10)


@dataclass
class FakeRole:
    """A role by its name."""

    name: str = "follower"


@dataclass
class FakeEnd:
    """The ends of a log."""

    log_end_offset: Offset = END
    log_start_offset: Offset = START


@dataclass
class FakeView:
    """One log as the observer sees it."""

    role: NamedRole = field(default_factory=FakeRole)
    leader_epoch: Epoch = EPOCH
    leader_id: ReplicaId | None = TWO
    high_watermark: Offset | None = None
    snapshots: tuple[StoredSnapshot, ...] = ()
    snapshots_rejected: int = 0
    voter_history: VoterHistory = field(default_factory=lambda: VoterHistory(base=voters_of(ONE, TWO)))
    log: FakeEnd = field(default_factory=FakeEnd)
    refused_leader: CurrentLeader | None = None

    step_numbers: Iterator[int] = field(default_factory=count)

    @property
    def steps(self) -> int:
        """More at every look: a test changes what it likes between two steps."""
        return next(self.step_numbers)

    @property
    def voters(self) -> VoterSet:
        """The last set."""
        return self.voter_history.latest


@dataclass
class FakeGroup:
    """One group as the observer sees it."""

    applied_offset: Offset = END
    machine_leads: bool = False


@dataclass
class FakePartition:
    """One partition as the observer sees it."""

    role: NamedRole = field(default_factory=FakeRole)
    registration: PartitionRegistration | None = None
    effective_min_isr: int = 2
    high_watermark: Offset = END
    log: FakeEnd = field(default_factory=FakeEnd)

    @property
    def leader_epoch(self) -> Epoch:
        """The leader epoch of its registration."""
        return Epoch(0) if self.registration is None else self.registration.leader_epoch

    @property
    def leader_id(self) -> ReplicaId | None:
        """The leader of its registration."""
        return None if self.registration is None else self.registration.leader_id


@dataclass
class FakeReplica:
    """A replica as the observer sees it."""

    replica_id: ReplicaId = ONE
    logs: dict[TopicPartition, FakeView] = field(default_factory=lambda: {LOG: FakeView(), METADATA_LOG: FakeView()})
    groups: dict[TopicPartition, FakeGroup] = field(default_factory=dict)
    partitions: dict[TopicPartition, FakePartition] = field(default_factory=dict)
    offline: dict[TopicPartition, OfflinePartition] = field(default_factory=dict)
    failed_directories: dict[str, str] = field(default_factory=dict)
    image: MetadataImage = field(default_factory=MetadataImage)
    metadata_offset: Offset = START
    is_broker: bool = True
    broker_epoch: BrokerEpoch | None = None
    is_active_controller: bool = False
    told: list[TopicPartition] = field(default_factory=list)
    """Those that were told something, one after another; whatever a test has changed, ``change`` tells of."""

    @property
    def tellings(self) -> int:
        """How many."""
        return len(self.told)

    def told_since(self, tellings: int) -> Sequence[TopicPartition]:
        """The last of them."""
        return self.told[tellings:]

    def change(self, name: TopicPartition, registration: PartitionRegistration) -> None:
        """Tell a partition something."""
        self.partitions[name].registration = registration
        self.told.append(name)


def observer_of_replica(
    replica: FakeReplica, *, addresses: Container[ReplicaId] = (ONE, TWO), with_steps: bool = False
) -> tuple[ReplicaObserver, Metrics]:
    """An observer of this replica, and where it counts."""
    metrics = Metrics(replica)
    observer = ReplicaObserver(
        view=replica,
        addresses=addresses,
        end_offsets={name: log.log.log_end_offset for name, log in replica.logs.items()},
        metrics=metrics,
        logger=structlog.get_logger(),
        with_steps=with_steps,
    )
    return observer, metrics
