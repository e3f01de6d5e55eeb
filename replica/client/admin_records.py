"""Deleting the oldest records of a partition: its leader is found and asked until it answers.

Owns what is known of a deletion whose answers were lost. To ask for it twice does no harm: a log start only rises.
Source: Kafka's ``KafkaAdminClient.deleteRecords``, ``DeleteRecordsHandler``; KIP-107.
"""

from __future__ import annotations

from replica.client.clock import Deadline
from replica.client.cluster_view import ClusterView
from replica.client.failures import AdminError, ReadFailedError
from replica.client.leader_calls import Failed, LeaderCalls
from replica.core.messages import DeleteRecordsRequest, DeleteRecordsResponse
from replica.errors import ErrorCode
from replica.ids import Offset, TopicPartition

MAY_BE_DONE = frozenset({None, ErrorCode.KAFKA_STORAGE_ERROR, ErrorCode.REQUEST_TIMED_OUT})
"""How an attempt ends after which the records may be gone; most often without any answer."""


class RecordDeletion:
    """Calls of one client that delete records."""

    def __init__(self, view: ClusterView) -> None:
        self._view = view
        self._leaders = LeaderCalls(view)

    async def delete(self, topic_partition: TopicPartition, offset: int, deadline: Deadline) -> Offset:
        """Have everything below ``offset`` forgotten; return where the leader's log begins then. Raises AdminError."""
        request = DeleteRecordsRequest(
            topic_partition=topic_partition, offset=offset, cluster_id=self._view.config.cluster_id
        )
        backoff = self._view.config.backoff()
        may_be_done = False
        while True:
            try:
                answer = await self._leaders.ask_once(
                    topic_partition, lambda _: request, DeleteRecordsResponse, deadline
                )
            except ReadFailedError as refused:
                raise AdminError(str(refused), error=refused.error, may_be_done=may_be_done) from refused
            if not isinstance(answer, Failed):
                assert answer.log_start_offset is not None, answer
                return answer.log_start_offset
            may_be_done |= answer.error in MAY_BE_DONE
            await deadline.pause(backoff.next_ms())
            if deadline.is_over():
                raise _unanswered(topic_partition, answer, deadline, may_be_done=may_be_done)


def _unanswered(topic_partition: TopicPartition, last: Failed, deadline: Deadline, *, may_be_done: bool) -> AdminError:
    return AdminError(
        f"{topic_partition}: no answer within {deadline.timeout_ms} ms; last: {last.reason}"
        + ("; the deletion may be done all the same" if may_be_done else ""),
        error=last.error,
        may_be_done=may_be_done,
    )
