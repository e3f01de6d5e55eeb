"""The answer of the right kind to a request that never reaches a log."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from replica.core import messages as m
from replica.errors import ErrorCode
from replica.records import CorruptRecordError, InvalidRecordError

RESPONSES: Mapping[type[m.Request], type[m.Response]] = {
    m.ProduceRequest: m.ProduceResponse,
    m.FetchRequest: m.FetchResponse,
    m.OffsetForLeaderEpochRequest: m.OffsetForLeaderEpochResponse,
    m.ListOffsetsRequest: m.ListOffsetsResponse,
    m.DeleteRecordsRequest: m.DeleteRecordsResponse,
    m.ApplyRequest: m.ApplyResponse,
    m.QueryRequest: m.QueryResponse,
    m.ReadIndexRequest: m.ReadIndexResponse,
    m.FetchSnapshotRequest: m.FetchSnapshotResponse,
    m.VoteRequest: m.VoteResponse,
    m.BeginQuorumEpochRequest: m.BeginQuorumEpochResponse,
    m.EndQuorumEpochRequest: m.EndQuorumEpochResponse,
    m.DescribeQuorumRequest: m.DescribeQuorumResponse,
    m.TransferLeadershipRequest: m.TransferLeadershipResponse,
    m.AddVoterRequest: m.ChangeVotersResponse,
    m.RemoveVoterRequest: m.ChangeVotersResponse,
    m.DescribeReplicaRequest: m.DescribeReplicaResponse,
    m.DumpLogRequest: m.DumpLogResponse,
    m.BrokerRegistrationRequest: m.BrokerRegistrationResponse,
    m.BrokerHeartbeatRequest: m.BrokerHeartbeatResponse,
    m.AlterPartitionRequest: m.AlterPartitionResponse,
    m.CreateTopicRequest: m.CreateTopicResponse,
    m.DeleteTopicRequest: m.DeleteTopicResponse,
    m.AlterTopicRequest: m.AlterTopicResponse,
    m.ElectLeaderRequest: m.ElectLeaderResponse,
    m.AlterPartitionReassignmentsRequest: m.AlterPartitionReassignmentsResponse,
    m.ListPartitionReassignmentsRequest: m.ListPartitionReassignmentsResponse,
    m.InitProducerIdRequest: m.InitProducerIdResponse,
    m.UnregisterBrokerRequest: m.UnregisterBrokerResponse,
    m.CreateAclsRequest: m.ChangeAclsResponse,
    m.DeleteAclsRequest: m.ChangeAclsResponse,
    m.DescribeAclsRequest: m.DescribeAclsResponse,
    m.AlterConfigsRequest: m.AlterConfigsResponse,
    m.DescribeConfigsRequest: m.DescribeConfigsResponse,
    m.UpdateFeaturesRequest: m.UpdateFeaturesResponse,
    m.DescribeFeaturesRequest: m.DescribeFeaturesResponse,
    m.DescribeClusterRequest: m.DescribeClusterResponse,
}


def refusal(
    request: m.Request, error: ErrorCode, *, current_leader: m.CurrentLeader | None = None, message: str = ""
) -> m.Response:
    """Build the response to ``request`` that says ``error`` and nothing else; what it would write was not appended.

    Of a Fetch, each log is refused for itself. A request for the controller is told who leads the metadata log, and of
    most requests a ``message`` says more.
    """
    if isinstance(request, m.FetchRequest) and request.partitions:
        names = [part.topic_partition for part in request.partitions]
        return m.FetchResponse(
            partitions=tuple(m.FetchedPartition(topic_partition=name, error=error) for name in names)
        )
    response_type: Any = RESPONSES[type(request)]
    said: dict[str, Any] = {} if current_leader is None else {"current_leader": current_leader}
    if message and "message" in response_type.__struct_fields__:
        said["message"] = message
    if "not_appended" in response_type.__struct_fields__:
        said["not_appended"] = True
    response: m.Response = response_type(error=error, **said)
    return response


def unfit_batch(unfit: CorruptRecordError | InvalidRecordError, current_leader: m.CurrentLeader) -> m.ProduceResponse:
    """Build the response to a write of what no client may write; nothing was appended."""
    error = ErrorCode.CORRUPT_MESSAGE if isinstance(unfit, CorruptRecordError) else ErrorCode.INVALID_RECORD
    return m.ProduceResponse(error=error, message=str(unfit), not_appended=True, current_leader=current_leader)
