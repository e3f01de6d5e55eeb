"""Wrong rules about where a log begins, and what is committed of one that begins anew.

Owns nothing else. Source: KAFKA-769, KAFKA-5634, KAFKA-9491.
"""

# ruff: noqa: ARG002 - an override takes whatever the rule takes

from __future__ import annotations

from nemesis.variants.partitions_only import PartitionsOnly
from replica.ids import Offset


class HighWatermarkBelowNewLogStart(PartitionsOnly):
    """A log that was emptied and begins anew keeps its old high watermark."""

    def high_watermark_of_emptied_log(self, *, high_watermark: Offset, log_start_offset: Offset) -> Offset:
        """What was committed stays committed."""
        return high_watermark


class RetentionAboveHighWatermark(PartitionsOnly):
    """Retention deletes what is not committed."""

    def deletable_end(self, *, high_watermark: Offset, log_end_offset: Offset) -> Offset:
        """What is old enough may go."""
        return log_end_offset


class HighWatermarkForgottenAtStart(PartitionsOnly):
    """A replica starts with the high watermark at its log's start instead of the stored one."""

    def high_watermark_after_restart(
        self, *, checkpointed: Offset | None, log_start_offset: Offset, log_end_offset: Offset
    ) -> Offset:
        """Nothing is known to be committed."""
        return log_start_offset
