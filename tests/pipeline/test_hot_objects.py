"""Objects with too many operations for one call: cut into windows or not, they get the verdict that they have whole."""

from __future__ import annotations

from pathlib import Path

import pytest

from nemesis.linearizability.judgement import KeyJudgement
from nemesis.linearizability.kernel import judge
from nemesis.linearizability.model import Model
from nemesis.linearizability.models.register import CasRegister, Register
from nemesis.linearizability.operations import Operation, Outcome, Value
from nemesis.pipeline.corpora.engine import judge_store
from nemesis.pipeline.corpora.plan import Sizes
from nemesis.verdict import Verdict
from tests.pipeline.stores import write_store

TINY = Sizes(bucket=4, hot=1, window=1, call=1_000)
"""Every object of two operations or more is hot, and is cut wherever that can be done."""

Step = tuple[str, Value, Value, Outcome, int, int]
OK, FAIL = Outcome.OK, Outcome.FAIL


def history(*steps: Step) -> list[Operation]:
    """Operations of one register, as (function, argument, result, outcome, invoked, returned)."""
    return [
        Operation(
            process=line,
            f=f,
            key=0,
            argument=argument,
            result=result,
            outcome=outcome,
            invoked=invoked,
            returned=returned,
            line=line,
        )
        for line, (f, argument, result, outcome, invoked, returned) in enumerate(steps, 1)
    ]


def verdicts(folder: Path, parts: list[list[Operation]], model: Model) -> list[str]:
    """The verdict on each of the histories, all of them hot."""
    results = judge_store(write_store(folder, parts), model, sizes=TINY, engine="local")
    found = {row["object"]: row["verdict"] for row in results.keys.to_pylist()}
    return [found[number] for number in range(len(parts))]


def whole(part: list[Operation], model: Model) -> str:
    """The verdict on the history in one piece."""
    judged: list[KeyJudgement] = judge(part, model)
    order = (Verdict.INVALID, Verdict.UNKNOWN, Verdict.VALID)
    return min((each.verdict for each in judged), key=order.index, default=Verdict.VALID).value


CASES: dict[str, tuple[Model, list[Operation]]] = {
    "a_text_is_written_where_it_may_be_cut": (
        CasRegister(),
        history(("write", 1, None, OK, 0, 1), ("write", "x", None, OK, 2, 3), ("read", None, "x", OK, 4, 5)),
    ),
    "the_number_before_a_text_is_stale": (
        CasRegister(),
        history(("write", 1, None, OK, 0, 1), ("write", "x", None, OK, 2, 3), ("read", None, 1, OK, 4, 5)),
    ),
    "a_failed_cas_of_texts_is_a_read": (
        CasRegister(),
        history(
            *(("write", 1, None, OK, 0, 1), ("cas", ("z", "y"), 2, FAIL, 2, 9)),
            *(("write", 2, None, OK, 4, 5), ("read", None, 2, OK, 10, 11)),
        ),
    ),
    "it_begins_with_a_text": (CasRegister("a"), history(("read", None, "a", OK, 0, 1), ("write", 1, None, OK, 2, 3))),
    "it_does_not_begin_with_nil": (
        CasRegister("a"),
        history(("read", None, None, OK, 0, 1), ("write", 1, None, OK, 2, 3)),
    ),
    "a_failed_cas_tells_a_plain_register_nothing": (
        Register(),
        history(
            *(("write", 1, None, OK, 0, 1), ("write", 1, None, OK, 2, 3)),
            *(("cas", (5, 6), 9, FAIL, 4, 5), ("read", None, 1, OK, 6, 7)),
        ),
    ),
}


@pytest.mark.parametrize(("model", "part"), CASES.values(), ids=CASES.keys())
def test_a_cut_is_made_where_the_value_is_known(model: Model, part: list[Operation], tmp_path: Path) -> None:
    """What stands in no column, and what a model does not know, tells no value to begin a window with."""
    assert verdicts(tmp_path, [part], model) == [whole(part, model)]
