"""What is encoded comes back: records, headers, rows of batches, and stamps on top of them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from replica.ids import Epoch, Offset
from replica.records import (
    NO_LEADER_EPOCH,
    NO_TIMESTAMP,
    CorruptRecordError,
    Record,
    RecordBatch,
    batch_size_at,
    check_crc,
    decode_records,
    encode_batch,
    parse_batches,
    scan_batches,
)
from replica.records.checksum import checksum
from tests.records.record_strategies import record_lists


def test_checksum_is_crc_32c() -> None:
    """The checksum gives the check value that the CRC catalogue lists for CRC-32C."""
    assert checksum(b"123456789") == 0xE3069283


@given(record_lists())
def test_records_round_trip(records: list[Record]) -> None:
    """Decoding an encoded batch gives the records back, and encoding those again gives the bytes back."""
    batch = encode_batch(records)
    decoded = decode_records(batch)
    assert list(decoded) == records
    assert encode_batch(decoded) == batch


@given(
    record_lists(base_offset=2**62),
    st.integers(0, 2**63 - 1),
    st.integers(0, 2**15 - 1),
    st.integers(0, 2**31 - 1),
)
def test_headers_round_trip(records: list[Record], producer_id: int, producer_epoch: int, base_sequence: int) -> None:
    """A parsed batch equals the one that was encoded, header fields at their limits included."""
    batch = encode_batch(
        records,
        base_offset=2**62,
        leader_epoch=2**31 - 1,
        producer_id=producer_id,
        producer_epoch=producer_epoch,
        base_sequence=base_sequence,
    )
    assert parse_batches(batch.data) == (batch,)
    assert batch.is_idempotent
    assert batch.producer_id == producer_id
    assert batch.producer_epoch == producer_epoch
    assert batch.base_sequence == base_sequence


@given(st.lists(st.lists(st.binary(max_size=20), min_size=1, max_size=4), max_size=5), st.booleans())
def test_rows_of_batches_round_trip(rows: list[list[bytes]], as_view: bool) -> None:
    """Batches back to back parse to the same batches, from bytes and from a memory view, in the order they stand."""
    batches: list[RecordBatch] = []
    for epoch, values in enumerate(rows):
        base_offset = batches[-1].end_offset if batches else Offset(0)
        batches.append(encode_batch(values).stamped(base_offset=base_offset, leader_epoch=Epoch(epoch)))
    data = b"".join(batch.data for batch in batches)
    assert list(scan_batches(memoryview(data) if as_view else data)) == batches
    assert parse_batches(data) == tuple(batches)


@given(record_lists(), st.integers(0, 2**63 - 100), st.integers(0, 2**31 - 1))
def test_a_stamp_changes_base_offset_and_epoch_only(records: list[Record], base_offset: int, epoch: int) -> None:
    """A stamped batch differs in bytes 0-7 and 12-15 only, verifies, and its records have moved by the base offset."""
    batch = encode_batch(records)
    stamped = batch.stamped(base_offset=Offset(base_offset), leader_epoch=Epoch(epoch))
    assert parse_batches(stamped.data) == (stamped,)
    assert (stamped.base_offset, stamped.leader_epoch) == (base_offset, epoch)
    assert stamped.data[8:12] + stamped.data[16:] == batch.data[8:12] + batch.data[16:]
    assert [record.offset - base_offset for record in decode_records(stamped)] == [record.offset for record in records]
    assert stamped.stamped(base_offset=batch.base_offset, leader_epoch=batch.leader_epoch) == batch


def test_plain_values_become_records_without_key() -> None:
    """Bytes given to the encoder are values without key or headers, all at the batch's timestamp."""
    batch = encode_batch([b"a", b"b"], timestamp_ms=1234)
    assert decode_records(batch) == (
        Record(offset=Offset(0), timestamp_ms=1234, key=None, value=b"a"),
        Record(offset=Offset(1), timestamp_ms=1234, key=None, value=b"b"),
    )
    assert (batch.base_timestamp_ms, batch.max_timestamp_ms) == (1234, 1234)


def test_a_batch_begins_unstamped_and_without_time() -> None:
    """What a producer sends carries leader epoch -1, and -1 where it gives no timestamp; both parse."""
    (batch,) = parse_batches(encode_batch([b"a"]).data)
    assert batch.leader_epoch == NO_LEADER_EPOCH == -1
    assert batch.max_timestamp_ms == NO_TIMESTAMP == -1


def test_no_bytes_are_no_batches() -> None:
    """An empty row of batches is not an error."""
    assert parse_batches(b"") == ()


def test_the_length_prefix_tells_the_size_of_a_batch() -> None:
    """Twelve bytes are enough to find the next batch, at any position; eleven are not."""
    first, second = encode_batch([b"a"]), encode_batch([b"bcd"])
    data = first.data + second.data
    assert batch_size_at(data, 0) == first.size_bytes
    assert batch_size_at(memoryview(data), first.size_bytes) == second.size_bytes
    assert batch_size_at(data[:12], 0) == first.size_bytes
    assert batch_size_at(data[:11], 0) is None


def test_log_append_time_overrides_the_records_own() -> None:
    """In a batch stamped with log append time every record has the batch's maximal timestamp."""
    data = bytearray(encode_batch([b"a", b"b"], timestamp_ms=1000).data)
    data[22] |= 0x08
    data[35:43] = (5000).to_bytes(8, "big")
    data[17:21] = checksum(bytes(data[21:])).to_bytes(4, "big")
    (batch,) = parse_batches(bytes(data))
    assert [record.timestamp_ms for record in decode_records(batch)] == [5000, 5000]


def test_a_scan_without_verification_leaves_the_crc_to_its_caller() -> None:
    """Unverified batches with a wrong CRC are yielded, and ``check_crc`` then refuses exactly those."""
    good, bad = encode_batch([b"good"]), encode_batch([b"bad"], base_offset=1).data[:-2] + b"X\x00"
    first, second = scan_batches(good.data + bad, verify=False)
    check_crc(first)
    with pytest.raises(CorruptRecordError, match="CRC-32C mismatch"):
        check_crc(second)


@pytest.mark.parametrize(
    ("records", "message"),
    [
        ([], "at least one record"),
        ([Record(offset=Offset(3), timestamp_ms=0, key=None, value=b"")], "offset 3 where the batch has 0"),
        ([Record(offset=Offset(0), timestamp_ms=2**63, key=None, value=b"")], "does not fit in 64 bits"),
    ],
)
def test_records_that_no_batch_can_hold_are_refused(records: list[Record], message: str) -> None:
    """The encoder names what is wrong with its input instead of writing a batch that nobody could read."""
    with pytest.raises(ValueError, match=message):
        encode_batch(records)
