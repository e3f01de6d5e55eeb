"""Changing the cluster and looking at it: topics, settings, leaders, replicas, which records are kept, who may do what.

Owns the calls; finding the controller is ``controller_calls``' work, deleting records that of ``admin_records``.
Source: Kafka's ``Admin``.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping, Sequence

from msgspec.structs import replace

from replica.bounds import PAGE_PARTITIONS_MAX
from replica.client.admin_records import RecordDeletion, check_offset
from replica.client.clock import Clock
from replica.client.cluster_view import ClusterView, ViewConfig
from replica.client.connections import Closing, Connections
from replica.client.controller_calls import ControllerCalls
from replica.client.failures import AdminError, NotAuthorizedError, UnknownTopicError
from replica.core.messages import (
    AlterConfigsRequest,
    AlterConfigsResponse,
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsResponse,
    AlterTopicRequest,
    AlterTopicResponse,
    ChangeAclsResponse,
    CreateAclsRequest,
    CreateTopicRequest,
    CreateTopicResponse,
    DeleteAclsRequest,
    DeleteTopicRequest,
    DeleteTopicResponse,
    DescribeAclsRequest,
    DescribeAclsResponse,
    DescribeClusterResponse,
    DescribeConfigsRequest,
    DescribeConfigsResponse,
    DescribeFeaturesRequest,
    DescribeFeaturesResponse,
    DescribeReplicaRequest,
    DescribeReplicaResponse,
    ElectionType,
    ElectLeaderRequest,
    ElectLeaderResponse,
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsResponse,
    OngoingPartitionReassignment,
    ReassignablePartition,
    UnregisterBrokerRequest,
    UnregisterBrokerResponse,
    UpdateFeaturesRequest,
    UpdateFeaturesResponse,
)
from replica.core.metadata.acls import Acl
from replica.core.metadata.image import TopicImage
from replica.core.metadata.resources import ConfigResource, ConfigResourceType
from replica.errors import ErrorCode
from replica.ids import Offset, ReplicaId, TopicId, TopicPartition
from replica.rpc.transport import TransportError

_TELLING = (ErrorCode.NONE, ErrorCode.KAFKA_STORAGE_ERROR)


class Admin(Closing):
    """An async client for administrators. ``bootstrap`` is one or more ``HOST:PORT``. Close it when done.

    Changes are repeated until the controller answers or the time is up. They raise AdminError, with the name of the
    error and whether the change may be done all the same. A change that is answered is committed; brokers act upon it
    a moment later.
    """

    def __init__(
        self,
        bootstrap: str | Iterable[str],
        config: ViewConfig | None = None,
        *,
        connections: Connections | None = None,
        clock: Clock | None = None,
    ) -> None:
        self._view = ClusterView(bootstrap, config, connections=connections, clock=clock)
        self._controller = ControllerCalls(self._view)
        self._records = RecordDeletion(self._view)

    async def close(self) -> None:
        """Close the connections; calls in flight fail."""
        await self._view.close()

    async def create_topic(
        self,
        name: str,
        *,
        partition_count: int | None = None,
        replication_factor: int | None = None,
        assignment: Sequence[Sequence[int]] = (),
        configs: Mapping[str, str] | None = None,
        timeout_ms: int | None = None,
    ) -> TopicId:
        """Create a topic. Counts that are absent take the cluster's defaults.

        ``assignment`` names the replicas of each partition, preferred leader first, and takes the place of the counts.
        """
        request = CreateTopicRequest(
            name=name,
            partition_count=partition_count,
            replication_factor=replication_factor,
            assignment=tuple(tuple(ReplicaId(replica) for replica in replicas) for replicas in assignment),
            configs=configs or {},
            cluster_id=self._view.config.cluster_id,
        )
        answer = await self._controller.ask(request, CreateTopicResponse, timeout_ms)
        assert answer.topic_id is not None, answer
        return answer.topic_id

    async def delete_topic(self, name: str, *, timeout_ms: int | None = None) -> None:
        """Delete a topic with all its records."""
        request = DeleteTopicRequest(name=name, cluster_id=self._view.config.cluster_id)
        await self._controller.ask(request, DeleteTopicResponse, timeout_ms)

    async def alter_topic(self, name: str, configs: Mapping[str, str | None], *, timeout_ms: int | None = None) -> None:
        """Change settings of a topic; None returns one to its default, and what is not named stays as it is."""
        request = AlterTopicRequest(name=name, configs=configs, cluster_id=self._view.config.cluster_id)
        await self._controller.ask(request, AlterTopicResponse, timeout_ms)

    async def elect_leader(
        self,
        topic_partition: TopicPartition,
        election_type: ElectionType = ElectionType.PREFERRED,
        *,
        leader_id: ReplicaId | None = None,
        timeout_ms: int | None = None,
    ) -> None:
        """Have the preferred replica lead; or, ``UNCLEAN``, one that is alive where no other can: records may be lost.

        ELECTION_NOT_NEEDED where it leads already. An unclean election needs ``leader_id`` (INVALID_REQUEST): what only
        others have is lost.
        """
        request = ElectLeaderRequest(
            topic_partition=topic_partition,
            election_type=election_type,
            leader_id=leader_id,
            cluster_id=self._view.config.cluster_id,
        )
        await self._controller.ask(request, ElectLeaderResponse, timeout_ms)

    async def alter_partition_reassignments(
        self, targets: Mapping[TopicPartition, Sequence[int] | None], *, timeout_ms: int | None = None
    ) -> None:
        """Have each partition move to its target, preferred leader first; None cancels what is under way (KIP-455).

        The move is begun when this returns, and done when ``list_partition_reassignments`` no longer tells of it: the
        replicas that come fetch the log first, and until they are in sync those that go stay. Another target may be
        given meanwhile. Each partition is decided about on its own: where AdminError tells that one was refused, the
        others are begun all the same. ``timeout_ms`` is for as many as one request names.
        """
        wishes = [
            ReassignablePartition(
                topic_partition=topic_partition,
                replicas=None if target is None else tuple(ReplicaId(replica) for replica in target),
            )
            for topic_partition, target in targets.items()
        ]
        refused: AdminError | None = None
        for first in range(0, max(1, len(wishes)), PAGE_PARTITIONS_MAX):
            request = AlterPartitionReassignmentsRequest(
                partitions=tuple(wishes[first : first + PAGE_PARTITIONS_MAX]),
                cluster_id=self._view.config.cluster_id,
            )
            try:
                await self._controller.ask(request, AlterPartitionReassignmentsResponse, timeout_ms)
            except AdminError as error:
                refused = refused or error
        if refused is not None:
            refused.may_be_done |= len(wishes) > PAGE_PARTITIONS_MAX  # Those that another request has named.
            raise refused

    async def list_partition_reassignments(
        self, topics: Iterable[str] | None = None, *, timeout_ms: int | None = None
    ) -> tuple[OngoingPartitionReassignment, ...]:
        """Ask the controller which partitions of these topics, by default of all, are moving."""
        deadline = self._view.deadline(timeout_ms)
        request = ListPartitionReassignmentsRequest(
            topics=None if topics is None else tuple(topics), cluster_id=self._view.config.cluster_id
        )
        answer = await self._controller.ask(request, ListPartitionReassignmentsResponse, deadline.left_ms())
        partitions = answer.partitions
        while answer.next_cursor is not None:
            request = replace(request, cursor=answer.next_cursor)
            answer = await self._controller.ask(request, ListPartitionReassignmentsResponse, deadline.left_ms())
            partitions += answer.partitions
        return partitions

    async def unregister_broker(self, broker_id: ReplicaId, *, timeout_ms: int | None = None) -> None:
        """Have the cluster forget a broker that is gone for good.

        Refused, INVALID_REQUEST, while it is alive, and while it is a replica of anything: move that away first. One
        that comes back all the same registers as any new one does.
        """
        request = UnregisterBrokerRequest(broker_id=broker_id, cluster_id=self._view.config.cluster_id)
        await self._controller.ask(request, UnregisterBrokerResponse, timeout_ms)

    async def create_acls(self, acls: Iterable[Acl], *, timeout_ms: int | None = None) -> None:
        """Add entries to the access control list, all or none; those that there are already stay."""
        request = CreateAclsRequest(acls=tuple(acls), cluster_id=self._view.config.cluster_id)
        await self._controller.ask(request, ChangeAclsResponse, timeout_ms)

    async def delete_acls(self, acls: Iterable[Acl], *, timeout_ms: int | None = None) -> None:
        """Remove exactly these entries from it; those that there are not are passed over."""
        request = DeleteAclsRequest(acls=tuple(acls), cluster_id=self._view.config.cluster_id)
        await self._controller.ask(request, ChangeAclsResponse, timeout_ms)

    async def describe_acls(self, *, timeout_ms: int | None = None) -> tuple[Acl, ...]:
        """Ask the controller for the whole list."""
        request = DescribeAclsRequest(cluster_id=self._view.config.cluster_id)
        return (await self._controller.ask(request, DescribeAclsResponse, timeout_ms)).acls

    async def alter_configs(
        self, resource: ConfigResource, configs: Mapping[str, str | None], *, timeout_ms: int | None = None
    ) -> None:
        """Change settings of a broker or quotas of a user, or of all, all or none; None takes one away.

        Raises AdminError, INVALID_CONFIG: there is no such setting or broker, it needs a restart, or cannot be so.
        """
        request = AlterConfigsRequest(resource=resource, configs=configs, cluster_id=self._view.config.cluster_id)
        await self._controller.ask(request, AlterConfigsResponse, timeout_ms)

    async def describe_configs(
        self, resource_type: ConfigResourceType, *, timeout_ms: int | None = None
    ) -> dict[ConfigResource, Mapping[str, str]]:
        """Ask the controller what was set of all brokers, or of all users."""
        request = DescribeConfigsRequest(resource_type=resource_type, cluster_id=self._view.config.cluster_id)
        response = await self._controller.ask(request, DescribeConfigsResponse, timeout_ms)
        return {each.resource: each.configs for each in response.resources}

    async def update_features(self, feature_level: int, *, timeout_ms: int | None = None) -> None:
        """Raise the cluster's feature level. Refused, INVALID_UPDATE_VERSION, unless all its replicas know the new one.

        It is never lowered.
        """
        request = UpdateFeaturesRequest(feature_level=feature_level, cluster_id=self._view.config.cluster_id)
        await self._controller.ask(request, UpdateFeaturesResponse, timeout_ms)

    async def describe_features(self, *, timeout_ms: int | None = None) -> DescribeFeaturesResponse:
        """Ask the controller for the cluster's feature level, and which its brokers and voters know."""
        request = DescribeFeaturesRequest(cluster_id=self._view.config.cluster_id)
        return await self._controller.ask(request, DescribeFeaturesResponse, timeout_ms)

    async def delete_records(
        self, offsets: Mapping[TopicPartition, int], *, timeout_ms: int | None = None
    ) -> dict[TopicPartition, Offset]:
        """Delete the records of each partition below its offset; return where each begins now, on all live replicas.

        An offset of -1 (HIGH_WATERMARK) is the high watermark; one above that is refused, OFFSET_OUT_OF_RANGE. The
        partitions take their turns, and the first that fails is the last: those before it are done. The leader
        answers when every replica whose broker is not fenced has done it. Else it is REQUEST_TIMED_OUT in the end: the
        leader has done it, and if it is lost, the next one may show the records again. The files of a segment go when
        all of its records do.

        Raises AdminError; UnknownTopicError and ClusterUnreachableError, of a partition where certainly nothing was
        done; ValueError for what is no offset, before anybody is asked.
        """
        for topic_partition, offset in offsets.items():
            check_offset(topic_partition, offset)
        deadline = self._view.deadline(timeout_ms)
        return {
            topic_partition: await self._records.delete(topic_partition, offset, deadline)
            for topic_partition, offset in offsets.items()
        }

    async def list_topics(self, *, timeout_ms: int | None = None) -> list[str]:
        """The names of all topics. Raises ClusterUnreachableError."""
        return sorted(topic.name for topic in (await self.describe_cluster(timeout_ms=timeout_ms)).topics)

    async def describe_cluster(
        self, topics: Iterable[str] | None = None, *, timeout_ms: int | None = None
    ) -> DescribeClusterResponse:
        """Ask a broker what it knows of the cluster, and of these topics, by default of all. Others know it soon.

        Raises ClusterUnreachableError.
        """
        names = None if topics is None else tuple(topics)
        return await self._view.describe(names, self._view.deadline(timeout_ms))

    async def describe_replicas(
        self, topic_partition: TopicPartition, replicas: Iterable[ReplicaId], *, timeout_ms: int | None = None
    ) -> dict[ReplicaId, DescribeReplicaResponse]:
        """Ask each of these replicas of a partition for its own state; who does not answer is left out.

        So is any that answers with another error than KAFKA_STORAGE_ERROR: its log cannot be used, and nothing is told.
        """
        left_ms = self._view.deadline(timeout_ms).left_ms()
        request = DescribeReplicaRequest(topic_partition=topic_partition)

        async def describe(replica_id: ReplicaId) -> tuple[ReplicaId, DescribeReplicaResponse] | None:
            try:
                answer = await self._view.call(replica_id, request, left_ms)
            except TransportError:
                return None
            assert isinstance(answer, DescribeReplicaResponse), answer
            return (replica_id, answer) if answer.error in _TELLING else None

        answers = await asyncio.gather(*map(describe, replicas))
        return dict(answer for answer in answers if answer is not None)

    async def describe_topic(self, name: str, *, timeout_ms: int | None = None) -> TopicImage:
        """Ask a broker about one topic. Raises UnknownTopicError, NotAuthorizedError, ClusterUnreachableError."""
        described = await self.describe_cluster([name], timeout_ms=timeout_ms)
        for topic in described.topics:
            return topic
        raise NotAuthorizedError(name) if name in described.unauthorized_topics else UnknownTopicError(name)
