"""Asking again: the one loop of every call that goes on until somebody answers or its time is up.

Owns which errors pass, what a failed attempt says, and when the next one follows. Knows neither who is asked nor what.
Source: Kafka's ``RetriableException``, ``AdminApiDriver``.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace
from typing import TypeVar

from replica.client.clock import Backoff, Deadline
from replica.client.failures import AdminError, ClusterUnreachableError
from replica.errors import ErrorCode
from replica.rpc.transport import DeniedError, NotAppliedError, RefusedError, TransportError

AnswerT = TypeVar("AnswerT")

NEEDS_NEW_VIEW = frozenset(
    {
        ErrorCode.BROKER_NOT_AVAILABLE,
        ErrorCode.FENCED_LEADER_EPOCH,
        ErrorCode.INCONSISTENT_TOPIC_ID,
        ErrorCode.KAFKA_STORAGE_ERROR,
        ErrorCode.LEADER_NOT_AVAILABLE,
        ErrorCode.NOT_CONTROLLER,
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.UNKNOWN_LEADER_EPOCH,
        ErrorCode.UNKNOWN_TOPIC_ID,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    }
)
"""Errors that say that somebody else should have been asked, or will have to be. A topic may be too new to be known."""

RETRIABLE = NEEDS_NEW_VIEW | {
    ErrorCode.NOT_ENOUGH_REPLICAS,
    ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND,
    ErrorCode.OFFSET_NOT_AVAILABLE,
    ErrorCode.REPLICA_NOT_AVAILABLE,
    ErrorCode.REQUEST_TIMED_OUT,
    ErrorCode.THROTTLING_QUOTA_EXCEEDED,
}
"""Errors that pass, here or at another replica."""

REFUSED_MS_MAX = 5000
"""How long a client goes on that has never met its cluster, and whom every address refuses: it may just be starting."""

DOUBT = "; an earlier attempt, whose answer was lost, may have done it"


@dataclass(frozen=True, slots=True, kw_only=True)
class Failed:
    """An attempt that came to nothing: why, and with which code, if one was answered.

    ``refused`` if nobody listens at any address that was given, and the cluster was never met. ``may_be_done`` if it
    was sent and may have been carried out; ``unreachable`` if not even whom to ask could be learned; ``no_such_group``
    if everybody has answered, and nobody has the group. ``is_final`` if another attempt would be in vain; ``at_once``
    if it need not wait, since this one was told whom to ask.
    """

    reason: str
    error: ErrorCode | None = None
    refused: bool = False
    may_be_done: bool = False
    unreachable: bool = False
    no_such_group: bool = False
    is_final: bool = False
    at_once: bool = False


def is_refused(error: TransportError) -> bool:
    """Whether nobody listens where somebody was asked."""
    return isinstance(error, RefusedError)


def unanswered(error: TransportError) -> Failed:
    """Say of an attempt without an answer whether it may have been carried out."""
    if isinstance(error, DeniedError):
        return Failed(reason=str(error), error=error.error, is_final=True)
    return Failed(reason=str(error), may_be_done=not isinstance(error, NotAppliedError))


def not_done(failed: Failed, *, in_doubt: bool) -> AdminError | ClusterUnreachableError:
    """The error of a change that was refused or not answered in time; ``in_doubt`` tells of the attempts before."""
    if failed.unreachable and not in_doubt:
        return ClusterUnreachableError(failed.reason, error=failed.error)
    may_be_done = in_doubt or failed.may_be_done
    doubt = DOUBT if failed.is_final else "; what was asked may be done all the same"
    return AdminError(f"{failed.reason}{doubt if may_be_done else ''}", error=failed.error, may_be_done=may_be_done)


async def repeated(
    attempt: Callable[[], Awaitable[AnswerT | Failed]], deadline: Deadline, backoff: Backoff, *, late: str
) -> tuple[AnswerT | Failed, bool]:
    """Attempt until there is an answer, another attempt would be in vain, or the time is up, which ``late`` tells of.

    Returns how the last attempt has ended, and whether an earlier one may have been carried out.
    """
    in_doubt, only_refused = False, True
    while True:
        answer = await attempt()
        if not isinstance(answer, Failed) or answer.is_final:
            return answer, in_doubt
        if not answer.at_once:
            await deadline.pause(backoff.next_ms())
        only_refused &= answer.refused
        if deadline.is_over() or (only_refused and deadline.spent_ms() >= REFUSED_MS_MAX):
            reason = f"{late} within {min(deadline.spent_ms(), deadline.timeout_ms)} ms; last: {answer.reason}"
            return replace(answer, reason=reason), in_doubt
        in_doubt |= answer.may_be_done
