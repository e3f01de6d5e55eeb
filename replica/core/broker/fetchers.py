"""Fetching for all partitions that this broker follows: one request to each leader, with every partition in it.

Owns what is out to whom. A fetch offset is an acknowledgement, so a fetch waits until all its partitions are flushed;
one that backs off is left out. What to ask and what the answer means is the partition's business.

Source: Kafka ``AbstractFetcherThread``, ``ReplicaFetcherManager``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

from replica.core.config import BrokerConfig
from replica.core.messages import (
    FetchPartition,
    FetchRequest,
    FetchResponse,
    ListOffsetsRequest,
    ListOffsetsResponse,
    OffsetForLeaderEpochRequest,
    OffsetForLeaderEpochResponse,
    PeerRequest,
    PeerResponse,
)
from replica.core.partition import Partition
from replica.errors import ErrorCode
from replica.ids import BrokerEpoch, CorrelationId, ReplicaId, TopicPartition

Send = Callable[[ReplicaId, PeerRequest, int], CorrelationId]
Asked = FetchPartition | OffsetForLeaderEpochRequest | ListOffsetsRequest


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """What is out to a leader under one correlation id: a fetch of several partitions, or a question about one.

    ``askers`` are the partitions themselves: one of the same name may be another topic's by the time of the answer.
    """

    leader_id: ReplicaId
    asked: tuple[Asked, ...]
    askers: tuple[Partition, ...]


class Fetchers:
    """Every request that is out to a leader, for whichever partitions."""

    def __init__(
        self,
        *,
        broker_id: ReplicaId,
        directory_id: str,
        cluster_id: str,
        config: BrokerConfig,
        partitions: Mapping[TopicPartition, Partition],
        send: Send,
    ) -> None:
        self._broker_id = broker_id
        self._directory_id = directory_id
        self._cluster_id = cluster_id
        self._config = config
        self._partitions = partitions
        self._send = send
        self._leader_of: dict[TopicPartition, ReplicaId] = {}
        self._followed: dict[ReplicaId, set[TopicPartition]] = {}
        self._questions: dict[CorrelationId, Question] = {}
        self._first_of: dict[ReplicaId, TopicPartition] = {}
        """Which partition came first in the last fetch from each leader."""
        self._busy: dict[ReplicaId, int] = {}
        """How many questions are out to each leader."""

    def leader_of(self, topic_partition: TopicPartition) -> ReplicaId | None:
        """Whom this partition is fetched from; absent if from nobody."""
        return self._leader_of.get(topic_partition)

    def follow(self, topic_partition: TopicPartition, leader_id: ReplicaId | None) -> None:
        """Fetch this partition from ``leader_id``, or from nobody."""
        before = self._leader_of.pop(topic_partition, None)
        if before is not None:
            self._followed[before].discard(topic_partition)
        if leader_id is not None:
            self._leader_of[topic_partition] = leader_id
            self._followed.setdefault(leader_id, set()).add(topic_partition)

    def pump(self, leader_id: ReplicaId, broker_epoch: BrokerEpoch, now_ms: int) -> None:
        """Ask this leader what its followers here want to know, unless something is out to it or still to be flushed.

        1. Partition A has appended and flushes. 2. A fetch without it goes out and is parked for want of records.
        3. A's acknowledgement waits as long as that fetch: hence the fetch waits for A's flush instead.
        """
        if self._busy.get(leader_id):
            return
        followed = [self._partitions[name] for name in sorted(self._followed.get(leader_id, ()))]
        if not all(_may_fetch(partition) for partition in followed):
            return
        asked = [ask for partition in followed for ask in [partition.next_request(now_ms)] if ask is not None]
        fetches = self._in_turn(leader_id, [ask for ask in asked if isinstance(ask, FetchPartition)])
        if fetches:
            self._ask(leader_id, self._fetch(fetches, broker_epoch), fetches)
        for ask in asked:
            if not isinstance(ask, FetchPartition):
                self._ask(leader_id, ask, (ask,))

    def _in_turn(self, leader_id: ReplicaId, fetches: list[FetchPartition]) -> tuple[FetchPartition, ...]:
        """Begin behind the partition that came first the last time, and take as many as one request may name.

        An answer is filled in the order in which it was asked for: in a fixed order the last would starve.
        """
        if not fetches:
            return ()
        first_before = self._first_of.get(leader_id)
        later = [ask for ask in fetches if first_before is None or ask.topic_partition > first_before]
        turned = (later + [ask for ask in fetches if ask not in later])[: self._config.fetch_partitions_max]
        self._first_of[leader_id] = turned[0].topic_partition
        return tuple(turned)

    def deadline_ms(self, leader_id: ReplicaId) -> int | None:
        """When the first back-off ends of those that follow this leader; absent while they wait for something else.

        A back-off that ends while an answer is out, or a flush, has to wait for that, and must not ask for attention.
        """
        if self._busy.get(leader_id):
            return None
        followed = [self._partitions[name] for name in sorted(self._followed.get(leader_id, ()))]
        if not all(_may_fetch(partition) for partition in followed):
            return None
        return min((due for partition in followed if (due := partition.fetch_deadline_ms) is not None), default=None)

    def _fetch(self, partitions: tuple[FetchPartition, ...], broker_epoch: BrokerEpoch) -> FetchRequest:
        return FetchRequest(
            partitions=partitions,
            replica_id=self._broker_id,
            replica_directory_id=self._directory_id,
            broker_epoch=broker_epoch,
            cluster_id=self._cluster_id,
            max_wait_ms=self._config.replica_fetch_wait_max_ms,
            min_bytes=self._config.replica_fetch_min_bytes,
            max_bytes=self._config.replica_fetch_response_max_bytes,
        )

    def _ask(self, leader_id: ReplicaId, request: PeerRequest, asked: tuple[Asked, ...]) -> None:
        correlation_id = self._send(leader_id, request, self._config.replica_socket_timeout_ms)
        askers = tuple(self._partitions[ask.topic_partition] for ask in asked)
        self._questions[correlation_id] = Question(leader_id=leader_id, asked=asked, askers=askers)
        self._busy[leader_id] = self._busy.get(leader_id, 0) + 1

    # --- answers ----------------------------------------------------------------------------------------------------

    def owns(self, correlation_id: CorrelationId) -> bool:
        """Whether this is the id of something that is out to a leader."""
        return correlation_id in self._questions

    def on_response(self, correlation_id: CorrelationId, response: PeerResponse, now_ms: int) -> Question:
        """Hand an answer to the partitions that it is about; return what was asked."""
        question = self._take(correlation_id)
        if isinstance(response, FetchResponse) and response.error is ErrorCode.NONE:
            answers = {answer.topic_partition: answer for answer in response.partitions}
        else:
            answers = {}
        for asked, partition in self._still_here(question):
            match asked, response:
                case FetchPartition(), FetchResponse() if asked.topic_partition in answers:
                    partition.on_fetched(asked, answers[asked.topic_partition], now_ms)
                case OffsetForLeaderEpochRequest(), OffsetForLeaderEpochResponse():
                    partition.on_epoch_end(asked, response, now_ms)
                case ListOffsetsRequest(), ListOffsetsResponse():
                    partition.on_leader_offset(asked, response, now_ms)
                case _:
                    partition.on_ask_failed(asked, now_ms)
        return question

    def on_failed(self, correlation_id: CorrelationId, now_ms: int) -> Question:
        """Let the partitions ask again later; return what was asked."""
        question = self._take(correlation_id)
        for asked, partition in self._still_here(question):
            partition.on_ask_failed(asked, now_ms)
        return question

    def _still_here(self, question: Question) -> Iterator[tuple[Asked, Partition]]:
        """Name who still wants to know.

        1. A fetch is out. 2. The topic is deleted, and another of its name created, with the same leader and epoch.
        3. The answer comes: its records are those of the first topic.
        """
        for asked, asker in zip(question.asked, question.askers, strict=True):
            if self._partitions.get(asked.topic_partition) is asker:
                yield asked, asker

    def _take(self, correlation_id: CorrelationId) -> Question:
        question = self._questions.pop(correlation_id)
        self._busy[question.leader_id] -= 1
        return question


def _may_fetch(partition: Partition) -> bool:
    log = partition.log
    return partition.rules.may_fetch(flushed_end_offset=log.flushed_end_offset, log_end_offset=log.log_end_offset)
