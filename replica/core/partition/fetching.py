"""Serving a fetch: fence it, find divergence, believe its offset, and only then say what may be read.

A follower's fetch offset is its acknowledgement, so the order matters: a fenced, diverged or misplaced follower
acknowledges nothing (KAFKA-13141), and a valid offset moves the high watermark first, so that the answer carries the
new one. The broker puts the answers of many partitions together and waits where there is nothing to say yet; whether
there is, it asks again with ``look``, which changes nothing.

Source: Kafka ``Partition.fetchRecords``, ``Partition.readRecords``, ``DelayedFetch``; KIP-392, KIP-1166.
"""

from __future__ import annotations

from typing import NamedTuple

from msgspec.structs import replace

from replica.core.log.serving import Read, read, read_bound, refused, told
from replica.core.messages import FetchPartition
from replica.core.partition import fencing
from replica.core.partition.deleting import answer_deletions
from replica.core.partition.isr import maybe_expand_isr, note_fetch
from replica.core.partition.roles import Leader, Role
from replica.core.partition.state import PartitionState
from replica.core.partition.watermark import maybe_advance_high_watermark
from replica.errors import ErrorCode
from replica.ids import BrokerEpoch, Epoch, EpochEndOffset, EpochEntry, Offset, ReplicaId, TopicId


class ConsumersView(NamedTuple):
    """What is told to a consumer follows from this alone, unless it has named a rack.

    ``log_end_offset`` is absent of a leader, whose log only grows: what lies there already stays in range.
    """

    topic_id: TopicId
    role: type[Role]
    leader_epoch: Epoch
    epochs: tuple[EpochEntry, ...]
    log_start_offset: Offset
    high_watermark: Offset
    bound: Offset | None
    log_end_offset: Offset | None


def consumers_view(p: PartitionState) -> ConsumersView:
    """All that ``look`` goes by for a consumer of no rack: while it stays the same, so does what it is told."""
    return ConsumersView(
        topic_id=p.topic_id,
        role=type(p.role),
        leader_epoch=p.leader_epoch,
        epochs=p.log.epochs.entries,
        log_start_offset=p.log.log_start_offset,
        high_watermark=p.high_watermark,
        bound=read_bound(p, None),
        log_end_offset=None if p.is_leader else p.log.log_end_offset,
    )


def fetch(
    p: PartitionState,
    part: FetchPartition,
    *,
    replica_id: ReplicaId | None,
    broker_epoch: BrokerEpoch | None,
    rack_id: str | None,
    now_ms: int,
) -> Read:
    """Take a fetch for what it is, a replica's acknowledgement too, and tell what it would get now.

    ``replica_id`` and ``broker_epoch`` are absent for a consumer, ``rack_id`` for any other.
    """
    found = (
        fencing.fetch_error(p, part, replica_id)
        or fencing.incarnation_error(p, replica_id, broker_epoch)
        or _compare(p, part)
    )
    if isinstance(found, ErrorCode):
        return refused(p, found)
    is_compared = found is None and not _lies_below(p, part)
    if replica_id is not None and p.rules.fetch_acknowledges(diverged=not is_compared):
        note_fetch(p, replica_id, part, broker_epoch, now_ms)
        maybe_expand_isr(p, replica_id)
        maybe_advance_high_watermark(p, now_ms)
        answer_deletions(p)
    return _answered(p, part, replica_id, rack_id, found)


def look(p: PartitionState, part: FetchPartition, *, replica_id: ReplicaId | None, rack_id: str | None) -> Read:
    """Tell what a fetch that was taken before would get now. Its sender's progress is not noted again."""
    found = fencing.fetch_error(p, part, replica_id) or _compare(p, part)
    return refused(p, found) if isinstance(found, ErrorCode) else _answered(p, part, replica_id, rack_id, found)


def _compare(p: PartitionState, part: FetchPartition) -> EpochEndOffset | ErrorCode | None:
    """Find where the asker's log leaves this one; absent where it does not, or does not say what it holds."""
    if part.last_fetched_epoch is not None:
        end = p.rules.partition_epoch_end(
            epochs=p.log.epochs, epoch=part.last_fetched_epoch, log_end_offset=p.log.log_end_offset
        )
        if end is None or p.rules.is_below_log_start(
            fetch_offset=part.fetch_offset, log_start_offset=p.log.log_start_offset
        ):
            return ErrorCode.OFFSET_OUT_OF_RANGE
        if p.rules.has_diverged(end=end, fetch_offset=part.fetch_offset, last_fetched_epoch=part.last_fetched_epoch):
            return end
    if not p.log.log_start_offset <= part.fetch_offset <= p.log.log_end_offset:
        return ErrorCode.OFFSET_OUT_OF_RANGE
    return None


def _lies_below(p: PartitionState, part: FetchPartition) -> bool:
    """Whether a follower has records, and all of them lie below the beginning of this log, which knows none of their
    epochs: they may be others than were committed there. It is told at once, and forgets them.
    """
    if part.last_fetched_epoch is None or part.log_start_offset is None:
        return False
    return part.log_start_offset < part.fetch_offset and part.last_fetched_epoch < p.log.epochs.entries[0].epoch


def _answered(
    p: PartitionState,
    part: FetchPartition,
    replica_id: ReplicaId | None,
    rack_id: str | None,
    diverging_epoch: EpochEndOffset | None,
) -> Read:
    """Tell where the logs part, whom a consumer should rather ask, or what there is to read."""
    answer = told(p, diverging_epoch=diverging_epoch)
    if diverging_epoch is not None:
        return Read(answer=answer)
    preferred = None if replica_id is not None or rack_id is None else preferred_read_replica(p, part, rack_id)
    if preferred is not None:
        return Read(answer=replace(answer, preferred_read_replica=preferred))
    found = read(p, part, replica_id, answer)
    return replace(found, is_final=True) if _lies_below(p, part) else found


def preferred_read_replica(p: PartitionState, part: FetchPartition, rack_id: str) -> ReplicaId | None:
    """Name the follower that a consumer in this rack should rather ask; absent where that is the leader.

    One that is live, in sync, and holds the fetch offset; of several the one that is most caught up. (Kafka's
    ``RackAwareReplicaSelector``.)
    """
    role = p.role
    racks = {broker_id: broker.rack for broker_id, broker in p.brokers.items() if broker.is_active}
    if not isinstance(role, Leader) or racks.get(p.replica_id) == rack_id:
        return None
    near = [
        (remote.log_end_offset, remote.last_caught_up_ms or 0, replica_id)
        for replica_id, remote in role.remotes.items()
        if replica_id in role.isr_state.isr
        and racks.get(replica_id) == rack_id
        and remote.log_start_offset is not None
        and remote.log_end_offset is not None
        and remote.log_start_offset <= part.fetch_offset <= remote.log_end_offset
    ]
    return max(near)[2] if near else None
