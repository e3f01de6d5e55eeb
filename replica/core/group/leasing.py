"""Questions that trust in clocks: a leader answers them without asking anybody while its lease lasts.

The log knows the lease; it comes with any read round that is confirmed. A lease half of which is over is renewed by a
round of its own, for which nobody waits, so that questions that keep coming find one. A replica without leases, or that
does not lead, answers such a question as a linearizable one.

Source: Ongaro's thesis, section 6.4.1.
"""

from __future__ import annotations

from replica.core.group.state import GroupState
from replica.core.messages import QueryRequest
from replica.core.quorum.roles import Leader


def is_served_by_lease(g: GroupState, request: QueryRequest, now_ms: int) -> bool:
    """Tell whether what is committed now is recent enough for the question; a machine that leads knows all of it."""
    leads = g.leadership is not None and isinstance(g.log.role, Leader) and g.leadership.epoch == g.log.leader_epoch
    return leads and g.rules.lease_serves(
        consistency=request.consistency, now_ms=now_ms, lease_end_ms=g.log.lease_end_ms
    )


def maybe_renew_lease(g: GroupState, now_ms: int) -> None:
    """Begin a round if half of the time from the newest one to the end of the lease is over."""
    role, lease_end_ms = g.log.role, g.log.lease_end_ms
    if isinstance(role, Leader) and lease_end_ms is not None and 2 * now_ms >= role.rounds[-1].began_ms + lease_end_ms:
        g.emit_all(g.log.begin_read_round(now_ms))
