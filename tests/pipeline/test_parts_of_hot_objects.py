"""A part of a history convicts the whole exactly where the whole is wrong, and evidence names operations of it."""

from __future__ import annotations

from dataclasses import replace
from random import Random

import numpy as np
import pyarrow as pa
import pytest

from nemesis.linearizability.arrays.columns import NIL, Function
from nemesis.linearizability.arrays.judge import SEARCH_OPERATIONS_MAX
from nemesis.linearizability.judgement import Budget
from nemesis.linearizability.kernel import judge
from nemesis.linearizability.model import Model
from nemesis.linearizability.models.register import CasRegister, Register
from nemesis.linearizability.operations import Operation, Outcome
from nemesis.pipeline.corpora.bucket import Task, judge_bucket
from nemesis.pipeline.corpora.encoding import rows_of
from nemesis.pipeline.corpora.parts import convicted
from nemesis.pipeline.corpora.schemas import OPERATION_ROWS
from nemesis.verdict import Verdict
from tests.linearizability.histories import Shape, random_history
from tests.pipeline.stores import sequence


def by_part(history: list[Operation], model: Model, operations_max: int = 1_000) -> Verdict | None:
    """The verdict that a part of the history gives."""
    rows = rows_of([replace(op, key=0) for op in history], {0: 0})
    found = convicted(rows, model, NIL, Budget(), number=0, operations_max=operations_max)
    return None if found is None else found.verdict


@pytest.mark.slow
@pytest.mark.parametrize("name", ["register", "cas-register"])
@pytest.mark.parametrize("values", [0, 3])
def test_a_part_never_says_more_than_the_whole(name: str, values: int) -> None:
    """What a part convicts the search convicts as a whole; where values are written once, the reverse holds as well."""
    model: Model = Register() if name == "register" else CasRegister()
    found = 0
    for number in range(250):
        shape = Shape(operations=18, processes=4, values=values, unknown=0.1, failed=0.1, spoiled=0.4)
        history = random_history(name, Random(f"parts {number}"), shape)
        whole = [one.verdict for one in judge([replace(op, key=0) for op in history], model)]
        part = by_part(history, model)
        assert part is None or whole == [Verdict.INVALID], number
        assert values or (part is Verdict.INVALID) == (whole == [Verdict.INVALID]), number
        found += part is not None
    assert found > 20 or values


def _one_after_the_other(*steps: tuple[object, ...]) -> list[Operation]:
    """Operations of ``f, argument, result`` and, if it is not 0, the process; each begins after the one before it."""
    return [
        Operation(
            process=step[3] if len(step) > 3 else 0,
            f=str(step[0]),
            key=0,
            argument=step[1],
            result=step[2],
            outcome=Outcome.OK,
            invoked=2 * place,
            returned=2 * place + 1,
            line=place + 1,
        )
        for place, step in enumerate(steps)
    ]


REST = (("write", 6, None), ("read", None, 6), ("read", None, 6))
TOLD_AS_TEXT = {
    "a process that is a text": (Register(), ("write", 5, None, "a"), ("read", None, 5)),
    "a write of 1.0": (Register(), ("write", 1.0, None), ("read", None, 1)),
    "a write of True": (Register(), ("write", True, None), ("read", None, 1)),
    "a write with a result": (Register(), ("write", 5, "OK"), ("read", None, 5)),
    "a function of no register": (Register(), ("set", 5, None), ("read", None, 5)),
    "a cas on what has none": (Register(), ("write", 4, None), ("cas", (4, 5), None), ("read", None, 5)),
    "a cas from a text": (CasRegister(), ("write", "x", None), ("cas", ("x", 5), None), ("read", None, 5)),
    "a cas with a result": (CasRegister(), ("write", 4, None), ("cas", (4, 5), True), ("read", None, 5)),
}


@pytest.mark.parametrize(("model", "steps"), [(it[0], it[1:]) for it in TOLD_AS_TEXT.values()], ids=list(TOLD_AS_TEXT))
def test_what_stands_in_no_column_may_have_written_anything(
    model: Model, steps: tuple[tuple[object, ...], ...]
) -> None:
    """Beside an operation whose effect the columns do not tell, a read of a value without a write convicts nobody."""
    assert by_part(_one_after_the_other(*steps, *REST), model) is None


def test_the_part_is_small_and_is_of_the_history() -> None:
    """Of a long history the judged part is that of two values, so that it fits where the whole does not."""
    history = sequence(0, 4_000, spoiled=True)
    found = convicted(rows_of(history, {0: 0}), Register(), NIL, Budget(), number=0, operations_max=10)
    assert found is not None
    assert (found.operations, found.decided, found.verdict) == (4_000, 0, Verdict.INVALID)
    assert found.counterexample is not None
    lines = {op.line for op in history}
    assert {op.line for op in found.counterexample.operations} <= lines
    assert by_part(sequence(0, 4_000), Register()) is None


def test_a_part_that_is_too_large_proves_nothing() -> None:
    """Where the part would be more than fits, nothing is said."""
    history = sequence(0, 400, values=1, spoiled=True)
    assert by_part(history, Register(), operations_max=5) is None


def test_a_window_begins_with_its_value() -> None:
    """The value that a history begins with may be read, and none else that nobody wrote."""
    read = replace(sequence(0, 2)[1], argument=None, result=7)
    rows = rows_of([read], {0: 0})
    limits = {"number": 0, "operations_max": 9}
    assert convicted(rows, Register(), 7, Budget(), **limits) is None
    assert convicted(rows, Register(), 8, Budget(), **limits) is not None


@pytest.mark.slow
def test_an_object_of_half_a_million_is_convicted() -> None:
    """What is too large to be judged operation by operation is invalid, with evidence, where a part of it is wrong."""
    count = SEARCH_OPERATIONS_MAX + 10
    place = np.arange(count)
    is_read = place % 2 == 1
    result = np.where(place == count - 1, 5, place // 2)
    columns = {
        "object": np.zeros(count, np.int64),
        "process": np.zeros(count, np.int64),
        "line": place + 1,
        "function": np.where(is_read, Function.READ, Function.WRITE).astype(np.int8),
        "ending": np.zeros(count, np.int8),
        "argument": pa.array(place // 2, mask=is_read),
        "second": pa.nulls(count, pa.int64()),
        "result": pa.array(result, mask=~is_read),
        "invoked": 2 * place,
        "returned": 2 * place + 1,
        "records": pa.nulls(count, pa.list_(pa.int64())),
        "text": pa.nulls(count, pa.string()),
    }
    rows = pa.table(columns, schema=OPERATION_ROWS)

    [row] = judge_bucket(rows, Task(model=Register(), budget=Budget())).to_pylist()

    assert (row["verdict"], row["operations"], row["decided"]) == ("invalid", count, 0)
    assert {operation["line"] for operation in row["conflict"]} >= {11, count}
