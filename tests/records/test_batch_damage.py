"""Damaged bytes are refused with ``CorruptRecordError``: never another exception, never a silent skip."""

from __future__ import annotations

from collections.abc import Callable
from struct import pack_into

import pytest

from replica.ids import Epoch, Offset
from replica.records import (
    HEADER_BYTES,
    CorruptRecordError,
    Record,
    batch_size_at,
    check_continues,
    decode_records,
    encode_batch,
    parse_batches,
    scan_batches,
)
from replica.records.checksum import checksum

BATCH = encode_batch(
    [
        Record(offset=Offset(6), timestamp_ms=1000, key=b"k", value=b"v", headers=(("h", b"x"),)),
        Record(offset=Offset(7), timestamp_ms=1001, key=None, value=None),
    ],
    base_offset=6,
    leader_epoch=4,
)
NEXT = encode_batch([b"next"], base_offset=8, leader_epoch=5)

BASE_OFFSET_BITS = range(0, 8 * 8)
LEADER_EPOCH_BITS = range(12 * 8, 16 * 8)


def flipped(data: bytes, bit: int) -> bytes:
    """Flip one bit, counted from the highest bit of the first byte."""
    damaged = bytearray(data)
    damaged[bit // 8] ^= 0x80 >> bit % 8
    return bytes(damaged)


def resealed(data: bytes, **fields: int) -> bytes:
    """Overwrite header fields and make length and CRC right again: damage that no checksum shows."""
    formats = {"attributes": (">h", 21), "last_offset_delta": (">i", 23), "record_count": (">i", 57)}
    damaged = bytearray(data)
    for name, value in fields.items():
        layout, position = formats[name]
        pack_into(layout, damaged, position, value)
    pack_into(">i", damaged, 8, len(damaged) - 12)
    pack_into(">I", damaged, 17, checksum(bytes(damaged[21:])))
    return bytes(damaged)


@pytest.mark.parametrize("length", range(1, BATCH.size_bytes))
def test_every_truncation_is_refused(length: int) -> None:
    """A batch cut at any byte is refused, alone and behind a whole one, and the whole one is still read."""
    with pytest.raises(CorruptRecordError):
        parse_batches(BATCH.data[:length])
    scan = scan_batches(BATCH.data + NEXT.data[: min(length, NEXT.size_bytes - 1)])
    assert next(scan) == BATCH
    with pytest.raises(CorruptRecordError) as refusal:
        next(scan)
    assert refusal.value.position >= BATCH.size_bytes


@pytest.mark.parametrize("byte", [byte for byte in range(8, BATCH.size_bytes) if not 12 <= byte < 16])
@pytest.mark.parametrize("behind", [b"", NEXT.data, bytes(200)], ids=["alone", "before-another", "before-zeros"])
def test_every_flipped_bit_in_length_magic_and_under_the_crc_is_refused(byte: int, behind: bytes) -> None:
    """Whichever bit flips outside base offset and leader epoch, and whatever follows, the batch is refused."""
    for bit in range(byte * 8, byte * 8 + 8):
        with pytest.raises(CorruptRecordError):
            next(scan_batches(flipped(BATCH.data, bit) + behind))


@pytest.mark.parametrize("bit", [*BASE_OFFSET_BITS, *LEADER_EPOCH_BITS])
def test_a_flip_outside_the_crc_is_refused_where_position_or_epoch_order_shows_it(bit: int) -> None:
    """At the end of a log no flipped base offset fits, and a flipped epoch is below the last or above the leader's.

    The log ends at offset 6 in epoch 4 and the leader is in epoch 4: no other pair of values may stand there.
    """
    with pytest.raises(CorruptRecordError):
        for batch in parse_batches(flipped(BATCH.data, bit)):
            check_continues(batch, log_end_offset=6, last_epoch=4, leader_epoch=4)
    check_continues(BATCH, log_end_offset=6, last_epoch=4, leader_epoch=4)


@pytest.mark.parametrize("bit", [*BASE_OFFSET_BITS, *LEADER_EPOCH_BITS])
def test_a_flip_outside_the_crc_between_neighbours_is_refused_where_order_shows_it(bit: int) -> None:
    """In a row of batches a flip that makes offsets overlap or epochs fall is refused; any other shows in the batch.

    The stamps are no part of the CRC, so an upward flip of the last batch parses; the log position then refuses it.
    """
    data = BATCH.data + flipped(NEXT.data, bit)
    base_offset = int.from_bytes(data[BATCH.size_bytes :][:8], "big", signed=True)
    leader_epoch = int.from_bytes(data[BATCH.size_bytes + 12 :][:4], "big", signed=True)
    overflows = base_offset >= 2**63 - 1
    if base_offset < BATCH.end_offset or leader_epoch < BATCH.leader_epoch or overflows:
        with pytest.raises(CorruptRecordError) as refusal:
            parse_batches(data)
        assert refusal.value.position in (BATCH.size_bytes, BATCH.size_bytes + 12)
    else:
        last = parse_batches(data)[-1]
        assert (last.base_offset, last.leader_epoch) == (base_offset, leader_epoch) != (8, 5)


@pytest.mark.parametrize(
    ("log_end_offset", "last_epoch", "leader_epoch", "message"),
    [
        (5, 4, None, "base offset 6 is not the log end offset 5"),
        (7, 4, None, "base offset 6 is not the log end offset 7"),
        (6, 5, None, "leader epoch 4 follows 5"),
        (6, 4, 3, "leader epoch 4 is above its leader's own, 3"),
    ],
)
def test_a_batch_that_does_not_continue_the_log_is_refused(
    log_end_offset: int, last_epoch: int, leader_epoch: int | None, message: str
) -> None:
    """A batch stands at the log end only, in an epoch between the last batch's and the leader's."""
    with pytest.raises(CorruptRecordError, match=message):
        check_continues(BATCH, log_end_offset=log_end_offset, last_epoch=last_epoch, leader_epoch=leader_epoch)


@pytest.mark.parametrize(("last_epoch", "leader_epoch"), [(None, None), (0, 9), (4, 4), (None, 4)])
def test_a_batch_that_continues_the_log_is_accepted(last_epoch: int | None, leader_epoch: int | None) -> None:
    """Equal epochs are in order, and an empty log has no last epoch to be below."""
    check_continues(BATCH, log_end_offset=6, last_epoch=last_epoch, leader_epoch=leader_epoch)


def test_an_unstamped_batch_stands_in_no_log() -> None:
    """Leader epoch -1 is right in a produce request and wrong in a log, even in an empty one."""
    with pytest.raises(CorruptRecordError, match="not been stamped"):
        check_continues(encode_batch([b"a"]), log_end_offset=0, last_epoch=None)


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"attributes": 1}, "compression gzip is not supported; use lz4, zstd or none"),
        ({"attributes": 2}, "compression snappy is not supported; use lz4, zstd or none"),
        ({"attributes": 5}, "compression by unknown codec 5 is not supported; use lz4, zstd or none"),
        ({"attributes": 7}, "compression by unknown codec 7 is not supported"),
        ({"attributes": 0x23}, "a control batch is compressed"),
        ({"attributes": 0x24}, "a control batch is compressed"),
        ({"attributes": 0x10}, "transactional"),
        ({"attributes": 0x40}, "delete horizon"),
        ({"attributes": 0x80}, "unknown attribute bits 0x0080"),
        ({"attributes": -0x8000}, "unknown attribute bits 0x8000"),
        ({"record_count": 0, "last_offset_delta": -1}, "record count 0"),
        ({"record_count": -1, "last_offset_delta": -2}, "record count -1"),
        ({"record_count": 3}, "last offset delta 1 does not fit 3 records"),
        ({"last_offset_delta": 0}, "last offset delta 0 does not fit 2 records"),
        ({"record_count": 2**31 - 1, "last_offset_delta": 2**31 - 2}, "cannot hold that many"),
    ],
)
def test_a_header_that_makes_no_sense_is_refused_by_name(fields: dict[str, int], message: str) -> None:
    """A batch whose CRC is right is still refused where its header asks for what this format cannot keep."""
    with pytest.raises(CorruptRecordError, match=message):
        parse_batches(resealed(BATCH.data, **fields))


@pytest.mark.parametrize("base_offset", [-1, -(2**63), 2**63 - 1, 2**63 - 2])
def test_offsets_that_leave_64_bits_are_refused(base_offset: int) -> None:
    """The base offset is 0 or more, and the end offset (exclusive) still fits in 64 bits."""
    data = bytearray(BATCH.data)
    pack_into(">q", data, 0, base_offset)
    with pytest.raises(CorruptRecordError, match="out of range"):
        parse_batches(bytes(data))


@pytest.mark.parametrize("leader_epoch", [-2, -(2**31)])
def test_a_leader_epoch_below_unstamped_is_refused(leader_epoch: int) -> None:
    """-1 says that no leader has stamped the batch; nothing is said by less."""
    data = bytearray(BATCH.data)
    pack_into(">i", data, 12, leader_epoch)
    with pytest.raises(CorruptRecordError, match=f"byte 12: leader epoch {leader_epoch} is below -1"):
        parse_batches(bytes(data))


@pytest.mark.parametrize(("base_offset", "accepted"), [(5, False), (6, False), (7, False), (8, True), (9, True)])
def test_offsets_of_neighbours_never_overlap(base_offset: int, accepted: bool) -> None:
    """Behind a batch of offsets 6 and 7 the next begins at 8 or later, however little it would overlap."""
    data = BATCH.data + NEXT.stamped(base_offset=Offset(base_offset), leader_epoch=Epoch(5)).data
    if accepted:
        assert [batch.base_offset for batch in parse_batches(data)] == [6, base_offset]
        return
    with pytest.raises(CorruptRecordError, match="lies below the previous batch's end, 8"):
        parse_batches(data)


def test_a_header_without_records_is_refused() -> None:
    """An empty batch takes no offset and so has no place in a log."""
    empty = resealed(BATCH.data[:HEADER_BYTES], record_count=0, last_offset_delta=-1)
    with pytest.raises(CorruptRecordError, match="at least one record"):
        parse_batches(empty)


@pytest.mark.parametrize("batch_length", [-(2**31), -1, 0, 48])
def test_an_impossible_length_is_refused(batch_length: int) -> None:
    """A length that no batch can have is an error as soon as twelve bytes are there, not a reason to wait for more."""
    data = bytearray(BATCH.data[:12])
    pack_into(">i", data, 8, batch_length)
    with pytest.raises(CorruptRecordError, match=f"byte 8: batch length {batch_length} is below 49"):
        batch_size_at(bytes(data), 0)


def test_the_error_counts_bytes_from_the_start_of_what_was_handed_in() -> None:
    """A fault in the second batch is reported at its place in the whole, with both checksums in the message."""
    with pytest.raises(CorruptRecordError, match=f"byte {BATCH.size_bytes + 17}: CRC-32C mismatch: .*0x.*0x"):
        parse_batches(BATCH.data + flipped(NEXT.data, NEXT.size_bytes * 8 - 1))


@pytest.mark.parametrize("bit", range(HEADER_BYTES * 8, BATCH.size_bytes * 8))
def test_a_flip_before_the_crc_was_computed_never_passes_unseen(bit: int) -> None:
    """A flipped bit sealed under a new CRC is refused, or shows in the records, or lies in the unused attributes."""
    (batch,) = parse_batches(resealed(flipped(BATCH.data, bit)))
    try:
        decoded = decode_records(batch)
    except CorruptRecordError:
        return
    first_record_bytes = 1 + BATCH.data[HEADER_BYTES] // 2
    attributes_at = {HEADER_BYTES + 1, HEADER_BYTES + first_record_bytes + 1}
    assert decoded != decode_records(BATCH) or bit // 8 in attributes_at


RECORD = b"\x00\x00\x00\x01\x01\x00"  # attributes, timestamp delta 0, offset delta 0, null key, null value, no headers


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (b"\x10" + RECORD, "byte 61: record length 8 with 6 bytes left"),
        (b"\x01" + RECORD, "record length -1"),
        (b"\x00" + RECORD, "an empty record"),
        (b"\xff\xff\xff\xff\x1f" + RECORD, "varint overflow"),
        (b"\x80\x80\x80\x80\x80\x00" + RECORD, "varint overflow"),
        (b"\x80\x80\x80\x80\x80\x80\x80", "varint overflow"),
        (b"\x0c" + RECORD + b"\x00", "1 trailing bytes behind the last record"),
        (b"\x0e" + RECORD + b"\x00", "1 trailing bytes inside a record"),
        (b"\x0c\x00\x00\x02\x01\x01\x00", "byte 64: offset delta 1 where 0 is due"),
        (b"\x0c\x00\x00\x00\x03\x01\x00", "key length -2"),
        (b"\x0c\x00\x00\x00\x06\x01\x00", "key length 3 with 2 bytes left"),
        (b"\x0c\x00\x00\x00\x01\x06\x00", "value length 3 with 1 bytes left"),
        (b"\x0c\x00\x00\x00\x01\x01\x01", "-1 headers"),
        (b"\x0c\x00\x00\x00\x01\x01\x02", "1 headers with 0 bytes left"),
        (b"\x10\x00\x00\x00\x01\x01\x02\x01\x01", "a header without a name"),
        (b"\x12\x00\x00\x00\x01\x01\x02\x02\xff\x01", "not UTF-8"),
        (b"\x0c\x00\x00\x00\x01\x01\x80", "end inside a varint"),
        (b"\x1e\x00" + b"\xff" * 9 + b"\x01\x00\x01\x01\x00", "leads out of 64 bits"),
        (b"\x20\x00" + b"\xff" * 9 + b"\x7f\x00\x01\x01\x00\x00", "varint overflow"),
    ],
)
def test_malformed_records_are_refused_by_name(body: bytes, message: str) -> None:
    """Each way a record can be malformed is refused with the byte and the fault."""
    header = encode_batch([b""], timestamp_ms=-2).data[:HEADER_BYTES]
    (batch,) = parse_batches(resealed(header + body))
    with pytest.raises(CorruptRecordError, match=message):
        decode_records(batch)


def test_the_record_that_those_tests_damage_is_sound() -> None:
    """Undamaged, the hand-written record decodes."""
    (batch,) = parse_batches(resealed(encode_batch([b""], timestamp_ms=-2).data[:HEADER_BYTES] + b"\x0c" + RECORD))
    assert decode_records(batch) == (Record(offset=Offset(0), timestamp_ms=-2, key=None, value=None),)


Reader = Callable[[bytes], object]


@pytest.mark.parametrize("reader", [parse_batches, lambda data: list(scan_batches(data, verify=False))])
def test_every_reader_refuses_another_magic(reader: Reader) -> None:
    """The older formats share the first bytes; they are named as what they are, with or without CRC verification."""
    for magic in (0, 1, 3):
        with pytest.raises(CorruptRecordError, match=f"byte 16: magic {magic} is not 2"):
            reader(BATCH.data[:16] + bytes([magic]) + BATCH.data[17:])
