"""What a partition's replicas look like at one moment, and what the controller has decided about it.

Owns how the values of ``views`` are taken from a cluster. Looks only; changes nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from nemesis.faults.links import Link
from nemesis.scenarios.views import DOWN, Decided, Known, ReplicaView, WorldView, cells_of
from nemesis.simulator.node import Node
from nemesis.simulator.world import World
from replica.core.metadata.image import MetadataImage
from replica.core.metadata.records import LeaderRecoveryState
from replica.core.partition import Partition
from replica.core.partition.roles import Leader, PendingExpand, PendingShrink, RemoteReplica
from replica.ids import ReplicaId, TopicPartition
from replica.records import parse_batches


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
        known=_known_to(partition, node.now_ms),
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


def _known_to(partition: Partition, now_ms: int) -> tuple[Known, ...]:
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
