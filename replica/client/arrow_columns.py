"""Columns of bytes out of what users hand over: rows of bytes, or Arrow's arrays, of which nothing is copied.

The only file of the clients that looks into Arrow's buffers; an array may have been made out of any, so that each is
validated. pyarrow is imported by whoever made the array.
"""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

from replica.records import Column

if TYPE_CHECKING:
    import pyarrow as pa

Rows: TypeAlias = "Sequence[bytes | None] | pa.Array | pa.ChunkedArray"
"""Bytes or null for each row; of Arrow binary or string."""

Times: TypeAlias = "int | Sequence[int] | pa.Array | pa.ChunkedArray | None"
"""Milliseconds since 1970: of all rows, or of each; of Arrow int64 or timestamp."""


def is_arrow(rows: object) -> bool:
    """Whether these are an array of Arrow's."""
    return type(rows).__module__.partition(".")[0] == "pyarrow"


def column_of(rows: Rows) -> Column:
    """Lay out rows. Raises TypeError for what are no bytes, and ValueError for an array that is malformed."""
    if not is_arrow(rows):
        return Column.of(rows)
    import pyarrow as pa

    whole = _whole(rows)
    kind = whole.type
    if pa.types.is_null(kind):
        return Column(len(whole), (None, 0, None, None, 0, 0), whole.to_pylist)
    is_wide = pa.types.is_large_binary(kind) or pa.types.is_large_string(kind)
    if not (is_wide or pa.types.is_binary(kind) or pa.types.is_string(kind)):
        raise TypeError(f"an array of {kind}; it must be of binary, large_binary, string or large_string")
    plain = whole.view(pa.large_binary() if is_wide else pa.binary())
    plain.validate(full=True)
    validity, offsets, data = plain.buffers()
    layout = (
        None if data is None else data.address,
        0 if data is None else data.size,
        None if offsets is None else offsets.address,
        None if validity is None else validity.address,
        plain.offset,
        is_wide,
    )
    return Column(len(plain), layout, plain.to_pylist)


def times_of(times: Times, count: int, now_ms: int) -> tuple[array[int] | None, int]:
    """The time of each of ``count`` rows, or else the one time of all. Raises TypeError, ValueError."""
    if times is None:
        return None, now_ms
    if isinstance(times, int):
        _check_times(times, times)
        return None, times
    column = _arrow_times(times) if is_arrow(times) else array("q", times)
    if len(column) != count:
        raise ValueError(f"{len(column)} timestamps for {count} values")
    if count:
        _check_times(min(column), max(column))
    return column, 0


def _arrow_times(times: Any) -> array[int]:
    import pyarrow as pa

    whole = _whole(times)
    if whole.null_count:
        raise ValueError("a timestamp is null; each record has one")
    if pa.types.is_timestamp(whole.type):
        whole = whole.cast(pa.timestamp("ms", tz=whole.type.tz))
    return array("q", whole.cast(pa.int64()).to_numpy().tobytes())


def _check_times(first_ms: int, last_ms: int) -> None:
    if first_ms < 0 or last_ms >= 1 << 63:
        raise ValueError(f"timestamps_ms go from {first_ms} to {last_ms}; each must be at least 0 and fit in 64 bits")


def _whole(rows: Any) -> Any:
    import pyarrow as pa

    return rows.combine_chunks() if isinstance(rows, pa.ChunkedArray) else rows
