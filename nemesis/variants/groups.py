"""Wrong rules about state machines: when one leads, what a read waits for, and what a snapshot is.

Owns nothing else. Source: KAFKA-15345, KAFKA-17333, KAFKA-14618; Ongaro's thesis, sections 6.3 and 6.4.
"""

# ruff: noqa: ARG002 - an override takes whatever the rule takes

from __future__ import annotations

from replica.core.messages import Consistency
from replica.core.rules import Rules
from replica.ids import Offset


class LeadsBeforeApplying(Rules):
    """A state machine that is told that it leads with its replica, before it has applied its epoch's start."""

    def machine_leads(self, *, leads_log: bool, applied_offset: Offset, epoch_start_offset: Offset) -> bool:
        """It leads with its log."""
        return leads_log


class LeadsAfterResigning(Rules):
    """A state machine that is told that it leads once it has applied enough, though its replica has resigned."""

    def machine_leads(self, *, leads_log: bool, applied_offset: Offset, epoch_start_offset: Offset) -> bool:
        """It leads by what it has applied."""
        return applied_offset > epoch_start_offset


class ReadsWithoutAsking(Rules):
    """A replica that answers a linearizable question from what it has applied, whether that is recent or not."""

    def needs_read_index(self, *, consistency: Consistency) -> bool:
        """It never asks."""
        return False


class ReadsBeforeApplying(Rules):
    """A replica that answers as soon as it knows how far it must have applied, and not when it has."""

    def read_is_served(self, *, applied_offset: Offset, read_index: Offset) -> bool:
        """Whatever is applied will do."""
        return True


class SnapshotOneOff(Rules):
    """A snapshot that is named after its last offset, as if that were not in it."""

    def snapshot_end_offset(self, *, applied_offset: Offset) -> Offset:
        """The last offset is taken for the end."""
        return Offset(applied_offset - 1)


class SessionsNotInSnapshot(Rules):
    """A snapshot that holds what the machine knows, and nothing of the clients whose commands it has applied."""

    def sessions_are_in_snapshot(self) -> bool:
        """They are left out."""
        return False


class ReadIndexOfAnOldFetch(Rules):
    """A leader that takes any fetch for a confirmation of all reads before it, however long ago it was sent."""

    def read_round_of_fetch(self, *, echoed: int, current: int) -> int:
        """It counts for the round in which it arrives."""
        return current


class LeaseForEveryQuestion(Rules):
    """A leader that answers every question by its lease, so that an answer is old when its clock has stood still."""

    def lease_serves(self, *, consistency: Consistency, now_ms: int, lease_end_ms: int | None) -> bool:
        """Who asks need not trust in clocks."""
        return consistency is not Consistency.STALE and lease_end_ms is not None and now_ms < lease_end_ms


class LeaseByOneClock(Rules):
    """A leader that answers reads by a lease which it takes to last as long by its clock as by everybody's."""

    def lease_end_ms(self, *, begins_ms: int, timeout_ms: int, clock_drift_max_percent: int) -> int:
        """It ends when the leader has counted a whole timeout."""
        return begins_ms + timeout_ms


class LeaseEndedByARefusal(Rules):
    """A voter that gives its leader up because that seems to have ended, though it still owes it its vote."""

    def gives_up_refused_leader(self, *, refused_at_ms: int, heard_ms: int, withholds_vote: bool) -> bool:
        """Who listens no more leads no more."""
        return refused_at_ms >= heard_ms
