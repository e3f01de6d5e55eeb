"""What a server asks of the records behind a header: whether they are well, and of what times they are.

Owns the one walk over them that makes no objects: in C where the installation has compiled it, else in Python, more
slowly and with the same verdicts. Nothing is believed of a compressed batch's size: whoever walks names a limit.
Source: Kafka's ``LogValidator.validateMessagesAndAssignOffsets``, ``DefaultRecord.readFrom``.
"""

from __future__ import annotations

from ctypes import CDLL, POINTER, Structure, byref, c_char_p, c_int64, c_void_p
from functools import cache
from typing import Any

from msgspec import Struct

from replica.records.batch import HEADER_BYTES, RecordBatch
from replica.records.errors import CorruptRecordError, InvalidRecordError
from replica.records.record import NO_TIMESTAMP, decompressed, scan_records

LIBRARY = f"{__file__.removesuffix('walking.py')}native/walk.so"
ABI_VERSION = 3
"""What the library must answer to be the one that this module knows."""

SERVER_DECOMPRESSED_BYTES_MAX = 16 << 20
"""The most that a server decompresses of one batch: sixteen times the default of ``message.max.bytes``."""

EVER = -(1 << 63)
"""Before all timestamps."""


class Wanted(Struct, frozen=True, kw_only=True):
    """Which record is looked for: the first at or after a time, behind the first ``from_delta`` of the batch."""

    timestamp_ms: int = EVER
    from_delta: int = 0


ANY = Wanted()


class _Walk(Structure):
    _fields_ = tuple(
        (name, c_int64)
        for name in (
            *("count", "base_timestamp_ms", "wanted_ms", "wanted_from"),
            *("position", "oldest_ms", "newest_ms", "first"),
        )
    )


class RecordTimes(Struct, frozen=True, kw_only=True):
    """The times of a batch's records, -1 for none; ``oldest_ms`` leaves out records that have none.

    ``first_delta`` counts the records in front of the first one that was wanted; absent if there is none.
    """

    oldest_ms: int
    newest_ms: int
    first_delta: int | None


_OF_OTHERS: dict[str, tuple[tuple[Any, ...], Any]] = {
    "batches_walk": ((c_char_p, c_int64, c_void_p), None),
    "records_measure": ((c_void_p,), c_char_p),
    "records_encode": ((c_void_p, c_void_p), c_int64),
    "keys_partition": ((c_void_p, c_int64, c_int64, c_int64, c_void_p, c_void_p, c_void_p), c_char_p),
    "columns_measure": ((c_char_p, c_int64, c_int64, c_void_p), c_char_p),
    "columns_fill": ((c_char_p, c_int64, c_int64, c_void_p, c_void_p), c_int64),
}
"""What ``runs``, ``encoding`` and ``columns`` call."""


def load(path: str) -> CDLL | None:
    """The library at ``path``; absent where there is none, or one of another version."""
    try:
        native = CDLL(path)
        version, walk = native.records_walk_abi, native.records_walk
        for name, (arguments, result) in _OF_OTHERS.items():
            function = getattr(native, name)
            function.argtypes, function.restype = arguments, result
    except (OSError, AttributeError):
        return None
    version.argtypes, version.restype = (), c_int64
    walk.argtypes, walk.restype = (c_char_p, c_int64, c_int64, POINTER(_Walk)), c_char_p
    return native if version() == ABI_VERSION else None


@cache
def library() -> CDLL | None:
    """The walk in C of this installation; absent where Python has to walk."""
    return load(LIBRARY)


def walk_records(batch: RecordBatch, *, limit_bytes: int, wanted: Wanted = ANY) -> RecordTimes:
    """Walk over all records of ``batch`` and tell their times, and which is the first of those ``wanted``.

    Raises ``CorruptRecordError`` where ``decode_records`` does, at the same byte.
    """
    data = decompressed(batch, limit_bytes=limit_bytes)
    native = library()
    return walk_in_python(batch, data, wanted) if native is None else walk_in_c(native, batch, data, wanted)


def walk_in_c(native: CDLL, batch: RecordBatch, data: bytes, wanted: Wanted) -> RecordTimes:
    """The walk by the library over ``data``, the batch uncompressed."""
    walk = _Walk(batch.record_count, batch.base_timestamp_ms, wanted.timestamp_ms, wanted.from_delta)
    fault: bytes | None = native.records_walk(data, HEADER_BYTES, len(data), byref(walk))
    if fault is not None:
        raise CorruptRecordError(walk.position, fault.decode())
    if batch.has_log_append_time:
        return _at_one_time(batch, wanted)
    return RecordTimes(
        oldest_ms=walk.oldest_ms, newest_ms=walk.newest_ms, first_delta=None if walk.first < 0 else walk.first
    )


def walk_in_python(batch: RecordBatch, data: bytes, wanted: Wanted) -> RecordTimes:
    """The same walk without the library."""
    oldest_ms, newest_ms, first_delta = NO_TIMESTAMP, EVER, None
    for delta, record in enumerate(scan_records(batch, data)):
        timestamp_ms = record.timestamp_ms
        newest_ms = max(newest_ms, timestamp_ms)
        if timestamp_ms != NO_TIMESTAMP and (oldest_ms == NO_TIMESTAMP or timestamp_ms < oldest_ms):
            oldest_ms = timestamp_ms
        if first_delta is None and delta >= wanted.from_delta and timestamp_ms >= wanted.timestamp_ms:
            first_delta = delta
    return RecordTimes(oldest_ms=oldest_ms, newest_ms=newest_ms, first_delta=first_delta)


def _at_one_time(batch: RecordBatch, wanted: Wanted) -> RecordTimes:
    at_ms = batch.max_timestamp_ms
    is_found = at_ms >= wanted.timestamp_ms and wanted.from_delta < batch.record_count
    return RecordTimes(oldest_ms=at_ms, newest_ms=at_ms, first_delta=wanted.from_delta if is_found else None)


def check_produced(batch: RecordBatch, *, limit_bytes: int) -> RecordTimes:
    """Raise InvalidRecordError unless the records are what the header of a client's batch says of them."""
    if batch.has_log_append_time:
        raise InvalidRecordError("it bears the time of its append; only leaders write that")
    try:
        times = walk_records(batch, limit_bytes=limit_bytes)
    except CorruptRecordError as error:
        raise InvalidRecordError(f"its records are malformed at {error}") from error
    if times.newest_ms != batch.max_timestamp_ms:
        raise InvalidRecordError(
            f"its largest timestamp is {times.newest_ms}, and its header says {batch.max_timestamp_ms}"
        )
    return times
