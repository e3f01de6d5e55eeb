"""Decisions that both kinds of log share: fencing, divergence, truncation, and what an acknowledgement means.

In the order of a record's life.
"""

from __future__ import annotations

from replica.core.log.epoch_cache import LeaderEpochCache
from replica.errors import ErrorCode
from replica.ids import Epoch, EpochEndOffset, Offset


class LogRules:
    """What holds for a log, whoever appoints its leader."""

    def epoch_is_recovered(self, *, epoch: Epoch) -> bool:
        """Decide whether recovery notes where an epoch of the batches begins: every one, 0 too (KAFKA-10432)."""
        assert epoch >= 0, epoch
        return True

    def new_epoch_is_stored(self, *, epoch: Epoch) -> bool:
        """Decide whether the epochs are stored, durably, before the first batch of a new one: recovery goes by them."""
        assert epoch >= 0, epoch
        return True

    def messages_wait_for_their_log(self) -> bool:
        """Decide whether a message about a log waits until the disk has done what was asked of that log before it.

        A vote that is told before it is on the platter can be given to another candidate after a crash.
        """
        return True

    def epoch_error(self, *, current_leader_epoch: Epoch | None, own_epoch: Epoch) -> ErrorCode | None:
        """Refuse a request from an older or a newer epoch than the replica's own; one that names none is taken.

        Otherwise an acknowledgement from an earlier leadership would count in this one (KIP-320).
        """
        if current_leader_epoch is None or current_leader_epoch == own_epoch:
            return None
        return ErrorCode.FENCED_LEADER_EPOCH if current_leader_epoch < own_epoch else ErrorCode.UNKNOWN_LEADER_EPOCH

    def may_fetch(self, *, flushed_end_offset: Offset, log_end_offset: Offset) -> bool:
        """Decide whether a follower's next Fetch may go out: when all that its offset acknowledges is flushed."""
        return flushed_end_offset == log_end_offset

    def kept_by_new_follower(self, *, high_watermark: Offset | None, log_end_offset: Offset) -> Offset:
        """Name how much of its log a replica keeps when it begins to follow: all, until the leader finds divergence.

        What lies above its own high watermark may be committed, and may be needed for the majority (KIP-101).
        """
        assert high_watermark is None or high_watermark <= log_end_offset, (high_watermark, log_end_offset)
        return log_end_offset

    def last_fetched_epoch(self, *, last_epoch: Epoch | None, leader_epoch: Epoch) -> Epoch:
        """Name the epoch that a follower puts into its Fetch, by which a leader sees divergence: its last record's."""
        assert last_epoch is None or last_epoch <= leader_epoch, (last_epoch, leader_epoch)
        return Epoch(0) if last_epoch is None else last_epoch

    def has_diverged(self, *, end: EpochEndOffset, fetch_offset: Offset, last_fetched_epoch: Epoch) -> bool:
        """Decide whether a reader's log has left the leader's, given where the reader's last epoch ends there.

        ``end_offset < fetch_offset`` is strict: a reader that stands exactly where its epoch ends has not diverged.
        """
        return end.epoch != last_fetched_epoch or end.end_offset < fetch_offset

    def fetch_acknowledges(self, *, diverged: bool) -> bool:
        """Decide whether a follower's fetch offset counts as its acknowledgement: not if it diverged (KAFKA-13141)."""
        return not diverged

    def truncation(self, *, epochs: LeaderEpochCache, log_end_offset: Offset, leader: EpochEndOffset) -> Offset:
        """Decide where a follower cuts its log when the leader says where an epoch ends in its own.

        The follower looks the epoch up in its own cache. If it knows it, both ends bound what they share. If it only
        knows an older one, it cuts there, and the logs may still differ below: its next fetch is compared again, which
        ends because its last epoch falls each time (KIP-279).
        """
        local = epochs.end_offset_for(leader.epoch, log_end_offset)
        if local is None:
            return min(leader.end_offset, log_end_offset)
        if local.epoch != leader.epoch:
            return min(local.end_offset, log_end_offset)
        return min(local.end_offset, leader.end_offset, log_end_offset)

    def produce_is_committed(self, *, end_offset: Offset, high_watermark: Offset | None) -> bool:
        """Decide whether a batch that ends at ``end_offset`` may be acknowledged to an ``acks=all`` producer."""
        return high_watermark is not None and end_offset <= high_watermark

    def consumer_read_bound(self, *, high_watermark: Offset | None, log_end_offset: Offset) -> Offset | None:
        """Name the offset below which a consumer may read: the high watermark; nothing while that is unknown."""
        assert high_watermark is None or high_watermark <= log_end_offset, (high_watermark, log_end_offset)
        return high_watermark

    def writes_wait_after_leadership(self) -> bool:
        """Decide whether an ``acks=all`` write still waits when the leadership ends: never, its outcome is unknown.

        The high watermark that passes its end later may be about other records at the same offsets.
        """
        return False
