"""The operations an anomaly names, as rows of the history.

Owns finding an operation by the index of its invocation or of its completion and putting it in words. Does not judge.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
import pyarrow as pa

from nemesis.history.events import ON_LOGS
from nemesis.history.pairing import UNRETURNED
from nemesis.report.operations import Operations
from nemesis.report.values import OperationRow, Outcome

TEXT_MAX = 300
"""Characters of one value or error that the page shows."""
RECORDS_MAX = 20
"""Records of one poll that the page shows, each as value@offset."""


def operation_rows(operations: Operations, history: pa.Table, indexes: Iterable[int]) -> Mapping[int, OperationRow]:
    """The operations that contain the events ``indexes``, by that index; unknown indexes are left out."""
    wanted = np.array(sorted(set(indexes)), dtype=np.int64)
    index_of_row = np.asarray(history.column("index").to_numpy(), dtype=np.int64)
    found: dict[int, OperationRow] = {}
    for rows in (operations.invoke_row, operations.return_row):
        positions = np.flatnonzero(rows != UNRETURNED)
        held = index_of_row[rows[positions]]
        for at in np.flatnonzero(np.isin(held, wanted)):
            found[int(held[at])] = _operation_row(operations, history, int(positions[at]))
    return found


def _operation_row(operations: Operations, history: pa.Table, position: int) -> OperationRow:
    begin = _row(history, int(operations.invoke_row[position]))
    returned = int(operations.return_row[position]) != UNRETURNED
    end = _row(history, int(operations.return_row[position])) if returned else begin
    offset = end["offset"] if end["offset"] is not None else begin["offset"]
    node = end["node"] if end["node"] is not None else begin["node"]
    return OperationRow(
        index=begin["index"],
        process=str(begin["process"]),
        f=begin["f"],
        outcome=tuple(Outcome)[int(operations.outcome[position])],
        invoked_s=float(operations.invoked_s[position]),
        returned_s=float(operations.returned_s[position]) if returned else None,
        value=_value(begin, end),
        offset="" if offset is None else str(offset),
        node="" if node is None else str(node),
        error=shortened((end["error"] or "") if returned else "never returned"),
    )


def _row(history: pa.Table, row: int) -> dict[str, Any]:
    return {name: history.column(name)[row].as_py() for name in history.column_names}


def _value(begin: Mapping[str, Any], end: Mapping[str, Any]) -> str:
    records = end["records"]
    if records is not None:
        words = [f"{record['value']}@{record['offset']}" for record in records[:RECORDS_MAX]]
        more = f" and {len(records) - RECORDS_MAX} more" if len(records) > RECORDS_MAX else ""
        return ", ".join(words) + more if words else "no records"
    value = end["value"] if end["value"] is not None else begin["value"]
    words = ["" if value is None else str(value)]
    words += [row["detail"] for row in (begin, end) if row["detail"] and begin["f"] not in ON_LOGS]
    return shortened(" ".join(filter(None, dict.fromkeys(words))))


def worded(value: Any) -> str:
    """A value of any shape as one line of text."""
    return value if isinstance(value, str) else json.dumps(value, default=str)


def shortened(text: str, limit: int = TEXT_MAX) -> str:
    """``text``, cut in the middle to ``limit`` characters, and saying how many it was cut by."""
    if len(text) <= limit:
        return text
    half = limit // 2
    return f"{text[:half]} … {len(text) - 2 * half} characters … {text[-half:]}"
