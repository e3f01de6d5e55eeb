"""The judgement of one attempt: done, refused, or unknown; and whether another attempt can help.

Owns the rule that makes this client safe: only an attempt that certainly left nothing in the log is repeated. When in
doubt it is unknown. Pure functions of what came back. Source: KIP-98's motivation; Jepsen's ok, fail and info.
"""

from __future__ import annotations

from enum import StrEnum

from replica.core.messages import ProduceResponse
from replica.errors import ErrorCode, write_definitely_failed
from replica.server.transport import NotAppliedError, TransportError


class Outcome(StrEnum):
    """What one attempt to write has come to."""

    WRITTEN = "written"
    RETRY = "retry"
    """Definitely not written, and another replica or a later moment may do better."""
    REFUSED = "refused"
    """Definitely not written, and it never will be as it stands."""
    UNKNOWN = "unknown"


RETRIABLE = frozenset(
    {
        ErrorCode.BROKER_NOT_AVAILABLE,
        ErrorCode.FENCED_LEADER_EPOCH,
        ErrorCode.KAFKA_STORAGE_ERROR,
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.OFFSET_NOT_AVAILABLE,
        ErrorCode.REQUEST_TIMED_OUT,
        ErrorCode.THROTTLING_QUOTA_EXCEEDED,
        ErrorCode.UNKNOWN_LEADER_EPOCH,
    }
)
"""Errors that pass: asking again, or asking another replica, can succeed. For a write this says nothing of safety."""


def produce_outcome(attempt: ProduceResponse | TransportError) -> Outcome:
    """Judge one attempt to write by its response, or by the failure that came instead."""
    if isinstance(attempt, NotAppliedError):
        return Outcome.RETRY
    if isinstance(attempt, TransportError):
        return Outcome.UNKNOWN
    if attempt.error is ErrorCode.NONE:
        return Outcome.WRITTEN
    if not write_definitely_failed(attempt.error, not_appended=attempt.not_appended):
        return Outcome.UNKNOWN
    return Outcome.RETRY if attempt.error in RETRIABLE else Outcome.REFUSED
