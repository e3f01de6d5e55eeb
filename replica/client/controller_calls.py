"""Asking the active controller: finding it, asking again where that can help, and knowing what may have been done.

Owns the guess of who is the controller, and the deadline of a call with all its attempts. NOT_CONTROLLER is no proof
that nothing was done: a controller that loses its leadership gives the same answer to decisions that it had written
already. Source: Kafka's ``KafkaAdminClient``; KIP-631.
"""

from __future__ import annotations

from typing import TypeVar

from replica.client.asking import DOUBT, RETRIABLE, Failed, not_done, repeated, unanswered
from replica.client.clock import Deadline
from replica.client.cluster_view import ClusterView
from replica.client.connections import Endpoint
from replica.client.failures import AdminError, ClusterUnreachableError
from replica.core.messages import (
    AdminRequest,
    AdminResponse,
    AlterPartitionReassignmentsResponse,
    CurrentLeader,
    InitProducerIdResponse,
)
from replica.errors import ErrorCode
from replica.ids import Epoch, ReplicaId
from replica.rpc.transport import MalformedRequestError, TransportError

ResponseT = TypeVar("ResponseT", bound=AdminResponse)

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
        answer, in_doubt = await repeated(
            lambda: self._ask_once(request, response_type, deadline),
            deadline,
            self._view.config.backoff(),
            late="the controller has not answered",
        )
        if isinstance(answer, Failed):
            raise not_done(answer, in_doubt=in_doubt)
        _check_done(answer, may_be_done=in_doubt)
        return answer

    async def _ask_once(
        self, request: AdminRequest, response_type: type[ResponseT], deadline: Deadline
    ) -> ResponseT | Failed:
        """Ask once; the answer is a definite one."""
        try:
            asked = await self._target(deadline)
        except ClusterUnreachableError as error:
            return Failed(reason=str(error), error=error.error, unreachable=True, is_final=True)
        timeout_ms = deadline.left_ms(self._view.config.request_timeout_ms)
        try:
            answer = await self._view.connections.call(asked, request, timeout_ms)
        except MalformedRequestError as error:
            return Failed(reason=str(error), error=error.error, is_final=True)
        except TransportError as error:
            self._controller_id = None
            return unanswered(error)
        assert isinstance(answer, response_type), answer
        if answer.error not in RETRIABLE or answer.error is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
            return answer  # The controller knows which topics there are.
        is_news = self._on_hint(asked, answer.current_leader)
        if not is_news:
            self._controller_id = None
        may_be_done = answer.error not in CERTAINLY_NOT_DONE
        return Failed(reason=f"{asked}: {answer.error}", error=answer.error, may_be_done=may_be_done, at_once=is_news)

    async def _target(self, deadline: Deadline) -> Endpoint:
        """Whom to ask next: who was named the controller, else everybody in turn.

        Brokers are asked first who it is: a NOT_CONTROLLER that can be avoided is a doubt less.
        """
        if self._controller_id is None or self._view.endpoint_of(self._controller_id) is None:
            await self._view.refresh(deadline)
            self._on_hint(None, self._view.controller)
        known = None if self._controller_id is None else self._view.endpoint_of(self._controller_id)
        return known or self._view.endpoint_in_turn()

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
    doubt = DOUBT if may_be_done else ""
    raise AdminError(f"{answer.error}{message and f': {message}'}{doubt}", error=answer.error, may_be_done=may_be_done)


def _check_partitions(answer: AlterPartitionReassignmentsResponse, *, may_be_done: bool) -> None:
    """Raise for the first partition that was refused; the others are moved all the same."""
    refused = [partition for partition in answer.partitions if partition.error is not ErrorCode.NONE]
    if not refused:
        return
    first, moved = refused[0], len(answer.partitions) - len(refused)
    others = f"; {moved} of {len(answer.partitions)} partitions are moved as asked" if moved else ""
    doubt = DOUBT if may_be_done else ""
    raise AdminError(
        f"{first.error}: {first.message}{others}{doubt}", error=first.error, may_be_done=may_be_done or moved > 0
    )
