"""A counter: the smallest machine, and the example of how to write one (``docs/machines.md``).

Owns one number. A command is what to add, in decimal digits; a reply is the sum. The question is empty.
"""

from __future__ import annotations

from collections.abc import Mapping

from replica.machines.machine import CorruptSnapshotError, EncodedState, InvalidCommandError, StateMachine

DIGITS_MAX = 18
"""How long a command may be. Python refuses to print numbers of thousands of digits."""


class Counter(StateMachine):
    """One number, 0 at first."""

    def __init__(self) -> None:
        self._total = 0

    def traits(self) -> Mapping[str, int]:
        """Which commands there are."""
        return {"version": 1, "digits_max": DIGITS_MAX}

    def apply(self, command: bytes, *, time_ms: int) -> bytes:  # noqa: ARG002 - nothing here expires
        """Add, and reply with the sum."""
        if len(command) > DIGITS_MAX or not command.removeprefix(b"-").isdigit():
            raise InvalidCommandError(f"a command is a number of {DIGITS_MAX} decimal digits at most")
        self._total += int(command)
        return b"%d" % self._total

    def query(self, request: bytes) -> bytes:
        """The sum."""
        if request:
            raise InvalidCommandError("the only question is the empty one")
        return b"%d" % self._total

    def view(self) -> EncodedState:
        """The sum."""
        return EncodedState(b"%d" % self._total)

    def restore(self, snapshot: bytes) -> None:
        """Let this be the sum."""
        try:
            self._total = int(snapshot)
        except ValueError:
            raise CorruptSnapshotError("a snapshot is a number in decimal digits") from None
