"""Kafka's record batches, format v2, as the harness reads them in logs and answers of the system that it judges.

Owns a decoder of its own, from bytes to values: evidence that is read with the code of the accused would have its
errors. It refuses what contradicts itself and believes the rest: what may stand in a log the checks decide. Source:
Kafka's documentation, "Message Format"; KIP-98, KIP-57 (LZ4), KIP-110 (Zstandard).

    0  baseOffset i64    | 8  batchLength i32 | 12 partitionLeaderEpoch i32 | 16 magic i8      | 17 crc u32
    21 attributes i16    | 23 lastOffsetDelta i32 | 27 baseTimestamp i64    | 35 maxTimestamp i64
    43 producerId i64    | 51 producerEpoch i16 | 53 baseSequence i32       | 57 recordCount i32 | 61 records
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import islice

from crc32c import crc32c

_HEADER = struct.Struct(">qiibIhi16xqhii")
_ATTRIBUTES_AT = 21
_UNCOUNTED_BYTES = 12
"""Base offset and length, which the length does not count."""
_MAGIC = 2
_CODEC, _LZ4, _ZSTD = 0x07, 3, 4
_CONTROL = 0x20
_BYTES_MAX = 64 << 20
"""What the records of one batch may take when they are decompressed."""


class DamagedError(Exception):
    """The bytes are no record batches; the message says where, and why not."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordBatch:
    """One batch. ``last_offset`` is inclusive; the producer's three fields are -1 where no idempotent one wrote it."""

    base_offset: int
    last_offset: int
    leader_epoch: int
    crc: int
    attributes: int
    producer_id: int
    producer_epoch: int
    base_sequence: int
    record_count: int
    data: bytes = field(repr=False)

    @property
    def is_control(self) -> bool:
        """Whether its record is the protocol's own."""
        return bool(self.attributes & _CONTROL)


def batches_in(data: bytes) -> Iterator[RecordBatch]:
    """The batches that stand back to back in ``data``, each under its CRC; offsets rise and epochs do not fall.

    Raises DamagedError behind the last one that is whole.
    """
    position, end, epoch = 0, None, -1
    while position < len(data):
        batch = _batch_at(data, position)
        if end is not None and (batch.base_offset < end or batch.leader_epoch < epoch):
            at = f"offset {batch.base_offset} in epoch {batch.leader_epoch}"
            raise DamagedError(f"byte {position}: {at} follows offset {end - 1} in epoch {epoch}")
        yield batch
        position, end, epoch = position + len(batch.data), batch.last_offset + 1, batch.leader_epoch


def _batch_at(data: bytes, position: int) -> RecordBatch:
    if len(data) - position < _HEADER.size:
        raise DamagedError(f"byte {position}: {len(data) - position} bytes are no batch")
    base, length, epoch, magic, crc, attributes, delta, *producer, count = _HEADER.unpack_from(data, position)
    whole = data[position : position + _UNCOUNTED_BYTES + length]
    if length < _HEADER.size - _UNCOUNTED_BYTES or len(whole) < _UNCOUNTED_BYTES + length:
        raise DamagedError(f"byte {position}: a batch of {length} bytes is not there")
    if magic != _MAGIC:
        raise DamagedError(f"byte {position}: magic {magic} is not {_MAGIC}")
    if crc32c(memoryview(whole)[_ATTRIBUTES_AT:]) != crc:
        raise DamagedError(f"byte {position}: the batch at offset {base} is not what its CRC is of")
    if min(base, count - 1) < 0 or delta != count - 1:
        raise DamagedError(f"byte {position}: {count} records from offset {base} to {base + delta}")
    producer_id, producer_epoch, base_sequence = producer
    return RecordBatch(
        base_offset=base,
        last_offset=base + delta,
        leader_epoch=epoch,
        crc=crc,
        attributes=attributes,
        producer_id=producer_id,
        producer_epoch=producer_epoch,
        base_sequence=base_sequence,
        record_count=count,
        data=whole,
    )


def values_of(batch: RecordBatch) -> tuple[bytes | None, ...]:
    """The value of each record, in the order of their offsets. Raises DamagedError."""
    body, position = _uncompressed(batch), 0
    values: list[bytes | None] = []
    try:
        for place in range(batch.record_count):
            length, begin = _varint(body, position)
            value, position = _value(body, begin, place)
            if position != begin + length:
                raise DamagedError(f"the record at offset {batch.base_offset + place} has not {length} bytes")
            values.append(value)
    except IndexError:
        position = -1
    if position != len(body):
        raise DamagedError(f"the batch at offset {batch.base_offset} has not {batch.record_count} records")
    return tuple(values)


def _uncompressed(batch: RecordBatch) -> bytes:
    """The records behind the header."""
    body, codec = batch.data[_HEADER.size :], batch.attributes & _CODEC
    try:
        if codec == _LZ4:
            from lz4.frame import LZ4FrameDecompressor

            return bytes(LZ4FrameDecompressor().decompress(body, max_length=_BYTES_MAX))
        if codec == _ZSTD:
            from zstandard import DECOMPRESSION_RECOMMENDED_OUTPUT_SIZE as CHUNK_BYTES
            from zstandard import ZstdDecompressor

            return b"".join(islice(ZstdDecompressor().read_to_iter(body), _BYTES_MAX // CHUNK_BYTES))
    except Exception as error:  # each library has its own
        raise DamagedError(f"the batch at offset {batch.base_offset} cannot be decompressed: {error}") from error
    if codec:
        raise DamagedError(
            f"the batch at offset {batch.base_offset} is compressed by codec {codec}: only LZ4 and Zstandard"
        )
    return body


def _value(body: bytes, begin: int, place: int) -> tuple[bytes | None, int]:
    """The value of the record that begins there, behind its length, and where that ends. Raises IndexError, too."""
    _, position = _varint(body, begin + 1)  # behind attributes, of which no bit is in use: the timestamp
    delta, position = _varint(body, position)
    if delta != place:
        raise DamagedError(f"record {place} of its batch has offset delta {delta}")
    _, position = _bytes(body, position)
    value, position = _bytes(body, position)
    headers, position = _varint(body, position)
    if headers < 0:
        raise DamagedError(f"a record has {headers} headers")
    for _ in range(2 * headers):
        _, position = _bytes(body, position)
    return value, position


def _bytes(body: bytes, position: int) -> tuple[bytes | None, int]:
    """Bytes behind their length, which is -1 for none."""
    length, begin = _varint(body, position)
    if length == -1:
        return None, begin
    if not 0 <= length <= len(body) - begin:
        raise DamagedError(f"a key, value or header has {length} bytes, and {len(body) - begin} are there")
    return body[begin : begin + length], begin + length


def _varint(body: bytes, position: int) -> tuple[int, int]:
    """A number with its sign in the lowest bit, seven bits a byte, lowest first; and where it ends."""
    raw = shift = 0
    while (byte := body[position]) & 0x80:
        raw |= (byte & 0x7F) << shift
        position, shift = position + 1, shift + 7
        if shift > 63:
            raise DamagedError("a number has more than 64 bits")
    raw |= byte << shift
    return (raw >> 1) ^ -(raw & 1), position + 1
