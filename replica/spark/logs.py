"""What is in the partitions' logs, asked of their leaders: bounds, epochs, and whether a log still is what was read.

A broker that leads no more without knowing it may lack what was read from its successor. So a question about a position
says which epoch is known of already: who is older than that refuses to answer, and the next leader is looked for. The
clients' own view and calls do the asking. Source: KIP-320; Kafka's ``OffsetsForLeaderEpochClient``, ``OffsetFetcher``.
"""

from __future__ import annotations

from collections.abc import Callable

from replica.client.clock import Clock
from replica.client.cluster_view import ClusterView, ViewConfig
from replica.client.connections import Closing, Connections
from replica.client.failures import ClusterUnreachableError, ReadFailedError, UnknownTopicError
from replica.client.leader_calls import LeaderCalls, LeaderRequest, ResponseT, newest
from replica.core.messages import (
    CurrentLeader,
    ListOffsetsResponse,
    OffsetForLeaderEpochRequest,
    OffsetForLeaderEpochResponse,
)
from replica.core.metadata.image import TopicImage
from replica.ids import Epoch, Offset, TopicId, TopicPartition
from replica.spark.errors import PartitionUnreadableError, TopicTruncatedError, UnreachableError
from replica.spark.options import ConnectionOptions
from replica.spark.values import LogBounds, Position, TopicLayout

TOPIC_WAIT_MS = 5000
"""How long a topic may be unknown to the brokers before it is taken not to exist: they hear of a new one late."""


def view_config(connection: ConnectionOptions) -> ViewConfig:
    """How clients find their way."""
    return ViewConfig(
        cluster_id=connection.cluster_id,
        api_timeout_ms=connection.api_timeout_ms,
        request_timeout_ms=min(connection.api_timeout_ms, 30_000),
    )


class TopicLogs(Closing):
    """Questions about logs, within one event loop. Close it."""

    def __init__(
        self, connection: ConnectionOptions, *, connections: Connections | None = None, clock: Clock | None = None
    ) -> None:
        self._servers = connection.servers
        self._view = ClusterView(connection.servers, view_config(connection), connections=connections, clock=clock)
        self._leaders = LeaderCalls(self._view)

    async def close(self) -> None:
        """Close the connections."""
        await self._view.close()

    @property
    def clock(self) -> Clock:
        """The time by which the cluster is asked."""
        return self._view.clock

    async def layout(self, topic: str, known_id: TopicId | None = None) -> TopicLayout:
        """What a topic is now; a broker that describes an earlier one than ``known_id`` is behind, and not believed.

        Raises UnreachableError, and PartitionUnreadableError if there is none.
        """
        try:
            self._view.want([topic])
            self._view.on_topic(topic, known_id)
            await self._view.refresh(self._view.deadline())
            image = await self._wait_topic(topic, known_id)
        except ClusterUnreachableError as error:
            raise UnreachableError(f"no broker of {self._servers} answers: {error}") from error
        except UnknownTopicError as error:
            told = f"topic {topic} does not exist on {self._servers}; create it: replica topic create {topic}"
            raise PartitionUnreadableError(told) from error
        names = tuple(TopicPartition(topic, number) for number in sorted(image.partitions))
        return TopicLayout(topic_id=image.topic_id, partitions=names)

    async def _wait_topic(self, topic: str, known_id: TopicId | None) -> TopicImage:
        deadline, backoff = self._view.deadline(TOPIC_WAIT_MS), self._view.config.backoff()
        while True:
            image = await self._view.wait_topic(topic, deadline)
            if known_id is None or image.topic_id >= known_id:
                return image
            if deadline.is_over():
                told = f"topic {topic}: those of {self._servers} that answer know an earlier topic of that name only"
                raise PartitionUnreadableError(told)
            await deadline.pause(backoff.next_ms())
            await self._view.refresh(self._view.deadline())

    async def bounds(self, name: TopicPartition, known_epoch: Epoch | None = None) -> LogBounds:
        """Where a log begins, and up to where it is committed. Raises PartitionUnreadableError."""
        start = await self._list(name, known_epoch, latest=False)
        end = await self._list(name, known_epoch, latest=True)
        return LogBounds(start=start, end=max(start, end))

    async def position_at(self, name: TopicPartition, offset: Offset, known_epoch: Epoch | None = None) -> Position:
        """Find the epoch of the record just below a committed offset; none where the log has no record there.

        Goes back from the leader's own epoch, one question each, over as many epochs as lie behind the offset. A leader
        older than ``known_epoch`` is not asked: it would name its own epoch for records that it does not have.
        """
        answer = await self._epoch_end(name, None, known_epoch)
        end = answer.answer
        if end is None or answer.log_start_offset is None or offset <= answer.log_start_offset:
            return Position(offset=offset)
        while end.epoch > 0:
            earlier = (await self._epoch_end(name, Epoch(end.epoch - 1), known_epoch)).answer
            if earlier is None or earlier.end_offset < offset:
                break
            end = earlier
        return Position(offset=offset, leader_epoch=end.epoch)

    async def check(self, name: TopicPartition, position: Position) -> None:
        """Raise TopicTruncatedError unless the log holds what was read up to a position, as far as that can be known.

        It cannot without an epoch, nor where all that was read is deleted.
        """
        epoch = position.leader_epoch
        if epoch is None:
            return
        answer = await self._epoch_end(name, epoch, epoch)
        end = answer.answer
        if answer.log_start_offset is not None and position.offset <= answer.log_start_offset:
            return
        if end is None:
            raise TopicTruncatedError(name, position.offset, epoch, "the leader knows no epoch as new as that")
        if end.epoch != epoch or end.end_offset < position.offset:
            found = f"the leader's log leaves it at offset {end.end_offset}, where its epoch {end.epoch} ends"
            raise TopicTruncatedError(name, position.offset, epoch, found)

    async def _epoch_end(
        self, name: TopicPartition, epoch: Epoch | None, known_epoch: Epoch | None
    ) -> OffsetForLeaderEpochResponse:
        """Where an epoch ends in the leader's log; without one, the leader's own."""

        def request_for(leader: CurrentLeader) -> OffsetForLeaderEpochRequest:
            known = newest(leader.leader_epoch, known_epoch)
            return OffsetForLeaderEpochRequest(
                topic_partition=name,
                leader_epoch=known if epoch is None else epoch,
                cluster_id=self._view.config.cluster_id,
                current_leader_epoch=known,
            )

        return await self._ask(name, request_for, OffsetForLeaderEpochResponse)

    async def _list(self, name: TopicPartition, known_epoch: Epoch | None, *, latest: bool) -> Offset:
        question = self._leaders.offsets_question(name, latest=latest, known_epoch=known_epoch)
        answer = await self._ask(name, question, ListOffsetsResponse)
        assert answer.offset is not None, answer
        return answer.offset

    async def _ask(
        self,
        name: TopicPartition,
        request_for: Callable[[CurrentLeader], LeaderRequest],
        response_type: type[ResponseT],
    ) -> ResponseT:
        try:
            return await self._leaders.ask(name, request_for, response_type, self._view.deadline())
        except ReadFailedError as error:
            raise PartitionUnreadableError(str(error)) from error
