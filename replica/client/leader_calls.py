"""What only the leader of a partition answers: finding it, fencing by its epoch, asking again.

Owns the deadline of such a call with all its attempts. Asking twice does no harm. Source: Kafka's ``OffsetFetcher``,
``PartitionLeaderStrategy``.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

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
from replica.ids import TopicPartition
from replica.rpc.transport import NotAppliedError, TransportError

LeaderRequest = ListOffsetsRequest | OffsetForLeaderEpochRequest | DeleteRecordsRequest
LeaderResponse = ListOffsetsResponse | OffsetForLeaderEpochResponse | DeleteRecordsResponse
ResponseT = TypeVar("ResponseT", bound=LeaderResponse)

RETRIABLE = frozenset(
    {
        ErrorCode.BROKER_NOT_AVAILABLE,
        ErrorCode.FENCED_LEADER_EPOCH,
        ErrorCode.INCONSISTENT_TOPIC_ID,
        ErrorCode.KAFKA_STORAGE_ERROR,
        ErrorCode.LEADER_NOT_AVAILABLE,
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.OFFSET_NOT_AVAILABLE,
        ErrorCode.REPLICA_NOT_AVAILABLE,
        ErrorCode.REQUEST_TIMED_OUT,
        ErrorCode.THROTTLING_QUOTA_EXCEEDED,
        ErrorCode.UNKNOWN_LEADER_EPOCH,
        ErrorCode.UNKNOWN_TOPIC_ID,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    }
)
"""What may be met that passes, here or at another broker."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Failed:
    """An attempt that may succeed another time: why, and with which code, if one was answered.

    ``may_be_done`` tells that the request was sent and not answered, so that it may have been carried out.
    ``unreachable`` is there if not even who leads could be learned.
    """

    reason: str
    error: ErrorCode | None = None
    may_be_done: bool = False
    unreachable: ClusterUnreachableError | None = None


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
        backoff = self._view.config.backoff()
        while True:
            answer = await self.ask_once(topic_partition, request_for, response_type, deadline)
            if not isinstance(answer, Failed):
                return answer
            await deadline.pause(backoff.next_ms())
            if deadline.is_over():
                if answer.error is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
                    raise UnknownTopicError(str(topic_partition))
                raise ReadFailedError(
                    f"{topic_partition}: no answer within {deadline.timeout_ms} ms; last: {answer.reason}",
                    error=answer.error,
                )

    async def ask_once(
        self,
        topic_partition: TopicPartition,
        request_for: Callable[[CurrentLeader], LeaderRequest],
        response_type: type[ResponseT],
        deadline: Deadline,
    ) -> ResponseT | Failed:
        """Ask the leader, after looking it up if need be. Raises ReadFailedError for what asking again cannot cure."""
        leader = await self.find(topic_partition, deadline)
        if isinstance(leader, Failed):
            return leader
        assert leader.leader_id is not None, leader
        timeout_ms = deadline.left_ms(self._view.config.request_timeout_ms)
        try:
            answer = await self._view.call(leader.leader_id, request_for(leader), timeout_ms)
        except TransportError as error:
            self._stale.add(topic_partition)
            return Failed(reason=str(error), may_be_done=not isinstance(error, NotAppliedError))
        assert isinstance(answer, response_type), answer
        if answer.error is ErrorCode.NONE:
            return answer
        return self.on_error(topic_partition, answer.error, answer.current_leader, f"broker {leader.leader_id}")

    async def find(self, topic_partition: TopicPartition, deadline: Deadline) -> CurrentLeader | Failed:
        """Tell who leads, by a new view where the last was found wanting; its ``leader_id`` is there."""
        leader = self._view.leader(topic_partition)
        if leader is None or leader.leader_id is None or topic_partition in self._stale:
            self._view.want([topic_partition.topic])
            try:
                await self._view.refresh(deadline)
            except ClusterUnreachableError as error:
                return Failed(reason=str(error), error=error.error, unreachable=error)
            self._stale.discard(topic_partition)
            leader = self._view.leader(topic_partition)
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
        """Learn from a refusal. Raises ReadFailedError for what asking again cannot cure."""
        if error not in RETRIABLE:
            raise ReadFailedError(f"{topic_partition}: {who} answered {error}", error=error)
        if not self._view.on_hint(topic_partition, hint):
            self._stale.add(topic_partition)
        return Failed(reason=f"{who}: {error}", error=error)
