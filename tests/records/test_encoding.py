"""Records encoded from columns: in C and in Python the same bytes as one by one, whatever the columns are like."""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from ctypes import CDLL

import pytest
from hypothesis import given
from hypothesis import strategies as st

from replica.records import (
    Column,
    ColumnEncoder,
    Compression,
    EncodedRecords,
    Record,
    RecordColumns,
    encode_batch,
    encode_headers,
)
from tests.records.compiled import compiled, needs_compiler
from tests.records.record_strategies import record_lists


@pytest.fixture(scope="module")
def native(tmp_path_factory: pytest.TempPathFactory) -> CDLL:
    """The encoder in C."""
    return compiled(tmp_path_factory.mktemp("native"))


@pytest.fixture(scope="module", params=["c", pytest.param("python", id="python")])
def library(request: pytest.FixtureRequest) -> CDLL | None:
    """What encodes: the library, or Python where there is none."""
    return compiled_library(request) if request.param == "c" else None


def compiled_library(request: pytest.FixtureRequest) -> CDLL:
    """The library, compiled once."""
    native: CDLL = request.getfixturevalue("native")
    return native


def columns_of(records: Sequence[Record]) -> RecordColumns:
    """The same records as columns."""
    return RecordColumns(
        values=Column.of([record.value for record in records]),
        keys=Column.of([record.key for record in records]),
        headers=Column.of([encode_headers(record.headers) for record in records]),
        timestamps_ms=array("q", [record.timestamp_ms for record in records]),
    )


def encoded(
    library: CDLL | None,
    columns: RecordColumns,
    *,
    rows: Sequence[int] | None = None,
    place: int = 0,
    limit_bytes: int = 1 << 20,
    compression: Compression = Compression.NONE,
) -> EncodedRecords:
    """Encode by this library."""
    chosen = None if rows is None else array("q", rows)
    encoder = ColumnEncoder(columns, rows=chosen, compression=compression)
    if library is None:
        return encoder.encode_in_python(place, limit_bytes)
    return encoder.encode_in_c(library, place, limit_bytes)


@needs_compiler
@given(records=record_lists(), compression=st.sampled_from(Compression))
def test_columns_give_the_same_batch_as_records(
    library: CDLL | None, records: list[Record], compression: Compression
) -> None:
    """Header and body are byte for byte what the encoder of single records makes."""
    batch = encoded(library, columns_of(records), compression=compression).batch(
        producer_id=3, producer_epoch=1, base_sequence=7
    )
    assert batch == encode_batch(records, producer_id=3, producer_epoch=1, base_sequence=7, compression=compression)


def renumbered(records: Sequence[Record]) -> list[Record]:
    """Records as they stand in a batch of their own."""
    return [
        Record(offset=offset, timestamp_ms=each.timestamp_ms, key=each.key, value=each.value, headers=each.headers)  # type: ignore[arg-type]
        for offset, each in enumerate(records)
    ]


@needs_compiler
@given(records=record_lists(), data=st.data())
def test_any_rows_make_a_batch(library: CDLL | None, records: list[Record], data: st.DataObject) -> None:
    """Rows are taken from where they stand, in the order that is asked for, from a place on."""
    rows = data.draw(st.lists(st.integers(0, len(records) - 1), min_size=1, max_size=9))
    place = data.draw(st.integers(0, len(rows) - 1))
    batch = encoded(library, columns_of(records), rows=rows, place=place).batch()
    assert batch == encode_batch(renumbered([records[row] for row in rows[place:]]))


@needs_compiler
@given(records=record_lists(), limit_bytes=st.integers(0, 600))
def test_a_batch_takes_what_fits_and_one_at_least(
    library: CDLL | None, records: list[Record], limit_bytes: int
) -> None:
    """Batch after batch, all records are encoded once, and one more would have been too much for each."""
    columns, place = columns_of(records), 0
    while place < len(records):
        part = encoded(library, columns, place=place, limit_bytes=limit_bytes)
        end = place + part.record_count
        assert part.batch() == encode_batch(renumbered(records[place:end]))
        assert part.record_count == 1 or len(part.body) <= limit_bytes
        if end < len(records):
            assert len(encoded(library, columns, place=place).body) > limit_bytes
            assert encode_batch(renumbered(records[place : end + 1])).size_bytes - 61 > limit_bytes
        place = end


@needs_compiler
def test_records_of_one_time_need_no_column_of_times(library: CDLL | None) -> None:
    """Without keys, headers and times a batch is what plain values make at one time."""
    columns = RecordColumns(values=Column.of([b"a", None, b""]), timestamp_ms=9)
    batch = encoded(library, columns).batch()
    records = [Record(offset=at, timestamp_ms=9, key=None, value=value) for at, value in enumerate((b"a", None, b""))]  # type: ignore[arg-type]
    assert batch == encode_batch(records)


def test_what_is_not_bytes_is_no_column() -> None:
    """A column is of bytes or null, and says so."""
    for wrong in ("b", bytearray(b"b"), memoryview(b"b"), 1):
        with pytest.raises(TypeError, match="each must be bytes or None"):
            Column.of([b"a", None, wrong])  # type: ignore[list-item]


@needs_compiler
@pytest.mark.parametrize(
    "offsets", [(0, 4), (-1, 2), (2, 1), (3, 3 + 2**31), (2**62, 2**62 + 1), (-(2**63), 2**63 - 1)], ids=str
)
def test_offsets_that_lead_out_of_a_column_are_refused(native: CDLL, offsets: tuple[int, int]) -> None:
    """Nothing is read outside of what a column says it has, whatever stands in its offsets."""
    wrong, nothing = array("q", offsets), array("q", [0, 0])
    column = Column(1, (b"abc", 3, wrong.buffer_info()[0], None, 0, 1), lambda: [b""])
    good = Column(1, (b"abc", 3, nothing.buffer_info()[0], None, 0, 1), lambda: [b""])
    for columns in (RecordColumns(values=column), RecordColumns(values=good, keys=column)):
        with pytest.raises(ValueError, match="lead out of its data"):
            encoded(native, columns)
    del wrong, nothing


@needs_compiler
def test_times_too_far_from_each_other_share_no_batch(library: CDLL | None) -> None:
    """What no timestamp delta can hold begins another batch."""
    columns = RecordColumns(values=Column.of([b"a", b"b"]), timestamps_ms=array("q", [-(2**63), 2**63 - 1]))
    parts = [encoded(library, columns, place=place) for place in (0, 1)]
    assert [(part.record_count, part.base_timestamp_ms) for part in parts] == [(1, -(2**63)), (1, 2**63 - 1)]


def test_an_installation_encodes_in_either_way() -> None:
    """With the library of this installation, or without, the bytes are the same."""
    encoder = ColumnEncoder(RecordColumns(values=Column.of([b"a", b"b"]), timestamp_ms=1))
    assert encoder.encode(0, 100) == encoder.encode_in_python(0, 100)
