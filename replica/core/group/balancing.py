"""The leaderships of all groups, spread over the replicas: a leader that is not the preferred one hands over to it.

Each group does so for itself; the preferred leader follows from its place among the groups. It is watched: once it has
kept up for long enough, and so has everyone who is there, the leadership is transferred. A transfer leaves no command
open. A voter that is behind would be disturbed: it may be loading a snapshot from this leader. After an attempt that
has come to nothing the next one waits longer.

Source: Kafka ``auto.leader.rebalance.enable``, ``leader.imbalance.check.interval.seconds``.
"""

from __future__ import annotations

from replica.core.group.state import GroupState, Watch
from replica.core.quorum.roles import Leader, ReplicaProgress
from replica.ids import ReplicaId


def maybe_rebalance(g: GroupState, now_ms: int) -> None:
    """Watch the preferred leader, and hand over when it is time."""
    role, preferred = g.log.role, g.preferred_leader
    if g.log.leader_id == preferred:
        g.transfers_tried = 0
    if not isinstance(role, Leader) or preferred in (None, g.log.replica_id) or not _rebalances(g):
        g.watch = None
        return
    assert preferred is not None, g.topic_partition
    if g.watch is None or not _is_there(g, role.voters[preferred], now_ms):
        g.watch = _fresh(g, now_ms)
    elif now_ms >= _due_ms(g, g.watch) and not g.log.is_handing_over:
        _try(g, role, g.watch, preferred, now_ms)


def rebalance_deadline_ms(g: GroupState) -> int | None:
    """Name when the preferred leader will have kept up for long enough."""
    return None if g.watch is None or g.log.is_handing_over else _due_ms(g, g.watch)


def _rebalances(g: GroupState) -> bool:
    return g.config.auto_leader_rebalance_enable and g.leadership is not None


def _fresh(g: GroupState, now_ms: int) -> Watch:
    return Watch(since_ms=now_ms, end_offset=g.log.log.log_end_offset)


def _due_ms(g: GroupState, watch: Watch) -> int:
    interval_ms = g.config.leader_imbalance_check_interval_seconds * 1000
    return watch.since_ms + g.rules.rebalance_pause_ms(interval_ms=interval_ms, attempts=g.transfers_tried)


def _is_there(g: GroupState, voter: ReplicaProgress, now_ms: int) -> bool:
    return voter.has_fetched and now_ms < voter.last_fetch_ms + g.log.quorum.fetch_timeout_ms


def _try(g: GroupState, role: Leader, watch: Watch, preferred: ReplicaId, now_ms: int) -> None:
    """Hand over, unless somebody who is there has not got what there was when the watch began."""
    g.watch = _fresh(g, now_ms)
    there = [voter for voter in role.voters.values() if _is_there(g, voter, now_ms)]
    if any((voter.log_end_offset or 0) < watch.end_offset for voter in there):
        return
    g.transfers_tried += 1
    g.emit_all(g.log.begin_transfer(preferred, g.log.quorum.election_timeout_ms, now_ms))
