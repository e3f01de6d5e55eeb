"""Wrong rules about voters that change: who counts from when on, what a change waits for, and what is remembered.

Owns nothing else. Source: KIP-853; Ongaro's thesis, chapter 4, and his note on single-server changes of 2015.
"""

# ruff: noqa: ARG002 - an override takes whatever the rule takes

from __future__ import annotations

from collections.abc import Sequence

from replica.core.rules import Rules
from replica.ids import Offset
from replica.voters import ReplicaKey, VoterEntry, VoterSet


class VotersCountWhenCommitted(Rules):
    """A replica that goes by a set of voters once its record is committed, and not once it is appended."""

    def voters_in_force(
        self, *, base: VoterSet, entries: Sequence[VoterEntry], high_watermark: Offset | None
    ) -> VoterSet:
        """The last set below the high watermark."""
        committed = [entry.voters for entry in entries if high_watermark is not None and entry.offset < high_watermark]
        return committed[-1] if committed else base


class ChangesUponChanges(Rules):
    """A leader that appends another set of voters before the last one is committed."""

    def may_change_voters(self, *, high_watermark: Offset | None, changed_at: Offset | None) -> bool:
        """That its epoch has begun is enough."""
        return high_watermark is not None


class ChangesBeforeItsEpoch(Rules):
    """A leader that appends another set of voters before a record of its own epoch is committed."""

    def may_change_voters(self, *, high_watermark: Offset | None, changed_at: Offset | None) -> bool:
        """Only a change that it knows to be uncommitted is in the way."""
        return high_watermark is None or changed_at is None or changed_at < high_watermark


class AnyDiskVotes(Rules):
    """A quorum that knows voters by their ids, so that who has lost its disk counts as if it had not."""

    def has_vote(self, *, voters: VoterSet, key: ReplicaKey) -> bool:
        """The id is enough."""
        return voters.find(key.replica_id) is not None


class RemovedLeaderCountsItself(Rules):
    """A leader that counts itself for the high watermark after it has removed itself."""

    def leader_counts_itself(self, *, is_voter: bool) -> bool:
        """It always does."""
        return True


class JoinsWithoutCatchingUp(Rules):
    """A leader that adds a voter at once, whatever that has of the log."""

    def has_caught_up(
        self, *, has_fetched: bool, log_end_offset: Offset | None, wanted: Offset, round_ms: int, round_max_ms: int
    ) -> bool:
        """Nothing is waited for."""
        return True


class VotersOutliveTheirRecord(Rules):
    """A replica that truncates the record of a set of voters, and goes by the set still."""

    def truncation_takes_voters_back(self) -> bool:
        """What was appended once counts."""
        return False


class SnapshotWithoutVoters(Rules):
    """A snapshot that says of voters what the disk was formatted with, and not what the log has said since."""

    def voters_are_in_snapshot(self) -> bool:
        """They are left out."""
        return False


class OnlyVotersCampaign(Rules):
    """A replica that does not ask for votes once it has the record that removes it, committed or not."""

    def campaigns(self, *, is_voter: bool, was_voter: bool, is_committed: bool) -> bool:
        """By the set in force alone."""
        return is_voter
