"""The records inside a batch: what producers put in and consumers take out.

Owns the encoding of records. Used by clients and tools; a server makes no objects of records, it walks over them
(``walking.py``). Source: Kafka's ``DefaultRecord``, KIP-98 and KIP-82 (headers).

    length varint | attributes i8 | timestampDelta varlong | offsetDelta varint
    keyLength varint, key | valueLength varint, value | headersCount varint, (keyLength, key, valueLength, value)*

Lengths count bytes; -1 is null.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from msgspec import Struct

from replica.ids import Offset
from replica.records.batch import (
    ATTRIBUTES_AT,
    CONTROL_BIT,
    CRC_AT,
    HEADER,
    HEADER_BYTES,
    LENGTH_PREFIX_BYTES,
    MAGIC,
    NO_LEADER_EPOCH,
    RecordBatch,
    parse_batch,
)
from replica.records.checksum import checksum
from replica.records.compression import CODEC_NUMBERS, DECOMPRESSED_BYTES_MAX, Compression, compress, decompress
from replica.records.errors import CorruptRecordError
from replica.records.sequence import NO_PRODUCER_EPOCH, NO_PRODUCER_ID, NO_SEQUENCE, check_producer
from replica.records.varint import read_varint, read_varlong, write_zigzag

NO_TIMESTAMP = -1
_TIMESTAMP_LIMIT = 1 << 63
_SIZE_MAX = (1 << 31) - 1

Header = tuple[str, bytes | None]


class Record(Struct, frozen=True, kw_only=True):
    """One record. ``timestamp_ms`` counts from 1970, -1 for none; ``key`` and ``value`` may each be null."""

    offset: Offset
    timestamp_ms: int
    key: bytes | None
    value: bytes | None
    headers: tuple[Header, ...] = ()


class EncodedRecords(Struct, frozen=True, kw_only=True):
    """Records as they stand behind a batch's header, which can be put in front of them at any time.

    ``body`` is compressed by ``compression``.
    """

    body: bytes | bytearray
    record_count: int
    base_timestamp_ms: int
    max_timestamp_ms: int
    compression: Compression

    def batch(
        self,
        *,
        base_offset: int = 0,
        leader_epoch: int = NO_LEADER_EPOCH,
        producer_id: int = NO_PRODUCER_ID,
        producer_epoch: int = NO_PRODUCER_EPOCH,
        base_sequence: int = NO_SEQUENCE,
        is_control: bool = False,
    ) -> RecordBatch:
        """Put a header in front. Raises ValueError for a producer given by halves and a compressed control batch."""
        check_producer(producer_id, producer_epoch, base_sequence)
        header = bytearray(HEADER.pack(
            base_offset, HEADER_BYTES - LENGTH_PREFIX_BYTES + len(self.body), leader_epoch, MAGIC, 0,
            CODEC_NUMBERS[self.compression] | (CONTROL_BIT if is_control else 0),
            self.record_count - 1, self.base_timestamp_ms, self.max_timestamp_ms,
            producer_id, producer_epoch, base_sequence, self.record_count,
        ))  # fmt: skip
        crc = checksum(self.body, behind=checksum(header[ATTRIBUTES_AT:]))
        header[CRC_AT:ATTRIBUTES_AT] = crc.to_bytes(4, "big")
        return parse_batch(b"".join((header, self.body)), 0, verify=False)


def check_record(key: bytes | None, value: bytes | None, headers: tuple[Header, ...], timestamp_ms: int | None) -> None:
    """Raise TypeError or ValueError for what no record can have; what passes, ``encode_batch`` can encode.

    A type checker finds most of it, where there is one. ``timestamp_ms`` is absent where it is yet to be chosen.
    """
    if key is not None and not isinstance(key, bytes):
        raise TypeError(f"the key is {type(key).__name__}; it must be bytes or None")
    if value is not None and not isinstance(value, bytes):
        raise TypeError(f"the value is {type(value).__name__}; it must be bytes or None")
    for header in headers:
        match header:
            case (str(), None | bytes()):
                continue
        raise TypeError(f"header {header!r} is no pair of a name (str) and a content (bytes or None)")
    if timestamp_ms is None:
        return
    if not isinstance(timestamp_ms, int):
        raise TypeError(f"timestamp_ms is {type(timestamp_ms).__name__}; it must be int or None")
    if not 0 <= timestamp_ms < _TIMESTAMP_LIMIT:
        raise ValueError(f"timestamp_ms is {timestamp_ms}; it must be at least 0 and fit in 64 bits")


def encode_batch(  # noqa: PLR0913 - one name for every field of the header that its caller may set
    records: Sequence[Record | bytes],
    *,
    base_offset: int = 0,
    leader_epoch: int = NO_LEADER_EPOCH,
    timestamp_ms: int = NO_TIMESTAMP,
    producer_id: int = NO_PRODUCER_ID,
    producer_epoch: int = NO_PRODUCER_EPOCH,
    base_sequence: int = NO_SEQUENCE,
    is_control: bool = False,
    compression: Compression = Compression.NONE,
) -> RecordBatch:
    """Encode records as one batch.

    Plain ``bytes`` are values without key or headers, at ``timestamp_ms``. The offsets of ``Record``\\ s count up from
    ``base_offset``. Until a leader stamps the batch, base offset 0 and epoch -1 are right. An idempotent producer gives
    its id, its epoch and the sequence number of the first record; any other gives none of them. Raises ``ValueError``
    for an empty batch, other offsets, a timestamp outside 64 bits, a producer given by halves, a batch of 2 GiB, a
    compressed one of more than ``DECOMPRESSED_BYTES_MAX`` uncompressed bytes and a compressed control batch.
    """
    if not records:
        raise ValueError("a batch holds at least one record; none were given")
    whole = [_as_record(record, base_offset + delta, timestamp_ms) for delta, record in enumerate(records)]
    base_timestamp_ms = whole[0].timestamp_ms
    body = bytearray()
    for delta, record in enumerate(whole):
        headers = encode_headers(record.headers)
        write_record(body, record.key, record.value, headers, (delta, record.timestamp_ms - base_timestamp_ms))
    encoded = EncodedRecords(
        body=compress_records(body, compression),
        record_count=len(whole),
        base_timestamp_ms=base_timestamp_ms,
        max_timestamp_ms=max(record.timestamp_ms for record in whole),
        compression=compression,
    )
    return encoded.batch(
        base_offset=base_offset,
        leader_epoch=leader_epoch,
        producer_id=producer_id,
        producer_epoch=producer_epoch,
        base_sequence=base_sequence,
        is_control=is_control,
    )


def decode_records(batch: RecordBatch, *, limit_bytes: int = DECOMPRESSED_BYTES_MAX) -> tuple[Record, ...]:
    """Decode all records of ``batch``, with absolute offsets and timestamps.

    Raises ``CorruptRecordError`` where they are malformed, and where compressed ones take more than ``limit_bytes``.
    The position counts from the start of the batch, as if it had not been compressed.
    """
    return tuple(scan_records(batch, decompressed(batch, limit_bytes=limit_bytes)))


def scan_records(batch: RecordBatch, data: bytes) -> Iterator[Record]:
    """Yield the records of ``batch`` one by one out of ``data``, its bytes as ``decompressed`` returns them.

    Good records in front of a malformed one are yielded before ``CorruptRecordError`` is raised.
    """
    end = len(data)
    position = HEADER_BYTES
    for delta in range(batch.record_count):
        length, start = read_varint(data, position, end)
        if not 0 <= length <= end - start:
            raise CorruptRecordError(position, f"record length {length} with {end - start} bytes left in the batch")
        record = _read_record(data, start, start + length, delta, batch)
        yield _at_time(record, batch.max_timestamp_ms) if batch.has_log_append_time else record
        position = start + length
    if position != end:
        raise CorruptRecordError(position, f"{end - position} trailing bytes behind the last record")


def decompressed(batch: RecordBatch, *, limit_bytes: int) -> bytes:
    """Return the batch's bytes with its records uncompressed behind the header, in at most ``limit_bytes``.

    What is not compressed has no limit here. Raises ``CorruptRecordError``.
    """
    if batch.compression is Compression.NONE:
        return batch.data
    frame = batch.data[HEADER_BYTES:]
    return batch.data[:HEADER_BYTES] + decompress(
        batch.compression, frame, limit_bytes=limit_bytes, position=HEADER_BYTES
    )


def compress_records(body: bytearray, compression: Compression) -> bytes | bytearray:
    """Compress what stands behind a header. Raises ValueError where it is too much for one batch."""
    if compression is not Compression.NONE and len(body) > DECOMPRESSED_BYTES_MAX:
        raise ValueError(f"{len(body)} bytes of records are more than any reader decompresses; split them")
    compressed = body if compression is Compression.NONE else compress(compression, body)
    if len(compressed) > _SIZE_MAX - HEADER_BYTES:
        raise ValueError(f"{len(compressed)} bytes of records do not fit one batch; split them")
    return compressed


def encode_headers(headers: Sequence[Header]) -> bytes:
    """Encode the headers of one record, their count with them."""
    out = bytearray()
    write_zigzag(out, len(headers))
    for name, value in headers:
        _write_bytes(out, name.encode())
        _write_bytes(out, value)
    return bytes(out)


def write_record(
    out: bytearray, key: bytes | None, value: bytes | None, headers: bytes, deltas: tuple[int, int]
) -> None:
    """Append one record; ``headers`` are encoded already, ``deltas`` are those of offset and timestamp."""
    offset_delta, timestamp_delta = deltas
    body = bytearray(1)  # attributes: no bit is in use
    write_zigzag(body, timestamp_delta)
    write_zigzag(body, offset_delta)
    _write_bytes(body, key)
    _write_bytes(body, value)
    body += headers
    write_zigzag(out, len(body))
    out += body


def _as_record(record: Record | bytes, offset: int, timestamp_ms: int) -> Record:
    if isinstance(record, bytes):
        record = Record(offset=Offset(offset), timestamp_ms=timestamp_ms, key=None, value=record)
    if record.offset != offset:
        raise ValueError(f"a record has offset {record.offset} where the batch has {offset}; offsets count up by one")
    if not -_TIMESTAMP_LIMIT <= record.timestamp_ms < _TIMESTAMP_LIMIT:
        raise ValueError(f"timestamp {record.timestamp_ms} of the record at offset {offset} does not fit in 64 bits")
    return record


def _at_time(record: Record, timestamp_ms: int) -> Record:
    return Record(
        offset=record.offset, timestamp_ms=timestamp_ms, key=record.key, value=record.value, headers=record.headers
    )


def _write_bytes(out: bytearray, value: bytes | None) -> None:
    if value is None:
        write_zigzag(out, -1)
        return
    write_zigzag(out, len(value))
    out += value


def _read_record(data: bytes, start: int, end: int, delta: int, batch: RecordBatch) -> Record:
    if start == end:
        raise CorruptRecordError(start, "an empty record")
    # The attributes byte is skipped, as Kafka does: no bit of it is in use.
    timestamp_delta, at_offset = read_varlong(data, start + 1, end)
    offset_delta, position = read_varint(data, at_offset, end)
    if offset_delta != delta:
        raise CorruptRecordError(at_offset, f"offset delta {offset_delta} where {delta} is due")
    timestamp_ms = batch.base_timestamp_ms + timestamp_delta
    if not -_TIMESTAMP_LIMIT <= timestamp_ms < _TIMESTAMP_LIMIT:
        raise CorruptRecordError(start + 1, f"timestamp delta {timestamp_delta} leads out of 64 bits")
    key, position = _read_bytes(data, position, end, "key")
    value, position = _read_bytes(data, position, end, "value")
    headers, position = _read_headers(data, position, end)
    if position != end:
        raise CorruptRecordError(position, f"{end - position} trailing bytes inside a record")
    return Record(
        offset=Offset(batch.base_offset + delta), timestamp_ms=timestamp_ms, key=key, value=value, headers=headers
    )


def _read_bytes(data: bytes, position: int, end: int, what: str) -> tuple[bytes | None, int]:
    length, start = read_varint(data, position, end)
    if length == -1:
        return None, start
    if not 0 <= length <= end - start:
        raise CorruptRecordError(position, f"{what} length {length} with {end - start} bytes left in the record")
    return data[start : start + length], start + length


def _read_headers(data: bytes, position: int, end: int) -> tuple[tuple[Header, ...], int]:
    count, cursor = read_varint(data, position, end)
    if not 0 <= count <= end - cursor:  # each header takes two bytes or more; the loop below finds the exact fault
        raise CorruptRecordError(position, f"{count} headers with {end - cursor} bytes left in the record")
    headers = []
    for _ in range(count):
        name_at = cursor
        name, cursor = _read_bytes(data, cursor, end, "header name")
        if name is None:
            raise CorruptRecordError(name_at, "a header without a name")
        value, cursor = _read_bytes(data, cursor, end, "header value")
        headers.append((_decode_name(name, name_at), value))
    return tuple(headers), cursor


def _decode_name(name: bytes, position: int) -> str:
    try:
        return name.decode()
    except UnicodeDecodeError as error:
        raise CorruptRecordError(position, f"a header name is not UTF-8: {name!r}") from error
