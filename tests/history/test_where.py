"""A condition picks the operations for which it holds, and says what is wrong with it where it cannot be understood."""

from __future__ import annotations

import pyarrow as pa
import pytest

from nemesis.history.operations import ALSO_CALLED, OPERATIONS_SCHEMA, operations_of
from nemesis.history.schemas import HISTORY_SCHEMA
from nemesis.history.where import DEPTH_MAX, ConditionError, where

OPERATIONS = pa.Table.from_pylist(
    [
        {"index": 0, "time": 0.5, "process": 1, "function": "append", "key": "a-0", "value": 7, "outcome": "ok"},
        {"index": 1, "time": 1.0, "process": 2, "function": "append", "key": "b-0", "value": 8, "outcome": "fail"},
        {"index": 2, "time": 1.5, "process": -1, "function": "kill", "outcome": "info"},
        {
            **{"index": 3, "time": 2.0, "process": 1, "function": "poll", "key": "a-0", "outcome": "ok"},
            "records": [{"offset": 0, "value": 7}, {"offset": 1, "value": 9}],
        },
        {"index": 4, "time": 2.5, "process": 1, "function": "poll", "key": "it's-0", "outcome": "ok", "records": []},
    ],
    schema=OPERATIONS_SCHEMA,
)


@pytest.mark.parametrize(
    ("condition", "found"),
    [
        ("process = 1", [0, 3, 4]),
        ("process == 1 AND time > 0.5", [3, 4]),
        ("process = -1", [2]),
        ("outcome <> 'ok' or value = 7", [0, 1, 2]),
        ("outcome = 'ok' or outcome = 'fail' and value = 1", [0, 3, 4]),
        ("(outcome = 'ok' or outcome = 'fail') and value > 7", [1]),
        ("not (function = 'poll')", [0, 1, 2]),
        ("partition = 'a-0'", [0, 3]),
        ('key = "a-0"', [0, 3]),
        ("key = 'it''s-0'", [4]),
        ("key is null", [2]),
        ("key is not null and process in (2, 3)", [1]),
        ("function not in ('append', 'poll')", [2]),
        ("key like 'a-%'", [0, 3]),
        ("key not like 'a-%'", [1, 4]),
        ("9 in records", [3]),
        ("9 not in records", [4]),
        # As in SQL: what is absent is neither above 7 nor not above 7.
        ("not value > 7", [0]),
    ],
)
def test_a_condition_picks_the_rows_for_which_it_holds(condition: str, found: list[int]) -> None:
    """Comparisons, lists, absence and patterns, with ``and`` before ``or``."""
    assert where(OPERATIONS, condition, also=ALSO_CALLED).column("index").to_pylist() == found


@pytest.mark.parametrize(
    ("condition", "said"),
    [
        (
            "proces = 1",
            "there is no column 'proces': the columns are index, time, duration_ms, process, function, key,",
        ),
        ("process = 'x'", "process holds numbers, which have no quotes; 'x' is none"),
        ("outcome = 5", "outcome holds texts, which stand in quotes; 5 is none"),
        ("outcome = ok", "a number or a text in quotes is expected where 'ok' stands"),
        ("process", "behind process stands 'the end'"),
        ("process = 1 value = 2", "'value' is not expected: join conditions by and or or"),
        ("(process = 1", "')' is expected where 'the end' stands"),
        ("records = 5", "ask for one value in it, such as 5 in records"),
        ("5 in value", "value is no list"),
        ("value like 5", "like is for texts"),
        ("process = 1; drop", "'; drop' is not understood"),
        ("", "a column is expected where 'the end' stands"),
        ("(" * (DEPTH_MAX + 1), "brackets stand within each other"),
        ("process = 1" + " " * 9 + "or process = 1" * 1000, "characters"),
    ],
)
def test_what_is_wrong_with_a_condition_is_said(condition: str, said: str) -> None:
    """An unknown column names those that there are; a value of the wrong kind says which kind it must be."""
    with pytest.raises(ConditionError) as refused:
        where(OPERATIONS, condition)
    assert said in str(refused.value)


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
