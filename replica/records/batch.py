"""One record batch: its encoded bytes, and its header parsed once.

Owns the layout of the header and what a header alone must satisfy. Knows nothing of the records inside (``record.py``)
and nothing of the batch's neighbours (``scanning.py``). Source: Kafka's ``DefaultRecordBatch``, KIP-98.

    0  baseOffset i64    | 8  batchLength i32 | 12 partitionLeaderEpoch i32 | 16 magic i8      | 17 crc u32
    21 attributes i16    | 23 lastOffsetDelta i32 | 27 baseTimestamp i64    | 35 maxTimestamp i64
    43 producerId i64    | 51 producerEpoch i16 | 53 baseSequence i32       | 57 recordCount i32 | 61 records

All big-endian. The CRC covers everything from ``attributes`` on, so that a leader stamps the base offset and its epoch
without touching the records.
"""

from __future__ import annotations

import struct

from msgspec import Struct
from msgspec.structs import replace

from replica.ids import Epoch, Offset
from replica.records.checksum import checksum
from replica.records.compression import CODECS, DECOMPRESSED_BYTES_MAX, Compression
from replica.records.errors import CorruptRecordError
from replica.records.sequence import NO_PRODUCER_ID, NO_SEQUENCE, increment_sequence

HEADER = struct.Struct(">qiibIhiqqqhii")
"""The header, field by field, in the order of the table above."""

STAMP = struct.Struct(">qii")
"""The first three fields: base offset, batch length, leader epoch."""

PRODUCER = struct.Struct(">qhi")
"""Who has produced it: id, epoch and first sequence number."""

HEADER_BYTES = HEADER.size
"""The size of a batch header: no batch is smaller."""

LENGTH_PREFIX_BYTES = 12
"""Base offset and batch length: what ``batchLength`` does not count, and all it takes to find the next batch."""

MAGIC = 2
CRC_AT = 17
ATTRIBUTES_AT = 21
MAX_TIMESTAMP_AT = 35
PRODUCER_AT = 43

COMPRESSION_MASK = 0x07
TIMESTAMP_TYPE_BIT = 0x08
TRANSACTIONAL_BIT = 0x10
CONTROL_BIT = 0x20
DELETE_HORIZON_BIT = 0x40

NO_LEADER_EPOCH = Epoch(-1)
"""The leader epoch of a batch that no leader has stamped yet, as producers send it."""

RECORD_BYTES_MIN = 7
"""The smallest record: length, attributes, two deltas, null key, null value and no headers, one byte each."""

END_OFFSET_MAX = (1 << 63) - 1
"""The largest end offset (exclusive): what 64 bits hold."""

_REFUSED_CODECS = {1: "gzip", 2: "snappy"}


class RecordBatch(Struct, frozen=True, kw_only=True):
    """A whole encoded batch and its header.

    ``last_offset`` is inclusive. ``leader_epoch`` is -1 until a leader has stamped the batch. Timestamps are
    milliseconds since 1970, -1 for none; ``producer_id``, ``producer_epoch`` and ``base_sequence`` are -1 without an
    idempotent producer. ``data`` holds the header and all records, compressed or not, as they stand in the file and on
    the wire.
    """

    base_offset: Offset
    last_offset: Offset
    leader_epoch: Epoch
    is_control: bool
    record_count: int
    base_timestamp_ms: int
    max_timestamp_ms: int
    producer_id: int
    producer_epoch: int
    base_sequence: int
    data: bytes

    @property
    def end_offset(self) -> Offset:
        """The offset behind the last record (exclusive)."""
        return Offset(self.last_offset + 1)

    @property
    def size_bytes(self) -> int:
        """The size of the encoded batch, header included."""
        return len(self.data)

    @property
    def compression(self) -> Compression:
        """How the records behind the header are compressed."""
        return CODECS[self.data[ATTRIBUTES_AT + 1] & COMPRESSION_MASK]

    @property
    def has_log_append_time(self) -> bool:
        """Whether all its records bear ``max_timestamp_ms``, the time at which a leader appended them."""
        return bool(self.data[ATTRIBUTES_AT + 1] & TIMESTAMP_TYPE_BIT)

    @property
    def is_idempotent(self) -> bool:
        """Whether an idempotent producer wrote the batch, so that its sequence numbers tell a repetition."""
        return self.producer_id > NO_PRODUCER_ID

    @property
    def last_sequence(self) -> int:
        """The sequence number of the last record (inclusive), -1 without one; behind 2**31-1 they go on at 0."""
        if self.base_sequence <= NO_SEQUENCE:
            return NO_SEQUENCE
        return increment_sequence(self.base_sequence, self.last_offset - self.base_offset)

    def stamped(self, *, base_offset: Offset, leader_epoch: Epoch) -> RecordBatch:
        """Return this batch at ``base_offset`` in ``leader_epoch``; records and CRC stay as they are."""
        last_offset = base_offset + (self.last_offset - self.base_offset)
        assert 0 <= base_offset <= last_offset < END_OFFSET_MAX, f"base offset {base_offset} to {last_offset}"
        assert leader_epoch >= NO_LEADER_EPOCH, f"leader epoch {leader_epoch}"
        stamp = STAMP.pack(base_offset, self.size_bytes - LENGTH_PREFIX_BYTES, leader_epoch)
        return RecordBatch(
            base_offset=base_offset,
            last_offset=Offset(last_offset),
            leader_epoch=leader_epoch,
            is_control=self.is_control,
            record_count=self.record_count,
            base_timestamp_ms=self.base_timestamp_ms,
            max_timestamp_ms=self.max_timestamp_ms,
            producer_id=self.producer_id,
            producer_epoch=self.producer_epoch,
            base_sequence=self.base_sequence,
            data=b"".join((stamp, memoryview(self.data)[STAMP.size :])),
        )

    def at_append_time(self, timestamp_ms: int) -> RecordBatch:
        """Return this batch with ``timestamp_ms`` as the time of all its records: that at which a leader appends it."""
        data = bytearray(self.data)
        data[ATTRIBUTES_AT + 1] |= TIMESTAMP_TYPE_BIT
        data[MAX_TIMESTAMP_AT : MAX_TIMESTAMP_AT + 8] = timestamp_ms.to_bytes(8, "big", signed=True)
        data[CRC_AT:ATTRIBUTES_AT] = checksum(memoryview(data)[ATTRIBUTES_AT:]).to_bytes(4, "big")
        return replace(self, max_timestamp_ms=timestamp_ms, data=bytes(data))

    def produced_by(self, producer_id: int, producer_epoch: int, base_sequence: int) -> RecordBatch:
        """Return this batch as one of this idempotent producer, from that sequence number on."""
        data = bytearray(self.data)
        PRODUCER.pack_into(data, PRODUCER_AT, producer_id, producer_epoch, base_sequence)
        data[CRC_AT:ATTRIBUTES_AT] = checksum(memoryview(data)[ATTRIBUTES_AT:]).to_bytes(4, "big")
        return replace(
            self,
            producer_id=producer_id,
            producer_epoch=producer_epoch,
            base_sequence=base_sequence,
            data=bytes(data),
        )


def batch_size_at(data: bytes | memoryview, position: int) -> int | None:
    """Tell how many bytes the batch at ``position`` takes, as its length prefix says; they need not all be there.

    ``None`` if fewer than ``LENGTH_PREFIX_BYTES`` are there to read. Raises ``CorruptRecordError`` for a length that no
    batch can have.
    """
    if len(data) - position < LENGTH_PREFIX_BYTES:
        return None
    batch_length = int.from_bytes(data[position + 8 : position + LENGTH_PREFIX_BYTES], "big", signed=True)
    if batch_length < HEADER_BYTES - LENGTH_PREFIX_BYTES:
        raise CorruptRecordError(
            position + 8, f"batch length {batch_length} is below {HEADER_BYTES - LENGTH_PREFIX_BYTES}, the smallest one"
        )
    return batch_length + LENGTH_PREFIX_BYTES


def claimed_offsets(data: bytes) -> tuple[Offset, Offset] | None:
    """Read base and end offset (exclusive) out of the header with which ``data`` begins, believing it; None without."""
    if len(data) < HEADER_BYTES:
        return None
    base_offset, _, _, _, _, _, last_offset_delta, *_ = HEADER.unpack_from(data)
    return Offset(base_offset), Offset(base_offset + last_offset_delta + 1)


def claimed_producer_id(data: bytes) -> int:
    """Read the producer's id out of the header with which ``data`` begins, believing it; -1 without one."""
    if len(data) < HEADER_BYTES:
        return NO_PRODUCER_ID
    return int(HEADER.unpack_from(data)[9])


def parse_batch(data: bytes, position: int, *, verify: bool) -> RecordBatch:
    """Parse ``data``, exactly one batch as long as its length prefix says; ``position`` is where it stood, for errors.

    ``verify`` compares the CRC. The header is checked either way.
    """
    (
        base_offset, _, leader_epoch, magic, crc, attributes, last_offset_delta, base_timestamp, max_timestamp,
        producer_id, producer_epoch, base_sequence, record_count,
    ) = HEADER.unpack_from(data)  # fmt: skip
    if magic != MAGIC:
        raise CorruptRecordError(position + 16, f"magic {magic} is not {MAGIC}, the only record format known here")
    if verify:
        check_checksum(data, position, crc)
    check_attributes(attributes, position + ATTRIBUTES_AT)
    check_counts(record_count, last_offset_delta, position)
    check_room(record_count, attributes, len(data) - HEADER_BYTES, position + 57)
    if not 0 <= base_offset < END_OFFSET_MAX - last_offset_delta:
        raise CorruptRecordError(position, f"base offset {base_offset} of {record_count} records is out of range")
    if leader_epoch < NO_LEADER_EPOCH:
        raise CorruptRecordError(position + 12, f"leader epoch {leader_epoch} is below {NO_LEADER_EPOCH}")
    return RecordBatch(
        base_offset=Offset(base_offset),
        last_offset=Offset(base_offset + last_offset_delta),
        leader_epoch=Epoch(leader_epoch),
        is_control=bool(attributes & CONTROL_BIT),
        record_count=record_count,
        base_timestamp_ms=base_timestamp,
        max_timestamp_ms=max_timestamp,
        producer_id=producer_id,
        producer_epoch=producer_epoch,
        base_sequence=base_sequence,
        data=data,
    )


def check_checksum(data: bytes, position: int, crc: int) -> None:
    """Raise unless ``crc`` is the CRC-32C of everything from the attributes on."""
    computed = checksum(memoryview(data)[ATTRIBUTES_AT:])
    if computed != crc:
        raise CorruptRecordError(
            position + CRC_AT, f"CRC-32C mismatch: the batch says {crc:#010x}, its bytes give {computed:#010x}"
        )


def check_attributes(attributes: int, position: int) -> None:
    """Raise for attributes that this format cannot honour: ignoring a bit would change what the records mean."""
    codec = attributes & COMPRESSION_MASK
    if codec not in CODECS:
        name = _REFUSED_CODECS.get(codec, f"by unknown codec {codec}")
        raise CorruptRecordError(position, f"compression {name} is not supported; use lz4, zstd or none")
    if codec and attributes & CONTROL_BIT:
        raise CorruptRecordError(position, "a control batch is compressed; they never are, and servers read them")
    if attributes & TRANSACTIONAL_BIT:
        raise CorruptRecordError(position, "transactional batches are not supported; send it without a transaction")
    if attributes & DELETE_HORIZON_BIT:
        raise CorruptRecordError(position, "a delete horizon is set, but logs are not compacted here")
    unknown = attributes & 0xFFFF & ~(COMPRESSION_MASK | TIMESTAMP_TYPE_BIT | CONTROL_BIT)
    if unknown:
        raise CorruptRecordError(position, f"unknown attribute bits {unknown:#06x}")


def check_counts(record_count: int, last_offset_delta: int, position: int) -> None:
    """Raise unless the batch holds at least one record, one offset each."""
    if record_count < 1:
        raise CorruptRecordError(position + 57, f"record count {record_count}: a batch holds at least one record")
    if last_offset_delta != record_count - 1:
        raise CorruptRecordError(
            position + 23, f"last offset delta {last_offset_delta} does not fit {record_count} records"
        )


def check_room(record_count: int, attributes: int, records_bytes: int, position: int) -> None:
    """Raise unless so many records could stand in ``records_bytes``.

    What compressed bytes hold shows only when they are decompressed, which is not done here. No reader decompresses
    more than a certain size, so that even then a count has a bound.
    """
    if attributes & COMPRESSION_MASK:
        records_bytes = DECOMPRESSED_BYTES_MAX
    if record_count * RECORD_BYTES_MIN > records_bytes:
        raise CorruptRecordError(position, f"record count {record_count}: {records_bytes} bytes cannot hold that many")
