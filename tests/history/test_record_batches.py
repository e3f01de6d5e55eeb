"""The harness's own decoder of record batches: it reads what is written, and refuses what contradicts itself."""

from __future__ import annotations

from random import Random

import pytest

from nemesis.history.record_batches import DamagedError, RecordBatch, batches_in, values_of
from replica.ids import Epoch, Offset
from replica.records import Compression, Record, encode_batch
from tests.records.odd_batches import ODD_RECORDS, bomb

HAND_MADE = bytes.fromhex(
    "0000000000000005 00000044 00000007 02 7f7f7f7f 0000 00000001 0000000000000000 0000000000000000"
    "0000000000000003 0002 00000009 00000002"
    "0e 00 00 00 01 02 35 00"  # one byte of value: 5
    "14 00 00 02 02 6b 01 02 02 68 01"  # a key k, no value, a header h without a value
)
"""By hand, from the format's description; its CRC is put in below."""
BELIEVED = {"a time beyond 64 bits", "a header without a name", "a header's name in no UTF-8"}
"""What is odd with times and names is nothing to the harness, which reads neither."""


def sealed(data: bytes) -> bytes:
    """The same with the CRC of what follows it, reckoned bit by bit."""
    crc = 0xFFFFFFFF
    for byte in data[21:]:
        crc ^= byte
        for _ in range(8):
            crc = (crc >> 1) ^ (0x82F63B78 if crc & 1 else 0)
    return data[:17] + (crc ^ 0xFFFFFFFF).to_bytes(4, "big") + data[21:]


def decoded(data: bytes) -> list[tuple[RecordBatch, tuple[bytes | None, ...]]]:
    """All batches with their values."""
    return [(batch, values_of(batch)) for batch in batches_in(data)]


def test_a_batch_by_hand_is_read() -> None:
    """Each field stands where the format has it, and a flip of any bit behind the offset and the epoch is noticed."""
    data = sealed(HAND_MADE)
    [(batch, values)] = decoded(data)
    assert (batch.base_offset, batch.last_offset, batch.leader_epoch, batch.attributes) == (5, 6, 7, 0)
    assert (batch.producer_id, batch.producer_epoch, batch.base_sequence, batch.record_count) == (3, 2, 9, 2)
    assert (values, batch.is_control, batch.data) == ((b"5", None), False, data)
    for place in range(8, len(data)):
        if not 12 <= place < 16:
            with pytest.raises(DamagedError):
                decoded(data[:place] + bytes([data[place] ^ 4]) + data[place + 1 :])
    for end in range(1, len(data)):
        with pytest.raises(DamagedError):
            decoded(data[:end])


@pytest.mark.parametrize("compression", list(Compression))
def test_what_a_producer_writes_is_read(compression: Compression) -> None:
    """Keys, headers, no values, thousands of records, each codec; batches back to back."""
    random, offset, data = Random(7), 0, b""
    expected: list[tuple[int, int, int, bool, tuple[bytes | None, ...]]] = []
    for epoch, count in enumerate((1, 3, 5000, 70)):
        written = [
            Record(
                offset=Offset(offset + place),
                timestamp_ms=10**12 + random.randrange(2**33) - 2**32,
                key=random.choice((None, b"", b"key")),
                value=random.choice((None, b"", b"%d" % place, bytes(300))),
                headers=random.choice(((), (("name", None), ("other", b"value")))),
            )
            for place in range(count)
        ]
        batch = encode_batch(written, base_offset=Offset(offset), leader_epoch=Epoch(epoch), compression=compression)
        data += batch.data
        expected.append((offset, offset + count - 1, epoch, False, tuple(record.value for record in written)))
        offset += count
    assert [
        (batch.base_offset, batch.last_offset, batch.leader_epoch, batch.is_control, values)
        for batch, values in decoded(data)
    ] == expected


@pytest.mark.parametrize("odd", sorted(ODD_RECORDS))
def test_records_that_contradict_themselves_are_refused(odd: str) -> None:
    """A right CRC does not help records that are not there, or are not where they say."""
    [batch] = batches_in(ODD_RECORDS[odd].data)
    if odd in BELIEVED:
        assert len(values_of(batch)) == batch.record_count
    else:
        with pytest.raises(DamagedError):
            values_of(batch)


def test_neighbours_must_follow_one_another() -> None:
    """A base offset below the end of the batch before, or an epoch below its, is outside of any CRC, and is refused."""
    one = sealed(HAND_MADE)
    for base, epoch, is_fine in ((7, 7, True), (9, 8, True), (6, 7, False), (7, 6, False)):
        other = base.to_bytes(8, "big") + one[8:12] + epoch.to_bytes(4, "big") + one[16:]
        if is_fine:
            assert [batch.base_offset for batch in batches_in(one + other)] == [5, base]
        else:
            with pytest.raises(DamagedError, match="follows offset 6 in epoch 7"):
                list(batches_in(one + other))


@pytest.mark.parametrize("compression", [Compression.LZ4, Compression.ZSTD])
def test_a_bomb_takes_no_more_than_a_batch_may(compression: Compression) -> None:
    """What would be 200 MB is given up, without as much memory."""
    [batch] = batches_in(bomb(compression, 200 << 20).data)
    with pytest.raises(DamagedError):
        values_of(batch)
