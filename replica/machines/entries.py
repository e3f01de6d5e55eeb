"""What the records of a state machine's log say.

Owns one frozen class per entry and their encoding; a record's value is one entry. Knows nothing of what happens with
them (``sessions``, ``applied``), nor of what a command means to its machine.

A session's life is told by the log alone: it is opened, kept alive and closed by entries, and it expires by log time,
which needs no entry. Time is not written into entries: it is the timestamp of the batch, given by the leader.

A version that a replica does not know is damage to it like any other, since every replica must make the same of every
entry. So all replicas of a group are to be updated before they are compared: the first leader that knows
``DescribeMachine`` writes it, and to a replica that does not it is damage without consequence.

Source: Ongaro's thesis, section 6.3 and its figure 6.1 (RegisterClient, ClientRequest).
"""

from __future__ import annotations

from typing import NewType

from msgspec import Struct

from replica.encoding import BYTES, COUNT, POSITIVE, Fields, Format, MalformedError, OneOf
from replica.machines.description import DESCRIPTION, MachineDescription

SessionId = NewType("SessionId", int)
"""One session for ever: the offset of the entry that opened it. No other session of this log ever has the same."""


class OpenSession(Struct, frozen=True, kw_only=True):
    """A client begins a session, which ends when it is not heard of for ``ttl_ms`` of log time.

    One that is sent twice opens two; the one that nobody knows of expires.
    """

    ttl_ms: int


class KeepSessionAlive(Struct, frozen=True, kw_only=True):
    """The client is there, and waits for no reply to a sequence below ``acknowledged``."""

    session_id: SessionId
    acknowledged: int


class CloseSession(Struct, frozen=True, kw_only=True):
    """The session ends."""

    session_id: SessionId


class SessionCommand(Struct, frozen=True, kw_only=True):
    """A command that is applied once, however often it stands in the log.

    A session counts its commands from 0: ``sequence``. ``acknowledged`` is the lowest for whose reply the client still
    waits, this one at the most; what was kept for those below is forgotten.
    """

    session_id: SessionId
    sequence: int
    acknowledged: int
    command: bytes

    def __post_init__(self) -> None:
        if self.acknowledged > self.sequence:
            raise ValueError(f"sequence {self.sequence} is below {self.acknowledged}, which it acknowledges")


class PlainCommand(Struct, frozen=True, kw_only=True):
    """A command without a session: it is applied as often as it stands in the log."""

    command: bytes


class Tick(Struct, frozen=True, kw_only=True):
    """Time has passed, and nothing else has happened."""


class DescribeMachine(Struct, frozen=True, kw_only=True):
    """The log is of this machine: written once, by a leader of its own accord, before anything else that it writes."""

    machine: MachineDescription


Entry = OpenSession | KeepSessionAlive | CloseSession | SessionCommand | PlainCommand | Tick | DescribeMachine


class MalformedEntry(Struct, frozen=True, kw_only=True):
    """Bytes that are no entry, and why."""

    reason: str


_FORMAT: Format[Entry] = Format(
    OneOf(
        {
            1: Fields(OpenSession, ttl_ms=POSITIVE),
            2: Fields(KeepSessionAlive, session_id=COUNT, acknowledged=COUNT),
            3: Fields(CloseSession, session_id=COUNT),
            4: Fields(SessionCommand, session_id=COUNT, sequence=COUNT, acknowledged=COUNT, command=BYTES),
            5: Fields(PlainCommand, command=BYTES),
            6: Fields(Tick),
            7: Fields(DescribeMachine, machine=DESCRIPTION),
        }
    )
)


encode_entry = _FORMAT.encode


def decode_entry(data: bytes) -> Entry | MalformedEntry:
    """Decode one entry: all of ``data``, and nothing but an entry of a known version."""
    try:
        return _FORMAT.decode(data)
    except MalformedError as error:
        return MalformedEntry(reason=str(error))
