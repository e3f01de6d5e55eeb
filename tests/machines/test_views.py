"""A view of a state is frozen: whatever is applied after it was taken, it is encoded as it was; and it is taken fast.

The checks take what they judge as a parameter, so that views that are not frozen are shown to be found by them.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Iterator
from random import Random
from types import FrameType

import pytest

from replica.ids import Epoch, Offset
from replica.machines import (
    AppliedLog,
    CommittedBatch,
    OpenSession,
    PlainCommand,
    SessionCommand,
    SessionId,
    StateMachine,
    StateView,
    encode_entry,
)
from replica.machines import lock as locks
from replica.machines.counter import Counter
from replica.machines.key_value import KeyValueMachine, commands, encode_command
from replica.machines.key_value.results import Event
from replica.machines.key_value.state import KeyValueState
from replica.machines.key_value.store import Store, StoreView
from replica.machines.lock import LockMachine
from replica.machines.sessions import SessionTable
from tests.machines.folding import LIMITS, apply_all, apply_one, batches, key_value_log, rows

SEEDS = range(6)
COUNT = 200


def changed_later(make: Callable[[], AppliedLog], seed: int) -> str | None:
    """Take a view at every batch of a log and apply the rest; tell the first that is encoded otherwise in the end."""
    log = make()
    taken: list[tuple[StateView, bytes]] = []
    for batch in batches(rows(seed, COUNT), Random(seed)):
        log.apply(batch)
        view: StateView = log.view()
        taken.append((view, view.encode()))
    for number, (view, then) in enumerate(taken):
        if view.encode() != then:
            return f"seed {seed}: the view behind batch {number} is another in the end"
    return None


@pytest.mark.parametrize("seed", SEEDS)
def test_what_is_applied_later_does_not_show(seed: int) -> None:
    """Keys, versions, compactions, leases, sessions, replies and log time are those of when the view was taken."""
    assert changed_later(key_value_log, seed) is None


def _counted(number: int) -> bytes:
    return b"%d" % number


def _acquired(number: int) -> bytes:
    name = f"lock {number % 7}"
    if number % 3 == 2:
        return locks.encode_command(locks.Release(name=name, token=1 + number // 3))
    return locks.encode_command(locks.Acquire(name=name, owner=f"owner {number}", ttl_ms=1 + number % 5))


@pytest.mark.parametrize(("make", "command"), [(Counter, _counted), (LockMachine, _acquired)], ids=["counter", "lock"])
def test_the_small_machines_have_frozen_views(
    make: Callable[[], StateMachine], command: Callable[[int], bytes]
) -> None:
    """A counter goes on counting, locks are acquired, released and expire: no view shows it."""
    machine, taken = make(), []
    for number in range(60):
        machine.apply(command(number), time_ms=number)
        view = machine.view()
        taken.append((view, view.encode()))
    assert all(view.encode() == then for view, then in taken)
    assert len({then for _, then in taken}) > 30


def test_a_view_is_encoded_while_another_thread_goes_on() -> None:
    """Puts, deletions and compactions that are applied meanwhile are in no view, however the threads take turns."""
    machine = KeyValueMachine()
    interval_s = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    try:
        for number in range(400):
            machine.apply(_put(number % 100), time_ms=0)
        view = machine.view()
        then = view.encode()
        encoded: list[bytes] = []
        thread = threading.Thread(target=lambda: encoded.extend(view.encode() for _ in range(30)))
        thread.start()
        number = 400
        while thread.is_alive():
            machine.apply(_put(number % 150), time_ms=0)
            if number % 50 == 0:
                machine.apply(encode_command(commands.Compact(revision=number - 60)), time_ms=0)
            number += 1
        thread.join()
    finally:
        sys.setswitchinterval(interval_s)
    assert encoded == [then] * 30


def _put(number: int) -> bytes:
    return encode_command(commands.Put(key=b"key%06d" % number, value=b"x" * 100))


# --- how much is done at once ---------------------------------------------------------------------------------------


def calls_of_a_view(log: AppliedLog) -> int:
    """Count the functions, of Python and of C, that are called while a view is taken."""
    called = 0

    def on_frame(_frame: FrameType, what: str, _argument: object) -> None:
        nonlocal called
        called += what in ("call", "c_call")

    before = sys.getprofile()
    sys.setprofile(on_frame)
    try:
        log.view()
    finally:
        sys.setprofile(before)
    return called


def filled(size: int) -> AppliedLog:
    """A store with so many keys, leases and sessions, and as many replies that are kept."""
    log = AppliedLog(KeyValueMachine(), name="key-value")
    for number in range(size):
        session = SessionId(log.applied_offset)
        apply_one(log, encode_entry(OpenSession(ttl_ms=1_000)))
        apply_one(log, encode_entry(PlainCommand(command=encode_command(commands.GrantLease(ttl_ms=1_000)))))
        used = SessionCommand(session_id=session, sequence=0, acknowledged=0, command=_put(number))
        apply_one(log, encode_entry(used))
    return log


def test_a_view_calls_as_many_functions_of_a_large_state_as_of_a_small_one() -> None:
    """References are copied by the dozen thousand at once; nothing is done key by key, or session by session."""
    assert calls_of_a_view(filled(1000)) == calls_of_a_view(filled(10)) < 60


# --- views that are not frozen, each found --------------------------------------------------------------------------


class _Lazy(AppliedLog):
    """Has views that read the state when they are encoded."""

    def view(self) -> StateView:  # type: ignore[override]
        """The state as it will be."""
        now = super().view

        class Live:
            def encode(self) -> bytes:
                """What there is by now."""
                return now().encode()

        return Live()


class _UnboundedView(StoreView, frozen=True):
    """Takes in what has grown since."""

    def events(self) -> Iterator[Event]:
        """All versions that there are by now."""
        for key in self.keys:
            yield from self.versions[key]


class _Unbounded(Store):
    def view(self) -> StoreView:
        """All versions as they will be."""
        view = super().view()
        return _UnboundedView(
            revision=view.revision, compact_revision=view.compact_revision, keys=view.keys, versions=view.versions
        )


class _TrimsInPlace(Store):
    """Lets a compaction change the lists that a view has."""

    def _trim(self, key: bytes, revision: int) -> None:
        before = self._versions[key]
        super()._trim(key, revision)
        before[:] = self._versions.get(key, [])


class _KeptWhole(SessionTable):
    """Changes sessions in their place."""

    def _changing(self, session_id: SessionId):  # type: ignore[no-untyped-def]
        return self._sessions[session_id]


def _with_store(make: Callable[[], Store]) -> Callable[[], AppliedLog]:
    def made() -> AppliedLog:
        machine = KeyValueMachine()
        state: KeyValueState = machine._state
        state.store = make()
        return AppliedLog(machine, name="key-value", limits=LIMITS)

    return made


def _lazy() -> AppliedLog:
    return _Lazy(KeyValueMachine(), name="key-value", limits=LIMITS)


def _kept_whole() -> AppliedLog:
    log = key_value_log()
    log.sessions = _KeptWhole(LIMITS)
    return log


WRONG = {
    "lazy": _lazy,
    "unbounded": _with_store(_Unbounded),
    "trims-in-place": _with_store(_TrimsInPlace),
    "sessions-kept-whole": _kept_whole,
}


@pytest.mark.parametrize("name", WRONG)
def test_a_view_that_is_not_frozen_is_found(name: str) -> None:
    """One that reads the live state, in whole or in part, is another in the end."""
    assert any(changed_later(WRONG[name], seed) is not None for seed in SEEDS)


def test_a_view_of_nothing_is_none_of_a_snapshot() -> None:
    """Of a log of which nothing was applied there is a view, for its digest, and no snapshot."""
    log = key_value_log()
    assert log.view().applied_epoch is None
    empty = CommittedBatch(base_offset=Offset(0), end_offset=Offset(1), epoch=Epoch(3), timestamp_ms=-1, entries=())
    apply_all(log, [empty])
    assert log.snapshot().data == log.view().encode()
