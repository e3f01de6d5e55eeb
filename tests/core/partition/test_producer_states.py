"""What a replica remembers of idempotent producers: Kafka's ProducerStateManagerTest and UnifiedLogTest.

A batch is written as (producer epoch, first sequence, number of records); it stands at the log end.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from nemesis.variants import producing
from replica.core.log.recovered import PRODUCER_BATCHES_KEPT, ProducerBatch, ProducerEntry
from replica.core.partition.producer_state import (
    Duplicate,
    ProducerStates,
    scan,
)
from replica.core.rules import Rules
from replica.errors import ErrorCode
from replica.ids import Offset
from replica.records import SEQUENCE_MAX, RecordBatch, encode_batch

PID = 1
OUT_OF_ORDER = ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
EXPIRATION_MS = 1000

Verdict = Duplicate | ErrorCode | None


def batch_of(
    epoch: int, sequence: int, count: int = 1, *, offset: int = 0, producer_id: int = PID, control: bool = False
) -> RecordBatch:
    return encode_batch(
        [b"v"] * count,
        base_offset=offset,
        leader_epoch=1,
        producer_id=producer_id,
        producer_epoch=epoch,
        base_sequence=sequence,
        is_control=control,
    )


@dataclass
class ProducerLog:
    """A log with its memory of producers. ``append`` is a leader's, ``replicate`` a follower's."""

    batches: list[RecordBatch] = field(default_factory=list)
    states: ProducerStates = field(
        default_factory=lambda: ProducerStates((), expiration_ms=EXPIRATION_MS, ids_max=100, rules=Rules())
    )
    now_ms: int = 0

    @property
    def end(self) -> int:
        return self.batches[-1].end_offset if self.batches else 0

    def check(self, epoch: int, sequence: int, count: int = 1, *, producer_id: int = PID) -> Verdict:
        return self.states.check(batch_of(epoch, sequence, count, producer_id=producer_id), self.now_ms)

    def append(self, epoch: int, sequence: int, count: int = 1, *, producer_id: int = PID) -> Verdict:
        verdict = self.check(epoch, sequence, count, producer_id=producer_id)
        if verdict is None:
            self.replicate(epoch, sequence, count, producer_id=producer_id)
        return verdict

    def replicate(self, epoch: int, sequence: int, count: int = 1, *, producer_id: int = PID) -> None:
        self.batches.append(batch_of(epoch, sequence, count, offset=self.end, producer_id=producer_id))
        self.states.note(self.batches[-1])

    def truncate(self, end_offset: int) -> None:
        self.batches = [batch for batch in self.batches if batch.end_offset <= end_offset]
        self.states.truncate_to(Offset(end_offset))

    @property
    def last_sequences(self) -> dict[int, int]:
        return {entry.producer_id: entry.batches[-1].last_sequence for entry in self.states.entries}


def log_of(*batches: tuple[int, int, int]) -> ProducerLog:
    log = ProducerLog()
    for epoch, sequence, count in batches:
        assert log.append(epoch, sequence, count) is None, (epoch, sequence, count)
    return log


def duplicate(base_offset: int, end_offset: int) -> Duplicate:
    return Duplicate(base_offset=Offset(base_offset), end_offset=Offset(end_offset))


# --- which batch comes next -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("known", "batch", "verdict"),
    [
        pytest.param([], (0, 0, 1), None, id="no_producer_at_all"),
        pytest.param([], (3, 77, 1), None, id="unknown_producer_with_any_sequence"),
        pytest.param([(0, 0, 3)], (0, 3, 2), None, id="next_in_sequence"),
        pytest.param([(0, 0, 3)], (0, 4, 1), OUT_OF_ORDER, id="gap"),
        pytest.param([(0, 0, 3)], (0, 2, 2), OUT_OF_ORDER, id="partial_overlap"),
        pytest.param([(0, 0, 3)], (0, 0, 4), OUT_OF_ORDER, id="same_start_but_longer"),
        pytest.param([(0, 0, 3)], (0, 0, 3), duplicate(0, 3), id="exact_duplicate"),
        pytest.param([(0, 0, 3), (0, 3, 2)], (0, 0, 3), duplicate(0, 3), id="duplicate_of_an_earlier_batch"),
        pytest.param([(0, 0, 3), (0, 3, 2)], (0, 0, 5), OUT_OF_ORDER, id="two_batches_in_one"),
        pytest.param([(2, 0, 1)], (1, 0, 1), ErrorCode.INVALID_PRODUCER_EPOCH, id="test_old_producer_epoch"),
        pytest.param([(2, 0, 1)], (1, 1, 1), ErrorCode.INVALID_PRODUCER_EPOCH, id="old_epoch_in_sequence"),
        pytest.param([(2, 0, 3)], (3, 0, 1), None, id="new_epoch_begins_at_0"),
        pytest.param([(2, 0, 3)], (3, 3, 1), OUT_OF_ORDER, id="new_epoch_goes_on_counting"),
        pytest.param([(2, 0, 3), (3, 0, 1)], (2, 0, 3), ErrorCode.INVALID_PRODUCER_EPOCH, id="duplicate_of_old_epoch"),
        pytest.param([(0, SEQUENCE_MAX - 1, 4)], (0, 2, 1), None, id="wrap_around_inside_a_batch"),
        pytest.param(
            [(0, SEQUENCE_MAX - 1, 4)], (0, SEQUENCE_MAX - 1, 4), duplicate(0, 4), id="duplicate_that_wraps_around"
        ),
    ],
)
def test_sequence_validation(known: list[tuple[int, int, int]], batch: tuple[int, int, int], verdict: Verdict) -> None:
    """A leader appends the batch that comes next, knows one that it has, and refuses all others."""
    assert log_of(*known).check(*batch) == verdict


def test_producer_sequence_wrap_around() -> None:
    """After the largest sequence number comes 0."""
    assert log_of((0, SEQUENCE_MAX, 1)).check(0, 0) is None


def test_producer_sequence_invalid_wrap_around() -> None:
    """After the largest sequence number comes nothing else."""
    assert log_of((0, SEQUENCE_MAX, 1)).check(0, 1) is OUT_OF_ORDER


@pytest.mark.parametrize(
    "batch",
    [
        pytest.param(replace(batch_of(0, 0), base_sequence=-1), id="no_sequence"),
        pytest.param(replace(batch_of(0, 0), producer_epoch=-1), id="no_epoch"),
        pytest.param(replace(batch_of(0, 0), producer_id=-2), id="no_such_id"),
    ],
)
def test_half_an_idempotent_producer_is_refused(batch: RecordBatch) -> None:
    """A producer id without an epoch or a sequence number cannot be told from a duplicate."""
    assert ProducerLog().states.check(batch, 0) is ErrorCode.INVALID_RECORD


def test_batch_without_producer_is_always_new() -> None:
    """A producer that did not ask for idempotence is neither checked nor remembered."""
    log = ProducerLog()
    assert [log.append(-1, -1, producer_id=-1) for _ in range(3)] == [None, None, None]
    assert log.states.entries == ()


def test_duplicate_appends() -> None:
    """Each of the last five batches is known again, with its own offsets; an older one is out of order."""
    log = log_of(*((0, 2 * number, 2) for number in range(PRODUCER_BATCHES_KEPT + 2)))
    verdicts = [log.append(0, 2 * number, 2) for number in range(PRODUCER_BATCHES_KEPT + 2)]
    assert verdicts == [OUT_OF_ORDER] * 2 + [duplicate(2 * number, 2 * number + 2) for number in range(2, 7)]


def test_producers_do_not_disturb_each_other() -> None:
    """Sequences count per producer."""
    log = log_of((0, 0, 2))
    assert log.append(0, 0, 2, producer_id=2) is None
    assert (log.check(0, 2), log.check(0, 2, producer_id=2), log.check(0, 0, 2)) == (None, None, duplicate(0, 2))


# --- followers ------------------------------------------------------------------------------------------------------


def test_accept_append_with_sequence_gaps_on_replica() -> None:
    """A follower records what its leader appended, and as a leader goes on from there."""
    log = log_of((0, 0, 1))
    log.replicate(0, 5)
    log.replicate(0, 9)
    assert log.last_sequences == {PID: 9}
    assert (log.check(0, 10), log.check(0, 6)) == (None, OUT_OF_ORDER)


def test_control_batches_are_not_a_producers() -> None:
    """What a leader writes by itself has no sequence."""
    log = ProducerLog()
    log.states.note(batch_of(0, 0, control=True))
    assert log.states.entries == ()


@given(
    st.lists(
        st.tuples(st.integers(0, 3), st.integers(0, 2), st.integers(0, SEQUENCE_MAX), st.integers(1, 3)), max_size=30
    )
)
def test_memory_is_what_a_scan_finds(appended: list[tuple[int, int, int, int]]) -> None:
    """Whatever a follower replicates, its memory is the one that a restart reads from the log, in the same order."""
    log = ProducerLog()
    for producer_id, epoch, sequence, count in appended:
        log.replicate(epoch, sequence, count, producer_id=producer_id)
    assert log.states.entries == scan(log.batches)


def test_scan_finds_batches_where_they_stand() -> None:
    """A scan gives each producer's newest epoch, and its newest batches in it with their offsets."""
    log = log_of((0, 0, 2), (1, 0, 3))
    found = ProducerBatch(
        base_sequence=0, last_sequence=2, base_offset=Offset(2), end_offset=Offset(5), max_timestamp_ms=-1
    )
    assert scan(log.batches) == (ProducerEntry(producer_id=PID, producer_epoch=1, batches=(found,)),)


# --- truncation -----------------------------------------------------------------------------------------------------


def test_truncated_batch_is_new_again() -> None:
    """A batch that was cut is appended again when it is sent again, one that was kept is not."""
    log = log_of((0, 0, 2), (0, 2, 2))
    log.truncate(2)
    log.states.replace_all(scan(log.batches))
    assert (log.append(0, 0, 2), log.append(0, 2, 2), log.end) == (duplicate(0, 2), None, 4)


def test_older_batches_count_again_after_a_truncation() -> None:
    """Batches that were pushed out of the memory by those that are gone come back with the scan."""
    log = log_of(*((0, number, 1) for number in range(10)))
    log.truncate(5)
    assert log.states.entries == ()
    log.states.replace_all(scan(log.batches))
    assert log.append(0, 4) == duplicate(4, 5)


def test_nothing_is_decided_before_the_scan() -> None:
    """Between cut and scan a known duplicate is known, and all else is put off: it might be a forgotten one."""
    log = log_of(*((0, number, 1) for number in range(10)))
    log.truncate(7)
    assert log.states.awaits_scan
    assert (log.check(0, 6), log.check(0, 1)) == (duplicate(6, 7), ErrorCode.THROTTLING_QUOTA_EXCEEDED)
    assert log.check(0, 0, producer_id=9) is ErrorCode.THROTTLING_QUOTA_EXCEEDED
    log.states.replace_all(scan(log.batches))
    assert (log.check(0, 1), log.check(0, 7), log.check(0, 0, producer_id=9)) == (OUT_OF_ORDER, None, None)


def test_what_is_appended_during_a_scan_is_not_lost() -> None:
    """A scan tells of the log as it was when it was asked for; later batches stand behind what it found."""
    log = log_of((0, 0, 1), (0, 1, 1), (0, 2, 1))
    log.truncate(2)
    found = scan(log.batches)
    log.replicate(0, 7)
    log.replicate(1, 0, producer_id=2)
    log.states.replace_all(found)
    assert log.states.entries == scan(log.batches)


def test_only_the_last_scan_counts() -> None:
    """A scan of a log that was cut again since would bring back what is gone."""
    log = log_of((0, 0, 1), (0, 1, 1), (0, 2, 1))
    log.truncate(2)
    first = scan(log.batches)
    log.truncate(1)
    log.states.replace_all(first)
    assert (log.states.awaits_scan, log.last_sequences) == (True, {PID: 0})
    log.states.replace_all(scan(log.batches))
    assert (log.states.awaits_scan, log.last_sequences) == (False, {PID: 0})


def test_log_that_begins_anew_knows_nobody() -> None:
    """With all records all producers are forgotten, also by a scan that is still out."""
    log = log_of((0, 0, 1), (0, 1, 1))
    log.truncate(1)
    found = scan(log.batches)
    log.states.start_at(Offset(9))
    log.states.replace_all(found)
    log.states.replace_all(())
    assert (log.states.entries, log.states.awaits_scan) == ((), False)


@given(cut=st.integers(0, 12), later=st.integers(0, 3))
def test_memory_follows_the_log_through_a_truncation(cut: int, later: int) -> None:
    """After cut, appends and scan the memory is that of the log, wherever it was cut."""
    log = log_of(*((number // 4, number % 4, 1) for number in range(12)))
    log.truncate(cut)
    found = scan(log.batches)
    for number in range(later):
        log.replicate(3, number)
    log.states.replace_all(found)
    assert log.states.entries == scan(log.batches)


# --- limits ---------------------------------------------------------------------------------------------------------


def test_pid_expiration_timeout() -> None:
    """A producer that is idle for the whole expiration time is forgotten, counted from when it was last seen."""
    states = ProducerLog().states
    for now_ms in (0, EXPIRATION_MS - 1):
        states.note(batch_of(0, now_ms))
        states.expire(now_ms)
    states.expire(2 * EXPIRATION_MS - 2)
    assert states.check(batch_of(0, 7), 2 * EXPIRATION_MS - 2) is OUT_OF_ORDER
    assert states.check(batch_of(0, 7), 2 * EXPIRATION_MS - 1) is None
    assert states.entries == ()


def test_expiration_goes_on_after_a_scan() -> None:
    """After a scan, which brings the producers in another order, each is idle for as long as from the scan on."""
    log = log_of((0, 0, 1))
    log.append(0, 0, producer_id=2)
    log.states.expire(0)
    log.append(0, 1)
    log.truncate(2)
    log.states.replace_all(scan(log.batches))
    for now_ms, known in ((500, 2), (500 + EXPIRATION_MS - 1, 2), (500 + EXPIRATION_MS, 0)):
        log.states.expire(now_ms)
        assert len(log.states.entries) == known


def test_expiration_does_not_trust_timestamps() -> None:
    """A recovered producer whose batches have no timestamps, or old ones, is not forgotten at once."""
    log = log_of((0, 0, 1))
    recovered = ProducerStates(scan(log.batches), expiration_ms=EXPIRATION_MS, ids_max=9)
    assert recovered.check(batch_of(0, 0), 10**12) == duplicate(0, 1)


def test_active_producers_outlive_idle_ones() -> None:
    """Only the producers that were idle are forgotten, whatever their order was."""
    log = ProducerLog()
    for now_ms in range(0, 5 * EXPIRATION_MS, EXPIRATION_MS // 2):
        log.now_ms = now_ms
        log.append(0, now_ms // (EXPIRATION_MS // 2), producer_id=1)
        log.append(0, 0, producer_id=100 + now_ms)
    assert [entry.producer_id for entry in log.states.entries][-2:] == [1, 100 + log.now_ms]
    assert len(log.states.entries) <= 4


def test_a_leader_forgets_nobody_for_a_new_producer() -> None:
    """Where there is no room, new producers wait until one has been idle for long enough; known ones write on."""
    states = ProducerStates((), expiration_ms=EXPIRATION_MS, ids_max=2)
    states.note(batch_of(0, 0, producer_id=7))
    assert (states.has_room_for(7), states.has_room_for(8)) == (True, True)
    states.note(batch_of(0, 0, producer_id=8))
    assert (states.has_room_for(7), states.has_room_for(8), states.has_room_for(9)) == (True, True, False)
    states.expire(0)
    states.note(batch_of(0, 1, producer_id=8))
    states.expire(EXPIRATION_MS - 1)
    assert not states.has_room_for(9)
    states.expire(EXPIRATION_MS)
    assert (states.has_room_for(9), [entry.producer_id for entry in states.entries]) == (True, [8])


def test_a_follower_drops_the_one_idle_longest() -> None:
    """The memory is bounded whatever comes from elsewhere: by replicated batches, by a scan, and at recovery."""
    states = ProducerStates((), expiration_ms=EXPIRATION_MS, ids_max=2)
    batches = [batch_of(0, number, offset=number, producer_id=pid) for number, pid in enumerate([7, 8, 7, 9])]
    for batch in batches:
        states.note(batch)
    assert [entry.producer_id for entry in states.entries] == [7, 9]
    recovered = ProducerStates(scan(batches), expiration_ms=EXPIRATION_MS, ids_max=2)
    assert recovered.entries == states.entries
    recovered.truncate_to(Offset(4))
    recovered.replace_all(scan(batches))
    assert recovered.entries == states.entries


# --- the wrong way --------------------------------------------------------------------------------------------------


def test_states_that_do_not_follow_the_log_acknowledge_what_is_gone() -> None:
    """The seam: a batch that was cut is taken for a duplicate, and so is never written."""
    log = ProducerLog(states=ProducerStates((), expiration_ms=9, ids_max=9, rules=producing.ProducerStateNotRebuilt()))
    log.append(0, 0)
    log.truncate(0)
    log.states.replace_all(scan(log.batches))
    assert log.append(0, 0) == duplicate(0, 1)
