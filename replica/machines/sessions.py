"""Exactly once: what is remembered of clients, so that a command that comes again is answered and not applied.

Owns the table of sessions: who is there, until when, and which replies are kept. Knows nothing of machines or logs; all
it is told comes from committed entries, so it is the same on all replicas, and part of the snapshot. A command that was
applied and whose reply is not here could be applied twice.

A client may have many commands on their way, and they may be committed in any order. For each sequence of a session
exactly one of these holds:

    sequence < acknowledged                     the client waits for it no more: refused, whatever became of it
    a reply is kept                             it was applied: the same reply once more
    sequence < acknowledged + window            it was never applied: now it is, and the reply is kept
    else                                        too far ahead to be remembered: refused, and may come again

Replies that take too much room delay the third line for all sequences but ``acknowledged`` itself, the one that the
client must have to acknowledge more: it is always let in, so no session locks itself up.

``acknowledged`` never falls, and a session that has gone never comes back: its id is the offset of an entry. So no
command can find itself in the third line twice.

Source: Ongaro's thesis, section 6.3, where clients acknowledge and sessions expire by log time in this way.
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import pairwise

from msgspec import Struct
from msgspec.structs import asdict

from replica.deadlines import Deadlines
from replica.encoding import COUNT, POSITIVE, Fields, Row
from replica.machines.entries import SessionCommand, SessionId
from replica.machines.outcomes import OUTCOME, Done, Outcome, Refusal, Refused, SessionOpened, refused, size_bytes


class SessionLimits(Struct, frozen=True, kw_only=True):
    """How much is remembered at most. All replicas of a log have the same limits: outcomes hang on them."""

    sessions_max: int = 4_096
    window: int = 8_192
    """How many sequences of one session, from the acknowledged one on, may be sent."""
    kept_bytes_max: int = 4 << 20
    """How many bytes of replies a session may keep. The last one may exceed it, and so may that of the lowest sequence
    that is not acknowledged, which is always let in."""
    kept_bytes_total_max: int = 256 << 20
    """The same for all sessions together: each may exceed it by the reply of its lowest sequence."""
    ttl_ms_min: int = 1_000
    ttl_ms_max: int = 86_400_000

    def traits(self) -> dict[str, int]:
        """All of them, under names that no machine gives."""
        return {f"sessions.{name}": value for name, value in asdict(self).items()}

    def __post_init__(self) -> None:
        if min(self.sessions_max, self.window, self.kept_bytes_max, self.kept_bytes_total_max, self.ttl_ms_min) < 1:
            raise ValueError(f"limits are 1 or more: {self}")
        if self.ttl_ms_min > self.ttl_ms_max:
            raise ValueError(f"the shortest time to live is above the longest: {self}")


class KeptReply(Struct, frozen=True, kw_only=True):
    """What became of one sequence."""

    sequence: int
    outcome: Outcome


class SessionState(Struct, frozen=True, kw_only=True):
    """One session as a snapshot holds it; replies in the order of their sequences."""

    session_id: SessionId
    ttl_ms: int
    expires_at_ms: int
    acknowledged: int
    replies: tuple[KeptReply, ...]


LIMITS = Fields(
    SessionLimits,
    sessions_max=POSITIVE,
    window=POSITIVE,
    kept_bytes_max=POSITIVE,
    kept_bytes_total_max=POSITIVE,
    ttl_ms_min=POSITIVE,
    ttl_ms_max=POSITIVE,
)
SESSION = Fields(
    SessionState,
    session_id=COUNT,
    ttl_ms=POSITIVE,
    expires_at_ms=COUNT,
    acknowledged=COUNT,
    replies=Row(Fields(KeptReply, sequence=COUNT, outcome=OUTCOME)),
)


class _Session:
    """One client. ``replies`` has all sequences that were applied, from ``acknowledged`` on.

    It changes while the table has taken no view since ``views_before`` of them; then a copy changes in its place.
    """

    __slots__ = ("acknowledged", "kept_bytes", "replies", "ttl_ms", "views_before")

    def __init__(self, ttl_ms: int, views_before: int) -> None:
        self.ttl_ms = ttl_ms
        self.views_before = views_before
        self.acknowledged = 0
        self.replies: dict[int, Outcome] = {}
        self.kept_bytes = 0

    def acknowledge(self, acknowledged: int) -> None:
        """Forget the replies below. A lower number than before comes from an entry that was late."""
        if acknowledged <= self.acknowledged:
            return
        if acknowledged - self.acknowledged <= len(self.replies):
            forgotten = [sequence for sequence in range(self.acknowledged, acknowledged) if sequence in self.replies]
        else:  # a leap: what is there is less than what lies between
            forgotten = [sequence for sequence in self.replies if sequence < acknowledged]
        for sequence in forgotten:
            self.kept_bytes -= size_bytes(self.replies.pop(sequence))
        self.acknowledged = acknowledged

    def copied(self, views_before: int) -> _Session:
        """The same client, to be changed."""
        copied = _Session(self.ttl_ms, views_before)
        copied.acknowledged, copied.kept_bytes, copied.replies = self.acknowledged, self.kept_bytes, self.replies.copy()
        return copied

    def keep(self, sequence: int, outcome: Outcome) -> None:
        """Remember what became of a sequence."""
        assert sequence not in self.replies, sequence
        assert sequence >= self.acknowledged, (sequence, self.acknowledged)
        self.replies[sequence] = outcome
        self.kept_bytes += size_bytes(outcome)


class SessionsView(Struct, frozen=True, kw_only=True):
    """All sessions as they stood at one moment."""

    sessions: Mapping[SessionId, _Session]
    expires_at_ms: Mapping[int, int]

    def states(self) -> tuple[SessionState, ...]:
        """All sessions, in the order of their ids."""
        return tuple(self._state(session_id) for session_id in sorted(self.sessions))

    def _state(self, session_id: SessionId) -> SessionState:
        session = self.sessions[session_id]
        return SessionState(
            session_id=session_id,
            ttl_ms=session.ttl_ms,
            expires_at_ms=self.expires_at_ms[session_id],
            acknowledged=session.acknowledged,
            replies=tuple(
                KeptReply(sequence=sequence, outcome=session.replies[sequence]) for sequence in sorted(session.replies)
            ),
        )


NO_SESSIONS = SessionsView(sessions={}, expires_at_ms={})


class SessionTable:
    """All sessions that have not expired."""

    def __init__(self, limits: SessionLimits) -> None:
        self.limits = limits
        self._sessions: dict[SessionId, _Session] = {}
        self._deadlines = Deadlines[int]()
        self._kept_bytes = 0
        self._views = 0
        """How many views were taken."""

    def __len__(self) -> int:
        return len(self._sessions)

    def expire(self, time_ms: int) -> None:
        """Let the sessions go that were not heard of for too long."""
        for session_id in self._deadlines.take_due(time_ms):
            self._kept_bytes -= self._sessions.pop(SessionId(session_id)).kept_bytes

    def open(self, session_id: SessionId, *, ttl_ms: int, time_ms: int) -> Outcome:
        """Begin a session."""
        assert session_id not in self._sessions, session_id
        shortest, longest = self.limits.ttl_ms_min, self.limits.ttl_ms_max
        if not shortest <= ttl_ms <= longest:
            return refused(Refusal.INVALID_TTL, f"a session lives from {shortest} to {longest} ms, not {ttl_ms}")
        if len(self._sessions) >= self.limits.sessions_max:
            return refused(Refusal.TOO_MANY_SESSIONS, f"there are {len(self._sessions)} sessions, and may be no more")
        self._sessions[session_id] = _Session(ttl_ms, self._views)
        self._deadlines.set(session_id, time_ms + ttl_ms)
        return SessionOpened(session_id=session_id)

    def keep_alive(self, session_id: SessionId, *, acknowledged: int, time_ms: int) -> Outcome:
        """Hear of a client."""
        session = self._hear(session_id, acknowledged, time_ms)
        return _unknown(session_id) if session is None else Done()

    def close(self, session_id: SessionId) -> Outcome:
        """End a session; one that has ended is not refused, so that closing can be repeated."""
        session = self._sessions.pop(session_id, None)
        if session is not None:
            self._kept_bytes -= session.kept_bytes
        self._deadlines.set(session_id, None)
        return Done()

    def outcome_of(self, command: SessionCommand, *, time_ms: int) -> Outcome | None:
        """What a command is answered with as it stands; None if it is new: then it is to be applied, and kept."""
        session = self._hear(command.session_id, command.acknowledged, time_ms)
        if session is None:
            return _unknown(command.session_id)
        if command.sequence < session.acknowledged:
            return refused(Refusal.SEQUENCE_FORGOTTEN, f"acknowledged is what lies below {session.acknowledged}")
        kept = session.replies.get(command.sequence)
        return self._no_room(session, command.sequence) if kept is None else kept

    def keep(self, command: SessionCommand, outcome: Outcome) -> None:
        """Remember the outcome of a command that ``outcome_of`` has found to be new."""
        session = self._changing(command.session_id)
        before = session.kept_bytes
        session.keep(command.sequence, outcome)
        self._kept_bytes += session.kept_bytes - before

    def view(self) -> SessionsView:
        """All sessions as they stand: who changes later does so as a copy. Costs a copy of the references."""
        self._views += 1
        return SessionsView(sessions=self._sessions.copy(), expires_at_ms=self._deadlines.all_ms())

    def restore(self, states: tuple[SessionState, ...]) -> None:
        """Let these, which ``sessions_failure`` has nothing against, be all sessions."""
        self._sessions = {}
        self._deadlines = Deadlines[int]()
        self._kept_bytes = 0
        for state in states:
            session = _Session(state.ttl_ms, self._views)
            session.acknowledged = state.acknowledged
            for kept in state.replies:
                session.keep(kept.sequence, kept.outcome)
            self._sessions[state.session_id] = session
            self._kept_bytes += session.kept_bytes
            self._deadlines.set(state.session_id, state.expires_at_ms)

    def _hear(self, session_id: SessionId, acknowledged: int, time_ms: int) -> _Session | None:
        if session_id not in self._sessions:
            return None
        session = self._changing(session_id)
        before = session.kept_bytes
        session.acknowledge(acknowledged)
        self._kept_bytes += session.kept_bytes - before
        self._deadlines.set(session_id, time_ms + session.ttl_ms)
        return session

    def _changing(self, session_id: SessionId) -> _Session:
        """A session that may be changed: no view has it."""
        session = self._sessions[session_id]
        if session.views_before != self._views:
            session = self._sessions[session_id] = session.copied(self._views)
        return session

    def _no_room(self, session: _Session, sequence: int) -> Refused | None:
        end = session.acknowledged + self.limits.window
        if sequence >= end:
            return refused(
                Refusal.SEQUENCE_BEYOND_WINDOW, f"sequences from {session.acknowledged} to {end - 1} may come"
            )
        if sequence == session.acknowledged:  # all else may wait for it
            return None
        if session.kept_bytes >= self.limits.kept_bytes_max:
            return refused(Refusal.REPLIES_FULL, f"{session.kept_bytes} bytes of replies wait to be acknowledged")
        if self._kept_bytes >= self.limits.kept_bytes_total_max:
            return refused(Refusal.REPLIES_FULL, f"{self._kept_bytes} bytes of replies wait in all sessions")
        return None


def sessions_failure(
    states: tuple[SessionState, ...], *, limits: SessionLimits, end_offset: int, time_ms: int
) -> str | None:
    """Why no log that ends at ``end_offset`` (exclusive) has these sessions at log time ``time_ms``."""
    if len(states) > limits.sessions_max:
        return f"{len(states)} sessions, the most is {limits.sessions_max}"
    if not _ascend([state.session_id for state in states], 0, end_offset):
        return f"ids of sessions do not ascend below offset {end_offset}"
    for state in states:
        if not limits.ttl_ms_min <= state.ttl_ms <= limits.ttl_ms_max:
            return f"session {state.session_id} lives for {state.ttl_ms} ms"
        if not time_ms < state.expires_at_ms <= time_ms + state.ttl_ms:
            return f"session {state.session_id} expires at {state.expires_at_ms}, which log time {time_ms} excludes"
        sequences = [kept.sequence for kept in state.replies]
        if not _ascend(sequences, state.acknowledged, state.acknowledged + limits.window):
            return f"replies of session {state.session_id} do not ascend within its window"
    return None


def _ascend(numbers: list[int], first: int, end: int) -> bool:
    """Tell whether numbers ascend strictly, from ``first`` (inclusive) to ``end`` (exclusive)."""
    return all(low < high for low, high in pairwise([first - 1, *numbers, end]))


def _unknown(session_id: SessionId) -> Refused:
    return refused(Refusal.UNKNOWN_SESSION, f"there is no session {session_id}, or no longer")
