"""What holds for every log, however it is cut: equal states, snapshots that lose nothing, and no command twice.

Each check takes what it judges as a parameter, so that the wrong folds below are shown to be found by it.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from random import Random

import pytest
from msgspec.structs import replace

from replica.ids import Offset
from replica.machines import (
    Answered,
    AppliedEntry,
    AppliedLog,
    EncodedState,
    Outcome,
    Refusal,
    Refused,
    SessionCommand,
    Snapshot,
    SnapshotId,
    StateMachine,
    decode_entry,
)
from replica.machines.counter import Counter
from replica.machines.sessions import NO_SESSIONS, SessionState, SessionsView, SessionTable
from replica.machines.snapshots import AppliedView
from tests.machines.folding import LIMITS, apply_all, batches, key_value_log, rows

SEEDS = range(10)
COUNT = 250
Make = Callable[[], AppliedLog]


def final_digest(seed: int) -> str:
    """The digest of a log at its end; another process computes it too."""
    log = key_value_log()
    apply_all(log, batches(rows(seed, COUNT), Random(seed)))
    return log.digest()


def parted_by_cutting(make: Make, seed: int) -> str | None:
    """Fold one log in two ways of cutting it; tell the first offset at which states or outcomes differ."""
    log = rows(seed, COUNT)
    one, other = make(), make()
    states = {}
    singly: list[AppliedEntry] = []
    for batch in batches(log, None):
        singly += apply_all(one, [batch])
        states[one.applied_offset] = one.digest()
    together: list[AppliedEntry] = []
    for batch in batches(log, Random(seed)):
        together += apply_all(other, [batch])
        if other.digest() != states[other.applied_offset]:
            return f"seed {seed}: other states at offset {other.applied_offset}"
    return None if singly == together else f"seed {seed}: other outcomes"


def parted_by_restoring(make: Make, seed: int) -> str | None:
    """Restore from snapshots at many offsets; tell the first of them from which it goes on differently."""
    log = rows(seed, COUNT)
    straight = make()
    outcomes = {applied.offset: applied for applied in apply_all(straight, batches(log, None))}
    taken = make()
    for batch in batches(log, None):
        taken.apply(batch)
        if taken.applied_offset % 12:
            continue
        snapshot, restored = taken.snapshot(), make()
        restored.restore(snapshot)
        if restored.digest() != taken.digest():
            return f"seed {seed}: another state from the snapshot at {snapshot.id}"
        further = apply_all(restored, batches(log, None, start=restored.applied_offset))
        if any(outcomes[applied.offset] != applied for applied in further):
            return f"seed {seed}: other outcomes behind the snapshot at {snapshot.id}"
        if restored.digest() != straight.digest():
            return f"seed {seed}: another end behind the snapshot at {snapshot.id}"
    return None


class Witness(StateMachine):
    """A machine that remembers every command that it was told."""

    def __init__(self) -> None:
        self.told: list[bytes] = []

    def apply(self, command: bytes, *, time_ms: int) -> bytes:
        """Say how many there were."""
        self.told.append(command)
        return b"%d" % len(self.told)

    def query(self, request: bytes) -> bytes:
        """Nothing is asked."""
        return b""

    def view(self) -> EncodedState:
        """All commands, in hexadecimal digits."""
        return EncodedState(b" ".join(command.hex().encode() for command in self.told))

    def restore(self, snapshot: bytes) -> None:
        """Read them back."""
        self.told = [bytes.fromhex(word.decode()) for word in snapshot.split(b" ")] if snapshot else []


def told_twice(make: Callable[[StateMachine], AppliedLog], seed: int) -> str | None:
    """Fold a log, restored now and then, and tell a command of a session that came to the machine twice.

    A repeat must have the first one's outcome too, or be refused.
    """
    log, random = rows(seed, COUNT), Random(seed)
    machine = Witness()
    folded = make(machine)
    first: dict[tuple[int, int], Outcome] = {}
    told = 0
    for batch in batches(log, None):
        (*_, outcome) = [None, *(applied.outcome for applied in apply_all(folded, [batch]))]
        grown, told = len(machine.told) > told, len(machine.told)
        entry = decode_entry(batch.entries[0]) if batch.entries else None
        if isinstance(entry, SessionCommand) and outcome is not None:
            key = (entry.session_id, entry.sequence)
            if key in first and (grown or not (outcome == first[key] or isinstance(outcome, Refused))):
                return f"seed {seed}: {key} at offset {batch.base_offset}: {outcome} behind {first[key]}"
            if grown:
                first[key] = outcome
        if random.randrange(10) == 0:
            snapshot, machine = folded.snapshot(), Witness()
            folded = make(machine)
            folded.restore(snapshot)
    return None


@pytest.mark.parametrize("seed", SEEDS)
def test_cutting_changes_nothing(seed: int) -> None:
    """Two replicas that get a log in different batches agree after every batch, and on all outcomes."""
    assert parted_by_cutting(key_value_log, seed) is None


@pytest.mark.parametrize("seed", SEEDS)
def test_a_snapshot_loses_nothing(seed: int) -> None:
    """From a snapshot at any point, state and outcomes go on as without it."""
    assert parted_by_restoring(key_value_log, seed) is None


@pytest.mark.parametrize("seed", SEEDS)
def test_no_command_is_applied_twice(seed: int) -> None:
    """A command that comes again is answered with its first outcome or refused, also behind snapshots."""
    assert told_twice(lambda machine: AppliedLog(machine, name="witness", limits=LIMITS), seed) is None


def test_the_logs_meet_every_refusal() -> None:
    """The random logs repeat commands with success, and meet every refusal that a log can."""
    seen: set[Refusal] = set()
    repeated = 0
    for seed in SEEDS:
        log, answered = rows(seed, COUNT), set()
        for applied in apply_all(key_value_log(), batches(log, None)):
            entry = decode_entry(log[applied.offset].entry or b"")
            match applied.outcome:
                case Refused(refusal=refusal):
                    seen.add(refusal)
                case Answered() if isinstance(entry, SessionCommand):
                    repeated += (entry.session_id, entry.sequence) in answered
                    answered.add((entry.session_id, entry.sequence))
    assert set(Refusal) - seen == {Refusal.QUERY_FAILED}
    assert repeated > 50


@pytest.mark.slow
def test_the_hash_seed_does_not_show(pytestconfig: pytest.Config) -> None:
    """Processes with other hash seeds come to the same state."""
    root: Path = pytestconfig.rootpath
    program = "from tests.machines.test_folding_properties import final_digest; print(final_digest(3))"
    digests = {
        subprocess.run(
            [sys.executable, "-c", program],
            cwd=root,
            env={"PYTHONHASHSEED": hash_seed},
            capture_output=True,
            text=True,
            check=True,
        ).stdout.strip()
        for hash_seed in ("1", "2")
    }
    assert digests == {final_digest(3)}


# --- wrong folds, each found ----------------------------------------------------------------------------------------


class _WithoutSessions(AppliedLog):
    """Leaves the sessions out of the snapshot."""

    def view(self) -> AppliedView:
        """Nobody was there."""
        return replace(super().view(), sessions=NO_SESSIONS)


class _SilentView(SessionsView, frozen=True):
    """All sessions, and nothing that was replied to them."""

    def states(self) -> tuple[SessionState, ...]:
        """As if all were acknowledged."""
        return tuple(replace(session, replies=()) for session in super().states())


class _WithoutReplies(AppliedLog):
    """Leaves the replies out of the snapshot, and the sessions in."""

    def view(self) -> AppliedView:
        """All sessions, and no replies."""
        view = super().view()
        silent = _SilentView(sessions=view.sessions.sessions, expires_at_ms=view.sessions.expires_at_ms)
        return replace(view, sessions=silent)


class _OneOffsetTooFar(AppliedLog):
    """Names a snapshot by one offset more than it contains, and so skips the next entry."""

    def snapshot(self) -> Snapshot:
        """The id, and what is inside, say one more."""
        self.applied_offset = Offset(self.applied_offset + 1)
        try:
            return super().snapshot()
        finally:
            self.applied_offset = Offset(self.applied_offset - 1)


class _OneOffsetTooFew(AppliedLog):
    """Names a snapshot by one offset less than it contains, and so applies the last entry again."""

    def snapshot(self) -> Snapshot:
        """The id, and what is inside, say one less."""
        self.applied_offset = Offset(self.applied_offset - 1)
        try:
            return super().snapshot()
        finally:
            self.applied_offset = Offset(self.applied_offset + 1)


class _ByStamps(AppliedLog):
    """Lets log time go back with the stamps."""

    def _advance(self, timestamp_ms: int) -> None:
        self.log_time_ms = max(0, timestamp_ms)
        self.sessions.expire(self.log_time_ms)


class _WithoutLogTime(AppliedLog):
    """Leaves log time out of what is restored."""

    def restore(self, snapshot: Snapshot) -> None:
        """As if no time had passed."""
        super().restore(snapshot)
        self.log_time_ms = 0


class _UnorderedView(SessionsView, frozen=True):
    """Writes sessions down in the order of a set of their names."""

    def states(self) -> tuple[SessionState, ...]:
        """All sessions, in the order of a hash."""
        by_name = {str(state.session_id): state for state in super().states()}
        return tuple(by_name[name] for name in set(by_name))


class _Unordered(SessionTable):
    """Has such views."""

    def view(self) -> SessionsView:
        """All sessions."""
        view = super().view()
        return _UnorderedView(sessions=view.sessions, expires_at_ms=view.expires_at_ms)


class _Forgetting(SessionTable):
    """Forgets a reply as soon as it was given once more."""

    def outcome_of(self, command: SessionCommand, *, time_ms: int) -> Outcome | None:
        """The kept reply, once."""
        outcome = super().outcome_of(command, time_ms=time_ms)
        if outcome is not None and command.session_id in self._sessions:
            self._sessions[command.session_id].replies.pop(command.sequence, None)
        return outcome


def wrong(kind: type[AppliedLog]) -> Make:
    """Folds of a wrong kind."""
    from replica.machines.key_value import KeyValueMachine

    return lambda: kind(KeyValueMachine(), name="key-value", limits=LIMITS)


def is_found(check: Callable[[int], str | None], seed: int) -> bool:
    """Tell whether a check tells a difference, or stumbles over an assertion of the fold."""
    try:
        return check(seed) is not None
    except AssertionError:
        return True


WRONG_SNAPSHOTS = (_WithoutSessions, _WithoutReplies, _OneOffsetTooFar, _OneOffsetTooFew, _WithoutLogTime)


@pytest.mark.parametrize("kind", WRONG_SNAPSHOTS)
def test_a_wrong_snapshot_is_found(kind: type[AppliedLog]) -> None:
    """Sessions or log time that are left out, and an id that is off by one, are noticed with every seed."""
    assert all(is_found(lambda seed: parted_by_restoring(wrong(kind), seed), seed) for seed in SEEDS)


def test_a_command_that_is_applied_twice_is_found() -> None:
    """Replies that are left out of the snapshot, or are given only once more, let commands be applied again."""

    def without_replies(machine: StateMachine) -> AppliedLog:
        return _WithoutReplies(machine, name="witness", limits=LIMITS)

    def forgetting(machine: StateMachine) -> AppliedLog:
        log = AppliedLog(machine, name="witness", limits=LIMITS)
        log.sessions = _Forgetting(LIMITS)
        return log

    assert any(told_twice(without_replies, seed) is not None for seed in SEEDS)
    assert any(told_twice(forgetting, seed) is not None for seed in SEEDS)


def test_time_that_goes_back_is_found() -> None:
    """A session that has expired by a stamp, and is asked for with an earlier one, tells log time from stamps."""
    differing = 0
    for seed in SEEDS:
        true = AppliedLog(Witness(), name="witness", limits=LIMITS)
        false = _ByStamps(Witness(), name="witness", limits=LIMITS)
        log = rows(seed, COUNT)
        differing += apply_all(true, batches(log, None)) != apply_all(false, batches(log, None))
    assert differing > len(SEEDS) // 2


@pytest.mark.slow
def test_the_order_of_a_set_is_found(pytestconfig: pytest.Config) -> None:
    """A snapshot in the order of a set differs between processes of different hash seeds."""
    program = (
        "from tests.machines.test_folding_properties import *\n"
        "from tests.machines.test_folding_properties import _Unordered\n"
        "log = key_value_log()\n"
        "log.sessions = _Unordered(LIMITS)\n"
        "apply_all(log, batches(rows(2, 200), None))\n"
        "assert len(log.sessions) > 2, len(log.sessions)\n"
        "print(log.digest())"
    )
    digests = {
        subprocess.run(
            [sys.executable, "-c", program],
            cwd=pytestconfig.rootpath,
            env={"PYTHONHASHSEED": str(hash_seed)},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for hash_seed in range(6)
    }
    assert len(digests) > 1


def test_snapshot_ids_are_what_was_applied() -> None:
    """A snapshot is named by the end of what was applied, exclusive, and the epoch of the last record there."""
    log = key_value_log()
    made = rows(5, 120)
    for batch in batches(made, None):
        log.apply(batch)
        assert log.snapshot().id == SnapshotId(batch.end_offset, batch.epoch)
    assert Counter().view().encode() == b"0"
