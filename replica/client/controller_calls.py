"""Asking the active controller: finding it, asking again where that can help, and knowing what may have been done.

Owns the guess of who is the controller, and the deadline of a call with all its attempts. NOT_CONTROLLER is no proof
that nothing was done: a controller that loses its leadership gives the same answer to decisions that it had written
already. Source: Kafka's ``KafkaAdminClient``; KIP-631.
"""

from __future__ import annotations

from typing import TypeVar

from replica.client.clock import Deadline
from replica.client.cluster_view import ClusterView
from replica.client.connections import Endpoint
from replica.client.failures import AdminError, ClusterUnreachableError
from replica.core.messages import (
    AdminRequest,
    AlterPartitionReassignmentsResponse,
    AlterTopicResponse,
    CreateTopicResponse,
    CurrentLeader,
    DeleteTopicResponse,
    ElectLeaderResponse,
    InitProducerIdResponse,
    ListPartitionReassignmentsResponse,
    UnregisterBrokerResponse,
)
from replica.errors import ErrorCode
from replica.ids import Epoch, ReplicaId
from replica.rpc.transport import MalformedRequestError, NotAppliedError, TransportError

AdminResponse = (
    CreateTopicResponse
    | DeleteTopicResponse
    | AlterTopicResponse
    | ElectLeaderResponse
    | AlterPartitionReassignmentsResponse
    | ListPartitionReassignmentsResponse
    | InitProducerIdResponse
    | UnregisterBrokerResponse
)
ResponseT = TypeVar("ResponseT", bound=AdminResponse)

RETRIABLE = frozenset(
    {
        ErrorCode.BROKER_NOT_AVAILABLE,
        ErrorCode.NOT_CONTROLLER,
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.REQUEST_TIMED_OUT,
        ErrorCode.THROTTLING_QUOTA_EXCEEDED,
    }
)
"""Errors that pass, here or at another replica."""

_DOUBT = "; an earlier attempt, whose answer was lost, may have done it"

CERTAINLY_NOT_DONE = frozenset({ErrorCode.BROKER_NOT_AVAILABLE, ErrorCode.THROTTLING_QUOTA_EXCEEDED})


class ControllerCalls:
    """Calls of the controller by one client."""

    def __init__(self, view: ClusterView) -> None:
        self._view = view
        self._controller_id: ReplicaId | None = None
        self._epoch: Epoch | None = None

    async def ask(
        self, request: AdminRequest, response_type: type[ResponseT], timeout_ms: int | None = None
    ) -> ResponseT:
        """Ask until there is a definite answer. Raises AdminError; ClusterUnreachableError if nothing is done."""
        deadline = self._view.deadline(timeout_ms)
        backoff = self._view.config.backoff()
        may_be_done = False
        while True:
            try:
                asked = await self._target(deadline)
            except ClusterUnreachableError as error:
                if may_be_done:
                    raise AdminError(f"{error}{_DOUBT}", error=error.error, may_be_done=True) from error
                raise
            attempt = await self._try(asked, request, response_type, deadline)
            if isinstance(attempt, MalformedRequestError):
                raise AdminError(str(attempt), error=ErrorCode.INVALID_REQUEST, may_be_done=may_be_done) from attempt
            if not isinstance(attempt, TransportError) and attempt.error not in RETRIABLE:
                _check_done(attempt, may_be_done=may_be_done)
                return attempt
            may_be_done |= _may_be_done(attempt)
            is_news = not isinstance(attempt, TransportError) and self._on_hint(asked, attempt.current_leader)
            if not is_news:
                self._controller_id = None
                await deadline.pause(backoff.next_ms())
            if deadline.is_over():
                raise _unanswered(asked, attempt, deadline, may_be_done=may_be_done)

    async def _target(self, deadline: Deadline) -> Endpoint:
        """Whom to ask next: who was named the controller, else everybody in turn.

        Brokers are asked first who it is: a NOT_CONTROLLER that can be avoided is a doubt less.
        """
        if self._controller_id is None or self._view.endpoint_of(self._controller_id) is None:
            await self._view.refresh(deadline)
            self._on_hint(None, self._view.controller)
        known = None if self._controller_id is None else self._view.endpoint_of(self._controller_id)
        return known or self._view.endpoint_in_turn()

    async def _try(
        self, asked: Endpoint, request: AdminRequest, response_type: type[ResponseT], deadline: Deadline
    ) -> ResponseT | TransportError:
        timeout_ms = deadline.left_ms(self._view.config.request_timeout_ms)
        try:
            answer = await self._view.call_endpoint(asked, request, timeout_ms)
        except TransportError as error:
            return error
        assert isinstance(answer, response_type), answer
        return answer

    def _on_hint(self, asked: Endpoint | None, hint: CurrentLeader | None) -> bool:
        """Follow a hint unless it is older than one before. Returns whether it is worth asking without delay."""
        if hint is None or hint.leader_id is None or (asked is not None and hint.leader_id == asked.broker_id):
            return False
        if self._epoch is not None and hint.leader_epoch < self._epoch:
            return False
        is_news = (hint.leader_id, hint.leader_epoch) != (self._controller_id, self._epoch)
        self._controller_id, self._epoch = hint.leader_id, hint.leader_epoch
        return is_news


def _check_done(answer: AdminResponse, *, may_be_done: bool) -> None:
    """Raise a definite refusal, with the name of its error and what the controller said."""
    if isinstance(answer, AlterPartitionReassignmentsResponse):
        _check_partitions(answer, may_be_done=may_be_done)
    if answer.error is ErrorCode.NONE:
        return
    message = "" if isinstance(answer, InitProducerIdResponse) else answer.message
    doubt = _DOUBT if may_be_done else ""
    raise AdminError(f"{answer.error}{message and f': {message}'}{doubt}", error=answer.error, may_be_done=may_be_done)


def _check_partitions(answer: AlterPartitionReassignmentsResponse, *, may_be_done: bool) -> None:
    """Raise for the first partition that was refused; the others are moved all the same."""
    refused = [partition for partition in answer.partitions if partition.error is not ErrorCode.NONE]
    if not refused:
        return
    first, moved = refused[0], len(answer.partitions) - len(refused)
    others = f"; {moved} of {len(answer.partitions)} partitions are moved as asked" if moved else ""
    doubt = _DOUBT if may_be_done else ""
    raise AdminError(
        f"{first.error}: {first.message}{others}{doubt}", error=first.error, may_be_done=may_be_done or moved > 0
    )


def _may_be_done(attempt: AdminResponse | TransportError) -> bool:
    if isinstance(attempt, TransportError):
        return not isinstance(attempt, NotAppliedError)
    return attempt.error not in CERTAINLY_NOT_DONE


def _unanswered(
    asked: Endpoint, attempt: AdminResponse | TransportError, deadline: Deadline, *, may_be_done: bool
) -> AdminError:
    code = None if isinstance(attempt, TransportError) else attempt.error
    last = str(attempt) if code is None else f"{asked}: {code}"
    return AdminError(
        f"the controller has not answered within {deadline.timeout_ms} ms; last: {last}"
        + ("; what was asked may be done all the same" if may_be_done else ""),
        error=code,
        may_be_done=may_be_done,
    )
