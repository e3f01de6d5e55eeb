"""What a state machine is: commands in, replies out, and nothing else.

Owns the interface that a machine implements, and the errors that it may raise. Knows nothing of logs, sessions or
offsets: whoever folds a log into a machine (``applied``) does.

The replicas of a machine never compare notes. Each applies the same commands in the same order, and all must arrive at
the same state and the same replies. So a machine asks no clock, no dice, no file and no network; it never lets the
order of a set or an object's address show; and what time it is, its caller says.

Source: Schneider, "Implementing fault-tolerant services using the state machine approach" (1990); Ongaro's thesis,
chapter 5.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from typing import Protocol, runtime_checkable

from msgspec import Struct


class InvalidCommandError(ValueError):
    """A command or a request that the machine does not understand. Nothing has changed, and nothing would, ever.

    Raise it before anything changes. The message goes to the client and is part of the outcome: it must follow from
    the bytes alone.
    """


class CorruptSnapshotError(ValueError):
    """Bytes that no snapshot of this machine has; the message says what is wrong with them."""


class ForeignSnapshotError(CorruptSnapshotError):
    """A sound snapshot of another machine, or of sessions with other limits: to fetch it again is of no use."""


class StateView(Protocol):
    """A whole state as it stood when the view was taken: nothing that is applied later shows in it.

    It refers to values that never change, or has copies of what refers to them. It is encoded once the machine has long
    gone on, in another thread, and perhaps never.
    """

    def encode(self) -> bytes:
        """Write the state down: the same bytes at any time. ``joined`` puts together what is large."""


class EncodedState(Struct, frozen=True):
    """The view of a state that is so small that it is written down as it is taken."""

    data: bytes

    def encode(self) -> bytes:
        """What was written down."""
        return self.data


@runtime_checkable
class StateMachine(Protocol):
    """A deterministic machine. Subclass it, or have the same methods.

    Any exception but those that are named here is a bug in the machine: the replica halts with the offset of the
    command, since nobody knows what a command that was applied by half has left behind. All replicas will halt there,
    and go on from there with a machine that was repaired.
    """

    def traits(self) -> Mapping[str, int]:
        """The numbers that decide over the results, beside the commands: its version, bounds, options. Never change.

        The first leader of a log writes them into it with the machine's name, and a replica whose own are different
        does not go on with that log. Whoever lets an old command come to something else raises the version.
        """
        return {"version": 1}

    def advance(self, time_ms: int) -> None:  # noqa: ARG002 - most machines do nothing by time
        """Let log time be ``time_ms``: it never goes back. What has expired by then goes now.

        Called before the commands of that time, with every tick while there are none, and behind a restore: a state
        that is of a later time raises CorruptSnapshotError.
        """
        return

    @abstractmethod
    def apply(self, command: bytes, *, time_ms: int) -> bytes:
        """Perform one command at log time ``time_ms``, and return the reply.

        Raises InvalidCommandError for bytes that are no command. A command that is understood and cannot be done (a
        comparison that fails, an account without money) is an ordinary reply.
        """

    @abstractmethod
    def query(self, request: bytes) -> bytes:
        """Answer a question. Changes nothing: it runs on one replica, whenever that wants.

        Raises InvalidCommandError for bytes that are no request.
        """

    @abstractmethod
    def view(self) -> StateView:
        """The whole state as it stands, encoded later; ``restore`` makes an equal one of its bytes.

        Equal states are equal bytes. Nothing else has its turn meanwhile: a view of a large state must not take as long
        as to write it down.
        """

    @abstractmethod
    def restore(self, snapshot: bytes) -> None:
        """Let the state be that of ``snapshot``, whatever it was before.

        Raises CorruptSnapshotError; the state is then void.
        """
