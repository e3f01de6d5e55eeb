"""The operations an anomaly names, as rows of the history.

Owns finding an operation by the index of its invocation or of its completion and putting it in words. Does not judge.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from nemesis.history.events import ON_LOGS
from nemesis.history.pairing import UNRETURNED
from nemesis.report.operations import Ints, Operations
from nemesis.report.values import EvidenceTable, OperationRow, Outcome

TEXT_MAX = 300
"""Characters of one value or error that the page shows."""
RECORDS_MAX = 20
"""Records of one poll that the page shows, each as value@offset."""
COLUMNS = (*("index", "process", "f", "topic_partition", "value", "offset", "records", "error", "node", "detail"),)
"""Of the history, those of which an operation's words are made."""
ROWS_MAX, COLUMNS_MAX = 20, 12
"""Rows and columns of a table of evidence."""


def operation_rows(operations: Operations, history: pa.Table, indexes: Iterable[int]) -> Mapping[int, OperationRow]:
    """The operations that contain the events ``indexes``, by that index; unknown indexes are left out."""
    places = places_of(operations, history, indexes)
    rows = rows_at(operations, history, np.array(list(places.values()), dtype=np.int64))
    return dict(zip(places, rows, strict=True))


def places_of(operations: Operations, history: pa.Table, indexes: Iterable[int]) -> Mapping[int, int]:
    """The position of the operation that contains each event, by the event's index."""
    wanted = np.array(sorted(set(indexes)), dtype=np.int64)
    index_of_row = np.asarray(history.column("index").to_numpy(), dtype=np.int64)
    found: dict[int, int] = {}
    for rows in (operations.invoke_row, operations.return_row):
        positions = np.flatnonzero(rows != UNRETURNED)
        held = index_of_row[rows[positions]]
        for at in np.flatnonzero(np.isin(held, wanted)):
            found[int(held[at])] = int(positions[at])
    return found


def rows_at(
    operations: Operations,
    history: pa.Table,
    positions: Ints,
    *,
    records_max: int = RECORDS_MAX,
    text_max: int = TEXT_MAX,
) -> list[OperationRow]:
    """The operations at these positions in words, in that order; of a poll, and of any text, only so much."""
    begins = history.select(COLUMNS).take(pa.array(operations.invoke_row[positions])).to_pylist()
    returned = operations.return_row[positions] != UNRETURNED
    ends = history.select(COLUMNS).take(pa.array(operations.return_row[positions][returned])).to_pylist()
    pending = iter(ends)
    return [
        OperationRow(
            index=begin["index"],
            process=str(begin["process"]),
            f=begin["f"],
            key=_first("topic_partition", end, begin),
            outcome=tuple(Outcome)[int(operations.outcome[position])],
            invoked_s=float(operations.invoked_s[position]),
            returned_s=float(operations.returned_s[position]) if is_returned else None,
            value=_value(begin, end, records_max, text_max),
            offset=_first("offset", end, begin),
            node=_first("node", end, begin),
            error=shortened((end["error"] or "") if is_returned else "never returned", text_max),
        )
        for position, is_returned, begin in zip(positions.tolist(), returned.tolist(), begins, strict=True)
        for end in (next(pending) if is_returned else begin,)
    ]


def _first(name: str, *rows: Mapping[str, Any]) -> str:
    return next((str(row[name]) for row in rows if row[name] is not None), "")


def _value(begin: Mapping[str, Any], end: Mapping[str, Any], records_max: int, text_max: int) -> str:
    records = end["records"]
    if records is not None:
        words = [f"{record['value']}@{record['offset']}" for record in records[:records_max]]
        more = f" and {len(records) - records_max} more" if len(records) > records_max else ""
        return ", ".join(words) + more if words else "no records"
    value = end["value"] if end["value"] is not None else begin["value"]
    words = ["" if value is None else str(value)]
    words += [_told(row["detail"]) for row in (begin, end) if row["detail"] and begin["f"] not in ON_LOGS]
    return shortened(" ".join(filter(None, dict.fromkeys(words))), text_max)


def _told(detail: str) -> str:
    try:
        return worded(json.loads(detail))
    except ValueError:
        return detail


def worded(value: Any) -> str:
    """A value of any shape as one line of text."""
    match value:
        case str():
            return value
        case None:
            return "nothing"
        case dict():
            return ", ".join(f"{str(key).replace('_', ' ')}: {_part(part)}" for key, part in value.items()) or "nothing"
        case list() | tuple():
            return ", ".join(_part(part) for part in value) or "nothing"
        case bool():
            return "true" if value else "false"
        case _:
            return str(value)


def _part(value: Any) -> str:
    return f"({worded(value)})" if isinstance(value, dict | list | tuple) and len(value) > 1 else worded(value)


def tables_of(evidence: Any) -> tuple[EvidenceTable, ...]:
    """The parts of an evidence that are lists of objects, each as a table."""
    parts = evidence.items() if isinstance(evidence, dict) else ()
    return tuple(
        _table(str(name).replace("_", " "), part)
        for name, part in parts
        if isinstance(part, list) and part and all(isinstance(entry, dict) and entry for entry in part)
    )


def _table(name: str, part: Sequence[Mapping[str, Any]]) -> EvidenceTable:
    columns = list(dict.fromkeys(str(key) for entry in part for key in entry))[:COLUMNS_MAX]
    return EvidenceTable(
        name=name,
        columns=tuple(column.replace("_", " ") for column in columns),
        rows=tuple(
            tuple(shortened(worded(entry[column])) if column in entry else "" for column in columns)
            for entry in part[:ROWS_MAX]
        ),
        left_out=max(len(part) - ROWS_MAX, 0),
    )


def shortened(text: str, limit: int = TEXT_MAX) -> str:
    """``text``, cut in the middle to ``limit`` characters, and saying how many it was cut by."""
    if len(text) <= limit:
        return text
    half = limit // 2
    return f"{text[:half]} … {len(text) - 2 * half} characters … {text[-half:]}"
