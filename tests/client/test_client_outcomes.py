"""The judgement of one attempt to write, as a table: only what certainly left nothing may be repeated."""

from __future__ import annotations

import pytest

from replica.client.outcomes import Outcome, produce_outcome
from replica.core.messages import ProduceResponse
from replica.errors import DEFINITELY_NOT_WRITTEN, ErrorCode
from replica.server.transport import NotAppliedError, TransportError


def refused(error: ErrorCode, *, not_appended: bool) -> ProduceResponse:
    return ProduceResponse(error=error, not_appended=not_appended)


@pytest.mark.parametrize(
    ("attempt", "outcome"),
    [
        (ProduceResponse(error=ErrorCode.NONE), Outcome.WRITTEN),
        (NotAppliedError("never sent"), Outcome.RETRY),
        (TransportError("UNAVAILABLE after it was sent"), Outcome.UNKNOWN),
        (refused(ErrorCode.NOT_LEADER_OR_FOLLOWER, not_appended=True), Outcome.RETRY),
        (refused(ErrorCode.NOT_LEADER_OR_FOLLOWER, not_appended=False), Outcome.UNKNOWN),
        (refused(ErrorCode.REQUEST_TIMED_OUT, not_appended=False), Outcome.UNKNOWN),
        (refused(ErrorCode.UNKNOWN_SERVER_ERROR, not_appended=False), Outcome.UNKNOWN),
        (refused(ErrorCode.UNKNOWN_SERVER_ERROR, not_appended=True), Outcome.REFUSED),
        (refused(ErrorCode.BROKER_NOT_AVAILABLE, not_appended=True), Outcome.RETRY),
        (refused(ErrorCode.KAFKA_STORAGE_ERROR, not_appended=False), Outcome.UNKNOWN),
        (refused(ErrorCode.THROTTLING_QUOTA_EXCEEDED, not_appended=False), Outcome.RETRY),
        (refused(ErrorCode.FENCED_LEADER_EPOCH, not_appended=False), Outcome.RETRY),
        (refused(ErrorCode.CORRUPT_MESSAGE, not_appended=False), Outcome.REFUSED),
        (refused(ErrorCode.MESSAGE_TOO_LARGE, not_appended=True), Outcome.REFUSED),
        (refused(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, not_appended=True), Outcome.REFUSED),
        (refused(ErrorCode.INCONSISTENT_CLUSTER_ID, not_appended=True), Outcome.REFUSED),
    ],
)
def test_each_ending_is_judged(attempt: ProduceResponse | TransportError, outcome: Outcome) -> None:
    """Each way in which an attempt can end has its one judgement."""
    assert produce_outcome(attempt) is outcome


@pytest.mark.parametrize("error", sorted(set(ErrorCode) - DEFINITELY_NOT_WRITTEN - {ErrorCode.NONE}))
def test_what_is_not_definite_is_never_repeated(error: ErrorCode) -> None:
    """An error that does not exclude an append leaves the outcome unknown, unless the server says not appended."""
    assert produce_outcome(refused(error, not_appended=False)) is Outcome.UNKNOWN
    assert produce_outcome(refused(error, not_appended=True)) in (Outcome.RETRY, Outcome.REFUSED)
