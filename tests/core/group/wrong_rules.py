"""Wrong rules about leases, transfers and preferred leaders: each differs from the right ones in one decision."""

from __future__ import annotations

from collections.abc import Sequence

from replica.core.messages import Consistency
from replica.core.rules import Rules
from replica.ids import Offset, ReplicaId


class LeaseFromTheFetch(Rules):
    """A lease that is counted from when the fetches came that have confirmed it, however long they took."""

    def lease_begins_ms(self, *, round_began_ms: int, echo_came_ms: int) -> int:
        return echo_came_ms


class LeaseByOneClock(Rules):
    """A leader that takes its lease to last as long by its clock as by everybody's."""

    def lease_end_ms(self, *, begins_ms: int, timeout_ms: int, clock_drift_max_percent: int) -> int:
        return begins_ms + timeout_ms


class LeaseWithoutAnEnd(Rules):
    """A leader that answers by lease because it once had one."""

    def lease_serves(self, *, consistency: Consistency, now_ms: int, lease_end_ms: int | None) -> bool:
        return consistency is Consistency.LEASE and lease_end_ms is not None


class VotesWithinALease(Rules):
    """A voter that votes whenever an epoch is new, whomever it has just heard."""

    def withholds_vote(self, *, now_ms: int, heard_leader_ms: int | None, fetch_timeout_ms: int) -> bool:
        return False


class ForgetsWhomItHeard(Rules):
    """A voter that starts again, and takes what it has forgotten for never heard."""

    def heard_leader_at_start_ms(self, *, now_ms: int) -> int | None:
        return None


class ResignsAtOnce(Rules):
    """A leader that hands over to whomever it is told, there or not."""

    def may_hand_over(
        self,
        *,
        target_end_offset: Offset | None,
        target_has_fetched: bool,
        high_watermark: Offset | None,
        log_end_offset: Offset,
    ) -> bool:
        return True


class LedByTheFirst(Rules):
    """All groups prefer the same voter."""

    def preferred_leader(self, *, place: int, voters: Sequence[ReplicaId]) -> ReplicaId:
        return min(voters)


class TriesAgainAndAgain(Rules):
    """A leader that tries to hand over as often as ever, though it comes to nothing."""

    def rebalance_pause_ms(self, *, interval_ms: int, attempts: int) -> int:
        return interval_ms
