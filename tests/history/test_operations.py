"""The operations of a history as one table."""

from __future__ import annotations

import pyarrow as pa

from nemesis.history.operations import operations_of
from nemesis.history.schemas import HISTORY_SCHEMA


def test_an_operation_is_one_row_from_its_invocation_to_its_completion() -> None:
    """What the completion tells counts, what it leaves out the invocation told, and what never returned is info."""
    events = [
        {"index": 0, "time_ns": 10**9, "process": 1, "type": "invoke", "f": "append", "value": 7, "node": 2},
        {"index": 1, "time_ns": 2 * 10**9, "process": 2, "type": "invoke", "f": "append", "value": 8},
        {
            **{"index": 2, "time_ns": 3 * 10**9, "process": 1, "type": "ok", "f": "append", "value": 7, "invoked": 0},
            **{"offset": 5, "leader_epoch": 1},
        },
    ]
    done = operations_of(pa.Table.from_pylist(events, schema=HISTORY_SCHEMA), 10**9).to_pylist()
    told = [{name: value for name, value in row.items() if value is not None} for row in done]
    assert told == [
        {
            **{"index": 0, "time": 0.0, "duration_ms": 2000.0, "process": 1, "function": "append", "value": 7},
            **{"offset": 5, "outcome": "ok", "epoch": 1, "node": 2},
        },
        {"index": 1, "time": 1.0, "process": 2, "function": "append", "value": 8, "outcome": "info"},
    ]
