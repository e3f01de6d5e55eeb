"""The judgement of one attempt to send a batch, as a table."""

from __future__ import annotations

import pytest

from replica.client.attempts import Ending, Verdict, verdict_of
from replica.core.messages import ProduceResponse
from replica.errors import DEFINITELY_NOT_WRITTEN, ErrorCode
from replica.rpc.transport import DeniedError, MalformedRequestError, NotAppliedError, TransportError


def refused(error: ErrorCode, *, not_appended: bool = False) -> ProduceResponse:
    return ProduceResponse(error=error, not_appended=not_appended)


@pytest.mark.parametrize(
    ("attempt", "ending", "may_be_written"),
    [
        (ProduceResponse(error=ErrorCode.NONE), Ending.WRITTEN, True),
        (refused(ErrorCode.DUPLICATE_SEQUENCE_NUMBER), Ending.WRITTEN, True),
        (NotAppliedError("never sent"), Ending.RETRIABLE, False),
        (MalformedRequestError("records has 9000000 bytes"), Ending.REFUSED, False),
        (DeniedError("the token has expired"), Ending.REFUSED, False),
        (refused(ErrorCode.TOPIC_AUTHORIZATION_FAILED), Ending.REFUSED, False),
        (TransportError("UNAVAILABLE"), Ending.RETRIABLE, True),
        (refused(ErrorCode.NOT_LEADER_OR_FOLLOWER), Ending.RETRIABLE, True),
        (refused(ErrorCode.NOT_LEADER_OR_FOLLOWER, not_appended=True), Ending.RETRIABLE, False),
        (refused(ErrorCode.REQUEST_TIMED_OUT), Ending.RETRIABLE, True),
        (refused(ErrorCode.NOT_ENOUGH_REPLICAS), Ending.RETRIABLE, False),
        (refused(ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND), Ending.RETRIABLE, True),
        (refused(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION), Ending.RETRIABLE, False),
        (refused(ErrorCode.THROTTLING_QUOTA_EXCEEDED), Ending.RETRIABLE, False),
        (refused(ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER), Ending.OUT_OF_ORDER, False),
        (refused(ErrorCode.INVALID_PRODUCER_EPOCH), Ending.REFUSED, False),
        (refused(ErrorCode.MESSAGE_TOO_LARGE, not_appended=True), Ending.REFUSED, False),
        (refused(ErrorCode.CORRUPT_MESSAGE), Ending.REFUSED, False),
        (refused(ErrorCode.UNKNOWN_SERVER_ERROR), Ending.REFUSED, True),
        (refused(ErrorCode.UNKNOWN_SERVER_ERROR, not_appended=True), Ending.REFUSED, False),
    ],
)
def test_each_ending_is_judged(attempt: ProduceResponse | TransportError, ending: Ending, may_be_written: bool) -> None:
    """Each way in which an attempt can end has its one judgement."""
    assert verdict_of(attempt) == Verdict(ending=ending, may_be_written=may_be_written)


@pytest.mark.parametrize("error", sorted(set(ErrorCode) - DEFINITELY_NOT_WRITTEN))
def test_what_is_not_definite_may_be_written(error: ErrorCode) -> None:
    """No error that leaves a doubt is taken for a proof, unless the server says that nothing was appended."""
    assert verdict_of(refused(error)).may_be_written
