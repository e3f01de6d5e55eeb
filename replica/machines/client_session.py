"""The client's side of a session: which number a command has, and what the client has done with.

Owns the numbers. Knows nothing of how entries are sent, nor when they are sent again: a command that was begun may be
sent as often as its sender likes, and is applied once.
"""

from __future__ import annotations

from replica.machines.entries import KeepSessionAlive, SessionCommand, SessionId


class ClientSession:
    """Commands that were begun and not settled yet, of an open session."""

    def __init__(self, session_id: SessionId) -> None:
        self.session_id = session_id
        self._next_sequence = 0
        self._acknowledged = 0
        self._pending: dict[int, bytes] = {}

    @property
    def acknowledged(self) -> int:
        """The lowest sequence that is not settled; the next one if all are."""
        return self._acknowledged

    @property
    def span(self) -> int:
        """How many sequences the session must remember from the acknowledged one on: at most its window."""
        return self._next_sequence - self._acknowledged

    def begin(self, command: bytes) -> int:
        """Give a new command its sequence."""
        sequence = self._next_sequence
        self._next_sequence += 1
        self._pending[sequence] = command
        return sequence

    def entry(self, sequence: int) -> SessionCommand:
        """The entry that carries a command that is not settled: to be sent, or sent again."""
        return SessionCommand(
            session_id=self.session_id,
            sequence=sequence,
            acknowledged=self._acknowledged,
            command=self._pending[sequence],
        )

    def keep_alive(self) -> KeepSessionAlive:
        """The entry that says that the client is there."""
        return KeepSessionAlive(session_id=self.session_id, acknowledged=self._acknowledged)

    def settle(self, sequence: int) -> None:
        """Be done with a command, which was answered or is given up; it is not sent again. Twice does no harm."""
        self._pending.pop(sequence, None)
        while self._acknowledged < self._next_sequence and self._acknowledged not in self._pending:
            self._acknowledged += 1
