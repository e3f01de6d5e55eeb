"""How the quorum stands, as its leader sees it. Source: Kafka's DescribeQuorum handler."""

from __future__ import annotations

from collections.abc import Iterable

from msgspec.structs import replace

from replica.core.log.fencing import leader_request_error
from replica.core.messages import DescribeQuorumRequest, DescribeQuorumResponse, QuorumReplicaState
from replica.core.quorum.roles import Leader, ReplicaProgress
from replica.core.quorum.state import QuorumLogState
from replica.errors import ErrorCode
from replica.ids import CallId, ReplicaId
from replica.voters import Voter


def on_describe_quorum(q: QuorumLogState, call_id: CallId, request: DescribeQuorumRequest, now_ms: int) -> None:
    """Tell how far each voter and observer is, as the leader sees it."""
    error = leader_request_error(q, cluster_id=request.cluster_id, current_leader_epoch=None)
    role = q.role
    if error is not None or not isinstance(role, Leader):
        q.reply(
            call_id,
            DescribeQuorumResponse(error=error or ErrorCode.NOT_LEADER_OR_FOLLOWER, current_leader=q.current_leader),
        )
        return
    voters = [_described(voter, role.voters.get(voter.replica_id), now_ms) for voter in q.voters.voters]
    if q.is_voter:
        own = q.voters.ids.index(q.replica_id)
        voters[own] = replace(voters[own], log_end_offset=q.log.log_end_offset)
    observers = sorted(role.observers.items(), key=lambda item: (item[0].replica_id, item[0].directory_id or ""))
    q.reply(
        call_id,
        DescribeQuorumResponse(
            error=ErrorCode.NONE,
            current_leader=q.current_leader,
            high_watermark=role.high_watermark,
            current_voters=tuple(voters),
            observers=tuple(
                _described(Voter(replica_id=key.replica_id, directory_id=key.directory_id), progress, now_ms)
                for key, progress in observers
            ),
        ),
    )


def levels_known(q: QuorumLogState, observers: Iterable[ReplicaId]) -> dict[ReplicaId, int | None]:
    """Tell the newest feature level that each voter knows, and each of these others, by their last fetches.

    It is absent of those that have not fetched from this leader in its epoch.
    """
    levels: dict[ReplicaId, int | None] = dict.fromkeys((*observers, *q.voters.ids))
    if isinstance(q.role, Leader):
        heard = [(key.replica_id, progress) for key, progress in q.role.observers.items()] + [*q.role.voters.items()]
        for replica_id, progress in sorted(heard, key=lambda each: each[1].last_fetch_ms):
            if replica_id in levels and progress.has_fetched:
                levels[replica_id] = progress.newest_level
    return levels | {q.replica_id: q.config.newest_level}


def _described(replica: Voter, progress: ReplicaProgress | None, now_ms: int) -> QuorumReplicaState:
    caught_up_ms = None if progress is None else progress.last_caught_up_ms
    return QuorumReplicaState(
        replica_id=replica.replica_id,
        log_end_offset=None if progress is None else progress.log_end_offset,
        directory_id=replica.directory_id,
        address=replica.address,
        last_fetch_ms_ago=None if progress is None or not progress.has_fetched else now_ms - progress.last_fetch_ms,
        last_caught_up_ms_ago=None if caught_up_ms is None else now_ms - caught_up_ms,
    )
