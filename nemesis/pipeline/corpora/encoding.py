"""Operations as rows of columns, and rows as operations and as the columns of the kernels.

Owns both directions: what comes back is equal to what was put in. An operation whose values are numbers has them in
columns; any other has its values as text.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from nemesis.formats.edn import forms_of
from nemesis.formats.edn_text import edn_text
from nemesis.formats.errors import HistoryError
from nemesis.formats.values import Truth
from nemesis.linearizability.arrays.columns import NEVER, NIL, Columns, Ending, Function, Ints
from nemesis.linearizability.operations import Operation, Outcome, Value
from nemesis.pipeline.corpora.schemas import OPERATION_ROWS

_ENDINGS = MappingProxyType({Outcome.OK: Ending.OK, Outcome.FAIL: Ending.FAIL, Outcome.INFO: Ending.INFO})
_OUTCOMES = MappingProxyType({ending: outcome for outcome, ending in _ENDINGS.items()})
_NAMES = MappingProxyType(
    {
        Function.READ: "read",
        Function.WRITE: "write",
        Function.CAS: "cas",
        Function.APPEND: "append",
        Function.FETCH: "fetch",
        Function.STALE_FETCH: "fetch",
    }
)
Row = tuple[Function, int | None, int | None, int | None, Sequence[int] | None]
"""Function, argument, second, result, records."""


def rows_of(operations: Iterable[Operation], objects: Mapping[Hashable, int]) -> pa.Table:
    """The operations as rows (``OPERATION_ROWS``); ``objects`` numbers the keys."""
    columns: dict[str, list[Any]] = {name: [] for name in OPERATION_ROWS.names}
    for operation in operations:
        row = _row(operation)
        function, argument, second, result, records = row or (Function.OTHER, None, None, None, None)
        texts = (operation.process, operation.f, operation.argument, operation.result)
        values = (
            objects[operation.key],
            _number(operation.process) if row is not None else None,
            operation.line,
            int(function),
            int(_ENDINGS[operation.outcome]),
            argument,
            second,
            result,
            operation.invoked,
            operation.returned,
            records,
            edn_text(texts) if row is None else None,
        )
        for column, value in zip(columns.values(), values, strict=True):
            column.append(value)
    return pa.table(columns, schema=OPERATION_ROWS)


def _row(operation: Operation) -> Row | None:
    """What the columns hold of an operation; None if they cannot hold it."""
    if not _is_number(operation.process):
        return None
    match operation.f, operation.argument, operation.result:
        case "read", None, result if _is_simple(result):
            return Function.READ, None, None, _number(result), None
        case "write", argument, None if _is_simple(argument):
            return Function.WRITE, _number(argument), None, None, None
        case "cas", (old, new), result if _is_simple(old) and _is_simple(new) and _is_simple(result):
            return Function.CAS, _number(old), _number(new), _number(result), None
        case "append", argument, result if _is_simple(result):
            return _append_row(argument, _number(result))
        case "fetch", tuple(argument), result:
            return _fetch_row(operation, argument, result)
        case _:
            return None


def _append_row(argument: Value, base: int | None) -> Row | None:
    if _is_number(argument):
        return Function.APPEND, _number(argument), None, base, None
    if isinstance(argument, tuple) and argument and all(map(_is_number, argument)):
        return Function.APPEND, None, None, base, [number for number in map(_number, argument) if number is not None]
    return None


def _fetch_row(operation: Operation, argument: tuple[Value, ...], result: Value) -> Row | None:
    stale = argument[2:] == (True,)
    start, limit = (*argument[:2], None, None)[:2]
    if not (2 <= len(argument) <= 2 + stale) or not _is_number(start) or not _is_simple(limit):
        return None
    function = Function.STALE_FETCH if stale else Function.FETCH
    if operation.outcome is not Outcome.OK:
        return (function, _number(start), _number(limit), None, None) if result is None else None
    if not isinstance(result, tuple) or not all(map(_is_number, result)):
        return None
    records = [number for number in map(_number, result) if number is not None]
    return function, _number(start), _number(limit), None, records


def _is_number(value: Value) -> bool:
    return type(value) is int and NIL < value < 2**63


def _is_simple(value: Value) -> bool:
    return value is None or _is_number(value)


def _number(value: Value) -> int | None:
    return value if isinstance(value, int) else None


def operations_of(rows: pa.Table) -> list[Operation]:
    """The operations of rows of one object, in the order of their invocations."""
    return sorted(operations_in(rows), key=lambda operation: operation.invoked)


def operations_in(rows: pa.Table) -> list[Operation]:
    """The operations of rows of one object, in the order of the rows.

    Their moments are places in the order of events. Of events of one time the invocations come first: what does not
    say its order is taken for concurrent.
    """
    columns = rows.to_pydict()
    count = rows.num_rows
    events = sorted(
        [(columns["invoked"][k], 0, k) for k in range(count)]
        + [(end, 1, k) for k, end in enumerate(columns["returned"]) if end is not None]
    )
    invoked, returned = [0] * count, [-1] * count
    for place, (_, is_return, k) in enumerate(events):
        (returned if is_return else invoked)[k] = place
    return [_operation(columns, k, invoked[k], returned[k]) for k in range(count)]


def _operation(columns: Mapping[str, list[Any]], k: int, invoked: int, returned: int) -> Operation:
    outcome = _OUTCOMES[Ending(columns["ending"][k])]
    process, f, argument, result = _values(columns, k, outcome)
    return Operation(
        process=process,
        f=f,
        key=columns["object"][k],
        argument=argument,
        result=result,
        outcome=outcome,
        invoked=invoked,
        returned=None if outcome is Outcome.INFO else returned,
        line=columns["line"][k],
    )


def _values(columns: Mapping[str, list[Any]], k: int, outcome: Outcome) -> tuple[Hashable, str, Value, Value]:
    """Process, f, argument and result of row ``k``."""
    function = Function(columns["function"][k])
    argument, second, result = (columns[name][k] for name in ("argument", "second", "result"))
    records = columns["records"][k]
    match function:
        case Function.OTHER:
            return _from_text(columns["text"][k])
        case Function.READ:
            argument = None
        case Function.WRITE:
            result = None
        case Function.CAS:
            argument = (argument, second)
        case Function.APPEND:
            argument = argument if records is None else tuple(records)
        case Function.FETCH | Function.STALE_FETCH:
            argument = (argument, second) if function is Function.FETCH else (argument, second, True)
            result = tuple(records or ()) if outcome is Outcome.OK else None
    return columns["process"][k], _NAMES[function], argument, result


def with_readable_texts(rows: pa.Table) -> pa.Table:
    """The rows, where those of which nobody can read the text have no function: no operation is of that kind."""
    others = np.flatnonzero(ints(rows, "function", -1) == Function.OTHER)
    if not len(others):
        return rows
    if "text" in rows.schema.names:
        texts = rows.column("text").take(pa.array(others)).to_pylist()
        others = others[np.array([not _is_readable(text) for text in texts], dtype=np.bool_)]
    if not len(others):
        return rows
    function = ints(rows, "function", -1).astype(np.int8)
    function[others] = -1
    place = rows.schema.get_field_index("function")
    return rows.set_column(place, rows.schema.field(place), pa.array(function))


def _is_readable(text: str | None) -> bool:
    if text is None:
        return False
    try:
        _, f, _, _ = _from_text(text)
    except (HistoryError, ValueError):
        return False
    return isinstance(f, str)


def _from_text(text: str) -> tuple[Hashable, str, Value, Value]:
    """Raises HistoryError or ValueError for what ``rows_of`` does not write."""
    [form] = forms_of([text], Path("text"))
    if not isinstance(form.value, tuple):
        raise ValueError(f"{text} is no list")
    process, f, argument, result = form.value
    if f == "fetch" and isinstance(argument, tuple) and argument[2:] in ((Truth.TRUE,), (Truth.FALSE,)):
        argument = (*argument[:2], argument[2] is Truth.TRUE)
    return process, f, argument, result


def columns_of(rows: pa.Table, numbers: Ints, objects: int) -> Columns:
    """Rows as columns of the kernels, where row ``i`` is of object ``numbers[i]`` of ``objects``.

    What the columns cannot hold is OTHER there: the number that stands for nil, and nil among records.
    """
    records = rows.column("records").combine_chunks() if "records" in rows.schema.names else None
    if isinstance(records, pa.ChunkedArray):
        records = pa.concat_arrays(records.chunks) if records.num_chunks else pa.array([], pa.list_(pa.int64()))
    if records is not None and records.null_count == len(records):
        records = None
    return Columns(
        objects=objects,
        object=numbers,
        function=_functions(rows, records),
        ending=ints(rows, "ending", Ending.INFO).astype(np.int8, copy=False),
        argument=ints(rows, "argument", NIL),
        second=ints(rows, "second", NIL),
        result=ints(rows, "result", NIL),
        invoked=ints(rows, "invoked", 0),
        returned=ints(rows, "returned", NEVER),
        records=None if records is None else records.flatten().fill_null(0).to_numpy(zero_copy_only=False),
        record_ends=None if records is None else _ends(records),
    )


def _functions(rows: pa.Table, records: pa.ListArray | None) -> npt.NDArray[np.int8]:
    """What the operations do; OTHER where a value is none that the columns can hold."""
    function = ints(rows, "function", Function.OTHER).astype(np.int8, copy=False)
    foreign = np.zeros(rows.num_rows, dtype=np.bool_)
    for name in ("argument", "second", "result"):
        values = ints(rows, name, 0)
        if len(values) and values.min() == NIL:
            foreign |= values == NIL
    if records is not None:
        flat = records.flatten()
        wrong = np.flatnonzero(flat.fill_null(NIL).to_numpy(zero_copy_only=False) == NIL)
        foreign[np.searchsorted(_ends(records), wrong, side="right") - 1] = True
    # A code that is none stays so: what is malformed is found by it.
    foreign &= function > Function.OTHER
    return np.where(foreign, np.int8(Function.OTHER), function) if foreign.any() else function


def _ends(records: pa.ListArray) -> Ints:
    lengths = records.value_lengths().fill_null(0).to_numpy(zero_copy_only=False)
    return np.concatenate((np.zeros(1, dtype=np.int64), np.cumsum(lengths, dtype=np.int64)))


def ints(rows: pa.Table, name: str, absent: int) -> Ints:
    """A column of numbers, with ``absent`` for null and for a column that is not there."""
    if name not in rows.schema.names:
        return np.full(rows.num_rows, absent, dtype=np.int64)
    column = rows.column(name)
    filled = column if column.null_count == 0 else column.fill_null(absent)
    values: Ints = filled.to_numpy()
    return values


def weights_of(rows: pa.Table) -> Ints:
    """One a row, and one more for each record."""
    weights = np.ones(rows.num_rows, dtype=np.int64)
    if "records" in rows.schema.names:
        lengths = rows.column("records").combine_chunks()
        if isinstance(lengths, pa.ChunkedArray):
            lengths = pa.concat_arrays(lengths.chunks) if lengths.num_chunks else pa.array([], pa.list_(pa.int64()))
        weights += lengths.value_lengths().fill_null(0).to_numpy(zero_copy_only=False)
    return weights
