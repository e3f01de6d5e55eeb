"""Random records for the tests of the record format: every null, every width of number that the format allows."""

from __future__ import annotations

from hypothesis import strategies as st

from replica.ids import Offset
from replica.records import Record

_BYTES_OR_NULL = st.none() | st.binary(max_size=200)
_HEADER = st.tuples(st.text(max_size=8), _BYTES_OR_NULL)
_NOW_MS = 1_700_000_000_000
_TIMESTAMP_MS = st.integers(_NOW_MS - 2**40, _NOW_MS + 2**40) | st.integers(0, 9)


@st.composite
def record_lists(draw: st.DrawFn, base_offset: int = 0) -> list[Record]:
    """Draw one to eight records whose offsets count up from ``base_offset``."""
    count = draw(st.integers(min_value=1, max_value=8))
    return [
        Record(
            offset=Offset(base_offset + delta),
            timestamp_ms=draw(_TIMESTAMP_MS),
            key=draw(_BYTES_OR_NULL),
            value=draw(_BYTES_OR_NULL),
            headers=tuple(draw(st.lists(_HEADER, max_size=3))),
        )
        for delta in range(count)
    ]
