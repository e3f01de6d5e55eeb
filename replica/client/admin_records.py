"""Deleting the oldest records of a partition: its leader is found and asked until it answers.

Owns what is known of a deletion whose answers were lost. To ask for it twice does no harm: a log start only rises. So
the high watermark is looked up once: asked for again it would be a later one, above what was committed since.
Source: Kafka's ``KafkaAdminClient.deleteRecords``, ``DeleteRecordsHandler``; KIP-107.
"""

from __future__ import annotations

from replica.client.asking import Failed, not_done, repeated
from replica.client.clock import Deadline
from replica.client.cluster_view import ClusterView
from replica.client.failures import AdminError, ReadFailedError, UnknownTopicError
from replica.client.leader_calls import LeaderCalls
from replica.core.messages import (
    HIGH_WATERMARK,
    CurrentLeader,
    DeleteRecordsRequest,
    DeleteRecordsResponse,
    ListOffsetsResponse,
)
from replica.errors import ErrorCode
from replica.ids import OFFSET_MAX, Offset, TopicPartition


class RecordDeletion:
    """Calls of one client that delete records."""

    def __init__(self, view: ClusterView) -> None:
        self._view = view
        self._leaders = LeaderCalls(view)

    async def delete(self, topic_partition: TopicPartition, offset: int, deadline: Deadline) -> Offset:
        """Have everything below ``offset`` forgotten by all live replicas; return where their logs begin then at least.

        Raises AdminError; ClusterUnreachableError and UnknownTopicError only if certainly nothing was done.
        """
        if offset == HIGH_WATERMARK:
            offset = await self._high_watermark(topic_partition, deadline)

        def request_for(_: CurrentLeader) -> DeleteRecordsRequest:
            left_ms = deadline.left_ms(self._view.config.request_timeout_ms)
            return DeleteRecordsRequest(
                topic_partition=topic_partition,
                offset=offset,
                timeout_ms=max(1, left_ms * 9 // 10),  # The answer must come before the call is given up.
                cluster_id=self._view.config.cluster_id,
            )

        answer, in_doubt = await repeated(
            lambda: self._leaders.ask_once(topic_partition, request_for, DeleteRecordsResponse, deadline),
            deadline,
            self._view.config.backoff(),
            late=f"{topic_partition}: no answer",
        )
        if isinstance(answer, Failed):
            if answer.error is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION and not in_doubt:
                raise UnknownTopicError(str(topic_partition))
            raise not_done(answer, in_doubt=in_doubt)
        assert answer.low_watermark is not None, answer
        return answer.low_watermark

    async def _high_watermark(self, topic_partition: TopicPartition, deadline: Deadline) -> Offset:
        question = self._leaders.offsets_question(topic_partition, latest=True)
        try:
            answer = await self._leaders.ask(topic_partition, question, ListOffsetsResponse, deadline)
        except ReadFailedError as refused:
            raise AdminError(f"{refused}", error=refused.error, may_be_done=False) from refused
        assert answer.offset is not None, answer
        return answer.offset


def check_offset(topic_partition: TopicPartition, offset: int) -> None:
    """Raise ValueError for what cannot be an offset to delete below."""
    if not HIGH_WATERMARK <= offset <= OFFSET_MAX:
        raise ValueError(f"{topic_partition}: {offset} is no offset; it must be {HIGH_WATERMARK} to {OFFSET_MAX}")
