"""Questions to a group's machine: whom they are put to, and when they are put again.

Owns the retries of a question. It changes nothing, so it may be put as often as one likes, to whom one likes. How
recent the answer is, the replica that answers sees to.

Source: Ongaro's thesis, section 6.4.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import assert_never

from replica.client.clock import Deadline
from replica.client.connections import Endpoint
from replica.client.failures import ClusterUnreachableError, ReadFailedError
from replica.client.groups.failures import QueryRefusedError, UnknownGroupError
from replica.client.groups.view import GroupView, NobodyFound
from replica.client.leader_calls import RETRIABLE
from replica.core.messages import Consistency, QueryRequest, QueryResponse
from replica.errors import ErrorCode
from replica.ids import Offset, ReplicaId
from replica.machines import Answered, Refused, decode_outcome
from replica.machines.encoding import MalformedError
from replica.rpc.transport import TransportError


class Node(StrEnum):
    """Who is asked, if it is not one replica by its id."""

    LEADER = "leader"
    ANY = "any"
    """Always the same replica, as long as it answers."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """What is asked, of whom, and how recent the answer must be.

    With ``after_offset`` the answer waits until something at or beyond that offset is applied, or for ``wait_ms``.
    """

    request: bytes
    consistency: Consistency = Consistency.LINEARIZABLE
    node: Node | ReplicaId = Node.LEADER
    after_offset: Offset | None = None
    wait_ms: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class QueryReply:
    """The machine's reply, from the state in which all below ``applied_offset`` is applied, and nothing else."""

    reply: bytes
    applied_offset: Offset


@dataclass(frozen=True, slots=True, kw_only=True)
class _Failed:
    """An attempt that may succeed another time."""

    reason: str
    error: ErrorCode | None = None
    unreachable: bool = False
    no_such_group: bool = False
    at_once: bool = False


async def ask(view: GroupView, question: Question, deadline: Deadline) -> QueryReply:
    """Put a question until it is answered.

    Raises QueryRefusedError, UnknownGroupError; ClusterUnreachableError and ReadFailedError when the time is up.
    """
    backoff = view.config.backoff()
    while True:
        answer = await _ask_once(view, question, deadline)
        if isinstance(answer, QueryReply):
            return answer
        if answer.no_such_group:
            raise UnknownGroupError(view.group.topic)
        if not answer.at_once:
            await deadline.pause(backoff.next_ms())
        if deadline.is_over():
            failed = ClusterUnreachableError if answer.unreachable else ReadFailedError
            raise failed(
                f"{view.group}: no answer within {deadline.timeout_ms} ms; last: {answer.reason}", error=answer.error
            )


async def _ask_once(view: GroupView, question: Question, deadline: Deadline) -> QueryReply | _Failed:
    endpoint = await _find(view, question.node, deadline)
    if isinstance(endpoint, NobodyFound):
        return _Failed(reason=endpoint.reason, unreachable=endpoint.unreachable, no_such_group=endpoint.no_such_group)
    left_ms = deadline.left_ms(view.config.request_timeout_ms + question.wait_ms)
    request = QueryRequest(
        topic_partition=view.group,
        request=question.request,
        consistency=question.consistency,
        timeout_ms=left_ms if question.after_offset is None else min(left_ms, max(1, question.wait_ms)),
        after_offset=question.after_offset,
        cluster_id=view.config.cluster_id,
    )
    try:
        answer = await view.call(endpoint, request, left_ms)
    except TransportError as error:
        view.on_failure(endpoint)
        return _Failed(reason=str(error))
    assert isinstance(answer, QueryResponse), answer
    if answer.error is ErrorCode.NONE:
        return _reply_of(answer, endpoint)
    return _on_error(view, question, endpoint, answer)


async def _find(view: GroupView, node: Node | ReplicaId, deadline: Deadline) -> Endpoint | NobodyFound:
    match node:
        case Node.LEADER:
            return await view.find_leader(deadline)
        case Node.ANY:
            return await view.find_any(deadline)
        case int():
            return await view.find(node, deadline)
        case _:
            assert_never(node)


def _on_error(view: GroupView, question: Question, endpoint: Endpoint, answer: QueryResponse) -> _Failed:
    """Learn from a refusal. Raises ReadFailedError for what asking again cannot cure."""
    is_without = answer.error is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    if answer.error not in RETRIABLE or (is_without and not isinstance(question.node, Node)):
        raise ReadFailedError(f"{view.group}: {endpoint} answered {answer.error}", error=answer.error)
    if is_without:
        view.on_without_group(endpoint)
    is_news = view.on_hint(answer.current_leader)
    if not is_news:
        view.on_failure(endpoint)
    at_once = (is_news and question.node is Node.LEADER) or (is_without and question.node is Node.ANY)
    return _Failed(reason=f"{endpoint}: {answer.error}", error=answer.error, at_once=at_once)


def _reply_of(answer: QueryResponse, endpoint: Endpoint) -> QueryReply | _Failed:
    try:
        outcome = decode_outcome(answer.outcome)
    except MalformedError as error:
        return _Failed(reason=f"{endpoint} answered what cannot be read: {error}")
    if isinstance(outcome, Refused):
        raise QueryRefusedError(f"{outcome.refusal}: {outcome.message}", outcome.refusal)
    if not isinstance(outcome, Answered) or answer.applied_offset is None:
        return _Failed(reason=f"{endpoint} answered a question with {answer}")
    return QueryReply(reply=outcome.reply, applied_offset=answer.applied_offset)
