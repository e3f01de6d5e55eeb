"""Batches decoded into columns: in C and in Python what the reference reads, and what it refuses, of any bytes."""

from __future__ import annotations

from collections.abc import Callable
from ctypes import CDLL

import pytest
from hypothesis import given
from hypothesis import strategies as st

from replica.ids import Epoch, Offset
from replica.records import (
    ColumnDecoder,
    Compression,
    CorruptRecordError,
    DecodedRecords,
    Record,
    RecordBatch,
    Wanted,
    decode_records,
    encode_batch,
)
from replica.records.batch import parse_batch
from replica.records.decoding import measure, measured_of
from replica.records.walking import library as library_of_the_installation
from tests.records.compiled import compiled, needs_compiler
from tests.records.odd_batches import ODD_RECORDS, batch_of
from tests.records.record_strategies import record_lists
from tests.records.test_records_walk import tampered_batches, verdict_in_python


@pytest.fixture(scope="module")
def native(tmp_path_factory: pytest.TempPathFactory) -> CDLL:
    """The decoder in C."""
    return compiled(tmp_path_factory.mktemp("native"))


@pytest.fixture(scope="module", params=["c", "python"])
def library(request: pytest.FixtureRequest) -> CDLL | None:
    """What decodes: the library, or Python where there is none."""
    return request.getfixturevalue("native") if request.param == "c" else None


def decoded(library: CDLL | None, *batches: tuple[RecordBatch, int]) -> DecodedRecords:
    """Decode each batch from an offset on, by this library."""
    decoder = ColumnDecoder(library)
    for batch, start in batches:
        decoder.add(batch, start)
    return decoder.finish()


def records_of(columns: DecodedRecords) -> list[Record]:
    """The same records as objects."""
    count = len(columns)
    parts = zip(
        columns.offsets,
        columns.timestamps_ms,
        columns.keys.rows(0, count),
        columns.values.rows(0, count),
        columns.headers(0, count),
        strict=True,
    )
    return [
        Record(offset=Offset(offset), timestamp_ms=timestamp_ms, key=key, value=value, headers=headers)
        for offset, timestamp_ms, key, value, headers in parts
    ]


@needs_compiler
@given(
    batches=st.lists(st.tuples(record_lists(), st.sampled_from(Compression)), max_size=4),
    start=st.integers(0, 20),
)
def test_columns_hold_what_the_reference_reads(
    library: CDLL | None, batches: list[tuple[list[Record], Compression]], start: int
) -> None:
    """Batch behind batch, from any offset on, each record is in its row, with its epoch."""
    base, expected, given_batches = 0, [], []
    for epoch, (records, compression) in enumerate(batches):
        made = encode_batch(records, compression=compression)
        batch = made.stamped(base_offset=Offset(base), leader_epoch=Epoch(epoch))
        expected += [(record, epoch) for record in decode_records(batch) if record.offset >= start]
        given_batches.append((batch, start))
        base = batch.end_offset
    columns = decoded(library, *given_batches)
    assert list(zip(records_of(columns), columns.leader_epochs, strict=True)) == expected


@needs_compiler
@given(batch=tampered_batches())
def test_verdicts_are_those_of_the_reference(library: CDLL | None, batch: RecordBatch) -> None:
    """Of any bytes both read the same records, or refuse them for the same reason."""
    expected = outcome_of(lambda: list(decode_records(batch)))
    assert outcome_of(lambda: records_of(decoded(library, (batch, 0)))) == expected


@needs_compiler
@given(batch=tampered_batches())
def test_faults_are_found_at_the_byte_where_the_reference_finds_them(native: CDLL, batch: RecordBatch) -> None:
    """The library alone says where a fault is, or that there is none."""
    walked = verdict_in_python(batch, Wanted())
    fault = measure(native, batch.data, measured_of(batch, 0))
    assert (None if fault is None else fault.position) == (walked if isinstance(walked, int) else None)


def outcome_of(read: Callable[[], list[Record]]) -> list[Record] | str:
    """What was read, or why not."""
    try:
        return read()
    except CorruptRecordError as error:
        return str(error)


@needs_compiler
@pytest.mark.parametrize("odd", ODD_RECORDS, ids=str)
def test_each_fault_is_told_as_by_the_reference(library: CDLL | None, odd: str) -> None:
    """The same byte, and the same words."""
    batch = ODD_RECORDS[odd]
    with pytest.raises(CorruptRecordError) as expected:
        decode_records(batch)
    with pytest.raises(CorruptRecordError) as refused:
        decoded(library, (batch, 0))
    assert str(refused.value) == str(expected.value)


@needs_compiler
def test_records_at_the_time_of_their_append_bear_that(library: CDLL | None) -> None:
    """A leader's time holds for all records of a batch, whatever theirs were."""
    good = encode_batch([b"a", b"b"], timestamp_ms=5)
    batch = batch_of(good.data[61:], 2, base_timestamp_ms=5, max_timestamp_ms=9, log_append_time=True)
    assert decoded(library, (batch, 0)).timestamps_ms.tolist() == [9, 9]


@needs_compiler
def test_any_rows_can_be_taken(library: CDLL | None) -> None:
    """A part of the rows is what stands in them, null and empty ones and headers too."""
    records = [
        Record(offset=Offset(at), timestamp_ms=at, key=key, value=value, headers=headers)
        for at, (key, value, headers) in enumerate(
            [
                (None, b"a", ()),
                (b"", None, (("h", None), ("i", b""))),
                (b"k", b"", ()),
                (None, b"d", (("j", b"x"),)),
            ]
        )
    ]
    columns = decoded(library, (encode_batch(records), 0))
    for start in range(5):
        for stop in range(start, 5):
            part = records[start:stop]
            assert list(columns.keys.rows(start, stop)) == [record.key for record in part]
            assert list(columns.values.rows(start, stop)) == [record.value for record in part]
            assert list(columns.headers(start, stop)) == [record.headers for record in part]


def test_an_installation_decodes_in_either_way() -> None:
    """With the library of this installation, or without, the columns are the same."""
    batch = parse_batch(encode_batch([b"a", b"b"], timestamp_ms=1).data, 0, verify=True)
    decoder = ColumnDecoder(library_of_the_installation())
    decoder.add(batch, 0)
    assert records_of(decoder.finish()) == records_of(decoder.in_python()) == list(decode_records(batch))
