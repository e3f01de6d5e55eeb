"""The fold: offsets, log time, what stops it and what does not, and snapshots that are refused."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from replica.ids import Epoch, Offset, ReplicaId
from replica.machines import (
    Answered,
    AppliedEntry,
    AppliedLog,
    CommittedBatch,
    CorruptSnapshotError,
    Done,
    EncodedState,
    LeaderClock,
    MachineFailedError,
    PlainCommand,
    Refusal,
    Refused,
    SessionId,
    SessionLimits,
    Snapshot,
    SnapshotId,
    StateMachine,
    Tick,
    committed_batch,
    encode_entry,
)
from replica.machines.counter import Counter
from replica.machines.description import described
from replica.machines.key_value import KeyValueMachine, encode_command
from replica.machines.key_value.commands import GrantLease
from replica.machines.log_time import LOG_TIME_MS_MAX
from replica.machines.sessions import KeptReply, SessionState
from replica.machines.snapshots import AppliedState, decode_state, encode_state, sealed, unsealed
from replica.records import encode_batch, leader_change_batch
from tests.machines.folding import apply_all, apply_one, batch, control


def plain(amount: int) -> bytes:
    """An entry that adds to the counter."""
    return encode_entry(PlainCommand(command=b"%d" % amount))


def counter_log() -> AppliedLog:
    """A counter of which nothing has been applied."""
    return AppliedLog(Counter(), name="counter")


class Fragile(Counter):
    """A counter with a bug: it cannot count to thirteen, and cannot tell that it is at seven."""

    def apply(self, command: bytes, *, time_ms: int) -> bytes:
        """Add, unless that is unlucky."""
        reply = super().apply(command, time_ms=time_ms)
        if reply == b"13":
            raise ZeroDivisionError("thirteen")
        return reply

    def query(self, request: bytes) -> bytes:
        """Tell, unless it is seven."""
        if self._total == 7:
            raise KeyError("seven")
        return super().query(request)


class Talkative(Counter):
    """A counter whose replies are text."""

    def apply(self, command: bytes, *, time_ms: int) -> bytes:
        """Reply with what is no bytes."""
        return str(super().apply(command, time_ms=time_ms))  # type: ignore[return-value]


class Timid(Counter):
    """A counter that fails as soon as time passes."""

    def advance(self, time_ms: int) -> None:
        """Fail from one second on."""
        if time_ms >= 1_000:
            raise RuntimeError("late")


class Void(Counter):
    """A counter that fails at its snapshots, in one way or another."""

    def view(self) -> EncodedState:
        """Fail."""
        raise OSError("full")

    def restore(self, snapshot: bytes) -> None:
        """Fail."""
        raise OSError("empty")


def test_entries_are_applied_in_order_and_told_with_their_offsets() -> None:
    """A batch's entries have one outcome each; records of the log's own have none, and count."""
    log = counter_log()
    assert apply_all(log, [control(0, epoch=4)]) == []
    applied = apply_all(log, [batch(1, plain(2), plain(3), epoch=4, stamp_ms=70)])
    assert applied == [
        AppliedEntry(offset=Offset(1), outcome=Answered(reply=b"2")),
        AppliedEntry(offset=Offset(2), outcome=Answered(reply=b"5")),
    ]
    assert (log.applied_offset, log.applied_epoch, log.log_time_ms) == (3, 4, 70)
    assert log.snapshot().id == SnapshotId(Offset(3), Epoch(4))


def test_record_batches_are_taken_as_they_are_committed() -> None:
    """Values are entries, the leader's stamp is the time, and a leader change is the log's own."""
    opening = leader_change_batch(
        leader_id=ReplicaId(1), voters=[ReplicaId(1)], granting_voters=[ReplicaId(1)],
        base_offset=Offset(0), leader_epoch=Epoch(3),
    )  # fmt: skip
    data = encode_batch([plain(1), plain(2)], base_offset=1, leader_epoch=3, timestamp_ms=900)
    assert committed_batch(opening) == control(0, epoch=3)
    assert committed_batch(data) == batch(1, plain(1), plain(2), epoch=3, stamp_ms=900)
    log = counter_log()
    log.apply(committed_batch(opening))
    assert [applied.outcome for applied in apply_all(log, [committed_batch(data)])] == [
        Answered(reply=b"1"),
        Answered(reply=b"3"),
    ]


def test_each_entry_is_told_as_soon_as_it_is_applied() -> None:
    """What became of an entry is told before the next one is applied, and so before a later one fails."""
    log = AppliedLog(Fragile(), name="fragile")
    told: list[tuple[Offset, Offset]] = []
    with pytest.raises(MachineFailedError):
        log.apply(
            batch(0, plain(5), plain(7), plain(1), plain(1)),
            lambda applied: told.append((applied.offset, log.applied_offset)),
        )
    assert told == [(0, 1), (1, 2)]


@pytest.mark.parametrize("call", ["apply", "advance", "restore"])
def test_a_lack_of_memory_is_not_the_machines_fault(call: str) -> None:
    """It comes out as it is, and what was done by half is not gone on from."""
    source = snapshot_of_one()
    machine = Counter()
    setattr(machine, call, exhausted)
    log = AppliedLog(machine, name="counter")
    with pytest.raises(MemoryError):
        log.restore(source) if call == "restore" else log.apply(batch(0, plain(1)))
    for attempt in (lambda: log.apply(batch(log.applied_offset, plain(1))), lambda: log.query(b""), log.digest):
        with pytest.raises(MemoryError):
            attempt()


def test_a_question_without_memory_halts_nobody() -> None:
    """A lack of memory comes out of a question, and the log goes on."""
    machine = Counter()
    setattr(machine, "query", exhausted)  # noqa: B010 - a fake, on this one machine
    log = AppliedLog(machine, name="counter")
    with pytest.raises(MemoryError):
        log.query(b"")
    assert apply_one(log, plain(1)) == Answered(reply=b"1")


def exhausted(*_: object, **__: object) -> bytes:
    """A method for which there is no memory."""
    raise MemoryError


@pytest.mark.parametrize("offset", [0, 1, 3])
def test_a_gap_and_a_repetition_are_our_own_mistakes(offset: int) -> None:
    """A batch that does not begin where the last one ended is not applied."""
    log = counter_log()
    log.apply(batch(0, plain(1), plain(1)))
    with pytest.raises(AssertionError):
        log.apply(batch(offset, plain(1)))
    assert log.query(b"") == Answered(reply=b"2")


def test_an_epoch_that_falls_is_our_own_mistake() -> None:
    """Along a log, epochs never fall."""
    log = counter_log()
    log.apply(batch(0, plain(1), epoch=2))
    with pytest.raises(AssertionError):
        log.apply(batch(1, plain(1), epoch=1))


def test_a_batch_has_an_entry_for_each_offset() -> None:
    """Neither fewer nor more; none at all where it is the log's own."""
    with pytest.raises(AssertionError):
        CommittedBatch(base_offset=Offset(0), end_offset=Offset(2), epoch=Epoch(0), timestamp_ms=0, entries=(plain(1),))


def test_log_time_never_goes_back_and_stays_a_number_of_64_bits() -> None:
    """Stamps that lie back or are missing leave it where it is, and the largest is bounded."""
    log = counter_log()
    times = []
    for stamp_ms in (50, 20, -1, 51, (1 << 63) - 1):
        apply_one(log, encode_entry(Tick()), stamp_ms=stamp_ms)
        times.append(log.log_time_ms)
    assert times == [50, 50, 50, 51, LOG_TIME_MS_MAX]
    assert len(log.digest()) == 64


def test_a_bad_record_stops_nobody() -> None:
    """Bytes that are no entry, and a command that is none to the machine, are refused, and the next one is applied."""
    log = counter_log()
    first = apply_one(log, b"\xff")
    second = apply_one(log, encode_entry(PlainCommand(command=b"many")))
    assert isinstance(first, Refused)
    assert isinstance(second, Refused)
    assert (first.refusal, second.refusal) == (Refusal.INVALID_ENTRY, Refusal.INVALID_COMMAND)
    assert apply_one(log, plain(1)) == Answered(reply=b"1")


def test_a_machine_that_fails_halts_with_the_offset() -> None:
    """The entries before are applied, the error names the machine and the offset, and nothing more is done."""
    log = AppliedLog(Fragile(), name="fragile")
    with pytest.raises(MachineFailedError, match="machine fragile failed at offset 1: ZeroDivisionError") as failed:
        log.apply(batch(0, plain(12), plain(1), plain(1)))
    assert failed.value.offset == log.applied_offset == 1
    for attempt in (lambda: log.apply(batch(1, plain(5))), lambda: log.query(b""), log.snapshot, log.digest):
        with pytest.raises(MachineFailedError):
            attempt()


@pytest.mark.parametrize(
    ("machine", "stamp_ms", "cause"), [(Talkative, 0, "TypeError: a reply is bytes"), (Timid, 1_000, "RuntimeError")]
)
def test_other_failures_halt_too(machine: type[StateMachine], stamp_ms: int, cause: str) -> None:
    """A reply that is no bytes, and a failure while time passes, are bugs of the machine."""
    log = AppliedLog(machine(), name="bad")
    log.apply(control(0, epoch=0))
    with pytest.raises(MachineFailedError, match=f"state machine bad failed at offset 1: {cause}"):
        apply_one(log, plain(1), stamp_ms=stamp_ms)


def test_a_machine_that_fails_at_snapshots_halts() -> None:
    """Neither a snapshot nor a restore that fails goes unnoticed."""
    source = counter_log()
    apply_one(source, plain(1))
    void = AppliedLog(Void(), name="counter")
    with pytest.raises(MachineFailedError, match="offset 0: OSError: empty"):
        void.restore(source.snapshot())
    void = AppliedLog(Void(), name="counter")
    apply_one(void, plain(1))
    with pytest.raises(MachineFailedError, match="offset 1: OSError: full"):
        void.snapshot()


def test_a_question_that_fails_stops_nobody() -> None:
    """A question that is none, and one on which the machine fails, are refused."""
    log = AppliedLog(Fragile(), name="fragile")
    log.apply(batch(0, plain(7)))
    failed, nonsense = log.query(b""), log.query(b"?")
    assert isinstance(failed, Refused)
    assert failed.refusal is Refusal.QUERY_FAILED
    assert apply_one(log, plain(1)) == Answered(reply=b"8")
    nonsense = log.query(b"?")
    assert isinstance(nonsense, Refused)
    assert nonsense.refusal is Refusal.INVALID_COMMAND


def test_questions_change_nothing() -> None:
    """The state is the same after a question, answered or not."""
    log = counter_log()
    apply_one(log, plain(1))
    before = encode_state(decode_state(unsealed(log.snapshot().data)))
    log.query(b"")
    log.query(b"?")
    assert unsealed(log.snapshot().data) == before


def test_a_snapshot_is_restored_only_ahead() -> None:
    """A replica takes a snapshot that is ahead of it, and no other."""
    source, behind = counter_log(), counter_log()
    source.apply(batch(0, plain(4), plain(5), epoch=1, stamp_ms=30))
    behind.apply(batch(0, plain(4), epoch=1, stamp_ms=30))
    behind.restore(source.snapshot())
    assert behind.digest() == source.digest()
    assert apply_one(behind, plain(1)) == Answered(reply=b"10")
    with pytest.raises(AssertionError):
        source.restore(source.snapshot())


def test_nothing_has_no_snapshot() -> None:
    """A log of which nothing was applied has a digest, and no snapshot."""
    assert counter_log().digest() == counter_log().digest()
    with pytest.raises(AssertionError):
        counter_log().snapshot()


def snapshot_of_one() -> Snapshot:
    """A snapshot of a counter at 1."""
    log = counter_log()
    apply_one(log, plain(1))
    return log.snapshot()


def wrong_snapshots() -> dict[str, tuple[Snapshot, str]]:
    """Snapshots that are refused, and what is said."""
    good = snapshot_of_one()
    state = decode_state(unsealed(good.data))
    return {
        "bit": (replace(good, data=good.data[:9] + b"\xff" + good.data[10:]), "checksum"),
        "cut": (replace(good, data=good.data[:-1]), "checksum"),
        "empty": (replace(good, data=b""), "checksum"),
        "id": (replace(good, id=SnapshotId(Offset(2), Epoch(0))), "holds offset 1, epoch 0"),
        "epoch": (replace(good, id=SnapshotId(Offset(1), Epoch(3))), "holds offset 1, epoch 0"),
        "nonsense": (replace(good, data=sealed(b"\0\0")), "no snapshot: byte 1"),
        "version": (replace(good, data=sealed(b"\2" + unsealed(good.data)[1:])), "version 2 is unknown"),
        "machine": (replace(good, data=sealed(encode_state(replace(state, name="lock")))), "of state machine lock"),
        "description": (
            replace(good, data=sealed(encode_state(replace(state, said=described("counter", {"version": 2}))))),
            "of state machine counter with no digits_max, .*, version 2, here it has digits_max 18, .*, version 1",
        ),
        "limits": (
            replace(good, data=sealed(encode_state(replace(state, limits=SessionLimits(window=2))))),
            "its sessions have",
        ),
        "content": (replace(good, data=sealed(encode_state(replace(state, machine=b"x")))), "a number in decimal"),
        "spelling": (replace(good, data=sealed(encode_state(replace(state, machine=b"01")))), "another snapshot"),
        "time": (
            replace(good, data=sealed(encode_state(replace(state, log_time_ms=LOG_TIME_MS_MAX + 1)))),
            "log time is",
        ),
    }


GOOD_SESSION = SessionState(session_id=SessionId(1), ttl_ms=5_000, expires_at_ms=5_100, acknowledged=3, replies=())


def replies(*sequences: int) -> SessionState:
    """A session that keeps replies."""
    return replace(
        GOOD_SESSION, replies=tuple(KeptReply(sequence=number, outcome=Answered(reply=b"1")) for number in sequences)
    )


IMPOSSIBLE_SESSIONS: dict[str, tuple[SessionState, ...]] = {
    "twice": (GOOD_SESSION, GOOD_SESSION),
    "out_of_order": (GOOD_SESSION, replace(GOOD_SESSION, session_id=SessionId(0))),
    "id_ahead": (replace(GOOD_SESSION, session_id=SessionId(5)),),
    "too_many": tuple(replace(GOOD_SESSION, session_id=SessionId(number)) for number in range(4)),
    "lives_too_long": (replace(GOOD_SESSION, ttl_ms=(1 << 63) - 1),),
    "lives_too_shortly": (replace(GOOD_SESSION, ttl_ms=1),),
    "has_expired": (replace(GOOD_SESSION, expires_at_ms=100),),
    "expires_too_late": (replace(GOOD_SESSION, expires_at_ms=5_101),),
    "reply_that_was_acknowledged": (replies(2),),
    "reply_twice": (replies(4, 4),),
    "replies_out_of_order": (replies(5, 4),),
    "reply_beyond_the_window": (replies(3, 7),),
}


def snapshot_with(sessions: tuple[SessionState, ...], limits: SessionLimits) -> Snapshot:
    """A well sealed snapshot that ends at offset 5 and log time 100, with a counter at 100."""
    state = AppliedState(
        applied_offset=Offset(5), applied_epoch=Epoch(0), log_time_ms=100, limits=limits, sessions=sessions,
        name="counter", said=None, machine=b"100",
    )  # fmt: skip
    return Snapshot(id=SnapshotId(Offset(5), Epoch(0)), data=sealed(encode_state(state)))


@pytest.mark.parametrize("name", IMPOSSIBLE_SESSIONS)
def test_sessions_that_no_log_leads_to_are_refused(name: str) -> None:
    """A snapshot that is well sealed and impossible is refused, and changes nothing; a possible one is taken."""
    limits = SessionLimits(sessions_max=3, window=4)
    log = AppliedLog(Counter(), name="counter", limits=limits)
    apply_one(log, plain(7))
    before = log.snapshot()
    with pytest.raises(CorruptSnapshotError):
        log.restore(snapshot_with(IMPOSSIBLE_SESSIONS[name], limits))
    assert log.snapshot() == before
    log.restore(snapshot_with((replies(3, 6),), limits))
    assert log.query(b"") == Answered(reply=b"100")


@pytest.mark.parametrize("name", wrong_snapshots())
def test_a_snapshot_that_is_wrong_is_refused(name: str) -> None:
    """Damage, another id, another machine and other limits are told, and nothing is applied of it."""
    snapshot, reason = wrong_snapshots()[name]
    log = counter_log()
    with pytest.raises(CorruptSnapshotError, match=reason):
        log.restore(snapshot)
    assert log.applied_offset == 0
    log.restore(snapshot_of_one())
    assert apply_one(log, plain(1)) == Answered(reply=b"2")


def test_a_machine_whose_restore_failed_does_nothing_more() -> None:
    """What the machine itself has refused leaves it void, until another snapshot is restored."""
    for name in ("content", "spelling"):
        log = counter_log()
        log.digest()
        with pytest.raises(CorruptSnapshotError):
            log.restore(wrong_snapshots()[name][0])
        with pytest.raises(MachineFailedError):
            log.apply(batch(0, plain(1)))
        with pytest.raises(MachineFailedError):
            log.digest()


def test_a_machine_of_another_time_is_not_taken() -> None:
    """A machine's state that is ahead of the snapshot's log time, or has what ends by then, is not gone on from."""
    log = AppliedLog(KeyValueMachine(), name="kv")
    apply_one(log, encode_entry(PlainCommand(command=encode_command(GrantLease(ttl_ms=50)))), stamp_ms=100)
    state = decode_state(unsealed(log.snapshot().data))
    for log_time_ms in (99, 150):
        wrong = sealed(encode_state(replace(state, log_time_ms=log_time_ms)))
        void = AppliedLog(KeyValueMachine(), name="kv")
        with pytest.raises(CorruptSnapshotError):
            void.restore(Snapshot(id=log.snapshot().id, data=wrong))
        with pytest.raises(MachineFailedError):
            void.digest()


def test_equal_states_have_equal_digests_and_others_do_not() -> None:
    """The digest is of everything: the number, the offset, log time, the epoch and the sessions."""
    base = counter_log()
    base.apply(batch(0, plain(1), encode_entry(Tick())))
    others = [
        [batch(0, plain(2), encode_entry(Tick()))],
        [batch(0, plain(1))],
        [batch(0, plain(1), encode_entry(Tick()), stamp_ms=1)],
        [batch(0, plain(1), encode_entry(Tick()), epoch=1)],
    ]
    digests = {base.digest()}
    for made in others:
        log = counter_log()
        for one in made:
            log.apply(one)
        digests.add(log.digest())
    assert len(digests) == 5
    again = counter_log()
    again.apply(batch(0, plain(1)))
    assert apply_all(again, [batch(1, encode_entry(Tick()))]) == [AppliedEntry(offset=Offset(1), outcome=Done())]
    assert again.digest() == base.digest()


def test_a_leaders_stamps_go_on_from_log_time() -> None:
    """A new leader's time is that of the log when it began, and what its own clock has counted since."""
    clock = LeaderClock(log_time_ms=5_000, now_ms=1_000_000)
    assert [clock.stamp(now_ms) for now_ms in (1_000_000, 1_000_250)] == [5_000, 5_250]
    with pytest.raises(AssertionError):
        clock.stamp(999_999)
