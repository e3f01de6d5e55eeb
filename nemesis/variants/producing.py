"""Wrong rules about what a producer is told: whether its batch stands in the log, and whether it does so once.

Owns nothing else. Source: KIP-98, Kafka ``Partition.appendRecordsToLeader``.
"""

from __future__ import annotations

from nemesis.variants.partitions_only import PartitionsOnly


class ProducerStateNotRebuilt(PartitionsOnly):
    """A new leader, or one that has truncated, does not know the last sequence numbers from its log."""

    def producer_states_follow_log(self) -> bool:
        """Only what it appended as a leader itself is remembered."""
        return False


class MinIsrAfterAppend(PartitionsOnly):
    """A write for which the ISR is too small is appended, and then refused as definitely not done."""

    def min_isr_is_checked_before_append(self) -> bool:
        """There is time for that later."""
        return False
