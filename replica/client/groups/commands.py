"""Commands that somebody waits for: what is known of each, and which of them travel together.

Owns a command from the call of ``apply`` to its outcome. Knows nothing of requests or connections.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Iterable, Iterator

from replica.client.failures import WriteError
from replica.client.groups.config import GroupConfig
from replica.client.groups.verdicts import Applied, lost
from replica.errors import ErrorCode
from replica.machines import ClientSession, SessionCommand

ENTRY_OVERHEAD_BYTES = 32
"""What an entry says beside its command, rounded up."""


class PendingCommand:
    """One command. It belongs to a session once it was sent, and to that one as long as it is in doubt.

    ``is_calling`` while a replica may be applying a copy; ``in_doubt`` once a copy was sent of which nothing was told.
    """

    def __init__(self, command: bytes, end_ms: int) -> None:
        self.command = command
        self.end_ms = end_ms
        self.done = asyncio.Event()
        self.is_calling = False
        self.in_doubt = False
        self.travels_alone = False
        self.reason = "it was never sent"
        self.error: ErrorCode | None = None
        self._fate: Applied | WriteError | None = None
        self._session: ClientSession | None = None
        self._sequence = -1

    @property
    def size_bytes(self) -> int:
        """About what it takes in a request."""
        return len(self.command) + ENTRY_OVERHEAD_BYTES

    @property
    def session(self) -> ClientSession | None:
        """The session in which it is numbered, if it is."""
        return self._session

    def number(self, session: ClientSession) -> None:
        """Give it its sequence."""
        assert self._session is None, self._sequence
        self._session, self._sequence = session, session.begin(self.command)

    def leave_session(self) -> None:
        """No copy was applied, and the session has ended: it may go on in another one."""
        assert not self.in_doubt, self._sequence
        assert self._session is not None, self.command[:64]
        self._session.settle(self._sequence)
        self._session = None

    def entry(self) -> SessionCommand:
        """The entry that carries it."""
        assert self._session is not None, self.command[:64]
        return self._session.entry(self._sequence)

    def on_trouble(self, reason: str, error: ErrorCode | None) -> None:
        """Note why it has no outcome yet."""
        self.reason, self.error = reason, error

    def settle(self, fate: Applied | WriteError) -> None:
        """This is its outcome. The first one stays."""
        if self._fate is None:
            self._fate = fate
            if self._session is not None:
                self._session.settle(self._sequence)
            self.done.set()

    def give_up(self, why: str) -> None:
        """Nobody waits any longer."""
        self.settle(lost(f"{why}; last: {self.reason}", self.error, in_doubt=self.in_doubt or self.is_calling))

    def reply(self) -> bytes:
        """The machine's reply, or what was raised instead."""
        assert self._fate is not None, self.command[:64]
        if isinstance(self._fate, Applied):
            return self._fate.reply
        raise self._fate


class WaitingCommands:
    """Those that are to be sent, in order, and batches made of them."""

    def __init__(self, config: GroupConfig) -> None:
        self._config = config
        self._commands: deque[PendingCommand] = deque()

    def __iter__(self) -> Iterator[PendingCommand]:
        return iter(self._commands)

    def append(self, command: PendingCommand) -> None:
        """Behind all others."""
        self._commands.append(command)

    def put_back(self, commands: Iterable[PendingCommand]) -> None:
        """Before all others: they were sent already."""
        self._commands.extendleft(reversed(tuple(commands)))

    def has_any(self) -> bool:
        """Whether one waits. Those that were given up are forgotten."""
        while self._commands and self._commands[0].done.is_set():
            self._commands.popleft()
        return bool(self._commands)

    def take(self, session: ClientSession) -> list[PendingCommand]:
        """The next batch, each command with its number: as many as one request carries, and the window lets in."""
        batch: list[PendingCommand] = []
        size_bytes = 0
        while self.has_any() and len(batch) < self._config.batch_entries_max:
            command = self._commands[0]
            size_bytes += command.size_bytes
            if batch and (command.travels_alone or size_bytes > self._config.batch_bytes_max):
                break
            if command.session is None:
                if session.span >= self._config.session_window:
                    break
                command.number(session)
            batch.append(self._commands.popleft())
            if command.travels_alone:
                break
        return batch
