"""What becomes of an entry: the outcomes, and what each says about a command.

Owns the closed set of refusals, and the rule that a client lives by: is the command *definitely not* applied, or is
that unknown? Knows nothing of machines.
"""

from __future__ import annotations

from enum import StrEnum

from msgspec import Struct

from replica.encoding import BYTES, COUNT, TEXT, Enumeration, Fields, Format, OneOf
from replica.machines.entries import SessionId

MESSAGE_CHARACTERS_MAX = 200
"""How much of a machine's message is kept."""


class Refusal(StrEnum):
    """Why an entry was not performed."""

    INVALID_ENTRY = "INVALID_ENTRY"
    """The record is no entry."""
    INVALID_COMMAND = "INVALID_COMMAND"
    """The machine does not understand the command, or the request."""
    UNKNOWN_SESSION = "UNKNOWN_SESSION"
    """The session has expired, was closed, or never was. None of its commands will ever be applied again."""
    SEQUENCE_FORGOTTEN = "SEQUENCE_FORGOTTEN"
    """The client has said that it waits for this sequence no more. It will never be applied again."""
    SEQUENCE_BEYOND_WINDOW = "SEQUENCE_BEYOND_WINDOW"
    """Too far ahead of what the client still waits for. The same sequence may be sent again."""
    REPLIES_FULL = "REPLIES_FULL"
    """Too many bytes of replies that the client has not acknowledged. The same sequence may be sent again."""
    TOO_MANY_SESSIONS = "TOO_MANY_SESSIONS"
    """No session was opened: there are as many as there may be."""
    INVALID_TTL = "INVALID_TTL"
    """No session was opened: its time to live is out of bounds."""
    QUERY_FAILED = "QUERY_FAILED"
    """The machine has a bug that showed while it answered a question. Its state has not changed."""


_WHATEVER_WAS_SENT = frozenset(
    {
        Refusal.INVALID_ENTRY,
        Refusal.INVALID_COMMAND,
        Refusal.TOO_MANY_SESSIONS,
        Refusal.INVALID_TTL,
        Refusal.QUERY_FAILED,
    }
)
"""Refusals that every copy of the same command earns."""


def definitely_not_applied(refusal: Refusal, *, sent_once: bool) -> bool:
    """Tell whether a command that was refused has certainly not been applied, and never will be.

    A refusal speaks of one copy of the command. Where the client has sent no other, that is all there is to know. Where
    it has (a retry after a timeout), the other one may have been applied before, and for the two refusals that pass
    (beyond the window, replies full) may still be. The client then sends the same sequence again until it is answered;
    or it gives up, acknowledges beyond it, and the command's fate is unknown.
    """
    return sent_once or refusal in _WHATEVER_WAS_SENT


class Answered(Struct, frozen=True, kw_only=True):
    """The machine's reply: of the first time where the command was repeated."""

    reply: bytes


class SessionOpened(Struct, frozen=True, kw_only=True):
    """The session is open, with this id."""

    session_id: SessionId


class Done(Struct, frozen=True, kw_only=True):
    """Performed, without anything to tell: a session kept alive or closed, a tick."""


class Refused(Struct, frozen=True, kw_only=True):
    """Not performed, and why. ``message`` is for people."""

    refusal: Refusal
    message: str


Outcome = Answered | SessionOpened | Done | Refused

OUTCOME: OneOf[Outcome] = OneOf(
    {
        1: Fields(Answered, reply=BYTES),
        2: Fields(SessionOpened, session_id=COUNT),
        3: Fields(Done),
        4: Fields(Refused, refusal=Enumeration(Refusal), message=TEXT),
    }
)
"""An outcome as part of something larger."""

_FORMAT: Format[Outcome] = Format(OUTCOME)


encode_outcome, decode_outcome = _FORMAT.encode, _FORMAT.decode
"""Of one outcome. What cannot be read raises MalformedError."""


def refused(refusal: Refusal, message: str) -> Refused:
    """A refusal with a message that can be written down: of bounded length, and in UTF-8."""
    return Refused(refusal=refusal, message=message[:MESSAGE_CHARACTERS_MAX].encode("utf-8", "replace").decode())


def size_bytes(outcome: Outcome) -> int:
    """About how many bytes it takes to keep an outcome: what the client and the machine have chosen of it."""
    match outcome:
        case Answered(reply=reply):
            return len(reply)
        case Refused(message=message):
            return len(message)
        case _:
            return 0
