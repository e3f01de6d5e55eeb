"""What a follower takes of its leader's answers: records that continue its log, what is committed, where the logs part.

When it asks, and what a cut means for its promises, each kind of log has for itself: a quorum's follower halts rather
than cut what is committed, a partition's begins anew where its leader does.

Source: Kafka ``KafkaRaftClient.handleFetchResponse``, ``AbstractFetcherThread.getOffsetTruncationState``.
"""

from __future__ import annotations

from collections.abc import Iterable

from replica.core.log.replicated_log import ReplicatedLog
from replica.core.messages import FetchedPartition
from replica.ids import Epoch, EpochEndOffset, Offset
from replica.records import RecordBatch, check_continues


def may_fetch(log: ReplicatedLog) -> bool:
    """Whether the next fetch may go out: its offset acknowledges what this replica will still have after a crash."""
    return log.rules.may_fetch(flushed_end_offset=log.log.flushed_end_offset, log_end_offset=log.log.log_end_offset)


def check_continuity(
    log: ReplicatedLog, batches: Iterable[RecordBatch], *, end_offset: Offset, last_epoch: Epoch | None
) -> None:
    """Check that these batches may stand at ``end_offset``, behind a record of ``last_epoch``.

    Raises CorruptRecordError.
    """
    for batch in batches:
        check_continues(batch, log_end_offset=end_offset, last_epoch=last_epoch, leader_epoch=log.leader_epoch)
        end_offset, last_epoch = batch.end_offset, batch.leader_epoch


def followed_high_watermark(log: ReplicatedLog, answer: FetchedPartition) -> Offset | None:
    """Name what is committed in this replica's log by its leader's answer; absent where that says nothing of it."""
    if answer.high_watermark is None:
        return None
    return log.rules.follower_high_watermark(
        leader_high_watermark=answer.high_watermark,
        log_end_offset=log.log.log_end_offset,
        diverged=answer.diverging_epoch is not None,
    )


def shared_end(log: ReplicatedLog, leader_end: EpochEndOffset) -> Offset:
    """Name up to where this log can agree with one in which an epoch ends at ``leader_end``: there it is cut."""
    return log.rules.truncation(epochs=log.log.epochs, log_end_offset=log.log.log_end_offset, leader=leader_end)
