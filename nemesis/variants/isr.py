"""Wrong rules about the in-sync replicas: who joins, who leaves, and whom the high watermark waits for meanwhile.

Owns nothing else. Source: KIP-497 with the bugs found before and after it, KIP-966.
"""

# ruff: noqa: ARG002 - an override takes whatever the rule takes

from __future__ import annotations

from collections.abc import Sequence

from nemesis.variants.partitions_only import PartitionsOnly
from replica.core.rules.partition import RefusedProposal
from replica.errors import ErrorCode
from replica.ids import Epoch, Offset, PartitionEpoch, ReplicaId


class ExpandBelowEpochStart(PartitionsOnly):
    """A follower joins the ISR at the high watermark, though it has not reached the start of the leader's epoch."""

    def may_join_isr(self, *, end_offset: Offset, high_watermark: Offset, epoch_start_offset: Offset) -> bool:
        """The high watermark that this leader knows is enough."""
        return end_offset >= high_watermark


class NoHighWatermarkAfterShrink(PartitionsOnly):
    """A committed shrink of the ISR does not make the leader compute its high watermark again."""

    def high_watermark_is_checked_after_isr_change(self) -> bool:
        """The next fetch will do."""
        return False


class LateAlterPartitionReply(PartitionsOnly):
    """An AlterPartition reply is applied over newer metadata."""

    def reply_is_current(
        self,
        *,
        proposed: tuple[Epoch, PartitionEpoch],
        committed: tuple[Epoch | None, PartitionEpoch | None] | None,
        own: tuple[Epoch, PartitionEpoch],
    ) -> bool:
        """An answer is an answer."""
        return True


class HighWatermarkBelowMinIsr(PartitionsOnly):
    """The high watermark goes on with fewer replicas in the ISR than the minimum."""

    def may_advance_high_watermark(self, *, isr_size: int, min_insync_replicas: int) -> bool:
        """The ISR is enough, however small it is."""
        return True


class ChurnAtEqualEnds(PartitionsOnly):
    """A follower leaves the ISR by time alone though it has everything."""

    def is_caught_up(
        self,
        *,
        end_offset: Offset | None,
        leader_end_offset: Offset,
        last_caught_up_ms: int | None,
        now_ms: int,
        lag_time_max_ms: int,
    ) -> bool:
        """Only when it fetched last matters."""
        return last_caught_up_ms is not None and now_ms - last_caught_up_ms <= lag_time_max_ms


class HighWatermarkOfCommittedIsr(PartitionsOnly):
    """While an expansion is in flight the high watermark counts the smaller ISR.

    It waits for nobody else either: whoever joins has just caught up and would be waited for on that ground.
    """

    def counted_isr(
        self, *, isr: frozenset[ReplicaId], joining: frozenset[ReplicaId], leaving: frozenset[ReplicaId]
    ) -> frozenset[ReplicaId]:
        """Who joins counts when the controller has said so."""
        return isr

    def is_waited_for(self, *, is_caught_up: bool, is_eligible: bool) -> bool:
        """The ISR alone counts."""
        return False


class ShrinkBeforeCommit(PartitionsOnly):
    """A shrink counts for the high watermark before the controller has committed it."""

    def counted_isr(
        self, *, isr: frozenset[ReplicaId], joining: frozenset[ReplicaId], leaving: frozenset[ReplicaId]
    ) -> frozenset[ReplicaId]:
        """Who is proposed to leave is gone."""
        return (isr | joining) - leaving


class HighWatermarkOfIsrMajority(PartitionsOnly):
    """The high watermark of an ISR partition is what most of its replicas have, not what all have."""

    def isr_high_watermark(self, *, end_offsets: Sequence[Offset | None], current: Offset) -> Offset:
        """As in a quorum."""
        ends = sorted((end_offset or Offset(0) for end_offset in end_offsets), reverse=True)
        return max(current, ends[len(ends) // 2])


class TimeoutDropsMaximalIsr(PartitionsOnly):
    """An AlterPartition request without an answer is taken for one that failed."""

    def refused_proposal(self, *, error: ErrorCode | None) -> RefusedProposal:
        """Silence is a refusal, and the last word."""
        return RefusedProposal.REVERTED if error is None else super().refused_proposal(error=error)


class DamagedLogEmptiedInSync(PartitionsOnly):
    """A replica that puts a damaged log aside, and fetches all anew, while it is still in the ISR."""

    def may_begin_anew(self, *, damaged_in: Epoch, leader_epoch: Epoch, is_counted_on: bool, has_leader: bool) -> bool:
        """The leader has everything."""
        return has_leader


class EmptyDirectoryBelieved(PartitionsOnly):
    """A replica goes on with an empty log, in place of the one that was on the disk of its log directory before."""

    def may_begin_anew(self, *, damaged_in: Epoch, leader_epoch: Epoch, is_counted_on: bool, has_leader: bool) -> bool:
        """It has a log again."""
        return True
