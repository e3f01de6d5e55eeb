"""Our batches read by an independent reader of Kafka's format (aiokafka), and its batches read by ours."""

from __future__ import annotations

from typing import Any

import pytest
from aiokafka.record.default_records import DefaultRecordBatchBuilder
from aiokafka.record.memory_records import MemoryRecords
from hypothesis import given

from replica.ids import Epoch, Offset, ReplicaId
from replica.records import (
    HEADER_BYTES,
    Compression,
    Record,
    decode_records,
    encode_batch,
    leader_change_batch,
    parse_batches,
)
from tests.records.record_strategies import record_lists

EDGE_CASES = [
    Record(offset=Offset(0), timestamp_ms=1_700_000_000_000, key=b"k", value=b"v", headers=(("h", b"1"), ("n", None))),
    Record(offset=Offset(1), timestamp_ms=1_700_000_000_777, key=None, value=b"no key"),
    Record(offset=Offset(2), timestamp_ms=1_699_999_999_999, key=b"tombstone", value=None),
    Record(offset=Offset(3), timestamp_ms=1_700_000_000_000, key=None, value=None),
    Record(offset=Offset(4), timestamp_ms=1_700_000_000_000, key=b"", value=b"", headers=(("", b""), ("ü€", b"\xff"))),
    Record(offset=Offset(5), timestamp_ms=1_700_000_000_000, key=b"x" * 64, value=b"y" * 20_000),
]

CODECS = [(Compression.LZ4, 3), (Compression.ZSTD, 4)]


def batches_read_by_aiokafka(data: bytes) -> list[Any]:
    """Split ``data`` with the other reader and insist that it finds every CRC right."""
    reader = MemoryRecords(data)
    batches = []
    while reader.has_next():
        batch = reader.next_batch()
        assert batch.validate_crc()
        batches.append(batch)
    return batches


def records_read_by_aiokafka(batch: Any) -> list[Record]:
    """Turn the other reader's records into ours, field by field."""
    return [
        Record(
            offset=Offset(record.offset),
            timestamp_ms=record.timestamp,
            key=record.key,
            value=record.value,
            headers=tuple(record.headers),
        )
        for record in batch
    ]


def built_by_aiokafka(
    records: list[Record], *, codec: int = 0, producer_id: int = -1, epoch: int = -1, sequence: int = -1
) -> bytes:
    """Encode ``records`` with the other writer, from base offset 0."""
    builder = DefaultRecordBatchBuilder(
        magic=2,
        compression_type=codec,
        is_transactional=0,
        producer_id=producer_id,
        producer_epoch=epoch,
        base_sequence=sequence,
        batch_size=1 << 20,
    )
    for delta, record in enumerate(records):
        appended = builder.append(delta, record.timestamp_ms, record.key, record.value, list(record.headers))
        assert appended is not None
    return bytes(builder.build())


def test_aiokafka_reads_every_field_of_our_header() -> None:
    """Each header field that we write arrives under the same name at an independent reader."""
    batch = encode_batch(EDGE_CASES, producer_id=77, producer_epoch=5, base_sequence=40)
    (theirs,) = batches_read_by_aiokafka(batch.stamped(base_offset=Offset(1000), leader_epoch=Epoch(9)).data)
    assert theirs.base_offset == 1000
    assert theirs.next_offset == 1006
    assert theirs.magic == 2
    assert theirs.attributes == 0
    assert theirs.last_offset_delta == 5
    assert theirs.first_timestamp == 1_700_000_000_000
    assert theirs.max_timestamp == 1_700_000_000_777
    assert (theirs.producer_id, theirs.producer_epoch, theirs.base_sequence) == (77, 5, 40)


def test_we_read_every_field_of_their_header() -> None:
    """Each header field that an independent writer sets arrives under the same name with us."""
    (batch,) = parse_batches(built_by_aiokafka(EDGE_CASES, producer_id=77, epoch=5, sequence=40))
    assert (batch.base_offset, batch.last_offset, batch.end_offset, batch.record_count) == (0, 5, 6, 6)
    assert (batch.base_timestamp_ms, batch.max_timestamp_ms) == (1_700_000_000_000, 1_700_000_000_777)
    assert (batch.producer_id, batch.producer_epoch, batch.base_sequence) == (77, 5, 40)
    assert not batch.is_control


@given(record_lists())
def test_aiokafka_reads_our_records(records: list[Record]) -> None:
    """Whatever we encode, an independent reader decodes to the same offsets, times, keys, values and headers."""
    (theirs,) = batches_read_by_aiokafka(encode_batch(records).data)
    assert records_read_by_aiokafka(theirs) == records


@given(record_lists())
def test_we_read_their_records(records: list[Record]) -> None:
    """Whatever an independent writer encodes, we decode to the same offsets, times, keys, values and headers."""
    (batch,) = parse_batches(built_by_aiokafka(records))
    assert list(decode_records(batch)) == records


@pytest.mark.parametrize("records", [EDGE_CASES, EDGE_CASES[:1]], ids=["edge-cases", "one"])
def test_both_writers_write_the_same_bytes(records: list[Record]) -> None:
    """For the same records both writers agree on every byte, apart from the leader epoch that is not theirs to set."""
    theirs, ours = built_by_aiokafka(records), encode_batch(records).data
    assert theirs[:12] + theirs[16:] == ours[:12] + ours[16:]


@pytest.mark.parametrize(("compression", "codec"), CODECS)
@given(records=record_lists())
def test_aiokafka_reads_our_compressed_records(compression: Compression, codec: int, records: list[Record]) -> None:
    """An independent reader knows each codec by its number and decompresses the same records."""
    (theirs,) = batches_read_by_aiokafka(encode_batch(records, compression=compression).data)
    assert theirs.attributes == codec
    assert records_read_by_aiokafka(theirs) == records


@pytest.mark.parametrize(("compression", "codec"), CODECS)
@given(records=record_lists())
def test_we_read_their_compressed_records(compression: Compression, codec: int, records: list[Record]) -> None:
    """A batch that an independent writer was asked to compress gives the same records, compressed in the end or not.

    That writer leaves records alone that compression would make longer.
    """
    (batch,) = parse_batches(built_by_aiokafka(records, codec=codec))
    assert batch.compression in {compression, Compression.NONE}
    assert list(decode_records(batch)) == records


@pytest.mark.parametrize(("compression", "codec"), CODECS)
def test_their_edge_cases_come_compressed(compression: Compression, codec: int) -> None:
    """Records that are worth it are compressed by the independent writer, and decompressed by us."""
    (batch,) = parse_batches(built_by_aiokafka(EDGE_CASES, codec=codec))
    assert batch.compression is compression
    assert batch.size_bytes < 1000
    assert list(decode_records(batch)) == EDGE_CASES


def test_our_lz4_frame_is_one_that_kafka_reads() -> None:
    """The frame has independent blocks of 64 KiB and no checksum of its content: Kafka's reader knows no other kind."""
    frame = encode_batch([b"a" * 200_000], compression=Compression.LZ4).data[HEADER_BYTES:]
    assert frame[:4] == bytes.fromhex("04 22 4d 18")
    assert frame[4] == 0b0110_0000  # version 01, independent blocks, no checksums, no content size, no dictionary
    assert frame[5] == 0x40  # blocks of 64 KiB at most


def test_aiokafka_reads_a_row_of_stamped_batches() -> None:
    """Batches back to back, stamped without touching their CRC, are found and accepted by an independent reader."""
    rows = [
        encode_batch([b"a", b"b"]).stamped(base_offset=Offset(5), leader_epoch=Epoch(1)),
        encode_batch([b"c"]).stamped(base_offset=Offset(7), leader_epoch=Epoch(4)),
    ]
    theirs = batches_read_by_aiokafka(b"".join(batch.data for batch in rows))
    assert [[(r.offset, r.value) for r in batch] for batch in theirs] == [[(5, b"a"), (6, b"b")], [(7, b"c")]]


def test_aiokafka_sees_a_leader_change_as_a_control_batch() -> None:
    """An independent reader tells our control batch from data."""
    voters = (ReplicaId(1), ReplicaId(2), ReplicaId(3))
    batch = leader_change_batch(
        leader_id=voters[0], voters=voters, granting_voters=voters[:2], base_offset=Offset(8), leader_epoch=Epoch(2)
    )
    (theirs,) = batches_read_by_aiokafka(batch.data)
    assert theirs.is_control_batch
    assert not theirs.is_transactional
    assert theirs.next_offset == 9
