"""Wrong rules about the high watermark: how it is computed, who believes it, and what it allows.

Owns nothing else. Source: Raft figure 8, and bugs that Kafka had in 0.10 and again in its own quorum.
"""

# ruff: noqa: ARG002 - an override takes whatever the rule takes

from __future__ import annotations

from collections.abc import Sequence

from replica.core.rules import Rules
from replica.ids import Offset


class HighWatermarkOfTheFastest(Rules):
    """A leader that takes as committed what the furthest replica has, not what a majority has."""

    def quorum_high_watermark(
        self, *, voter_end_offsets: Sequence[Offset], epoch_start_offset: Offset, current: Offset | None
    ) -> Offset | None:
        """One voter is enough."""
        return max(voter_end_offsets)


class HighWatermarkBeforeOwnEpoch(Rules):
    """A leader that calls older epochs' records committed once a majority has them, though they can be replaced."""

    def quorum_high_watermark(
        self, *, voter_end_offsets: Sequence[Offset], epoch_start_offset: Offset, current: Offset | None
    ) -> Offset | None:
        """The start of the leader's own epoch is far enough."""
        return super().quorum_high_watermark(
            voter_end_offsets=voter_end_offsets, epoch_start_offset=Offset(epoch_start_offset - 1), current=current
        )


class HighWatermarkNeverRises(Rules):
    """A leader that takes the lower of the high watermark it knows and the one it computes."""

    def quorum_high_watermark(
        self, *, voter_end_offsets: Sequence[Offset], epoch_start_offset: Offset, current: Offset | None
    ) -> Offset | None:
        """The first high watermark of a leadership is its last."""
        if current is not None:
            return current
        return super().quorum_high_watermark(
            voter_end_offsets=voter_end_offsets, epoch_start_offset=epoch_start_offset, current=current
        )


class HighWatermarkStartsAtZero(Rules):
    """A new leader that does not yet know the high watermark and says 0 instead of nothing."""

    def quorum_high_watermark(
        self, *, voter_end_offsets: Sequence[Offset], epoch_start_offset: Offset, current: Offset | None
    ) -> Offset | None:
        """Not known is 0."""
        right = super().quorum_high_watermark(
            voter_end_offsets=voter_end_offsets, epoch_start_offset=epoch_start_offset, current=current
        )
        return Offset(0) if right is None else right


class HighWatermarkBeforeTruncation(Rules):
    """A follower that takes the high watermark which came with the news that its records are the wrong ones."""

    def follower_high_watermark(
        self, *, leader_high_watermark: Offset, log_end_offset: Offset, diverged: bool
    ) -> Offset | None:
        """As far as the log reaches, diverged or not."""
        return min(leader_high_watermark, log_end_offset)


class HighWatermarkBeyondLogEnd(Rules):
    """A follower that takes the leader's high watermark although its own log does not reach that far."""

    def follower_high_watermark(
        self, *, leader_high_watermark: Offset, log_end_offset: Offset, diverged: bool
    ) -> Offset | None:
        """The leader's, as it is."""
        return None if diverged else leader_high_watermark


class AckBeforeReplication(Rules):
    """A leader that acknowledges ``acks=all`` as soon as the batch is in its own log."""

    def produce_is_committed(self, *, end_offset: Offset, high_watermark: Offset | None) -> bool:
        """Everything that is appended counts as committed."""
        return True


class ReadBeyondHighWatermark(Rules):
    """A leader that lets consumers read its whole log."""

    def consumer_read_bound(self, *, high_watermark: Offset | None, log_end_offset: Offset) -> Offset | None:
        """The log end, committed or not."""
        return log_end_offset


class InclusiveHighWatermarkRead(Rules):
    """A leader that takes the high watermark for the last readable offset, one record too far."""

    def consumer_read_bound(self, *, high_watermark: Offset | None, log_end_offset: Offset) -> Offset | None:
        """One more than the high watermark, if the log has it."""
        return None if high_watermark is None else min(Offset(high_watermark + 1), log_end_offset)
