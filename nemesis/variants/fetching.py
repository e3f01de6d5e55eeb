"""Wrong rules about divergence: how it is seen, what a diverged follower counts for, and where a log is cut.

Owns nothing else. Source: KIP-101, KIP-279 and KIP-595 with the bugs found after them; the first of these is
the protocol from before KIP-101, as kept in hachikuji/kafka-specification.
"""

# ruff: noqa: ARG002 - an override takes whatever the rule takes

from __future__ import annotations

from replica.core.log.epoch_cache import LeaderEpochCache
from replica.core.rules import Rules
from replica.errors import ErrorCode
from replica.ids import Epoch, EpochEndOffset, Offset


class CutAtHighWatermark(Rules):
    """A new follower of a quorum log that cuts it at its own high watermark."""

    def kept_by_new_follower(self, *, high_watermark: Offset | None, log_end_offset: Offset) -> Offset:
        """What is not known to be committed goes; all is kept while nothing is known."""
        return log_end_offset if high_watermark is None else high_watermark


class TruncateToHighWatermark(CutAtHighWatermark):
    """A new follower that cuts its log at its own high watermark, which may be behind the leader's.

    On a partition nothing is fenced or compared yet: either would repair most of the harm. A quorum log has no
    elections without epochs, and there the cut alone is wrong.
    """

    @property
    def of_quorum_logs(self) -> Rules:
        """Only the cut."""
        return CutAtHighWatermark()

    def has_diverged(self, *, end: EpochEndOffset, fetch_offset: Offset, last_fetched_epoch: Epoch) -> bool:
        """A fetch is not compared."""
        return False

    def epoch_error(self, *, current_leader_epoch: Epoch | None, own_epoch: Epoch) -> ErrorCode | None:
        """Every epoch is as good as any."""
        return None

    def answer_is_current(self, *, asked_leader_epoch: Epoch | None, leader_epoch: Epoch) -> bool:
        """Every answer is as good as any."""
        return True


class AppendWithoutReconciling(Rules):
    """A follower that claims its last record to be of the leader's epoch, so that no leader sees it diverge."""

    def last_fetched_epoch(self, *, last_epoch: Epoch | None, leader_epoch: Epoch) -> Epoch:
        """The leader's epoch, whatever the last record's is."""
        return leader_epoch


class UnknownEpochEndsAtLogEnd(Rules):
    """A leader that says of an epoch which it never had that it ends at its log's end, so that nothing is cut."""

    def epoch_end(
        self, *, epochs: LeaderEpochCache, epoch: Epoch, log_start_offset: Offset, log_end_offset: Offset
    ) -> EpochEndOffset:
        """An epoch of the cache ends where it ends; any other at the log's end."""
        if any(entry.epoch == epoch for entry in epochs.entries):
            return super().epoch_end(
                epochs=epochs, epoch=epoch, log_start_offset=log_start_offset, log_end_offset=log_end_offset
            )
        return EpochEndOffset(epoch, log_end_offset)


class DivergingAtEqualEnd(Rules):
    """A leader that takes a follower which has everything for a diverged one, and never sends it anything."""

    def has_diverged(self, *, end: EpochEndOffset, fetch_offset: Offset, last_fetched_epoch: Epoch) -> bool:
        """To stand where one's epoch ends is already divergence."""
        return end.epoch != last_fetched_epoch or end.end_offset <= fetch_offset


class DivergedFetchAcknowledges(Rules):
    """A leader that counts the fetch offset of a follower whose records are not the leader's."""

    def fetch_acknowledges(self, *, diverged: bool) -> bool:
        """Every fetch offset counts."""
        return True


class TakeNothingBack(Rules):
    """A follower that takes the leader's answer and keeps all its own records."""

    def truncation(self, *, epochs: LeaderEpochCache, log_end_offset: Offset, leader: EpochEndOffset) -> Offset:
        """The log's end is always the right place."""
        return log_end_offset


class TrustTheLeadersOffset(Rules):
    """A follower that cuts where the leader says without looking the epoch up in its own log, as before KIP-279."""

    def truncation(self, *, epochs: LeaderEpochCache, log_end_offset: Offset, leader: EpochEndOffset) -> Offset:
        """The leader's offset, whoever wrote what lies below it here."""
        return min(leader.end_offset, log_end_offset)


class TruncateBelowHighWatermark(Rules):
    """A follower that cuts committed records without a word when a leader asks for it."""

    def may_truncate(self, *, end_offset: Offset, high_watermark: Offset | None) -> bool:
        """Any place is right."""
        return True
