"""What administrators ask of the cluster, and what everybody may know of it.

Changes go to the active controller; any other replica answers NOT_CONTROLLER with the one it knows. Every answer has a
``message`` for people where the error's name does not say it all. Sources: Kafka's ``CreateTopicsRequest.json``,
``IncrementalAlterConfigsRequest.json``, ``ElectLeadersRequest.json``, ``AlterPartitionReassignmentsRequest.json``,
``ListPartitionReassignmentsRequest.json``, ``UnregisterBrokerRequest.json``, ``MetadataRequest.json``.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import Annotated

from msgspec import Struct, field

from replica.bounds import ALL_PARTITIONS, MOVING_REPLICAS, OF_A_PAGE, REPLICAS, Long, Message
from replica.core.messages.leadership import CurrentLeader
from replica.core.metadata.image import BrokerRegistration, TopicImage
from replica.core.metadata.pages import Cursor
from replica.errors import ErrorCode
from replica.ids import Offset, ReplicaId, TopicId, TopicPartition


class ElectionType(StrEnum):
    """Which replica an operator wants to lead: the preferred one, or any that is alive where no other can."""

    PREFERRED = "preferred"
    UNCLEAN = "unclean"


class CreateTopicRequest(Struct, frozen=True, kw_only=True):
    """Create a topic. Counts that are absent take the cluster's defaults; ``assignment`` names replicas itself.

    ``assignment`` lists the replicas of each partition in order, preferred leader first, and excludes the counts.
    """

    name: str
    partition_count: int | None = None
    replication_factor: int | None = None
    assignment: Annotated[tuple[Annotated[tuple[ReplicaId, ...], REPLICAS], ...], ALL_PARTITIONS] = ()
    configs: Mapping[str, str] = field(default_factory=dict)
    cluster_id: str | None = None


class CreateTopicResponse(Struct, frozen=True, kw_only=True):
    error: ErrorCode
    message: Message = ""
    topic_id: TopicId | None = None
    current_leader: CurrentLeader | None = None


class DeleteTopicRequest(Struct, frozen=True, kw_only=True):
    name: str
    cluster_id: str | None = None


class DeleteTopicResponse(Struct, frozen=True, kw_only=True):
    error: ErrorCode
    message: Message = ""
    current_leader: CurrentLeader | None = None


class AlterTopicRequest(Struct, frozen=True, kw_only=True):
    """Change settings of a topic; a value that is absent returns the setting to its default."""

    name: str
    configs: Mapping[str, str | None]
    cluster_id: str | None = None


class AlterTopicResponse(Struct, frozen=True, kw_only=True):
    error: ErrorCode
    message: Message = ""
    current_leader: CurrentLeader | None = None


class ElectLeaderRequest(Struct, frozen=True, kw_only=True):
    """Have another replica lead; ``leader_id`` names it, which an unclean election needs."""

    topic_partition: TopicPartition
    election_type: ElectionType
    leader_id: ReplicaId | None = None
    cluster_id: str | None = None


class ElectLeaderResponse(Struct, frozen=True, kw_only=True):
    error: ErrorCode
    message: Message = ""
    current_leader: CurrentLeader | None = None


class ReassignablePartition(Struct, frozen=True, kw_only=True):
    """What the replicas of a partition are to be, preferred leader first; absent to cancel what is under way."""

    topic_partition: TopicPartition
    replicas: Annotated[tuple[ReplicaId, ...] | None, REPLICAS] = None


class AlterPartitionReassignmentsRequest(Struct, frozen=True, kw_only=True):
    """Have partitions move to other replicas, or stay. Each is decided about on its own, in order."""

    partitions: Annotated[tuple[ReassignablePartition, ...], OF_A_PAGE]
    cluster_id: str | None = None


class ReassignedPartition(Struct, frozen=True, kw_only=True):
    """What became of the wish for one partition; without an error it is begun, which is not yet done."""

    topic_partition: TopicPartition
    error: ErrorCode
    message: Message = ""


class AlterPartitionReassignmentsResponse(Struct, frozen=True, kw_only=True):
    """``error`` is about the request as a whole; then ``partitions`` is empty."""

    error: ErrorCode
    message: Message = ""
    partitions: Annotated[tuple[ReassignedPartition, ...], OF_A_PAGE] = ()
    current_leader: CurrentLeader | None = None


class ListPartitionReassignmentsRequest(Struct, frozen=True, kw_only=True):
    """Ask which reassignments are under way; ``topics`` names the topics wanted, absent for all.

    ``cursor`` is ``next_cursor`` of the page before, ``response_partition_limit`` how many the asker takes at once.
    """

    topics: Annotated[tuple[str, ...] | None, ALL_PARTITIONS] = None
    cluster_id: str | None = None
    cursor: Cursor | None = None
    response_partition_limit: int | None = None


class OngoingPartitionReassignment(Struct, frozen=True, kw_only=True):
    """A reassignment that is under way: ``replicas`` are all of now, with those that come and those that go."""

    topic_partition: TopicPartition
    replicas: Annotated[tuple[ReplicaId, ...], MOVING_REPLICAS]
    adding_replicas: Annotated[tuple[ReplicaId, ...], MOVING_REPLICAS] = ()
    removing_replicas: Annotated[tuple[ReplicaId, ...], MOVING_REPLICAS] = ()


class ListPartitionReassignmentsResponse(Struct, frozen=True, kw_only=True):
    """Topics that do not exist, and partitions at which nothing is under way, are left out.

    Where ``next_cursor`` is there, it is not all yet.
    """

    error: ErrorCode
    message: Message = ""
    partitions: Annotated[tuple[OngoingPartitionReassignment, ...], OF_A_PAGE] = ()
    current_leader: CurrentLeader | None = None
    next_cursor: Cursor | None = None


class InitProducerIdRequest(Struct, frozen=True, kw_only=True):
    """Ask for a producer id that nobody has had."""

    cluster_id: str | None = None


class InitProducerIdResponse(Struct, frozen=True, kw_only=True):
    error: ErrorCode
    producer_id: Long | None = None
    producer_epoch: int | None = None
    current_leader: CurrentLeader | None = None


class UnregisterBrokerRequest(Struct, frozen=True, kw_only=True):
    """Forget a broker that is gone for good, and that no partition counts among its replicas."""

    broker_id: ReplicaId
    cluster_id: str | None = None


class UnregisterBrokerResponse(Struct, frozen=True, kw_only=True):
    """BROKER_ID_NOT_REGISTERED; INVALID_REQUEST: it is alive, or still a replica of a partition."""

    error: ErrorCode
    message: Message = ""
    current_leader: CurrentLeader | None = None


class DescribeClusterRequest(Struct, frozen=True, kw_only=True):
    """Ask any broker for what it knows of the cluster; ``topics`` names the topics wanted, absent for all.

    ``cursor`` is ``next_cursor`` of the page before, ``response_partition_limit`` how many partitions the asker takes
    at once.
    """

    topics: Annotated[tuple[str, ...] | None, ALL_PARTITIONS] = None
    cluster_id: str | None = None
    cursor: Cursor | None = None
    response_partition_limit: int | None = None


class DescribeClusterResponse(Struct, frozen=True, kw_only=True):
    """The answering broker's image of the cluster, applied up to ``metadata_offset``; topics that do not exist are left
    out, and so are those that the asker may not describe; of the latter ``unauthorized_topics`` are wanted by name.

    Where ``next_cursor`` is there, it is not all yet: the last topic may have some of its partitions only.
    """

    error: ErrorCode
    cluster_id: str = ""
    controller: CurrentLeader | None = None
    metadata_offset: Offset | None = None
    brokers: tuple[BrokerRegistration, ...] = ()
    topics: Annotated[tuple[TopicImage, ...], OF_A_PAGE] = ()
    next_cursor: Cursor | None = None
    unauthorized_topics: Annotated[tuple[str, ...], ALL_PARTITIONS] = ()
