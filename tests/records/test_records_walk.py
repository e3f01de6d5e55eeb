"""The walk of a server over a batch's records: the same verdict in C and in Python, and within a bound of bytes."""

from __future__ import annotations

import subprocess
import time
from ctypes import CDLL
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from replica.records import (
    HEADER_BYTES,
    SERVER_DECOMPRESSED_BYTES_MAX,
    Compression,
    CorruptRecordError,
    InvalidRecordError,
    Record,
    RecordBatch,
    RecordTimes,
    Wanted,
    check_produced,
    decode_records,
    encode_batch,
    walk_records,
    walking,
)
from replica.records.batch import parse_batch
from replica.records.walking import walk_in_c, walk_in_python
from tests.records.compiled import compiled, needs_compiler
from tests.records.odd_batches import ODD_RECORDS, batch_of, bomb
from tests.records.record_strategies import record_lists


@pytest.fixture(scope="module")
def native(tmp_path_factory: pytest.TempPathFactory) -> CDLL:
    """The walk in C."""
    return compiled(tmp_path_factory.mktemp("native"))


def verdict_in_c(native: CDLL, batch: RecordBatch, wanted: Wanted) -> RecordTimes | int:
    """What the library says: the times, or at which byte the fault is."""
    try:
        return walk_in_c(native, batch, batch.data, wanted)
    except CorruptRecordError as error:
        return error.position


def verdict_in_python(batch: RecordBatch, wanted: Wanted) -> RecordTimes | int:
    """What Python says of the same."""
    try:
        return walk_in_python(batch, batch.data, wanted)
    except CorruptRecordError as error:
        return error.position


@st.composite
def tampered_batches(draw: st.DrawFn) -> RecordBatch:
    """A batch in which some bytes behind the header are others, or gone, and the count may be another."""
    batch = encode_batch(draw(record_lists()))
    body = bytearray(batch.data[HEADER_BYTES:])
    for _ in range(draw(st.integers(0, 4))):
        body[draw(st.integers(0, len(body) - 1))] = draw(st.integers(0, 255))
    kept = draw(st.integers(7, len(body)))
    count = draw(st.sampled_from((batch.record_count, 1, min(2, kept // 7))))
    count = min(count, kept // 7)
    is_appended = draw(st.booleans())
    return batch_of(bytes(body[:kept]), count, base_timestamp_ms=batch.base_timestamp_ms, log_append_time=is_appended)


@pytest.mark.slow
@needs_compiler
@given(batch=tampered_batches(), timestamp_ms=st.integers(-2, 2**41), from_delta=st.integers(0, 3))
def test_verdicts_in_c_and_in_python_are_equal(
    native: CDLL, batch: RecordBatch, timestamp_ms: int, from_delta: int
) -> None:
    """Of any bytes both say the same: the times and the record that was wanted, or the byte of the fault."""
    wanted = Wanted(timestamp_ms=timestamp_ms, from_delta=from_delta)
    assert verdict_in_c(native, batch, wanted) == verdict_in_python(batch, wanted)


@needs_compiler
@given(name=st.binary(max_size=6))
def test_header_names_are_utf8_alike(native: CDLL, name: bytes) -> None:
    """What bytes may be the name of a header is one question with one answer."""
    batch = batch_of(named(name), 1)
    assert verdict_in_c(native, batch, Wanted()) == verdict_in_python(batch, Wanted())


def named(name: bytes) -> bytes:
    """One record with one header of this name, short enough that each length is one byte."""
    body = bytes([0, 0, 0, 1, 1, 2, 2 * len(name)]) + name + bytes([1])
    return bytes([2 * len(body)]) + body


@needs_compiler
@pytest.mark.parametrize("number", range(6))
def test_varints_at_their_limits_are_read_alike(native: CDLL, number: int) -> None:
    """A number that is longer than it need be, or larger than it may be, is taken or refused by both."""
    lead = (b"\x00" + b"\x80" * number + b"\x00", b"\x00" + b"\xff" * number + b"\x01", b"\x00" + b"\xff" * 9 + b"\x02")
    for start in lead:
        body = start + bytes([0, 1, 1, 0])
        batch = batch_of(bytes([2 * len(body)]) + body, 1, base_timestamp_ms=5)
        assert verdict_in_c(native, batch, Wanted()) == verdict_in_python(batch, Wanted())


@needs_compiler
@pytest.mark.parametrize("odd", ODD_RECORDS, ids=str)
def test_each_fault_is_found_where_a_reader_finds_it(native: CDLL, odd: str) -> None:
    """What a consumer cannot decode, a leader does not take; both name the same byte."""
    batch = ODD_RECORDS[odd]
    with pytest.raises(CorruptRecordError) as read:
        decode_records(batch)
    assert verdict_in_c(native, batch, Wanted()) == verdict_in_python(batch, Wanted()) == read.value.position
    with pytest.raises(InvalidRecordError, match="malformed at byte"):
        check_produced(batch, limit_bytes=SERVER_DECOMPRESSED_BYTES_MAX)


@given(records=record_lists(), compression=st.sampled_from(Compression))
def test_what_our_own_producer_writes_is_well(records: list[Record], compression: Compression) -> None:
    """Whatever records a client may write, a leader takes them, compressed or not, and tells their times."""
    batch = encode_batch(records, compression=compression)
    times = check_produced(batch, limit_bytes=SERVER_DECOMPRESSED_BYTES_MAX)
    assert times.newest_ms == max(record.timestamp_ms for record in records)
    assert times.oldest_ms == min(record.timestamp_ms for record in records)


@pytest.mark.parametrize("compression", [Compression.LZ4, Compression.ZSTD])
def test_a_bomb_is_refused_within_its_bound(compression: Compression) -> None:
    """A batch of a few KB that decompresses to 100 MiB is given up at the bound."""
    batch = bomb(compression, 100 << 20)
    begun = time.process_time()
    with pytest.raises(InvalidRecordError, match="decompresses to more than 16777216 bytes"):
        check_produced(batch, limit_bytes=SERVER_DECOMPRESSED_BYTES_MAX)
    assert time.process_time() - begun < 2


@pytest.mark.parametrize("max_timestamp_ms", [4, 6, -1])
def test_header_and_records_agree_on_the_largest_timestamp(max_timestamp_ms: int) -> None:
    """Searches by time and retention believe the header, so it must be true."""
    good = encode_batch([b"a", b"b"], timestamp_ms=5)
    batch = batch_of(good.data[HEADER_BYTES:], 2, base_timestamp_ms=5, max_timestamp_ms=max_timestamp_ms)
    with pytest.raises(InvalidRecordError, match=f"its largest timestamp is 5, and its header says {max_timestamp_ms}"):
        check_produced(batch, limit_bytes=SERVER_DECOMPRESSED_BYTES_MAX)


def test_the_time_of_an_append_is_the_leaders_to_write() -> None:
    """A client's batch that claims the time of its append is refused."""
    good = encode_batch([b"a"], timestamp_ms=5)
    batch = batch_of(good.data[HEADER_BYTES:], 1, base_timestamp_ms=5, max_timestamp_ms=5, log_append_time=True)
    with pytest.raises(InvalidRecordError, match="only leaders write that"):
        check_produced(batch, limit_bytes=SERVER_DECOMPRESSED_BYTES_MAX)


@pytest.mark.parametrize(("from_delta", "first"), [(0, 1), (2, 2), (3, None)])
def test_the_first_record_at_a_time_behind_the_logs_start(from_delta: int, first: int | None) -> None:
    """Records that are older, or lie below where the log begins, are passed over."""
    stamps = (10, 30, 30, 20)
    records = [Record(offset=at, timestamp_ms=ms, key=None, value=b"") for at, ms in enumerate(stamps)]  # type: ignore[arg-type]
    times = walk_records(
        encode_batch(records),
        limit_bytes=SERVER_DECOMPRESSED_BYTES_MAX,
        wanted=Wanted(timestamp_ms=25, from_delta=from_delta),
    )
    assert times == RecordTimes(oldest_ms=10, newest_ms=30, first_delta=first)


@needs_compiler
def test_a_library_of_another_version_is_not_used(tmp_path: Path) -> None:
    """One that is left over from another version of the sources is passed over, and Python walks."""
    target = tmp_path / "other.so"
    source = "#include <stdint.h>\nint64_t records_walk_abi(void) { return 0; } void records_walk(void) {}"
    subprocess.run(["cc", "-shared", "-fPIC", "-x", "c", "-", "-o", str(target)], input=source, text=True, check=True)
    assert walking.load(str(target)) is None
    assert walking.load(str(tmp_path / "none.so")) is None


def test_a_batch_that_was_sent_whole_stays_whole() -> None:
    """The test's own tampering leaves CRC and header as they must be, so that only records are at fault."""
    for batch in ODD_RECORDS.values():
        assert parse_batch(batch.data, 0, verify=True) == batch
