"""What a client knows of the cluster: who leads which partition, and where brokers are dialled.

Owns the newest answer to DescribeCluster that the client has seen, and how it gets a newer one: it asks the brokers it
knows in turn, with a pause after each round in vain. It never goes back: a broker that lags behind in the metadata log
teaches it nothing. What brokers say of a newer leader in passing is believed at once (KIP-951). Source: Kafka's
``Metadata``, ``NetworkClient.DefaultMetadataUpdater``.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from msgspec.structs import replace

from replica.bounds import TEXT_BYTES_MAX
from replica.client.asking import REFUSED_MS_MAX, Failed, is_refused
from replica.client.clock import Backoff, Clock, Deadline, SystemClock
from replica.client.connections import Connections, Endpoint, GrpcConnections, bootstrap_endpoints
from replica.client.failures import ClusterUnreachableError, NotAuthorizedError, UnknownTopicError
from replica.core.messages import (
    CurrentLeader,
    DescribeClusterRequest,
    DescribeClusterResponse,
    FetchResponse,
    ProduceResponse,
    Request,
    Response,
)
from replica.core.metadata.image import BrokerRegistration, TopicImage
from replica.core.metadata.pages import with_page
from replica.core.metadata.records import PartitionRegistration
from replica.errors import ErrorCode
from replica.ids import Epoch, Offset, ReplicaId, TopicId, TopicPartition
from replica.rpc.tls import TlsFiles
from replica.rpc.transport import MalformedRequestError, NotAppliedError, TransportError


@dataclass(frozen=True, slots=True, kw_only=True)
class ViewConfig:
    """How a client finds its way. ``dial`` replaces the addresses that brokers advertise, to lead links by proxies.

    ``request_timeout_ms`` bounds one attempt, ``api_timeout_ms`` a call with all its attempts. With ``tls`` it dials by
    TLS, as replicas that were started with certificates want it.
    """

    cluster_id: str | None = None
    dial: Mapping[ReplicaId, str] = field(default_factory=dict)
    tls: TlsFiles | None = None
    request_timeout_ms: int = 30_000
    api_timeout_ms: int = 60_000
    metadata_timeout_ms: int = 2000
    """How long one broker may take to describe the cluster before the next is asked."""
    retry_backoff_ms: int = 50
    retry_backoff_max_ms: int = 250
    """How long the pauses are after an attempt in vain: a leader that was killed is replaced after one or two."""

    def __post_init__(self) -> None:
        names = ("request_timeout_ms", "api_timeout_ms", "metadata_timeout_ms")
        for name in (*names, "retry_backoff_ms", "retry_backoff_max_ms"):
            if getattr(self, name) <= 0:
                raise ValueError(f"{name} is {getattr(self, name)}; it must be above 0")

    def backoff(self) -> Backoff:
        """Begin a row of pauses."""
        return Backoff(self.retry_backoff_ms, self.retry_backoff_max_ms)


class ClusterView:
    """The cluster as one client sees it. ``bootstrap`` is whom it asks first. Use it within one event loop."""

    def __init__(
        self,
        bootstrap: str | Iterable[str],
        config: ViewConfig | None = None,
        *,
        connections: Connections | None = None,
        clock: Clock | None = None,
    ) -> None:
        self.config = config or ViewConfig()
        self.clock: Clock = clock or SystemClock()
        self._bootstrap = bootstrap_endpoints(bootstrap)
        self.connections: Connections = connections or GrpcConnections(tls=self.config.tls)
        self._turn = 0
        self._refreshing = asyncio.Lock()
        self._refreshes = 0
        self._metadata_offset: Offset | None = None
        self._controller: CurrentLeader | None = None
        self._brokers: dict[ReplicaId, BrokerRegistration] = {}
        self._topics: dict[str, TopicImage] = {}
        self._unauthorized: set[str] = set()
        self._wanted: set[str] = set()
        self._hints: dict[TopicPartition, CurrentLeader] = {}
        self._epochs: dict[TopicPartition, Epoch] = {}
        """Leader epochs of which there are records: who describes an older leader is behind."""
        self._throttled_until_ms: dict[Endpoint, int] = {}
        """Brokers that have said of this client's quota that it is used up."""
        self._topic_ids: dict[str, TopicId] = {}
        """Topics that were there: who describes an earlier one of the name is behind."""

    async def close(self) -> None:
        """Close the connections."""
        await self.connections.close()

    def deadline(self, timeout_ms: int | None = None) -> Deadline:
        """Begin a call that may take so long; by default what is configured."""
        return Deadline(self.clock, self.config.api_timeout_ms if timeout_ms is None else timeout_ms)

    # --- what is known ----------------------------------------------------------------------------------------------

    @property
    def brokers(self) -> Mapping[ReplicaId, BrokerRegistration]:
        """The brokers that have ever registered."""
        return self._brokers

    @property
    def was_met(self) -> bool:
        """Whether any broker has ever described the cluster."""
        return self._metadata_offset is not None

    @property
    def controller(self) -> CurrentLeader | None:
        """The active controller, as the last broker knew that described the cluster."""
        return self._controller

    def topic(self, name: str) -> TopicImage | None:
        """A topic, if it is known to exist."""
        return self._topics.get(name)

    def is_unauthorized(self, name: str) -> bool:
        """Whether this client may not know of a topic, as who was asked last for it has said."""
        return name in self._unauthorized

    def partition(self, topic_partition: TopicPartition) -> PartitionRegistration | None:
        """What is decided about a partition, if it is known to exist."""
        topic = self._topics.get(topic_partition.topic)
        return None if topic is None else topic.partitions.get(topic_partition.partition)

    def leader(self, topic_partition: TopicPartition) -> CurrentLeader | None:
        """Who leads a partition, by the newest that was heard; absent where nothing is known of the partition."""
        registration = self.partition(topic_partition)
        hint = self._hints.get(topic_partition)
        if registration is None:
            return None
        if hint is not None and hint.leader_epoch > registration.leader_epoch:
            return hint
        return CurrentLeader(leader_id=registration.leader_id, leader_epoch=registration.leader_epoch)

    def on_hint(self, topic_partition: TopicPartition, hint: CurrentLeader | None) -> bool:
        """A broker has named the leader of a partition. Returns whether that is news that can be acted upon."""
        known = self.leader(topic_partition)
        if hint is None or hint.leader_id not in self._brokers or known is None:
            return False
        if hint.leader_epoch <= known.leader_epoch:
            return False
        self._hints[topic_partition] = hint
        return True

    def on_epoch(self, topic_partition: TopicPartition, epoch: Epoch | None) -> None:
        """There is a record of this leader epoch: a broker that knows no leader so new is not asked twice in a row.

        None takes it back: the reader is elsewhere.
        """
        if epoch is None:
            self._epochs.pop(topic_partition, None)
        else:
            self._epochs[topic_partition] = epoch

    def on_topic(self, name: str, topic_id: TopicId | None) -> None:
        """There is or was this topic: a broker that knows an earlier one of the name is not asked twice in a row.

        None takes it back.
        """
        if topic_id is None:
            self._topic_ids.pop(name, None)
        else:
            self._topic_ids[name] = topic_id

    def endpoint_of(self, broker_id: ReplicaId) -> Endpoint | None:
        """Where to dial a broker; absent where it is not known."""
        broker = self._brokers.get(broker_id)
        address = self.config.dial.get(broker_id) or (None if broker is None else broker.address)
        return None if address is None else Endpoint(broker_id, address)

    # --- asking -----------------------------------------------------------------------------------------------------

    async def call(self, broker_id: ReplicaId, request: Request, timeout_ms: int) -> Response:
        """Ask one broker, once. Raises NotAppliedError or TransportError."""
        endpoint = self.endpoint_of(broker_id)
        if endpoint is None:
            raise NotAppliedError(f"no address is known for broker {broker_id}")
        wait_ms = self._throttled_until_ms.get(endpoint, 0) - self.clock.now_ms()
        if wait_ms >= timeout_ms:
            raise NotAppliedError(f"{endpoint} serves this client again in {wait_ms} ms: its quota is used up")
        if wait_ms > 0:
            await self.clock.sleep(wait_ms)
        answer = await self.connections.call(endpoint, request, timeout_ms - max(0, wait_ms))
        if isinstance(answer, ProduceResponse | FetchResponse) and answer.throttle_time_ms > 0:
            self._throttled_until_ms[endpoint] = self.clock.now_ms() + answer.throttle_time_ms
        return answer

    def endpoint_in_turn(self) -> Endpoint:
        """The next of all that can be dialled: brokers that are up, the given addresses, the rest."""
        endpoints = self._endpoints()
        endpoint = endpoints[self._turn % len(endpoints)]
        self._turn += 1
        return endpoint

    def _endpoints(self) -> list[Endpoint]:
        brokers = sorted(self._brokers.values(), key=lambda broker: (broker.fenced, broker.broker_id))
        known = [self.endpoint_of(broker.broker_id) for broker in brokers if not broker.fenced]
        fenced = [self.endpoint_of(broker.broker_id) for broker in brokers if broker.fenced]
        return [endpoint for endpoint in (*known, *self._bootstrap, *fenced) if endpoint is not None]

    async def describe(self, topics: tuple[str, ...] | None, deadline: Deadline) -> DescribeClusterResponse:
        """Have any broker describe the cluster. Raises ClusterUnreachableError with what the last one said: when the
        time is up, or sooner if nobody has listened anywhere from the beginning.
        """
        request = DescribeClusterRequest(topics=topics, cluster_id=self.config.cluster_id)
        backoff = self.config.backoff()
        only_refused, begun_ms = True, deadline.spent_ms()
        while True:
            endpoints = len(self._endpoints())
            for number in range(1, endpoints + 1):
                endpoint = self.endpoint_in_turn()
                answer = await self._described_by(endpoint, request, deadline)
                if isinstance(answer, DescribeClusterResponse):
                    if self._learn(topics, answer):
                        self._turn -= 1  # Who is not behind is asked next time as well.
                    return answer
                only_refused &= answer.refused
                is_vain = only_refused and not self.was_met and number == endpoints
                if deadline.is_over() or (is_vain and deadline.spent_ms() - begun_ms >= REFUSED_MS_MAX):
                    spent_ms = min(deadline.spent_ms(), deadline.timeout_ms)
                    raise ClusterUnreachableError(
                        f"nobody described the cluster within {spent_ms} ms; last: {answer.reason}"
                    )
            await deadline.pause(backoff.next_ms())

    async def _described_by(
        self, endpoint: Endpoint, request: DescribeClusterRequest, deadline: Deadline
    ) -> DescribeClusterResponse | Failed:
        """Have one broker tell all, page after page; or say why it did not.

        What all of it is known to be as new as is the oldest page.
        """
        whole = await self._page_of(endpoint, request, deadline)
        while isinstance(whole, DescribeClusterResponse) and whole.next_cursor is not None:
            if deadline.is_over():
                return Failed(reason=f"{endpoint}: not all was told in time")
            page = await self._page_of(endpoint, replace(request, cursor=whole.next_cursor), deadline)
            if isinstance(page, Failed):
                return page
            whole = replace(
                whole,
                metadata_offset=min(whole.metadata_offset or Offset(0), page.metadata_offset or Offset(0)),
                topics=with_page(whole.topics, page.topics),
                next_cursor=page.next_cursor,
            )
        return whole

    async def _page_of(
        self, endpoint: Endpoint, request: DescribeClusterRequest, deadline: Deadline
    ) -> DescribeClusterResponse | Failed:
        try:
            answer = await self.connections.call(endpoint, request, deadline.left_ms(self.config.metadata_timeout_ms))
        except MalformedRequestError as error:
            raise ClusterUnreachableError(str(error), error=error.error) from error
        except TransportError as error:
            return Failed(reason=str(error), refused=is_refused(error))
        assert isinstance(answer, DescribeClusterResponse), answer
        if answer.error is ErrorCode.INCONSISTENT_CLUSTER_ID:
            raise ClusterUnreachableError(
                f"{endpoint} is not of cluster {self.config.cluster_id}; check the bootstrap addresses",
                error=answer.error,
            )
        return answer if answer.error is ErrorCode.NONE else Failed(reason=f"{endpoint}: {answer.error}")

    # --- learning ---------------------------------------------------------------------------------------------------

    async def refresh(self, deadline: Deadline) -> None:
        """Learn what is new of the topics that were ever asked for. Whoever calls meanwhile shares the answer."""
        seen = self._refreshes
        async with self._refreshing:
            if self._refreshes == seen:
                await self.describe(tuple(sorted(self._wanted)), deadline)
                self._refreshes += 1

    async def wait_topic(self, name: str, deadline: Deadline) -> TopicImage:
        """Learn of a topic, waiting for it to exist.

        Raises UnknownTopicError, NotAuthorizedError, ClusterUnreachableError.
        """
        if not _can_exist(name):
            raise UnknownTopicError(name)
        self._wanted.add(name)
        backoff = self.config.backoff()
        while (topic := self._topics.get(name)) is None:
            await self.refresh(deadline)
            if name in self._unauthorized:
                raise NotAuthorizedError(name)
            if name not in self._topics:
                await deadline.pause(backoff.next_ms())
                if deadline.is_over():
                    raise UnknownTopicError(name)
        return topic

    def want(self, topics: Iterable[str]) -> None:
        """Have refreshes ask for these topics too, but for those that cannot exist: they would spoil the question."""
        self._wanted.update(filter(_can_exist, topics))

    def _learn(self, asked: tuple[str, ...] | None, answer: DescribeClusterResponse) -> bool:
        """Take over what is new. Returns false for a broker that is behind.

        One that is behind what others have told is believed of unknown topics only. One that is behind what was read is
        believed until another tells more.
        """
        self._controller = answer.controller
        self._unauthorized = self._unauthorized.difference(asked or ()).union(answer.unauthorized_topics)
        offset = answer.metadata_offset or Offset(0)
        described = {topic.name: topic for topic in answer.topics}
        if self._metadata_offset is not None and offset < self._metadata_offset:
            self._topics = {**described, **self._topics}
            return False
        kept = {} if asked is None else {name: topic for name, topic in self._topics.items() if name not in asked}
        self._metadata_offset = offset
        self._brokers = {broker.broker_id: broker for broker in answer.brokers}
        self._topics = {**kept, **described}
        self._hints = {
            topic_partition: hint
            for topic_partition, hint in self._hints.items()
            if (known := self.partition(topic_partition)) is not None and known.leader_epoch < hint.leader_epoch
        }
        return not self._is_behind()

    def _is_behind(self) -> bool:
        """Whether something is known that is newer than what brokers have described."""
        leaders = ((self.partition(name), epoch) for name, epoch in self._epochs.items())
        topics = ((self.topic(name), topic_id) for name, topic_id in self._topic_ids.items())
        return any(known is not None and known.leader_epoch < epoch for known, epoch in leaders) or any(
            known is not None and known.topic_id < topic_id for known, topic_id in topics
        )


def _can_exist(topic: str) -> bool:
    """Tell whether a topic can have this name, as far as its length goes."""
    return 0 < len(topic.encode(errors="replace")) <= TEXT_BYTES_MAX
