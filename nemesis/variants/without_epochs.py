"""Whole protocols from before leader epochs, for partitions.

A wrong rule of a partition's follower does no harm alone where leaders see by the epochs in its fetches that its log is
another one, and tell it where to cut: whatever it lost or kept wrongly would be repaired. So each of these classes
leaves that out too, which the protocol of its time did not have.

Source: KIP-101, KIP-279, KIP-320; Kafka 0.10.2 ``ReplicaManager.makeFollowers``; hachikuji/kafka-specification
(``KafkaTruncateToHighWatermark``, ``Kip101``).
"""

# ruff: noqa: ARG002 - an override takes whatever the rule takes

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from replica.core.epoch_cache import LeaderEpochCache
from replica.core.rules import Rules, Truncation
from replica.errors import ErrorCode
from replica.ids import Epoch, EpochEndOffset, Offset


class _Unfenced(Rules):
    """No request is refused for its leader epoch, and no leader compares a follower's last epoch with its own log."""

    def epoch_error(self, *, current_leader_epoch: Epoch | None, own_epoch: Epoch) -> ErrorCode | None:
        """Any epoch is as good as another."""
        return None

    def has_diverged(self, *, end: EpochEndOffset, fetch_offset: Offset, last_fetched_epoch: Epoch) -> bool:
        """A fetch is judged by its offset alone."""
        return False


class TruncateToHighWatermark(_Unfenced):
    """Before KIP-101: a new follower cuts its log at its own high watermark and fetches on from there."""

    def kept_by_new_follower(self, *, high_watermark: Offset | None, log_end_offset: Offset) -> Offset:
        """What is not known to be committed goes."""
        return log_end_offset if high_watermark is None else high_watermark


class OffsetWithoutEpoch(_Unfenced):
    """KIP-101 alone: a leader says where the next epoch begins, not which epoch ends there, and the follower cuts."""

    def partition_epoch_end(
        self, *, epochs: LeaderEpochCache, epoch: Epoch, log_end_offset: Offset
    ) -> EpochEndOffset | None:
        """Where the first later epoch begins, as if it were known where the asked one ends."""
        later = [entry.start_offset for entry in epochs.entries if entry.epoch > epoch]
        return EpochEndOffset(epoch, later[0] if later else log_end_offset)

    def truncation(self, *, epochs: LeaderEpochCache, log_end_offset: Offset, leader: EpochEndOffset) -> Truncation:
        """The leader's offset, once and for all."""
        return Truncation(end_offset=min(leader.end_offset, log_end_offset), done=True)


WITHOUT_EPOCHS: Mapping[str, type[Rules]] = MappingProxyType(
    {"truncate-to-high-watermark": TruncateToHighWatermark, "offset-without-epoch": OffsetWithoutEpoch}
)
"""By the names of the mutants that they are built for."""
