"""How the voters of a quorum log stand, as its leader sees it. Source: KIP-595, DescribeQuorum."""

from __future__ import annotations

from collections.abc import Iterable

from replica.client.clock import Clock
from replica.client.cluster_view import ViewConfig
from replica.client.connections import Connections
from replica.client.failures import ClusterUnreachableError, ReadFailedError
from replica.client.groups.failures import UnknownGroupError
from replica.client.groups.verdicts import RETRIABLE
from replica.client.groups.view import GroupView, NobodyFound
from replica.core.messages import DescribeQuorumRequest, DescribeQuorumResponse
from replica.core.metadata.replay import METADATA_LOG
from replica.errors import ErrorCode
from replica.ids import TopicPartition
from replica.server.transport import TransportError


async def describe_quorum(
    bootstrap: str | Iterable[str],
    group: str | None = None,
    *,
    view_config: ViewConfig | None = None,
    connections: Connections | None = None,
    clock: Clock | None = None,
) -> DescribeQuorumResponse:
    """Ask the leader of a group's log, by default of the metadata log, how far its voters and observers are.

    Raises UnknownGroupError, ClusterUnreachableError, and ReadFailedError where no leader answers in time.
    """
    log = METADATA_LOG if group is None else TopicPartition(group, 0)
    view = GroupView(bootstrap, log, view_config, connections=connections, clock=clock)
    deadline, backoff = view.deadline(), view.config.backoff()
    try:
        while True:
            answer = await _describe_once(view, deadline.left_ms(view.config.request_timeout_ms))
            if isinstance(answer, DescribeQuorumResponse):
                return answer
            if answer.no_such_group:
                raise UnknownGroupError(log.topic)
            await deadline.pause(backoff.next_ms())
            if deadline.is_over():
                failed = ClusterUnreachableError if answer.unreachable else ReadFailedError
                raise failed(f"{log}: no leader has answered within {deadline.timeout_ms} ms; last: {answer.reason}")
    finally:
        await view.close()


async def _describe_once(view: GroupView, timeout_ms: int) -> DescribeQuorumResponse | NobodyFound:
    endpoint = await view.find_leader(view.deadline(timeout_ms))
    if isinstance(endpoint, NobodyFound):
        return endpoint
    request = DescribeQuorumRequest(topic_partition=view.group, cluster_id=view.config.cluster_id)
    try:
        answer = await view.call(endpoint, request, timeout_ms)
    except TransportError as error:
        view.on_failure(endpoint)
        return NobodyFound(reason=str(error))
    assert isinstance(answer, DescribeQuorumResponse), answer
    if answer.error is ErrorCode.NONE:
        return answer
    if answer.error not in RETRIABLE:
        raise ReadFailedError(f"{view.group}: {endpoint} answered {answer.error}", error=answer.error)
    if not view.on_hint(answer.current_leader):
        view.on_failure(endpoint)
    return NobodyFound(reason=f"{endpoint}: {answer.error}")
