"""Wrong rules about how a partition's follower finds where its log and the leader's part.

Owns the protocols from KIP-101 to KIP-320 as hachikuji/kafka-specification keeps them, and the bugs found in them. A
published protocol lacks several protections at once, and each of them alone is made good by the others. So these
variants leave out all that their time did not have, but for one thing: their followers asked where an epoch ends before
they fetched, and here every fetch asks that (KIP-595).
"""

# ruff: noqa: ARG002 - an override takes whatever the rule takes

from __future__ import annotations

from nemesis.variants.partitions_only import PartitionsOnly
from replica.core.log.epoch_cache import LeaderEpochCache
from replica.errors import ErrorCode
from replica.ids import Epoch, EpochEndOffset, Offset, ReplicaId


class OffsetWithoutEpoch(PartitionsOnly):
    """A leader that answers where an epoch ends with an offset alone, and followers that cut there.

    Nothing is fenced yet.
    """

    def partition_epoch_end(
        self, *, epochs: LeaderEpochCache, epoch: Epoch, log_end_offset: Offset
    ) -> EpochEndOffset | None:
        """The first offset of any later epoch, said to be of the one that was asked for."""
        later = (entry.start_offset for entry in epochs.entries if entry.epoch > epoch)
        return EpochEndOffset(epoch, next(later, log_end_offset))

    def truncation(self, *, epochs: LeaderEpochCache, log_end_offset: Offset, leader: EpochEndOffset) -> Offset:
        """The leader's offset, whoever wrote what lies below it here."""
        return min(leader.end_offset, log_end_offset)

    def epoch_error(self, *, current_leader_epoch: Epoch | None, own_epoch: Epoch) -> ErrorCode | None:
        """Every epoch is as good as any."""
        return None

    def answer_is_current(self, *, asked_leader_epoch: Epoch | None, leader_epoch: Epoch) -> bool:
        """Every answer is as good as any."""
        return True


class ExactTruncationWithoutFencing(PartitionsOnly):
    """A follower that cuts at the right place by the word of any leader, be it of another epoch.

    Nor is its fetch fenced, and who has reached the high watermark may join.
    """

    def epoch_error(self, *, current_leader_epoch: Epoch | None, own_epoch: Epoch) -> ErrorCode | None:
        """Every epoch is as good as any."""
        return None

    def answer_is_current(self, *, asked_leader_epoch: Epoch | None, leader_epoch: Epoch) -> bool:
        """Every answer is as good as any."""
        return True

    def may_join_isr(self, *, end_offset: Offset, high_watermark: Offset, epoch_start_offset: Offset) -> bool:
        """The high watermark is enough."""
        return end_offset >= high_watermark


class UnfencedFetch(PartitionsOnly):
    """A leader that counts a fetch from another leader epoch if only its last record fits.

    The epoch that a follower is in is not sent, so that neither side can compare it.
    """

    def epoch_error(self, *, current_leader_epoch: Epoch | None, own_epoch: Epoch) -> ErrorCode | None:
        """Every epoch is as good as any."""
        return None

    def answer_is_current(self, *, asked_leader_epoch: Epoch | None, leader_epoch: Epoch) -> bool:
        """Every answer is as good as any."""
        return True


class EpochAssignedAtFirstAppend(PartitionsOnly):
    """A new leader's epoch is in its cache only once something is written in it."""

    def epoch_is_assigned_at_once(self) -> bool:
        """The first append will do."""
        return False


class EpochZeroNotRecovered(PartitionsOnly):
    """A recovery that takes epoch 0 for none, and leaves it out of the cache that it makes of the batches."""

    def epoch_is_recovered(self, *, epoch: Epoch) -> bool:
        """Only what is above 0 counts."""
        return epoch > 0


class SameLeaderNeedsNoTruncation(PartitionsOnly):
    """A follower that does not begin anew when the epoch is new and the leader the same."""

    def fetching_restarts(
        self, *, old_epoch: Epoch, new_epoch: Epoch, old_leader_id: ReplicaId | None, new_leader_id: ReplicaId | None
    ) -> bool:
        """Only another leader may have another log."""
        return new_leader_id != old_leader_id


class TruncationKeepsEmptyEpochs(PartitionsOnly):
    """A truncation at the log's end leaves the epochs that begin there and have no records."""

    def truncation_drops_empty_epochs(self) -> bool:
        """Where no record goes, no epoch goes."""
        return False
