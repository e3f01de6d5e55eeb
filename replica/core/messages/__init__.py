"""What replicas and clients say to each other, as values.

One frozen class per request and per response, with Kafka's field names. The codec translates them from and to the
wire; the core and its tests see nothing else. ``None`` stands for "absent" (Kafka's -1) and has that one meaning.
In the order of their services: ``data``, ``quorum``, ``groups``, ``cluster``, ``admin`` with ``acls``, ``configs`` and
``features``, ``inspection``.
"""

from replica.core.messages.acls import (
    ChangeAclsResponse,
    CreateAclsRequest,
    DeleteAclsRequest,
    DescribeAclsRequest,
    DescribeAclsResponse,
)
from replica.core.messages.admin import (
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsResponse,
    AlterTopicRequest,
    AlterTopicResponse,
    CreateTopicRequest,
    CreateTopicResponse,
    DeleteTopicRequest,
    DeleteTopicResponse,
    DescribeClusterRequest,
    DescribeClusterResponse,
    ElectionType,
    ElectLeaderRequest,
    ElectLeaderResponse,
    InitProducerIdRequest,
    InitProducerIdResponse,
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsResponse,
    OngoingPartitionReassignment,
    ReassignablePartition,
    ReassignedPartition,
    UnregisterBrokerRequest,
    UnregisterBrokerResponse,
)
from replica.core.messages.cluster import (
    OFFLINE_REPORTED_MAX,
    AlteredPartition,
    AlterPartition,
    AlterPartitionRequest,
    AlterPartitionResponse,
    BrokerHeartbeatRequest,
    BrokerHeartbeatResponse,
    BrokerRegistrationRequest,
    BrokerRegistrationResponse,
    IsrMember,
    OfflineReplica,
)
from replica.core.messages.configs import (
    AlterConfigsRequest,
    AlterConfigsResponse,
    DescribeConfigsRequest,
    DescribeConfigsResponse,
    ResourceConfigs,
)
from replica.core.messages.data import (
    HIGH_WATERMARK,
    DeleteRecordsRequest,
    DeleteRecordsResponse,
    FetchedPartition,
    FetchPartition,
    FetchRequest,
    FetchResponse,
    ListOffsetsRequest,
    ListOffsetsResponse,
    OffsetForLeaderEpochRequest,
    OffsetForLeaderEpochResponse,
    ProduceRequest,
    ProduceRequests,
    ProduceResponse,
    ProduceResponses,
)
from replica.core.messages.features import (
    DescribeFeaturesRequest,
    DescribeFeaturesResponse,
    KnownFeatures,
    UpdateFeaturesRequest,
    UpdateFeaturesResponse,
)
from replica.core.messages.groups import (
    ApplyRequest,
    ApplyResponse,
    Consistency,
    FetchSnapshotRequest,
    FetchSnapshotResponse,
    QueryRequest,
    QueryResponse,
    ReadIndexRequest,
    ReadIndexResponse,
)
from replica.core.messages.inspection import (
    DescribeReplicaRequest,
    DescribeReplicaResponse,
    DumpLogRequest,
    DumpLogResponse,
)
from replica.core.messages.leadership import CurrentLeader
from replica.core.messages.quorum import (
    AddVoterRequest,
    BeginQuorumEpochRequest,
    BeginQuorumEpochResponse,
    ChangeVotersResponse,
    DescribeQuorumRequest,
    DescribeQuorumResponse,
    EndQuorumEpochRequest,
    EndQuorumEpochResponse,
    QuorumReplicaState,
    RemoveVoterRequest,
    TransferLeadershipRequest,
    TransferLeadershipResponse,
    VoteRequest,
    VoteResponse,
)

QuorumPeerRequest = VoteRequest | BeginQuorumEpochRequest | EndQuorumEpochRequest
"""What only voters of a quorum log send."""

GroupRequest = ApplyRequest | QueryRequest | ReadIndexRequest
"""What is asked of the state machine on a quorum log, by clients and by replicas."""

BrokerRequest = BrokerRegistrationRequest | BrokerHeartbeatRequest | AlterPartitionRequest
"""What brokers send to the active controller."""

AdminRequest = (
    CreateTopicRequest
    | DeleteTopicRequest
    | AlterTopicRequest
    | ElectLeaderRequest
    | AlterPartitionReassignmentsRequest
    | ListPartitionReassignmentsRequest
    | InitProducerIdRequest
    | UnregisterBrokerRequest
    | CreateAclsRequest
    | DeleteAclsRequest
    | DescribeAclsRequest
    | AlterConfigsRequest
    | DescribeConfigsRequest
    | UpdateFeaturesRequest
    | DescribeFeaturesRequest
)
"""What clients send to the active controller."""

ControllerRequest = BrokerRequest | AdminRequest

AdminResponse = (
    CreateTopicResponse
    | DeleteTopicResponse
    | AlterTopicResponse
    | ElectLeaderResponse
    | AlterPartitionReassignmentsResponse
    | ListPartitionReassignmentsResponse
    | InitProducerIdResponse
    | UnregisterBrokerResponse
    | ChangeAclsResponse
    | DescribeAclsResponse
    | AlterConfigsResponse
    | DescribeConfigsResponse
    | UpdateFeaturesResponse
    | DescribeFeaturesResponse
)

LogRequest = (
    ProduceRequest
    | OffsetForLeaderEpochRequest
    | ListOffsetsRequest
    | DeleteRecordsRequest
    | DescribeQuorumRequest
    | TransferLeadershipRequest
    | AddVoterRequest
    | RemoveVoterRequest
    | DescribeReplicaRequest
    | DumpLogRequest
    | FetchSnapshotRequest
    | QuorumPeerRequest
)
"""Requests about exactly one log, which their ``topic_partition`` names."""

PeerRequest = (
    FetchRequest | ListOffsetsRequest | FetchSnapshotRequest | ReadIndexRequest | QuorumPeerRequest | BrokerRequest
)
"""What one replica sends to another (clients use Fetch and ListOffsets as well)."""

Request = FetchRequest | LogRequest | GroupRequest | ControllerRequest | DescribeClusterRequest

BrokerResponse = BrokerRegistrationResponse | BrokerHeartbeatResponse | AlterPartitionResponse

PeerResponse = (
    FetchResponse
    | ListOffsetsResponse
    | FetchSnapshotResponse
    | ReadIndexResponse
    | VoteResponse
    | BeginQuorumEpochResponse
    | EndQuorumEpochResponse
    | BrokerResponse
)
Response = (
    PeerResponse
    | ProduceResponse
    | OffsetForLeaderEpochResponse
    | DeleteRecordsResponse
    | DescribeQuorumResponse
    | TransferLeadershipResponse
    | ChangeVotersResponse
    | DescribeReplicaResponse
    | DumpLogResponse
    | ApplyResponse
    | QueryResponse
    | AdminResponse
    | DescribeClusterResponse
)
