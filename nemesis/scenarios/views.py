"""What a cluster looks like at one moment, as values that tables and pictures are made of.

Owns these values and how they are taken from a world of one quorum log: each replica's own state, never what another
thinks of it, except where a leader's knowledge of the others is shown as such. Looks only; changes nothing. What a
machine without a process holds is known from its last step, for a disk can only be read by starting on it.

What a partition's replicas look like at one moment, and what the controller has decided about it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from nemesis.faults.links import Link
from nemesis.simulator.node import Node
from nemesis.simulator.world import LOG, World
from replica.core.metadata.image import MetadataImage
from replica.core.metadata.records import LeaderRecoveryState
from replica.core.partition import Partition
from replica.core.partition.roles import Leader, PendingExpand, PendingShrink, RemoteReplica
from replica.core.quorum import QuorumLog
from replica.core.quorum.roles import Leader as ElectedLeader
from replica.ids import EpochEntry, ReplicaId, TopicPartition
from replica.records import Record, RecordBatch, decode_records, decode_voters, parse_batches

LEADER_CHANGE = "LC"
"""How the first record of a leadership is shown, which the leader writes by itself."""
VOTERS = "V"
"""How a record is shown that says who votes."""
DOWN = "down"


@dataclass(frozen=True, slots=True, kw_only=True)
class Cell:
    """One record of one replica's log."""

    offset: int
    epoch: int
    value: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Known:
    """What a leader knows of one voter: how far it has fetched, and when; both absent before its first fetch."""

    replica_id: int
    log_end_offset: int | None
    fetched_ms_ago: int | None
    caught_up_ms_ago: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Decided:
    """What the controller has committed about a partition.

    ``fenced`` and ``leaving`` are those of its replicas whose brokers were given up, or are in controlled shutdown.
    """

    leader_id: int | None
    leader_epoch: int
    partition_epoch: int
    isr: tuple[int, ...]
    elr: tuple[int, ...]
    is_recovering: bool
    fenced: tuple[int, ...]
    leaving: tuple[int, ...]
    controller_id: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplicaView:
    """One replica. ``known`` is what it knows of the others while it leads, ``isr`` whom it counts as in sync then.

    ``epoch``, ``voted_id`` and the log are on disk and outlive a process; ``high_watermark`` and the role are not.
    """

    replica_id: int
    role: str
    is_paused: bool = False
    epoch: int = 0
    leader_id: int | None = None
    voted_id: int | None = None
    cells: tuple[Cell, ...] = ()
    flushed_end_offset: int = 0
    high_watermark: int | None = None
    epochs: tuple[EpochEntry, ...] = ()
    known: tuple[Known, ...] = ()
    isr: str = ""

    @property
    def log_end_offset(self) -> int:
        """Where the log ends."""
        return self.cells[-1].offset + 1 if self.cells else 0

    @property
    def is_up(self) -> bool:
        """Whether there is a process, paused or not."""
        return self.role != DOWN

    def is_committed(self, cell: Cell) -> bool:
        """Whether this replica knows that the record is committed."""
        return self.high_watermark is not None and cell.offset < self.high_watermark


@dataclass(frozen=True, slots=True, kw_only=True)
class WorldView:
    """The whole cluster at one moment, and the links on which nothing gets through.

    ``decided`` is absent where replicas elect their leader themselves.
    """

    at_ms: int
    replicas: tuple[ReplicaView, ...]
    cuts: tuple[Link, ...] = ()
    decided: Decided | None = None

    @property
    def epoch(self) -> int:
        """The latest epoch that any replica has reached."""
        return max(replica.epoch for replica in self.replicas)

    @property
    def still(self) -> WorldView:
        """The replicas without what changes by the mere passing of time."""
        replicas = (
            replace(
                replica,
                known=tuple(replace(known, fetched_ms_ago=None, caught_up_ms_ago=None) for known in replica.known),
            )
            for replica in self.replicas
        )
        return WorldView(at_ms=0, replicas=tuple(replicas), decided=self.decided)


def look(world: World, cuts: frozenset[Link], last: Mapping[int, ReplicaView]) -> WorldView:
    """Take the picture. ``last`` has how each machine looked when its process ended."""
    return WorldView(
        at_ms=world.now_ms,
        replicas=tuple(
            look_at(node) if node.is_up else last.get(node.replica_id, ReplicaView(replica_id=id_, role=DOWN))
            for id_, node in world.nodes.items()
        ),
        cuts=tuple(sorted(cuts)),
    )


def look_at(node: Node) -> ReplicaView:
    """Take the picture of one replica that has a process."""
    assert node.core is not None, node.replica_id
    log, store = node.core.logs[LOG], node.stores[LOG]
    batches = parse_batches(store.read(store.log_start_offset, store.log_end_offset, 1 << 30))
    return ReplicaView(
        replica_id=node.replica_id,
        role=log.role.name,
        is_paused=node.is_paused,
        epoch=log.leader_epoch,
        leader_id=log.leader_id,
        voted_id=log.quorum_state.voted_id,
        cells=tuple(cell for batch in batches for cell in cells_of(batch)),
        flushed_end_offset=log.log.flushed_end_offset,
        high_watermark=log.high_watermark,
        epochs=log.log.epochs.entries,
        known=_known_to(log, node.now_ms),
    )


def gone(view: ReplicaView, *, flushed_only: bool) -> ReplicaView:
    """Show the machine of a process that has ended: its disk, or with ``flushed_only`` what is sure to be on it."""
    end_offset = view.flushed_end_offset if flushed_only else view.log_end_offset
    return replace(
        view,
        role=DOWN,
        is_paused=False,
        leader_id=None,
        high_watermark=None,
        cells=tuple(cell for cell in view.cells if cell.offset < end_offset),
        epochs=tuple(entry for entry in view.epochs if entry.start_offset < end_offset),
        known=(),
        isr="",
    )


def cells_of(batch: RecordBatch) -> tuple[Cell, ...]:
    """The records of one batch."""
    return tuple(
        Cell(offset=record.offset, epoch=batch.leader_epoch, value=_value_of(batch, record))
        for record in decode_records(batch)
    )


def _value_of(batch: RecordBatch, record: Record) -> str:
    if not batch.is_control:
        return (record.value or b"").decode()
    return LEADER_CHANGE if decode_voters(batch) is None else VOTERS


def _known_to(log: QuorumLog, now_ms: int) -> tuple[Known, ...]:
    if not isinstance(log.role, ElectedLeader):
        return ()
    return tuple(
        Known(
            replica_id=voter,
            log_end_offset=progress.log_end_offset,
            fetched_ms_ago=now_ms - progress.last_fetch_ms if progress.has_fetched else None,
            caught_up_ms_ago=None if progress.last_caught_up_ms is None else now_ms - progress.last_caught_up_ms,
        )
        for voter, progress in log.role.voters.items()
    )


def look_at_cluster(
    world: World,
    name: TopicPartition,
    *,
    image: MetadataImage,
    began_ms: int,
    cuts: frozenset[Link],
    last: Mapping[int, ReplicaView],
) -> WorldView:
    """Take the picture of one partition. ``image`` is what the controller has decided; ``last`` as in ``views``."""
    registration = image.partition(name)
    assert registration is not None, name
    brokers = [image.brokers[id_] for id_ in sorted(registration.replicas)]
    views = (
        look_at_partition(world.nodes[id_], name)
        or last.get(id_, ReplicaView(replica_id=id_, role=DOWN if not world.nodes[id_].is_up else "starting"))
        for id_ in registration.replicas
    )
    return WorldView(
        at_ms=world.now_ms - began_ms,
        replicas=tuple(sorted(views, key=lambda view: view.replica_id)),
        cuts=tuple(sorted(cuts)),
        decided=Decided(
            leader_id=registration.leader_id,
            leader_epoch=registration.leader_epoch,
            partition_epoch=registration.partition_epoch,
            isr=registration.isr,
            elr=registration.elr,
            is_recovering=registration.leader_recovery_state is LeaderRecoveryState.RECOVERING,
            fenced=tuple(broker.broker_id for broker in brokers if broker.fenced),
            leaving=tuple(broker.broker_id for broker in brokers if broker.in_controlled_shutdown),
            controller_id=max(world.nodes),
        ),
    )


def look_at_partition(node: Node, name: TopicPartition) -> ReplicaView | None:
    """Take the picture of one replica; absent while its broker does not serve it."""
    partition = partition_of(node, name)
    if partition is None:
        return None
    store = node.stores[name]
    batches = parse_batches(store.read(store.log_start_offset, store.log_end_offset, 1 << 30))
    return ReplicaView(
        replica_id=node.replica_id,
        role=partition.role.name,
        is_paused=node.is_paused,
        epoch=partition.leader_epoch,
        leader_id=partition.leader_id,
        cells=tuple(cell for batch in batches for cell in cells_of(batch)),
        flushed_end_offset=node.flushed_end.get(name, partition.log.flushed_end_offset),
        high_watermark=partition.high_watermark,
        epochs=partition.log.epochs.entries,
        known=_known_to_partition(partition, node.now_ms),
        isr=_isr_words(partition),
    )


def partition_of(node: Node, name: TopicPartition) -> Partition | None:
    """A broker's replica of a partition; absent without a process, and until the broker has heard of it."""
    core = node.core
    return None if core is None or core.broker is None else core.broker.partitions.get(name)


def ids_text(replica_ids: Iterable[ReplicaId]) -> str:
    """Several replicas, in the order of their numbers."""
    return " ".join(map(str, sorted(replica_ids)))


def _isr_words(partition: Partition) -> str:
    """The ISR that a leader counts, with what it has proposed and is not told to be committed yet."""
    role = partition.role
    if not isinstance(role, Leader):
        return ""
    match role.isr_state:
        case PendingExpand(isr=isr, joining=joining):
            return f"{ids_text(isr)} +{joining}"
        case PendingShrink(isr=isr, leaving=leaving):
            return f"{ids_text(isr)} -{ids_text(leaving)}"
        case committed:
            return ids_text(committed.isr)


def _known_to_partition(partition: Partition, now_ms: int) -> tuple[Known, ...]:
    if not isinstance(partition.role, Leader):
        return ()
    return tuple(
        _known(partition, replica_id, remote, now_ms) for replica_id, remote in sorted(partition.role.remotes.items())
    )


def _known(partition: Partition, replica_id: ReplicaId, remote: RemoteReplica, now_ms: int) -> Known:
    """What a leader knows of a follower; a fetch of its session counts also where it does not name the partition."""
    fetched_ms, caught_up_ms = remote.last_fetch_ms, remote.last_caught_up_ms
    latest = partition.session_fetches.get(replica_id)
    if fetched_ms is not None and latest is not None and latest.broker_epoch == remote.broker_epoch:
        fetched_ms = max(fetched_ms, latest.at_ms)
        if remote.log_end_offset == partition.log.log_end_offset:
            caught_up_ms = fetched_ms
    return Known(
        replica_id=replica_id,
        log_end_offset=remote.log_end_offset,
        fetched_ms_ago=None if remote.log_end_offset is None or fetched_ms is None else now_ms - fetched_ms,
        caught_up_ms_ago=None if caught_up_ms is None else now_ms - caught_up_ms,
    )
