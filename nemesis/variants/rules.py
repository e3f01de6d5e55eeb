"""The wrong rules: each class overrides exactly one decision of the protocol.

Owns nothing else; the story of how each goes wrong is with the directed schedules. Source: bugs that real systems had,
and hachikuji/kafka-specification, which keeps its wrong protocols too.
"""

# ruff: noqa: ARG002 - an override takes whatever the rule takes

from __future__ import annotations

from replica.core.rules import Rules
from replica.ids import Epoch, Offset


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


class AppendWithoutReconciling(Rules):
    """A follower that claims its last record to be of the leader's epoch, so that no leader sees it diverge."""

    def last_fetched_epoch(self, *, last_epoch: Epoch | None, leader_epoch: Epoch) -> Epoch:
        """The leader's epoch, whatever the last record's is."""
        return leader_epoch


class VoteWithoutComparingLogs(Rules):
    """A voter that gives its vote to whoever asks first."""

    def candidate_log_is_up_to_date(
        self, *, candidate_epoch: int, candidate_end: int, own_epoch: int, own_end: int
    ) -> bool:
        """Every log is good enough."""
        return True
