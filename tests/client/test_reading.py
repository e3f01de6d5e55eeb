"""A consumer's position as a table: what is handed out, and where a truncation is found."""

from __future__ import annotations

import pytest

from replica.client.failures import UnreadableBatchError
from replica.client.reading import EPOCHS_MAX, OffsetReset, Reading
from replica.client.values import ConsumerRecord
from replica.ids import Epoch, EpochEndOffset, Offset
from replica.records import CorruptRecordError, RecordBatch, encode_batch, leader_change_batch, scan_batches
from tests.client.views import ONE, ORDERS
from tests.records.odd_batches import ODD_RECORDS


def batch(base_offset: int, epoch: int, *values: bytes) -> RecordBatch:
    return encode_batch(values, base_offset=base_offset, leader_epoch=epoch)


def control(offset: int, epoch: int) -> RecordBatch:
    return leader_change_batch(
        leader_id=ONE, voters=[ONE], granting_voters=[ONE], base_offset=Offset(offset), leader_epoch=Epoch(epoch)
    )


def reading_at(offset: int, epoch: int | None = None) -> Reading:
    reading = Reading(ORDERS)
    reading.seek(Offset(offset), None if epoch is None else Epoch(epoch))
    return reading


def taken(reading: Reading, count: int) -> list[ConsumerRecord]:
    """What is handed out, if anything is ready."""
    return [] if reading.is_empty else reading.take(count).records()


def having_read(*batches: RecordBatch) -> Reading:
    """A reader that began at 0 and was handed out all of these."""
    reading = reading_at(0)
    reading.add(batches)
    taken(reading, 1000)
    return reading


def test_records_are_handed_out_in_portions() -> None:
    """The position follows what was handed out, record by record, and in the end passes the protocol's own batches."""
    reading = reading_at(1)
    reading.add([batch(0, 1, b"a", b"b", b"c"), control(3, 2)])
    assert [(record.offset, record.value, record.leader_epoch) for record in taken(reading, 1)] == [(1, b"b", 1)]
    assert (reading.offset, reading.is_empty) == (2, False)
    assert [record.value for record in taken(reading, 5)] == [b"c"]
    assert (reading.offset, reading.is_empty, reading.last_epoch) == (4, True, 2)
    reading.add([control(4, 3)])
    assert (reading.offset, reading.is_empty, reading.last_epoch) == (5, True, 3)


def odd(base_offset: int, epoch: int) -> RecordBatch:
    """Two records, the second of which cannot be decoded."""
    return ODD_RECORDS["the same offset twice"].stamped(base_offset=Offset(base_offset), leader_epoch=Epoch(epoch))


def test_what_stands_before_an_odd_batch_is_handed_out() -> None:
    """Good records come first, the position passes them, and only then the odd batch is named with its offsets."""
    reading = reading_at(0)
    fetched = [batch(0, 1, b"a", b"b"), control(2, 2), odd(3, 2), batch(5, 2, b"c")]
    reading.add(fetched)
    assert [record.value for record in taken(reading, 9)] == [b"a", b"b"]
    assert (reading.offset, reading.is_empty, reading.last_epoch) == (3, True, 2)
    with pytest.raises(
        UnreadableBatchError, match=r"orders-0: the batch at offset 3 to 4 .*; seek to 5 to go on"
    ) as raised:
        reading.add(fetched[2:])
    assert (raised.value.topic_partition, raised.value.base_offset, raised.value.end_offset) == (ORDERS, 3, 5)
    assert "offset delta 0 where 1 is due" in raised.value.reason
    assert (reading.offset, reading.is_empty, reading.last_epoch) == (3, True, 2)


def test_an_odd_batch_can_be_left_out() -> None:
    """Whoever seeks to its end goes on behind it; inside it there is nothing to be had."""
    reading = reading_at(4)
    with pytest.raises(UnreadableBatchError):
        reading.add([odd(3, 2), batch(5, 2, b"c")])
    reading.seek(Offset(5), None)
    reading.add([odd(3, 2), batch(5, 2, b"c")][1:])
    assert [record.value for record in taken(reading, 9)] == [b"c"]


def test_batches_that_end_in_damage_are_taken_up_to_it() -> None:
    """Whoever brings batches may fail behind a good one; in front of all it is passed on and changes nothing."""
    good = batch(0, 1, b"a").data
    reading = reading_at(0)
    reading.add(scan_batches(good + good[:-1]))
    assert [record.value for record in taken(reading, 9)] == [b"a"]
    with pytest.raises(CorruptRecordError):
        reading.add(scan_batches(good[:-1] + b"\xff"))
    assert (reading.offset, reading.is_empty, reading.last_epoch) == (1, True, 1)


def test_a_seek_outdates_what_was_asked_before() -> None:
    """Each move makes a new generation, drops what was ready, and forgets what was known of the old position."""
    reading = reading_at(0)
    reading.add([batch(0, 1, b"a")])
    before = reading.generation
    reading.seek(Offset(0), None)
    assert reading.is_empty
    reading.forget_position(OffsetReset.LATEST)
    assert reading.generation == before + 2
    assert (reading.offset, reading.last_epoch) == (None, None)


@pytest.mark.parametrize(
    ("reading", "end", "divergence"),
    [
        pytest.param(having_read(batch(0, 1, b"a", b"b")), (1, 2), None, id="the same"),
        pytest.param(having_read(batch(0, 1, b"a", b"b")), (1, 9), None, id="it has grown"),
        pytest.param(having_read(batch(0, 1, b"a", b"b")), (1, 1), 1, id="it was cut"),
        pytest.param(having_read(batch(0, 1, b"a"), batch(1, 3, b"b")), (1, 5), 1, id="cut and grown in an old epoch"),
        pytest.param(having_read(batch(0, 1, b"a"), batch(1, 2, b"b"), batch(2, 4, b"c")), (2, 2), 2, id="an epoch"),
        pytest.param(having_read(batch(0, 1, b"a"), batch(1, 2, b"b"), batch(2, 4, b"c")), (1, 9), 1, id="two epochs"),
        pytest.param(reading_at(5, 3), (3, 5), None, id="a position with its epoch"),
        pytest.param(reading_at(5, 3), (2, 5), 4, id="a position whose record is gone"),
        pytest.param(reading_at(5, 3), (2, 2), 2, id="a position far beyond the cut"),
    ],
)
def test_a_truncation_is_found_by_epochs(reading: Reading, end: tuple[int, int], divergence: int | None) -> None:
    """Where our last epoch ends in the leader's log is compared with where it began for us, not with offsets alone."""
    assert reading.divergence(EpochEndOffset(Epoch(end[0]), Offset(end[1]))) == divergence


def test_going_back_keeps_what_still_agrees() -> None:
    """After a truncation the epochs below the cut are remembered, so that a deeper one is found next."""
    reading = having_read(batch(0, 1, b"a"), batch(1, 2, b"b"), batch(2, 4, b"c"))
    reading.go_back(Offset(2))
    assert (reading.offset, reading.last_epoch) == (2, 2)


def test_a_new_leader_has_to_agree_once() -> None:
    """A position is validated by each leader epoch for itself, and not any more once it has moved elsewhere."""
    reading = reading_at(5, 3)
    assert not reading.is_validated(Epoch(4))
    reading.on_validated(Epoch(4))
    assert reading.is_validated(Epoch(4))
    assert not reading.is_validated(Epoch(5))
    reading.seek(Offset(5), Epoch(3))
    assert not reading.is_validated(Epoch(4))


def test_epochs_are_forgotten_at_last() -> None:
    """A consumer that has seen very many leaders remembers the last of them."""
    reading = reading_at(0)
    for number in range(EPOCHS_MAX + 5):
        reading.add([batch(number, number, b"a")])
        taken(reading, 1)
    assert reading.divergence(EpochEndOffset(Epoch(2), Offset(3))) is not None
    assert reading.last_epoch == EPOCHS_MAX + 4
