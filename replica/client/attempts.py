"""The judgement of one attempt to send a batch: what the accumulator is to be told of it.

Owns the table of Produce's endings. Pure functions of what came back. Where a batch may have been written it says so;
whether it may then be sent again is the accumulator's decision. Source: Kafka's ``Sender.completeBatch``; KIP-98.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from replica.client.asking import RETRIABLE
from replica.core.messages import ProduceResponse
from replica.errors import ErrorCode, write_definitely_failed
from replica.rpc.transport import MalformedRequestError, NotAppliedError, TransportError


class Ending(StrEnum):
    """What an attempt has come to."""

    WRITTEN = "written"
    RETRIABLE = "retriable"
    OUT_OF_ORDER = "out of order"
    REFUSED = "refused"


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """An ending, and whether this attempt may have left the batch in the log."""

    ending: Ending
    may_be_written: bool


def verdict_of(attempt: ProduceResponse | TransportError) -> Verdict:
    """Judge one attempt by its response, or by the failure that came instead."""
    if isinstance(attempt, MalformedRequestError):
        return Verdict(ending=Ending.REFUSED, may_be_written=False)
    if isinstance(attempt, TransportError):
        return Verdict(ending=Ending.RETRIABLE, may_be_written=not isinstance(attempt, NotAppliedError))
    if attempt.error in (ErrorCode.NONE, ErrorCode.DUPLICATE_SEQUENCE_NUMBER):
        return Verdict(ending=Ending.WRITTEN, may_be_written=True)
    if attempt.error is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER:
        return Verdict(ending=Ending.OUT_OF_ORDER, may_be_written=False)
    return Verdict(
        ending=Ending.RETRIABLE if attempt.error in RETRIABLE else Ending.REFUSED,
        may_be_written=not write_definitely_failed(attempt.error, not_appended=attempt.not_appended),
    )
