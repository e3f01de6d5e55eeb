"""Wrong decisions about who votes; ``test_mutations`` has a test that convicts each of them."""

from __future__ import annotations

from collections.abc import Sequence

from replica.core.rules import Rules
from replica.ids import Offset
from replica.voters import ReplicaKey, VoterEntry, VoterSet


class VotersInForceOnceCommitted(Rules):
    """Goes by the last set that is known to be committed."""

    def voters_in_force(
        self, *, base: VoterSet, entries: Sequence[VoterEntry], high_watermark: Offset | None
    ) -> VoterSet:
        committed = [entry.voters for entry in entries if entry.offset < (high_watermark or 0)]
        return committed[-1] if committed else base


class ChangeBeforeTheLastIsCommitted(Rules):
    """Waits for a record of the own epoch only."""

    def may_change_voters(self, *, high_watermark: Offset | None, changed_at: Offset | None) -> bool:
        return high_watermark is not None


class ChangeBeforeTheEpochHasBegun(Rules):
    """Waits for the last change only, which an earlier leader may have seen committed."""

    def may_change_voters(self, *, high_watermark: Offset | None, changed_at: Offset | None) -> bool:
        return high_watermark is None or super().may_change_voters(high_watermark=high_watermark, changed_at=changed_at)


class CompareNoDisks(Rules):
    """Takes whoever has a voter's id for that voter."""

    def has_vote(self, *, voters: VoterSet, key: ReplicaKey) -> bool:
        return voters.find(key.replica_id) is not None


class OnlyVotersCampaign(Rules):
    """Lets nobody lead who is to be a voter no more."""

    def campaigns(self, *, is_voter: bool, was_voter: bool, is_committed: bool) -> bool:
        return is_voter


class ARemovedLeaderCountsItself(Rules):
    """Takes the leader for a voter because it leads."""

    def leader_counts_itself(self, *, is_voter: bool) -> bool:
        return True


class AddBeforeCaughtUp(Rules):
    """Adds whoever is asked for, at once."""

    def has_caught_up(
        self, *, has_fetched: bool, log_end_offset: Offset | None, wanted: Offset, round_ms: int, round_max_ms: int
    ) -> bool:
        return True


class TruncationLeavesVoters(Rules):
    """Goes by sets that the log does not have any more."""

    def truncation_takes_voters_back(self) -> bool:
        return False


class SnapshotsWithoutVoters(Rules):
    """Writes into a snapshot who voted when the disk was formatted."""

    def voters_are_in_snapshot(self) -> bool:
        return False
