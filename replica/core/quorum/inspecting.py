"""Questions that change nothing: where epochs end, how far the log reaches, how the quorum stands, what is in it.

Source: Kafka's OffsetForLeaderEpoch, ListOffsets and DescribeQuorum handlers; DescribeReplica is ours, as
DumpLog is: any replica answers for itself.
"""

from __future__ import annotations

from dataclasses import replace

from replica.bounds import EPOCHS_MAX
from replica.core.dumping import dumped
from replica.core.messages import (
    DescribeQuorumRequest,
    DescribeQuorumResponse,
    DescribeReplicaRequest,
    DescribeReplicaResponse,
    DumpLogRequest,
    ListOffsetsRequest,
    ListOffsetsResponse,
    OffsetForLeaderEpochRequest,
    OffsetForLeaderEpochResponse,
    QuorumReplicaState,
)
from replica.core.quorum.fencing import leader_request_error
from replica.core.quorum.roles import Leader, ReplicaProgress
from replica.core.quorum.state import QuorumLogState
from replica.errors import ErrorCode
from replica.ids import CallId
from replica.voters import Voter


def on_offset_for_leader_epoch(
    q: QuorumLogState, call_id: CallId, request: OffsetForLeaderEpochRequest, _now_ms: int
) -> None:
    """Tell where an epoch ends in the leader's log; absent, without an error, where that is undefined.

    So it is of one that is older than all that is left. 1. Epoch 5 begins at offset 40. 2. The leader deletes what its
    snapshot contains, and its log and its epochs begin at 41. 3. A follower holds [40, 42) of epoch 4: told that this
    ends at 41, it would cut a batch in two. Whoever fetches with such an epoch is sent to a snapshot instead.
    """
    error = leader_request_error(q, cluster_id=request.cluster_id, current_leader_epoch=request.current_leader_epoch)
    answer = None if error else q.log.end_offset_of_held(request.leader_epoch)
    q.reply(
        call_id,
        OffsetForLeaderEpochResponse(error=error or ErrorCode.NONE, answer=answer, current_leader=q.current_leader),
    )


def on_list_offsets(q: QuorumLogState, call_id: CallId, request: ListOffsetsRequest, _now_ms: int) -> None:
    """Tell the log's first offset, or the end of what the asker may read. A quorum log is not searched by time."""
    error = leader_request_error(q, cluster_id=request.cluster_id, current_leader_epoch=request.current_leader_epoch)
    offset = q.log.log_start_offset
    if error is None and request.timestamp_ms is not None:
        error = ErrorCode.INVALID_REQUEST
    elif error is None and request.latest:
        if request.replica_id is not None:
            offset = q.log.log_end_offset
        elif q.high_watermark is None:
            error = ErrorCode.OFFSET_NOT_AVAILABLE
        else:
            offset = q.high_watermark
    if error is not None:
        q.reply(call_id, ListOffsetsResponse(error=error, current_leader=q.current_leader))
        return
    leader_epoch = q.log.epoch_below(offset) if request.latest else q.log.first_epoch
    q.reply(
        call_id,
        ListOffsetsResponse(
            error=ErrorCode.NONE, offset=offset, leader_epoch=leader_epoch, current_leader=q.current_leader
        ),
    )


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


def on_describe_replica(q: QuorumLogState, call_id: CallId, request: DescribeReplicaRequest, _now_ms: int) -> None:
    """Tell this replica's own state of the log, whatever its role."""
    assert request.topic_partition == q.topic_partition, request
    q.reply(
        call_id,
        DescribeReplicaResponse(
            error=ErrorCode.NONE,
            replica_id=q.replica_id,
            directory_id=q.config.directory_id,
            cluster_id=q.config.cluster_id,
            role=q.role.name,
            leader=q.current_leader,
            log_start_offset=q.log.log_start_offset,
            high_watermark=q.high_watermark,
            flushed_end_offset=q.log.flushed_end_offset,
            log_end_offset=q.log.log_end_offset,
            epochs=q.log.epochs.entries[-EPOCHS_MAX:],
            peer_address="" if q.config.identity is None else q.config.identity.peer_address,
        ),
    )


def on_dump_log(q: QuorumLogState, call_id: CallId, request: DumpLogRequest, _now_ms: int) -> None:
    """Hand out this replica's own records, committed or not."""
    q.emit(dumped(call_id, request, q.log, high_watermark=q.high_watermark, max_bytes=q.quorum.dump_max_bytes))
