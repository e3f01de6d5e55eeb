"""Batches whose headers and CRCs are right and whose records are not, as no honest producer writes them."""

from __future__ import annotations

from replica.records import HEADER_BYTES, LENGTH_PREFIX_BYTES, Compression, RecordBatch
from replica.records.batch import ATTRIBUTES_AT, CRC_AT, HEADER, MAGIC, TIMESTAMP_TYPE_BIT, parse_batch
from replica.records.checksum import checksum
from replica.records.compression import CODEC_NUMBERS, compress

NO_STATE = (-1, -1, -1)
"""Producer id, epoch and sequence of a producer that is not idempotent."""


def batch_of(
    body: bytes,
    count: int,
    *,
    base_timestamp_ms: int = 0,
    max_timestamp_ms: int = 0,
    log_append_time: bool = False,
    compression: Compression = Compression.NONE,
) -> RecordBatch:
    """A batch with these bytes behind a header that is right as far as a header can be."""
    attributes = CODEC_NUMBERS[compression] | (TIMESTAMP_TYPE_BIT if log_append_time else 0)
    length = HEADER_BYTES - LENGTH_PREFIX_BYTES + len(body)
    times = (base_timestamp_ms, max_timestamp_ms)
    header = HEADER.pack(0, length, -1, MAGIC, 0, attributes, count - 1, *times, *NO_STATE, count)
    data = bytearray(header + body)
    data[CRC_AT:ATTRIBUTES_AT] = checksum(bytes(data[ATTRIBUTES_AT:])).to_bytes(4, "big")
    return parse_batch(bytes(data), 0, verify=True)


def bomb(compression: Compression, size_bytes: int, *, max_timestamp_ms: int = 0) -> RecordBatch:
    """A small batch that decompresses to ``size_bytes`` of zeros."""
    body = compress(compression, bytes(size_bytes))
    return batch_of(body, 1, max_timestamp_ms=max_timestamp_ms, compression=compression)


def _record(*body: int) -> bytes:
    return bytes([2 * len(body), *body])


GOOD = _record(0, 0, 0, 1, 1, 0)
"""The smallest record: no attributes, no deltas, key and value null, no headers."""

ODD_RECORDS = {
    "a record too few": batch_of(GOOD + bytes(7), 2),
    "bytes behind the last record": batch_of(GOOD + GOOD, 1),
    "a length beyond the batch": batch_of(bytes([100]) + GOOD[1:], 1),
    "a negative length": batch_of(bytes([1]) + GOOD[1:], 1),
    "an empty record": batch_of(bytes(7), 1),
    "the same offset twice": batch_of(GOOD + GOOD, 2),
    "an offset left out": batch_of(GOOD + _record(0, 0, 4, 1, 1, 0), 2),
    "a time beyond 64 bits": batch_of(_record(0, 2, 0, 1, 1, 0), 1, base_timestamp_ms=(1 << 63) - 1),
    "a key beyond the record": batch_of(_record(0, 0, 0, 100, 1, 0), 1),
    "a value beyond the record": batch_of(_record(0, 0, 0, 1, 100, 0), 1),
    "a key of length -2": batch_of(_record(0, 0, 0, 3, 1, 0), 1),
    "headers beyond the record": batch_of(_record(0, 0, 0, 1, 1, 100), 1),
    "fewer than no headers": batch_of(_record(0, 0, 0, 1, 1, 1), 1),
    "a header without a name": batch_of(_record(0, 0, 0, 1, 1, 2, 1, 1), 1),
    "a header's name in no UTF-8": batch_of(_record(0, 0, 0, 1, 1, 2, 2, 0xFF, 1), 1),
    "a header's value beyond the record": batch_of(_record(0, 0, 0, 1, 1, 2, 0, 100), 1),
    "bytes behind the headers": batch_of(_record(0, 0, 0, 1, 1, 0, 7), 1),
    "a number that does not end": batch_of(_record(0, 0, 0, 1, 1, 0x80), 1),
}
"""Each way in which records can be malformed, by its name."""
