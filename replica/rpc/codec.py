"""The RPCs of a replica: their names on the wire, and how their values become bytes and come back.

Owns the table of methods that server and client build their calls from, and is with its ``codec_*`` siblings the only
importer of generated code. Importing it registers the descriptors that gRPC reflection serves. Knows no channel, no
server and no rule of the protocol: records are opaque bytes here.

A method is used as::

    channel.unary_unary(
        FETCH.full_name, request_serializer=FETCH.request.encode, response_deserializer=FETCH.response.decode
    )
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Generic, TypeVar

from google.protobuf.descriptor import ServiceDescriptor

from replica.core.messages import (
    AddVoterRequest,
    AlterConfigsRequest,
    AlterConfigsResponse,
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsResponse,
    AlterPartitionRequest,
    AlterPartitionResponse,
    AlterTopicRequest,
    AlterTopicResponse,
    ApplyRequest,
    ApplyResponse,
    BeginQuorumEpochRequest,
    BeginQuorumEpochResponse,
    BrokerHeartbeatRequest,
    BrokerHeartbeatResponse,
    BrokerRegistrationRequest,
    BrokerRegistrationResponse,
    ChangeAclsResponse,
    ChangeVotersResponse,
    CreateAclsRequest,
    CreateTopicRequest,
    CreateTopicResponse,
    DeleteAclsRequest,
    DeleteRecordsRequest,
    DeleteRecordsResponse,
    DeleteTopicRequest,
    DeleteTopicResponse,
    DescribeAclsRequest,
    DescribeAclsResponse,
    DescribeClusterRequest,
    DescribeClusterResponse,
    DescribeConfigsRequest,
    DescribeConfigsResponse,
    DescribeFeaturesRequest,
    DescribeFeaturesResponse,
    DescribeQuorumRequest,
    DescribeQuorumResponse,
    DescribeReplicaRequest,
    DescribeReplicaResponse,
    DumpLogRequest,
    DumpLogResponse,
    ElectLeaderRequest,
    ElectLeaderResponse,
    EndQuorumEpochRequest,
    EndQuorumEpochResponse,
    FetchRequest,
    FetchResponse,
    FetchSnapshotRequest,
    FetchSnapshotResponse,
    InitProducerIdRequest,
    InitProducerIdResponse,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsResponse,
    OffsetForLeaderEpochRequest,
    OffsetForLeaderEpochResponse,
    ProduceRequests,
    ProduceResponses,
    QueryRequest,
    QueryResponse,
    ReadIndexRequest,
    ReadIndexResponse,
    RemoveVoterRequest,
    Request,
    Response,
    TransferLeadershipRequest,
    TransferLeadershipResponse,
    UnregisterBrokerRequest,
    UnregisterBrokerResponse,
    UpdateFeaturesRequest,
    UpdateFeaturesResponse,
    VoteRequest,
    VoteResponse,
)
from replica.rpc.codec_bounds import MalformedMessageError
from replica.rpc.codec_shapes import Shape
from replica.v1 import admin_pb2, cluster_pb2, data_pb2, group_pb2, inspection_pb2, quorum_pb2

__all__ = [
    "ADD_VOTER",
    "ALTER_PARTITION",
    "ALTER_PARTITION_REASSIGNMENTS",
    "ALTER_TOPIC",
    "APPLY",
    "BEGIN_QUORUM_EPOCH",
    "BROKER_HEARTBEAT",
    "BROKER_REGISTRATION",
    "CREATE_ACLS",
    "CREATE_TOPIC",
    "DELETE_ACLS",
    "DELETE_RECORDS",
    "DELETE_TOPIC",
    "DESCRIBE_ACLS",
    "DESCRIBE_CLUSTER",
    "DESCRIBE_FEATURES",
    "DESCRIBE_QUORUM",
    "DESCRIBE_REPLICA",
    "DUMP_LOG",
    "ELECT_LEADER",
    "END_QUORUM_EPOCH",
    "FETCH",
    "FETCH_SNAPSHOT",
    "INIT_PRODUCER_ID",
    "LIST_OFFSETS",
    "LIST_PARTITION_REASSIGNMENTS",
    "METHODS",
    "OFFSET_FOR_LEADER_EPOCH",
    "PRODUCE",
    "QUERY",
    "READ_INDEX",
    "REMOVE_VOTER",
    "SERVICES",
    "TRANSFER_LEADERSHIP",
    "UNREGISTER_BROKER",
    "UPDATE_FEATURES",
    "VOTE",
    "MalformedMessageError",
    "Method",
    "method_of",
]

RequestT = TypeVar("RequestT", bound=Request | ProduceRequests)
ResponseT = TypeVar("ResponseT", bound=Response | ProduceResponses)


@dataclass(frozen=True, slots=True, kw_only=True)
class Method(Generic[RequestT, ResponseT]):
    """One unary RPC: ``service`` is the full name of its service, ``rpc`` its own name within it."""

    service: str
    rpc: str
    request: Shape[RequestT]
    response: Shape[ResponseT]

    @property
    def full_name(self) -> str:
        """The path that gRPC calls it by, such as ``/replica.v1.ReplicaService/Produce``."""
        return f"/{self.service}/{self.rpc}"

    @property
    def request_type(self) -> type[RequestT]:
        """The class of its requests, from ``replica.core.messages``."""
        return self.request.value_type

    @property
    def response_type(self) -> type[ResponseT]:
        """The class of its responses, from ``replica.core.messages``."""
        return self.response.value_type


def _method(
    service: ServiceDescriptor, rpc: str, request_type: type[RequestT], response_type: type[ResponseT]
) -> Method[RequestT, ResponseT]:
    descriptor = service.methods_by_name[rpc]
    return Method(
        service=service.full_name,
        rpc=rpc,
        request=Shape(request_type, descriptor.input_type),
        response=Shape(response_type, descriptor.output_type),
    )


_REPLICA = data_pb2.DESCRIPTOR.services_by_name["ReplicaService"]
_QUORUM = quorum_pb2.DESCRIPTOR.services_by_name["QuorumService"]
_GROUP = group_pb2.DESCRIPTOR.services_by_name["GroupService"]
_CONTROLLER = cluster_pb2.DESCRIPTOR.services_by_name["ControllerService"]
_ADMIN = admin_pb2.DESCRIPTOR.services_by_name["AdminService"]
_INSPECTION = inspection_pb2.DESCRIPTOR.services_by_name["InspectionService"]

PRODUCE = _method(_REPLICA, "Produce", ProduceRequests, ProduceResponses)
FETCH = _method(_REPLICA, "Fetch", FetchRequest, FetchResponse)
OFFSET_FOR_LEADER_EPOCH = _method(
    _REPLICA, "OffsetForLeaderEpoch", OffsetForLeaderEpochRequest, OffsetForLeaderEpochResponse
)
LIST_OFFSETS = _method(_REPLICA, "ListOffsets", ListOffsetsRequest, ListOffsetsResponse)
DELETE_RECORDS = _method(_REPLICA, "DeleteRecords", DeleteRecordsRequest, DeleteRecordsResponse)
VOTE = _method(_QUORUM, "Vote", VoteRequest, VoteResponse)
BEGIN_QUORUM_EPOCH = _method(_QUORUM, "BeginQuorumEpoch", BeginQuorumEpochRequest, BeginQuorumEpochResponse)
END_QUORUM_EPOCH = _method(_QUORUM, "EndQuorumEpoch", EndQuorumEpochRequest, EndQuorumEpochResponse)
DESCRIBE_QUORUM = _method(_QUORUM, "DescribeQuorum", DescribeQuorumRequest, DescribeQuorumResponse)
TRANSFER_LEADERSHIP = _method(_QUORUM, "TransferLeadership", TransferLeadershipRequest, TransferLeadershipResponse)
ADD_VOTER = _method(_QUORUM, "AddVoter", AddVoterRequest, ChangeVotersResponse)
REMOVE_VOTER = _method(_QUORUM, "RemoveVoter", RemoveVoterRequest, ChangeVotersResponse)
APPLY = _method(_GROUP, "Apply", ApplyRequest, ApplyResponse)
QUERY = _method(_GROUP, "Query", QueryRequest, QueryResponse)
READ_INDEX = _method(_GROUP, "ReadIndex", ReadIndexRequest, ReadIndexResponse)
FETCH_SNAPSHOT = _method(_GROUP, "FetchSnapshot", FetchSnapshotRequest, FetchSnapshotResponse)
BROKER_REGISTRATION = _method(_CONTROLLER, "BrokerRegistration", BrokerRegistrationRequest, BrokerRegistrationResponse)
BROKER_HEARTBEAT = _method(_CONTROLLER, "BrokerHeartbeat", BrokerHeartbeatRequest, BrokerHeartbeatResponse)
ALTER_PARTITION = _method(_CONTROLLER, "AlterPartition", AlterPartitionRequest, AlterPartitionResponse)
CREATE_TOPIC = _method(_ADMIN, "CreateTopic", CreateTopicRequest, CreateTopicResponse)
DELETE_TOPIC = _method(_ADMIN, "DeleteTopic", DeleteTopicRequest, DeleteTopicResponse)
ALTER_TOPIC = _method(_ADMIN, "AlterTopic", AlterTopicRequest, AlterTopicResponse)
ELECT_LEADER = _method(_ADMIN, "ElectLeader", ElectLeaderRequest, ElectLeaderResponse)
ALTER_PARTITION_REASSIGNMENTS = _method(
    _ADMIN, "AlterPartitionReassignments", AlterPartitionReassignmentsRequest, AlterPartitionReassignmentsResponse
)
LIST_PARTITION_REASSIGNMENTS = _method(
    _ADMIN, "ListPartitionReassignments", ListPartitionReassignmentsRequest, ListPartitionReassignmentsResponse
)
INIT_PRODUCER_ID = _method(_ADMIN, "InitProducerId", InitProducerIdRequest, InitProducerIdResponse)
UNREGISTER_BROKER = _method(_ADMIN, "UnregisterBroker", UnregisterBrokerRequest, UnregisterBrokerResponse)
CREATE_ACLS = _method(_ADMIN, "CreateAcls", CreateAclsRequest, ChangeAclsResponse)
DELETE_ACLS = _method(_ADMIN, "DeleteAcls", DeleteAclsRequest, ChangeAclsResponse)
DESCRIBE_ACLS = _method(_ADMIN, "DescribeAcls", DescribeAclsRequest, DescribeAclsResponse)
ALTER_CONFIGS = _method(_ADMIN, "AlterConfigs", AlterConfigsRequest, AlterConfigsResponse)
DESCRIBE_CONFIGS = _method(_ADMIN, "DescribeConfigs", DescribeConfigsRequest, DescribeConfigsResponse)
UPDATE_FEATURES = _method(_ADMIN, "UpdateFeatures", UpdateFeaturesRequest, UpdateFeaturesResponse)
DESCRIBE_FEATURES = _method(_ADMIN, "DescribeFeatures", DescribeFeaturesRequest, DescribeFeaturesResponse)
DESCRIBE_CLUSTER = _method(_ADMIN, "DescribeCluster", DescribeClusterRequest, DescribeClusterResponse)
DESCRIBE_REPLICA = _method(_INSPECTION, "DescribeReplica", DescribeReplicaRequest, DescribeReplicaResponse)
DUMP_LOG = _method(_INSPECTION, "DumpLog", DumpLogRequest, DumpLogResponse)

METHODS: Mapping[str, Method[Any, Any]] = MappingProxyType(
    {
        method.full_name: method
        for method in (
            PRODUCE,
            FETCH,
            OFFSET_FOR_LEADER_EPOCH,
            LIST_OFFSETS,
            DELETE_RECORDS,
            VOTE,
            BEGIN_QUORUM_EPOCH,
            END_QUORUM_EPOCH,
            DESCRIBE_QUORUM,
            TRANSFER_LEADERSHIP,
            ADD_VOTER,
            REMOVE_VOTER,
            APPLY,
            QUERY,
            READ_INDEX,
            FETCH_SNAPSHOT,
            BROKER_REGISTRATION,
            BROKER_HEARTBEAT,
            ALTER_PARTITION,
            CREATE_TOPIC,
            DELETE_TOPIC,
            ALTER_TOPIC,
            ELECT_LEADER,
            ALTER_PARTITION_REASSIGNMENTS,
            LIST_PARTITION_REASSIGNMENTS,
            INIT_PRODUCER_ID,
            UNREGISTER_BROKER,
            CREATE_ACLS,
            DELETE_ACLS,
            DESCRIBE_ACLS,
            ALTER_CONFIGS,
            DESCRIBE_CONFIGS,
            UPDATE_FEATURES,
            DESCRIBE_FEATURES,
            DESCRIBE_CLUSTER,
            DESCRIBE_REPLICA,
            DUMP_LOG,
        )
    }
)
"""Every RPC by its full name."""

SERVICES: tuple[str, ...] = tuple(
    service.full_name for service in (_REPLICA, _QUORUM, _GROUP, _CONTROLLER, _ADMIN, _INSPECTION)
)
"""The full names of the services, for health checking and reflection."""

_METHOD_OF_REQUEST = {method.request_type: method for method in METHODS.values()}


def method_of(request: Request | ProduceRequests) -> Method[Any, Any]:
    """Return the RPC that carries this request; a ProduceRequest travels with others (``ProduceRequests``)."""
    return _METHOD_OF_REQUEST[type(request)]
