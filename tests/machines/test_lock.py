"""The lock service: who holds what, until when, and with which token."""

from __future__ import annotations

import pytest

from replica.machines import AppliedLog, CorruptSnapshotError, InvalidCommandError
from replica.machines import lock as locks
from replica.machines.lock import (
    NAME_CHARACTERS_MAX,
    TTL_MS_MAX,
    Acquire,
    DescribeLock,
    Holding,
    KeepAlive,
    LockError,
    LockMachine,
    LockReply,
    Release,
)
from tests.machines.folding import machine_log


def acquire(owner: str, *, name: str = "door", ttl_ms: int = 100) -> Acquire:
    """Ask for a lock."""
    return Acquire(name=name, owner=owner, ttl_ms=ttl_ms)


CONVERSATIONS: dict[str, list[tuple[int, locks.LockCommand, LockError | None, tuple[str, int] | None]]] = {
    "one_holds_it_at_a_time": [
        (0, acquire("ada"), None, ("ada", 1)),
        (0, acquire("bob"), LockError.HELD, ("ada", 1)),
        (0, acquire("ada"), LockError.HELD, ("ada", 1)),
        (0, Release(name="door", token=1), None, None),
        (0, acquire("bob"), None, ("bob", 2)),
    ],
    "a_holder_that_is_not_heard_of_loses_it": [
        (0, acquire("ada"), None, ("ada", 1)),
        (99, acquire("bob"), LockError.HELD, ("ada", 1)),
        (100, acquire("bob"), None, ("bob", 2)),
        (100, KeepAlive(name="door", token=1), LockError.NOT_HELD, ("bob", 2)),
        (100, Release(name="door", token=1), LockError.NOT_HELD, ("bob", 2)),
    ],
    "a_holder_that_is_heard_of_keeps_it": [
        (0, acquire("ada"), None, ("ada", 1)),
        (99, KeepAlive(name="door", token=1), None, ("ada", 1)),
        (198, acquire("bob"), LockError.HELD, ("ada", 1)),
        (199, acquire("bob"), None, ("bob", 2)),
    ],
    "tokens_grow_over_all_locks": [
        (0, acquire("ada"), None, ("ada", 1)),
        (0, acquire("ada", name="gate"), None, ("ada", 2)),
        (0, Release(name="door", token=2), LockError.NOT_HELD, ("ada", 1)),
    ],
    "bounds": [
        (0, acquire("x" * (NAME_CHARACTERS_MAX + 1)), LockError.OUT_OF_BOUNDS, None),
        (0, acquire("x", ttl_ms=TTL_MS_MAX + 1), LockError.OUT_OF_BOUNDS, None),
        (0, acquire("x" * NAME_CHARACTERS_MAX, ttl_ms=TTL_MS_MAX), None, ("x" * NAME_CHARACTERS_MAX, 1)),
    ],
}


def held(holding: Holding | None) -> tuple[str, int] | None:
    """Owner and token."""
    return None if holding is None else (holding.owner, holding.token)


@pytest.mark.parametrize("name", CONVERSATIONS)
def test_a_conversation_goes_as_told(name: str) -> None:
    """Each command has the error and the holder of the table, and so has a machine restored before each."""
    machine = LockMachine()
    for time_ms, command, error, holder in CONVERSATIONS[name]:
        snapshot, machine = machine.view().encode(), LockMachine()
        machine.restore(snapshot)
        machine.advance(time_ms)
        reply = locks.decode_reply(machine.apply(locks.encode_command(command), time_ms=time_ms))
        assert (reply.error, held(reply.holding)) == (error, holder)
        asked = locks.decode_reply(machine.query(locks.encode_request(DescribeLock(name=command.name))))
        assert asked == LockReply(error=None, holding=reply.holding)


def test_what_is_no_command_is_invalid() -> None:
    """Bytes that are no command, no question or no snapshot are told."""
    machine = LockMachine()
    with pytest.raises(InvalidCommandError):
        machine.apply(b"", time_ms=0)
    with pytest.raises(InvalidCommandError):
        machine.query(b"\1")
    with pytest.raises(CorruptSnapshotError):
        machine.restore(b"\0")


def test_the_order_of_acquiring_does_not_show() -> None:
    """A machine that was restored writes the same snapshot, though it has heard of the locks in another order."""
    machine, restored = LockMachine(), LockMachine()
    for name in ("b", "c", "a"):
        machine.apply(locks.encode_command(acquire("o", name=name)), time_ms=0)
    restored.restore(machine.view().encode())
    assert restored.view().encode() == machine.view().encode()
    restored.advance(100)
    machine.advance(100)
    assert restored.view().encode() == machine.view().encode()


def test_it_is_a_machine_of_a_log() -> None:
    """A log can be folded into it."""
    log: AppliedLog = machine_log(LockMachine, name="lock")
    assert len(log.digest()) == 64
