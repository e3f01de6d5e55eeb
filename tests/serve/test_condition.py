"""A condition picks the operations for which it holds, and says what is wrong with it where it cannot be understood."""

from __future__ import annotations

import pyarrow as pa
import pytest

from nemesis.history.operations import OPERATIONS_SCHEMA
from nemesis.serve.condition import ConditionError, where

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
        ("topic_partition = 'a-0' and type = 'ok' and f = 'append' -- and whatever else", [0]),
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
    assert where(OPERATIONS, condition).column("index").to_pylist() == found


@pytest.mark.parametrize(
    ("condition", "said"),
    [
        ("proces = 1", "proces"),
        ("1 = 1); select row from (select 1 as row) where (1 = 1", "one statement"),
        ("(" * 200 + "process = 1" + ")" * 200, "brackets"),
        ("offset = 1", "offset"),
        ("process = 'x'", "'x'"),
        ("outcome = 5", "'ok' to INT32"),
        ('key = "a-0"', "a-0"),
        ("process = 1 value = 2", "value"),
        ("process = 1; drop table operations", ";"),
        ("key in (select content from read_text('/etc/hostname'))", "disabled"),
        ("", "BOOLEAN"),
    ],
)
def test_what_is_wrong_with_a_condition_is_said(condition: str, said: str) -> None:
    """Whatever is no condition is refused with a reason and the names of the columns, and nothing else can be read.

    One of the columns has a name that stands in double quotes.
    """
    with pytest.raises(ConditionError) as refused:
        where(OPERATIONS, condition)
    assert said in str(refused.value).partition("; the columns are index, time, duration_ms")[0]
    assert "; the columns are index, time, duration_ms" in str(refused.value)
    assert ', "offset", ' in str(refused.value)
