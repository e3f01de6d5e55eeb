"""The judgement of one attempt to have entries applied, and of what became of one command.

Owns both tables. Pure functions of what came back. A command is *in doubt* once a copy of it was sent of which nobody
has told what became of it; from then on only an answer of the group settles it.

Source: Ongaro's thesis, section 6.3; ``replica.machines.outcomes``.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from replica.client.asking import RETRIABLE
from replica.client.failures import NotWrittenError, OutcomeUnknownError, WriteError
from replica.client.groups.failures import CommandRefusedError, SessionExpiredError
from replica.core.messages import ApplyResponse
from replica.encoding import MalformedError
from replica.errors import ErrorCode
from replica.machines import Answered, Outcome, Refusal, Refused, decode_outcome, definitely_not_applied
from replica.rpc.transport import DeniedError, NotAppliedError, TransportError


class Step(StrEnum):
    """What follows from an attempt."""

    SETTLE = "settle"
    """There is an outcome for each entry."""
    REPEAT = "repeat"
    SEPARATE = "separate"
    """The entries do not fit into one request, or their outcomes into one answer: each is to be sent alone."""
    GIVE_UP = "give up"
    """Refused before the append, and nothing will change that."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """What follows, and whether this attempt may have had the entries applied without telling to what effect."""

    step: Step
    may_be_applied: bool
    reason: str = ""
    error: ErrorCode | None = None
    outcomes: tuple[Outcome, ...] = ()


def verdict_of(attempt: ApplyResponse | TransportError, *, entries: int, who: str) -> Verdict:
    """Judge an attempt with so many entries by its response, or by the failure that came instead."""
    if isinstance(attempt, DeniedError):
        return Verdict(step=Step.GIVE_UP, may_be_applied=False, reason=str(attempt), error=attempt.error)
    if isinstance(attempt, TransportError):
        may_be_applied = not isinstance(attempt, NotAppliedError)
        return Verdict(step=Step.REPEAT, may_be_applied=may_be_applied, reason=str(attempt))
    if attempt.error is ErrorCode.NONE:
        return _settled(attempt, entries, who)
    reason, error, doubt = f"{who}: {attempt.error}", attempt.error, not attempt.not_appended
    if error is ErrorCode.MESSAGE_TOO_LARGE and entries > 1:
        return Verdict(step=Step.SEPARATE, may_be_applied=doubt, reason=reason, error=error)
    if error is ErrorCode.MESSAGE_TOO_LARGE and doubt:
        reason = f"{who}: it was applied, and its reply is too large for an answer"
        return Verdict(step=Step.GIVE_UP, may_be_applied=True, reason=reason, error=error)
    step = Step.REPEAT if doubt or error in RETRIABLE else Step.GIVE_UP
    return Verdict(step=step, may_be_applied=doubt, reason=reason, error=error)


def _settled(answer: ApplyResponse, entries: int, who: str) -> Verdict:
    try:
        outcomes = tuple(map(decode_outcome, answer.outcomes))
    except MalformedError as error:
        return Verdict(step=Step.REPEAT, may_be_applied=True, reason=f"{who} answered what cannot be read: {error}")
    if len(outcomes) != entries:
        reason = f"{who} answered with {len(outcomes)} outcomes of {entries} entries"
        return Verdict(step=Step.REPEAT, may_be_applied=True, reason=reason)
    return Verdict(step=Step.SETTLE, may_be_applied=False, outcomes=outcomes)


@dataclass(frozen=True, slots=True, kw_only=True)
class Applied:
    """The machine has replied."""

    reply: bytes


class Again(StrEnum):
    """A copy that was not applied, and what to do about it."""

    LATER = "later"
    """The same sequence may be let in another time."""
    IN_NEW_SESSION = "in new session"
    """The session has ended, and no copy was ever applied: another session may carry the command."""


def fate_of(outcome: Outcome, *, in_doubt: bool) -> Applied | Again | WriteError:
    """Say what became of a command, by the outcome of one copy; ``in_doubt`` tells of the copies before it."""
    match outcome:
        case Answered(reply=reply):
            return Applied(reply=reply)
        case Refused(refusal=Refusal.SEQUENCE_BEYOND_WINDOW | Refusal.REPLIES_FULL):
            return Again.LATER
        case Refused(refusal=Refusal.UNKNOWN_SESSION, message=message):
            if not in_doubt:
                return Again.IN_NEW_SESSION
            return SessionExpiredError(f"{message}; it is unknown whether an earlier copy of the command was applied")
        case Refused(refusal=refusal, message=message):
            told = f"{refusal}: {message}"
            if definitely_not_applied(refusal, sent_once=not in_doubt):
                return CommandRefusedError(told, refusal)
            return OutcomeUnknownError(f"{told}; an earlier copy of the command may have been applied")
        case _:
            return OutcomeUnknownError(f"the group answered a command with {outcome}")


def lost(reason: str, error: ErrorCode | None, *, in_doubt: bool) -> WriteError:
    """The error of a command that is given up."""
    if in_doubt:
        return OutcomeUnknownError(f"the command may have been applied, or may be later: {reason}", error=error)
    return NotWrittenError(f"not applied: {reason}", error=error)
