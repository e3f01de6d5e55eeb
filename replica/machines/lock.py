"""A lock service: named locks that are held for a time, each holding with a fencing token.

Owns who holds which lock, until when, and the tokens. A holder that is not heard of loses its lock by log time; it may
not know that yet, and still write to what the lock protects. So every holding has a token, larger than all before.
The holder shows it with every write, and what is protected refuses a token that is smaller than one it has seen.

Source: Kleppmann, "How to do distributed locking" (2016); Burrows, "The Chubby lock service" (2006), section 2.4.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import assert_never

from msgspec import Struct

from replica.deadlines import Deadlines
from replica.encoding import (
    COUNT,
    POSITIVE,
    TEXT,
    Enumeration,
    Fields,
    Format,
    MalformedError,
    OneOf,
    Optional,
    Row,
)
from replica.machines.machine import CorruptSnapshotError, InvalidCommandError, StateMachine

NAME_CHARACTERS_MAX = 1_000
"""How long the name of a lock or of an owner may be."""
LOCKS_MAX = 100_000
"""How many locks may be held at a time."""
TTL_MS_MAX = 86_400_000


class Acquire(Struct, frozen=True, kw_only=True):
    """Hold a lock for ``ttl_ms`` of log time, unless it is held: by this owner too."""

    name: str
    owner: str
    ttl_ms: int


class KeepAlive(Struct, frozen=True, kw_only=True):
    """Hold it for its whole time from now on."""

    name: str
    token: int


class Release(Struct, frozen=True, kw_only=True):
    """Hold it no more."""

    name: str
    token: int


class DescribeLock(Struct, frozen=True, kw_only=True):
    """Who holds a lock?"""

    name: str


class Holding(Struct, frozen=True, kw_only=True):
    """A lock is held. ``token`` is larger than that of any holding before, of any lock. It expires by log time."""

    name: str
    owner: str
    token: int
    ttl_ms: int
    expires_at_ms: int


class LockError(StrEnum):
    """Why nothing was done."""

    HELD = "HELD"
    NOT_HELD = "NOT_HELD"
    """Not by this token: it has expired, was released, or never was."""
    OUT_OF_BOUNDS = "OUT_OF_BOUNDS"
    """A name is too long, a time to live is, or there are too many locks."""


class LockReply(Struct, frozen=True, kw_only=True):
    """What was asked for is done, or why not; and who holds the lock now."""

    error: LockError | None
    holding: Holding | None


LockCommand = Acquire | KeepAlive | Release


class _Snapshot(Struct, frozen=True, kw_only=True):
    """By the names of their locks, and the next token: a token that came again would fence nobody."""

    next_token: int
    time_ms: int
    holdings: tuple[Holding, ...]


_HOLDING = Fields(Holding, name=TEXT, owner=TEXT, token=POSITIVE, ttl_ms=POSITIVE, expires_at_ms=COUNT)
_COMMAND: Format[LockCommand] = Format(
    OneOf(
        {
            1: Fields(Acquire, name=TEXT, owner=TEXT, ttl_ms=POSITIVE),
            2: Fields(KeepAlive, name=TEXT, token=POSITIVE),
            3: Fields(Release, name=TEXT, token=POSITIVE),
        }
    )
)
_REQUEST = Format(Fields(DescribeLock, name=TEXT))
_REPLY = Format(Fields(LockReply, error=Optional(Enumeration(LockError)), holding=Optional(_HOLDING)))
_SNAPSHOT = Format(Fields(_Snapshot, next_token=POSITIVE, time_ms=COUNT, holdings=Row(_HOLDING)))


encode_command, encode_request = _COMMAND.encode, _REQUEST.encode
decode_reply = _REPLY.decode
"""Of a command or a question. Raises MalformedError."""


class LockView(Struct, frozen=True, kw_only=True):
    """All locks as they were held at one moment. A holding never changes: another takes its place."""

    next_token: int
    time_ms: int
    holdings: Mapping[str, Holding]

    def encode(self) -> bytes:
        """Write all holdings down."""
        holdings = tuple(self.holdings[name] for name in sorted(self.holdings))
        return _SNAPSHOT.encode(_Snapshot(next_token=self.next_token, time_ms=self.time_ms, holdings=holdings))


class LockMachine(StateMachine):
    """All locks that are held."""

    def __init__(self) -> None:
        self._next_token = 1
        self._time_ms = 0
        self._holdings: dict[str, Holding] = {}
        self._deadlines = Deadlines[str]()

    def traits(self) -> Mapping[str, int]:
        """The bounds that a command is refused by."""
        return {
            "version": 1,
            "locks_max": LOCKS_MAX,
            "name_characters_max": NAME_CHARACTERS_MAX,
            "ttl_ms_max": TTL_MS_MAX,
        }

    def advance(self, time_ms: int) -> None:
        """Take the locks from those that were not heard of."""
        self._time_ms = time_ms
        for name in self._deadlines.take_due(time_ms):
            del self._holdings[name]

    def apply(self, command: bytes, *, time_ms: int) -> bytes:
        """Perform one command, and answer with a LockReply."""
        try:
            decoded = _COMMAND.decode(command)
        except MalformedError as error:
            raise InvalidCommandError(str(error)) from error
        self.advance(time_ms)
        failure = self._perform(decoded)
        return _REPLY.encode(LockReply(error=failure, holding=self._holdings.get(decoded.name)))

    def query(self, request: bytes) -> bytes:
        """Tell who holds a lock, with a LockReply."""
        try:
            name = _REQUEST.decode(request).name
        except MalformedError as error:
            raise InvalidCommandError(str(error)) from error
        return _REPLY.encode(LockReply(error=None, holding=self._holdings.get(name)))

    def view(self) -> LockView:
        """All holdings, by a copy of what refers to them."""
        return LockView(next_token=self._next_token, time_ms=self._time_ms, holdings=self._holdings.copy())

    def restore(self, snapshot: bytes) -> None:
        """Read them back."""
        try:
            state = _SNAPSHOT.decode(snapshot)
        except MalformedError as error:
            raise CorruptSnapshotError(str(error)) from error
        self._next_token = state.next_token
        self._time_ms = state.time_ms
        self._holdings = {}
        self._deadlines = Deadlines[str]()
        for holding in state.holdings:
            self._hold(holding)

    def _perform(self, command: LockCommand) -> LockError | None:
        match command:
            case Acquire():
                return self._acquire(command)
            case KeepAlive(name=name, token=token):
                holding = self._held_by(name, token)
                if holding is None:
                    return LockError.NOT_HELD
                self._hold_anew(name, holding.owner, token, holding.ttl_ms)
                return None
            case Release(name=name, token=token):
                if self._held_by(name, token) is None:
                    return LockError.NOT_HELD
                del self._holdings[name]
                self._deadlines.set(name, None)
                return None
            case _:
                assert_never(command)

    def _acquire(self, command: Acquire) -> LockError | None:
        if max(len(command.name), len(command.owner)) > NAME_CHARACTERS_MAX or command.ttl_ms > TTL_MS_MAX:
            return LockError.OUT_OF_BOUNDS
        if command.name in self._holdings:
            return LockError.HELD
        if len(self._holdings) >= LOCKS_MAX:
            return LockError.OUT_OF_BOUNDS
        self._hold_anew(command.name, command.owner, self._next_token, command.ttl_ms)
        self._next_token += 1
        return None

    def _held_by(self, name: str, token: int) -> Holding | None:
        holding = self._holdings.get(name)
        return holding if holding is not None and holding.token == token else None

    def _hold_anew(self, name: str, owner: str, token: int, ttl_ms: int) -> None:
        expires_at_ms = self._time_ms + ttl_ms
        self._hold(Holding(name=name, owner=owner, token=token, ttl_ms=ttl_ms, expires_at_ms=expires_at_ms))

    def _hold(self, holding: Holding) -> None:
        self._holdings[holding.name] = holding
        self._deadlines.set(holding.name, holding.expires_at_ms)
