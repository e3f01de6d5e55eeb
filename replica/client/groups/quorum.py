"""How the voters of a quorum log stand, as its leader sees it, and who of them should lead.

Source: KIP-595, DescribeQuorum; Ongaro's thesis, section 3.10.
"""

from __future__ import annotations

from collections.abc import Iterable

from replica.client.clock import Clock, Deadline
from replica.client.cluster_view import ViewConfig
from replica.client.connections import Connections
from replica.client.failures import ClusterUnreachableError, ReadFailedError
from replica.client.groups.failures import TransferFailedError, UnknownGroupError
from replica.client.groups.view import GroupView, NobodyFound
from replica.client.leader_calls import RETRIABLE
from replica.core.messages import (
    DescribeQuorumRequest,
    DescribeQuorumResponse,
    TransferLeadershipRequest,
    TransferLeadershipResponse,
)
from replica.core.metadata.replay import METADATA_LOG
from replica.errors import ErrorCode
from replica.ids import ReplicaId, TopicPartition
from replica.rpc.transport import TransportError

_Request = DescribeQuorumRequest | TransferLeadershipRequest
_Answer = DescribeQuorumResponse | TransferLeadershipResponse


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
    view = quorum_view(bootstrap, group, view_config, connections, clock)
    try:
        return await describe(view, view.deadline())
    finally:
        await view.close()


async def transfer_leadership(
    bootstrap: str | Iterable[str],
    group: str | None,
    target_id: ReplicaId,
    *,
    view_config: ViewConfig | None = None,
    connections: Connections | None = None,
    clock: Clock | None = None,
) -> DescribeQuorumResponse:
    """Let another voter of a group's log lead, or of the metadata log without a group; wait until it does.

    For half of the time the leader waits until the voter has its whole log. Raises TransferFailedError, besides what
    ``describe_quorum`` raises.
    """
    view = quorum_view(bootstrap, group, view_config, connections, clock)
    deadline = view.deadline()
    request = TransferLeadershipRequest(
        topic_partition=view.group,
        target_id=target_id,
        timeout_ms=max(1, deadline.left_ms() // 2),
        cluster_id=view.config.cluster_id,
    )
    try:
        await _ask_leader(view, request, deadline)
        described = await describe(view, deadline)
    finally:
        await view.close()
    leader_id = None if described.current_leader is None else described.current_leader.leader_id
    if leader_id != target_id:
        raise TransferFailedError(f"{view.group}: replica {leader_id} was elected, not {target_id}")
    return described


def quorum_view(
    bootstrap: str | Iterable[str],
    group: str | None,
    config: ViewConfig | None,
    connections: Connections | None,
    clock: Clock | None,
) -> GroupView:
    """Begin to look at a group's log, or at the metadata log without a group. Close it."""
    log = METADATA_LOG if group is None else TopicPartition(group, 0)
    return GroupView(bootstrap, log, config, connections=connections, clock=clock)


async def describe(view: GroupView, deadline: Deadline) -> DescribeQuorumResponse:
    """Ask until a leader describes its quorum. Raises what ``describe_quorum`` raises."""
    request = DescribeQuorumRequest(topic_partition=view.group, cluster_id=view.config.cluster_id)
    answer = await _ask_leader(view, request, deadline)
    assert isinstance(answer, DescribeQuorumResponse), answer
    return answer


async def _ask_leader(view: GroupView, request: _Request, deadline: Deadline) -> _Answer:
    """Ask until a leader answers."""
    backoff = view.config.backoff()
    while True:
        answer = await _ask_leader_once(view, request, deadline.left_ms(view.config.request_timeout_ms))
        if not isinstance(answer, NobodyFound):
            return answer
        if answer.no_such_group:
            raise UnknownGroupError(view.group.topic)
        await deadline.pause(backoff.next_ms())
        if deadline.is_over():
            failed = ClusterUnreachableError if answer.unreachable else ReadFailedError
            raise failed(f"{view.group}: no leader has answered within {deadline.timeout_ms} ms; last: {answer.reason}")


async def _ask_leader_once(view: GroupView, request: _Request, timeout_ms: int) -> _Answer | NobodyFound:
    endpoint = await view.find_leader(view.deadline(timeout_ms))
    if isinstance(endpoint, NobodyFound):
        return endpoint
    try:
        answer = await view.call(endpoint, request, timeout_ms)
    except TransportError as error:
        view.on_failure(endpoint)
        return NobodyFound(reason=str(error))
    assert isinstance(answer, _Answer), answer
    if answer.error is ErrorCode.NONE:
        return answer
    if isinstance(answer, TransferLeadershipResponse):
        if answer.error is ErrorCode.ELECTION_NOT_NEEDED:
            return answer
        _check_may_be_transferred(view, answer)
    if answer.error not in RETRIABLE:
        raise ReadFailedError(f"{view.group}: {endpoint} answered {answer.error}", error=answer.error)
    if not view.on_hint(answer.current_leader):
        view.on_failure(endpoint)
    return NobodyFound(reason=f"{endpoint}: {answer.error}")


def _check_may_be_transferred(view: GroupView, answer: TransferLeadershipResponse) -> None:
    match answer.error:
        case ErrorCode.INVALID_REQUEST:
            raise TransferFailedError(f"{view.group}: only a voter can lead")
        case ErrorCode.REQUEST_TIMED_OUT:
            raise TransferFailedError(
                f"{view.group}: it had not everything in time; the leader goes on", error=answer.error
            )
        case _:
            pass
