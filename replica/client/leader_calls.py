"""What only the leader of a partition answers: finding it, fencing by its epoch, asking again.

Owns the deadline of such a call with all its attempts. Asking twice does no harm. Source: Kafka's ``OffsetFetcher``,
``PartitionLeaderStrategy``.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from replica.client.asking import RETRIABLE, Failed, repeated, unanswered
from replica.client.clock import Deadline
from replica.client.cluster_view import ClusterView
from replica.client.failures import ClusterUnreachableError, ReadFailedError, UnknownTopicError
from replica.core.messages import (
    CurrentLeader,
    DeleteRecordsRequest,
    DeleteRecordsResponse,
    ListOffsetsRequest,
    ListOffsetsResponse,
    OffsetForLeaderEpochRequest,
    OffsetForLeaderEpochResponse,
)
from replica.errors import ErrorCode
from replica.ids import Epoch, TopicPartition
from replica.rpc.transport import TransportError

LeaderRequest = ListOffsetsRequest | OffsetForLeaderEpochRequest | DeleteRecordsRequest
LeaderResponse = ListOffsetsResponse | OffsetForLeaderEpochResponse | DeleteRecordsResponse
ResponseT = TypeVar("ResponseT", bound=LeaderResponse)

MAY_BE_DONE = frozenset({ErrorCode.KAFKA_STORAGE_ERROR, ErrorCode.REQUEST_TIMED_OUT})
"""Answers after which what was asked may be done all the same."""


class LeaderCalls:
    """Calls of partition leaders by one client."""

    def __init__(self, view: ClusterView) -> None:
        self._view = view
        self._stale: set[TopicPartition] = set()

    async def ask(
        self,
        topic_partition: TopicPartition,
        request_for: Callable[[CurrentLeader], LeaderRequest],
        response_type: type[ResponseT],
        deadline: Deadline,
    ) -> ResponseT:
        """Ask the leader until it answers. Raises ReadFailedError."""
        answer, _ = await repeated(
            lambda: self.ask_once(topic_partition, request_for, response_type, deadline),
            deadline,
            self._view.config.backoff(),
            late=f"{topic_partition}: no answer",
        )
        if not isinstance(answer, Failed):
            return answer
        if answer.error is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
            raise UnknownTopicError(str(topic_partition))
        raise ReadFailedError(answer.reason, error=answer.error)

    def offsets_question(
        self,
        topic_partition: TopicPartition,
        *,
        latest: bool = False,
        timestamp_ms: int | None = None,
        known_epoch: Epoch | None = None,
    ) -> Callable[[CurrentLeader], ListOffsetsRequest]:
        """What to ask a leader for an offset of its log; one older than ``known_epoch`` is not to answer."""

        def request_for(leader: CurrentLeader) -> ListOffsetsRequest:
            return ListOffsetsRequest(
                topic_partition=topic_partition,
                latest=latest,
                timestamp_ms=timestamp_ms,
                cluster_id=self._view.config.cluster_id,
                current_leader_epoch=newest(leader.leader_epoch, known_epoch),
            )

        return request_for

    async def ask_once(
        self,
        topic_partition: TopicPartition,
        request_for: Callable[[CurrentLeader], LeaderRequest],
        response_type: type[ResponseT],
        deadline: Deadline,
    ) -> ResponseT | Failed:
        """Ask the leader, after looking it up if need be."""
        leader = await self.find(topic_partition, deadline)
        if isinstance(leader, Failed):
            return leader
        assert leader.leader_id is not None, leader
        timeout_ms = deadline.left_ms(self._view.config.request_timeout_ms)
        try:
            answer = await self._view.call(leader.leader_id, request_for(leader), timeout_ms)
        except TransportError as error:
            self._stale.add(topic_partition)
            return unanswered(error)
        assert isinstance(answer, response_type), answer
        if answer.error is ErrorCode.NONE:
            return answer
        return self.on_error(topic_partition, answer.error, answer.current_leader, f"broker {leader.leader_id}")

    async def find(self, topic_partition: TopicPartition, deadline: Deadline) -> CurrentLeader | Failed:
        """Tell who leads, by a new view where the last was found wanting; its ``leader_id`` is there."""
        if self.is_stale(topic_partition):
            self._view.want([topic_partition.topic])
            try:
                await self._view.refresh(deadline)
            except ClusterUnreachableError as error:
                is_final = error.error is not None or not self._view.was_met
                return Failed(reason=str(error), error=error.error, unreachable=True, is_final=is_final)
            self._stale.discard(topic_partition)
        leader = self._view.leader(topic_partition)
        if leader is None and self._view.is_unauthorized(topic_partition.topic):
            code = ErrorCode.TOPIC_AUTHORIZATION_FAILED
            return Failed(reason=f"{topic_partition}: {code}", error=code, is_final=True)
        if leader is None:
            code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            return Failed(reason=f"{topic_partition} does not exist, as far as is known", error=code)
        if leader.leader_id is None:
            return Failed(reason=f"{topic_partition} has no leader", error=ErrorCode.LEADER_NOT_AVAILABLE)
        return leader

    def is_stale(self, topic_partition: TopicPartition) -> bool:
        """Whether who leads is to be looked up anew."""
        leader = self._view.leader(topic_partition)
        return leader is None or leader.leader_id is None or topic_partition in self._stale

    def on_unreachable(self, topic_partition: TopicPartition) -> None:
        """A broker that was asked about this partition has not answered."""
        self._stale.add(topic_partition)

    def on_error(
        self, topic_partition: TopicPartition, error: ErrorCode, hint: CurrentLeader | None, who: str
    ) -> Failed:
        """Learn from a refusal."""
        if error not in RETRIABLE:
            return Failed(reason=f"{topic_partition}: {who} answered {error}", error=error, is_final=True)
        if not self._view.on_hint(topic_partition, hint):
            self._stale.add(topic_partition)
        return Failed(reason=f"{who}: {error}", error=error, may_be_done=error in MAY_BE_DONE)


def newest(leader_epoch: Epoch, known_epoch: Epoch | None) -> Epoch:
    """The epoch in which a leader must be at least to be asked by who knows of one."""
    return leader_epoch if known_epoch is None else max(leader_epoch, known_epoch)
