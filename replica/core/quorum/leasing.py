"""Read rounds in time: how long a leader that was confirmed may answer without asking again, and who votes meanwhile.

A voter that has echoed a round heard of it after it began. Since then it withholds its vote for a fetch timeout, and
does not campaign for an election timeout at least. So for the shorter of the two, counted from the *beginning* of the
round, and less by what clocks may differ, nobody else leads. The rules tell the races.

Source: Ongaro's thesis, sections 4.2.3 and 6.4.1; etcd ``ReadOnlyLeaseBased``.
"""

from __future__ import annotations

from msgspec.structs import replace

from replica.core.quorum.roles import BegunRound, Leader
from replica.core.quorum.serving import complete_fetches, confirmed_read_round
from replica.core.quorum.state import QuorumLogState

ROUNDS_MAX = 16
"""Of how many rounds that are not confirmed yet it is known when they began; of later ones it is not."""


def begin_read_round(q: QuorumLogState, now_ms: int) -> None:
    """Number the next read round, as the leader, and let the voters hear of it at once.

    Once ``confirmed_read_round`` reaches it, nobody can have led a later epoch when it began.
    """
    role = q.role
    assert isinstance(role, Leader), role.name
    read_round = role.read_round + 1
    confirmed = confirmed_read_round(q)
    newest = [begun for begun in role.rounds if begun.read_round <= confirmed][-1:]
    rounds = (*newest, *(begun for begun in role.rounds if begun.read_round > confirmed))
    if len(rounds) < ROUNDS_MAX:
        rounds = (*rounds, BegunRound(read_round=read_round, began_ms=now_ms))
    q.role = replace(role, read_round=read_round, rounds=rounds)
    complete_fetches(q)


def lease_end_ms(q: QuorumLogState) -> int | None:
    """Name when the leader's lease ends; absent where it has none, or where there are none."""
    role = q.role
    if not q.has_leases or not isinstance(role, Leader):
        return None
    confirmed = confirmed_read_round(q)
    began = [begun.began_ms for begun in role.rounds if begun.read_round <= confirmed]
    if not began:
        return None
    fetches = sorted((progress.last_fetch_ms for progress in role.voters.values()), reverse=True)
    needed = q.majority - q.counts_itself
    begins_ms = q.rules.lease_begins_ms(
        round_began_ms=began[-1], echo_came_ms=fetches[needed - 1] if needed else began[-1]
    )
    return q.rules.lease_end_ms(
        begins_ms=begins_ms,
        timeout_ms=min(q.quorum.fetch_timeout_ms, q.quorum.election_timeout_ms),
        clock_drift_max_percent=q.config.group.lease_clock_drift_max_percent,
    )


def withholds_vote(q: QuorumLogState, now_ms: int) -> bool:
    """Tell whether this voter votes for nobody for now: a leader may answer by lease, counting on that."""
    return q.has_leases and q.rules.withholds_vote(
        now_ms=now_ms, heard_leader_ms=q.heard_leader_ms, fetch_timeout_ms=q.quorum.fetch_timeout_ms
    )
