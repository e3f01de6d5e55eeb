"""The answer of the right kind to a request that never reaches a log."""

from __future__ import annotations

from typing import assert_never

from replica.core import messages as m
from replica.errors import ErrorCode
from replica.records import CorruptRecordError, InvalidRecordError


def refusal(request: m.Request, error: ErrorCode, *, current_leader: m.CurrentLeader | None = None) -> m.Response:
    """Build the response to ``request`` that says ``error`` and nothing else; what it would write was not appended.

    Of a Fetch, each log is refused for itself. A request for the controller is told who leads the metadata log.
    """
    match request:
        case m.ProduceRequest():
            return m.ProduceResponse(error=error, not_appended=True)
        case m.FetchRequest(partitions=()):
            return m.FetchResponse(error=error)
        case m.FetchRequest(partitions=partitions):
            return m.FetchResponse(
                partitions=tuple(
                    m.FetchedPartition(topic_partition=part.topic_partition, error=error) for part in partitions
                )
            )
        case m.OffsetForLeaderEpochRequest():
            return m.OffsetForLeaderEpochResponse(error=error)
        case m.ListOffsetsRequest():
            return m.ListOffsetsResponse(error=error)
        case m.DeleteRecordsRequest():
            return m.DeleteRecordsResponse(error=error)
        case m.ApplyRequest() | m.QueryRequest() | m.ReadIndexRequest() | m.FetchSnapshotRequest():
            return _group_refusal(request, error, current_leader)
        case _:
            return _quorum_refusal(request, error, current_leader)


def unfit_batch(unfit: CorruptRecordError | InvalidRecordError, current_leader: m.CurrentLeader) -> m.ProduceResponse:
    """Build the response to a write of what no client may write; nothing was appended."""
    error = ErrorCode.CORRUPT_MESSAGE if isinstance(unfit, CorruptRecordError) else ErrorCode.INVALID_RECORD
    return m.ProduceResponse(error=error, message=str(unfit), not_appended=True, current_leader=current_leader)


def _group_refusal(
    request: m.GroupRequest | m.FetchSnapshotRequest, error: ErrorCode, leader: m.CurrentLeader | None
) -> m.Response:
    match request:
        case m.ApplyRequest():
            return m.ApplyResponse(error=error, not_appended=True, current_leader=leader)
        case m.QueryRequest():
            return m.QueryResponse(error=error, current_leader=leader)
        case m.ReadIndexRequest():
            return m.ReadIndexResponse(error=error, current_leader=leader)
        case m.FetchSnapshotRequest():
            return m.FetchSnapshotResponse(error=error, current_leader=leader)
        case _:
            assert_never(request)


def _quorum_refusal(
    request: (
        m.QuorumPeerRequest
        | m.DescribeQuorumRequest
        | m.TransferLeadershipRequest
        | m.AddVoterRequest
        | m.RemoveVoterRequest
        | m.DescribeReplicaRequest
        | m.DumpLogRequest
        | m.ControllerRequest
        | m.DescribeClusterRequest
    ),
    error: ErrorCode,
    current_leader: m.CurrentLeader | None,
) -> m.Response:
    match request:
        case m.VoteRequest():
            return m.VoteResponse(error=error)
        case m.BeginQuorumEpochRequest():
            return m.BeginQuorumEpochResponse(error=error)
        case m.EndQuorumEpochRequest():
            return m.EndQuorumEpochResponse(error=error)
        case m.DescribeQuorumRequest():
            return m.DescribeQuorumResponse(error=error)
        case m.TransferLeadershipRequest():
            return m.TransferLeadershipResponse(error=error)
        case m.AddVoterRequest() | m.RemoveVoterRequest():
            return m.ChangeVotersResponse(error=error, not_appended=True)
        case m.DescribeReplicaRequest():
            return m.DescribeReplicaResponse(error=error)
        case m.DumpLogRequest():
            return m.DumpLogResponse(error=error)
        case _:
            return _cluster_refusal(request, error, current_leader)


def _cluster_refusal(
    request: m.ControllerRequest | m.DescribeClusterRequest, error: ErrorCode, leader: m.CurrentLeader | None
) -> m.Response:
    match request:
        case m.BrokerRegistrationRequest():
            return m.BrokerRegistrationResponse(error=error, current_leader=leader)
        case m.BrokerHeartbeatRequest():
            return m.BrokerHeartbeatResponse(error=error, current_leader=leader)
        case m.AlterPartitionRequest():
            return m.AlterPartitionResponse(error=error, current_leader=leader)
        case m.CreateTopicRequest():
            return m.CreateTopicResponse(error=error, current_leader=leader)
        case m.DeleteTopicRequest():
            return m.DeleteTopicResponse(error=error, current_leader=leader)
        case m.AlterTopicRequest():
            return m.AlterTopicResponse(error=error, current_leader=leader)
        case m.ElectLeaderRequest():
            return m.ElectLeaderResponse(error=error, current_leader=leader)
        case m.AlterPartitionReassignmentsRequest():
            return m.AlterPartitionReassignmentsResponse(error=error, current_leader=leader)
        case m.ListPartitionReassignmentsRequest():
            return m.ListPartitionReassignmentsResponse(error=error, current_leader=leader)
        case m.InitProducerIdRequest():
            return m.InitProducerIdResponse(error=error, current_leader=leader)
        case m.UnregisterBrokerRequest():
            return m.UnregisterBrokerResponse(error=error, current_leader=leader)
        case m.DescribeClusterRequest():
            return m.DescribeClusterResponse(error=error)
        case _:
            assert_never(request)
