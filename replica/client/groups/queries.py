"""Questions to a group's machine: whom they are put to, and when they are put again.

Owns the retries of a question. It changes nothing, so it may be put as often as one likes, to whom one likes. How
recent the answer is, the replica that answers sees to.

Source: Ongaro's thesis, section 6.4.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import StrEnum
from typing import assert_never

from replica.client.asking import Failed, repeated
from replica.client.clock import Deadline
from replica.client.connections import Endpoint
from replica.client.failures import ReadFailedError
from replica.client.groups.failures import QueryRefusedError
from replica.client.groups.together import QuestionSender
from replica.client.groups.view import GroupView
from replica.core.messages import Consistency, QueryRequest, QueryResponse
from replica.encoding import MalformedError
from replica.errors import ErrorCode
from replica.ids import Offset, ReplicaId
from replica.machines import Answered, Refused, decode_outcome


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


async def ask(view: GroupView, together: QuestionSender, question: Question, deadline: Deadline) -> QueryReply:
    """Put a question until it is answered.

    Raises QueryRefusedError, UnknownGroupError; ClusterUnreachableError and ReadFailedError when the time is up.
    """
    late = f"{view.group}: no answer"
    answer, _ = await repeated(
        lambda: _ask_once(view, together, question, deadline), deadline, view.config.backoff(), late=late
    )
    if isinstance(answer, Failed):
        raise view.failure(answer)
    return answer


async def _ask_once(
    view: GroupView, together: QuestionSender, question: Question, deadline: Deadline
) -> QueryReply | Failed:
    endpoint = await _find(view, question.node, deadline)
    if isinstance(endpoint, Failed):
        return endpoint
    left_ms = deadline.left_ms(view.config.request_timeout_ms + question.wait_ms)
    if question.after_offset is None:
        answer = await together.ask(endpoint, question.request, question.consistency, left_ms)
    else:
        answer = await _ask_alone(view, endpoint, question, left_ms)
    if isinstance(answer, Failed):
        return answer
    if answer.error is ErrorCode.NONE:
        return _reply_of(answer, endpoint)
    return _on_error(view, question, endpoint, answer)


async def _ask_alone(view: GroupView, endpoint: Endpoint, question: Question, left_ms: int) -> QueryResponse | Failed:
    """Ask what waits for something new: nothing else is to wait with it."""
    request = QueryRequest(
        topic_partition=view.group,
        requests=(question.request,),
        consistency=question.consistency,
        timeout_ms=min(left_ms, max(1, question.wait_ms)),
        after_offset=question.after_offset,
        cluster_id=view.config.cluster_id,
    )
    return await view.ask(endpoint, request, QueryResponse, left_ms)


async def _find(view: GroupView, node: Node | ReplicaId, deadline: Deadline) -> Endpoint | Failed:
    match node:
        case Node.LEADER:
            return await view.find_leader(deadline)
        case Node.ANY:
            return await view.find_any(deadline)
        case int():
            return await view.find(node, deadline)
        case _:
            assert_never(node)


def _on_error(view: GroupView, question: Question, endpoint: Endpoint, answer: QueryResponse) -> Failed:
    """Learn from a refusal. Raises ReadFailedError for what asking again cannot cure."""
    is_without = answer.error is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    if is_without and not isinstance(question.node, Node):
        raise ReadFailedError(f"{view.group}: {endpoint} answered {answer.error}", error=answer.error)
    if is_without:
        view.on_without_group(endpoint)
    failed = view.on_refusal(endpoint, answer.error, answer.current_leader)
    return replace(failed, at_once=is_without if question.node is Node.ANY else failed.at_once)


def _reply_of(answer: QueryResponse, endpoint: Endpoint) -> QueryReply | Failed:
    if len(answer.outcomes) != 1:
        return Failed(reason=f"{endpoint} gave {len(answer.outcomes)} answers to one question")
    try:
        outcome = decode_outcome(answer.outcomes[0])
    except MalformedError as error:
        return Failed(reason=f"{endpoint} answered what cannot be read: {error}")
    if isinstance(outcome, Refused):
        raise QueryRefusedError(f"{outcome.refusal}: {outcome.message}", outcome.refusal)
    if not isinstance(outcome, Answered) or answer.applied_offset is None:
        return Failed(reason=f"{endpoint} answered a question with {answer}")
    return QueryReply(reply=outcome.reply, applied_offset=answer.applied_offset)
