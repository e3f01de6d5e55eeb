"""How the voters of a quorum log stand, as its leader sees it, and who of them should lead.

Source: KIP-595, DescribeQuorum; Ongaro's thesis, section 3.10.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TypeVar

from replica.client.asking import Failed, repeated
from replica.client.clock import Clock, Deadline
from replica.client.cluster_view import ViewConfig
from replica.client.connections import Connections
from replica.client.groups.failures import TransferFailedError
from replica.client.groups.view import GroupView
from replica.core.messages import (
    DescribeQuorumRequest,
    DescribeQuorumResponse,
    QueryResponse,
    Request,
    TransferLeadershipRequest,
    TransferLeadershipResponse,
)
from replica.core.metadata.replay import METADATA_LOG
from replica.errors import ErrorCode
from replica.ids import ReplicaId, TopicPartition

_AnswerT = TypeVar("_AnswerT", bound=DescribeQuorumResponse | TransferLeadershipResponse | QueryResponse)


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
    async with quorum_view(bootstrap, group, view_config, connections, clock) as view:
        return await describe(view, view.deadline())


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
    async with quorum_view(bootstrap, group, view_config, connections, clock) as view:
        deadline = view.deadline()
        request = TransferLeadershipRequest(
            topic_partition=view.group,
            target_id=target_id,
            timeout_ms=max(1, deadline.left_ms() // 2),
            cluster_id=view.config.cluster_id,
        )
        await ask_leader(view, request, TransferLeadershipResponse, deadline)
        described = await describe(view, deadline)
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
    return await ask_leader(view, request, DescribeQuorumResponse, deadline)


async def ask_leader(view: GroupView, request: Request, response_type: type[_AnswerT], deadline: Deadline) -> _AnswerT:
    """Ask until a leader answers. Raises what ``describe_quorum`` raises."""
    answer, _ = await repeated(
        lambda: _ask_leader_once(view, request, response_type, deadline.left_ms(view.config.request_timeout_ms)),
        deadline,
        view.config.backoff(),
        late=f"{view.group}: no leader has answered",
    )
    if isinstance(answer, Failed):
        raise view.failure(answer)
    return answer


async def _ask_leader_once(
    view: GroupView, request: Request, response_type: type[_AnswerT], timeout_ms: int
) -> _AnswerT | Failed:
    endpoint = await view.find_leader(view.deadline(timeout_ms))
    if isinstance(endpoint, Failed):
        return endpoint
    answer = await view.ask(endpoint, request, response_type, timeout_ms)
    if isinstance(answer, Failed) or answer.error is ErrorCode.NONE:
        return answer
    if isinstance(answer, TransferLeadershipResponse):
        if answer.error is ErrorCode.ELECTION_NOT_NEEDED:
            return answer
        _check_may_be_transferred(view, answer)
    return view.on_refusal(endpoint, answer.error, answer.current_leader)


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
