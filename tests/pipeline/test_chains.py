"""Hot objects that are judged window after window get the verdict and the evidence that they have in one piece."""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from nemesis.formats.edn_text import edn_text
from nemesis.linearizability.judgement import Budget
from nemesis.linearizability.models.counter import Counter as CounterModel
from nemesis.linearizability.models.fifo_queue import FifoQueue
from nemesis.linearizability.models.log import Log
from nemesis.linearizability.operations import Outcome, Value
from nemesis.pipeline.corpora.engine import judge_store
from nemesis.pipeline.corpora.plan import Sizes
from nemesis.verdict import Verdict
from tests.depth import is_night, times
from tests.linearizability.histories import ASK
from tests.pipeline.chains import KINDS, drawn, in_windows, model_of, overlapping, right, spoiled, verdict_of, whole
from tests.pipeline.stores import write_store

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

HISTORIES = times(30)
LOGS = times(6)
"""How many of them are logs, each of which takes fifty milliseconds."""
SIZES = Sizes(bucket=200, hot=100, window=40, call=1_000)
DOUBTS = ("undecided", "refute it as well")
ON_SPARK = KINDS if is_night() else ("log", "cas-register", "maximum")
"""One of each that is cut in a way of its own; the last has a model that workers know from this test alone."""


@pytest.mark.slow
@pytest.mark.parametrize("workload", sorted(ASK))
def test_windows_together_say_what_the_whole_says(workload: str) -> None:
    """Cut after every few operations, random histories get the same verdict and counterexample, and lose nothing."""
    model = model_of(workload)
    several: Counter[str] = Counter()
    for number in range(LOGS if "log" in workload else HISTORIES):
        history = drawn(workload, number)
        windows = in_windows(history, model, 1 + number % 3, batch=(1, 3, 1_000)[number % 3])
        verdict, judged = whole(history, model)
        assert verdict_of(windows) is verdict, number
        assert sum(row["operations"] for row in windows) == len(history), number
        several[verdict] += len(windows) > 1
        if verdict is Verdict.INVALID and len(judged) == 1:
            example = judged[0].counterexample
            (wrong,) = (row for row in windows if row["verdict"] == "invalid")
            assert example is not None
            assert wrong["last_line"] == example.last.line or any(doubt in wrong["reason"] for doubt in DOUBTS), number
    assert several[Verdict.VALID] > 0
    assert several[Verdict.INVALID] > 0


@pytest.mark.parametrize("kind", KINDS)
def test_a_fault_in_a_late_window_is_found_there(kind: str, tmp_path: Path) -> None:
    """A hot object of each kind is valid, and invalid with one wrong answer, at the operation that has it."""
    model, history = right(kind, 600)
    result = {"counter": 551, "cas-register": 550}.get(kind, 551)
    wrong = [replace(operation, key=1) for operation in spoiled(history, result)]
    if kind == "cas-register":
        wrong = [replace(op, argument=(-7, op.line)) if op.line == result + 1 else op for op in wrong]

    results = judge_store(write_store(tmp_path, [history, wrong]), model, sizes=SIZES, engine="local")

    good, bad = results.keys.sort_by("object").to_pylist()
    assert (good["verdict"], good["operations"], good["decided"]) == ("valid", 600, 600)
    assert (bad["verdict"], bad["operations"]) == ("invalid", 600)
    assert good["windows"] > 4
    (row,) = results.anomalies.to_pylist()
    assert row["window"] > 4
    assert row["last_line"] == result + 1
    assert result + 1 in {operation["line"] for operation in row["conflict"]}
    assert 540 <= bad["decided"] <= result


@pytest.mark.spark
@pytest.mark.timeout(600)
def test_spark_gives_the_same_rows(spark: SparkSession, tmp_path: Path) -> None:
    """Chains of windows on workers give the rows and the evidence that they give here."""
    for kind in ON_SPARK:
        model, history = right(kind, 500)
        parts = [history, [replace(operation, key=1) for operation in spoiled(history, 451)]]
        parts += [[replace(operation, key=2) for operation in history[:30]]]
        store = write_store(tmp_path / kind, parts)

        here = judge_store(store, model, sizes=SIZES, engine="local")
        there = judge_store(store, model, sizes=SIZES, spark=spark)

        assert there.keys.to_pylist() == here.keys.to_pylist()
        assert there.anomalies.to_pylist() == here.anomalies.to_pylist()
        assert max(here.keys.column("windows").to_pylist()) > 4


def test_an_unknown_operation_may_take_effect_in_any_later_window() -> None:
    """An add of unknown outcome explains a read many windows later, once and no more than once."""
    steps = [("add", 1, None)] * 20 + [("read", None, 20)] * 20 + [("read", None, 120)] * 20
    history = overlapping(steps)
    lost = replace(history[0], line=0, invoked=-5, argument=100, outcome=Outcome.INFO, returned=None)

    assert verdict_of(in_windows([lost, *history], CounterModel(), 3)) is Verdict.VALID
    assert verdict_of(in_windows(history, CounterModel(), 3)) is Verdict.INVALID
    twice = overlapping([*steps, *[("read", None, 220)] * 8])
    assert verdict_of(in_windows([lost, *twice], CounterModel(), 3)) is Verdict.INVALID


def test_all_states_are_carried() -> None:
    """Of two enqueues at once, either may come out first in a window far behind."""
    both = [replace(op, invoked=0, returned=5) for op in overlapping([("enqueue", 1, None), ("enqueue", 2, None)])]
    both[1] = replace(both[1], invoked=1, returned=6)
    rest = [("enqueue", 3 + k, None) for k in range(10)]
    for first in ((1, 2), (2, 1)):
        out = [("dequeue", None, value) for value in first]
        behind = [
            replace(op, line=op.line + 2, invoked=100 + 100 * k, returned=150 + 100 * k)
            for k, op in enumerate(overlapping([*rest, *out]))
        ]
        assert verdict_of(in_windows([*both, *behind], FifoQueue(), 2)) is Verdict.VALID


def test_what_cannot_be_carried_is_unknown() -> None:
    """A state that is too large ends the chain, as does a budget that is too small; nothing is lost from the count."""
    history = overlapping([("enqueue", k, None) for k in range(60)])
    windows = in_windows(history, FifoQueue(), 20, budget=Budget(configurations=50, frontier=10))
    assert verdict_of(windows) is Verdict.UNKNOWN
    assert sum(row["operations"] for row in windows) == 60


def test_a_log_is_not_cut_at_a_hole() -> None:
    """While nobody knows what stands at an offset there is no cut; beyond what a call takes the log is unknown."""
    steps = [("append", k, k + (k > 3)) for k in range(60)]
    history = overlapping(steps)
    lost = replace(history[0], line=0, invoked=-5, argument=99, outcome=Outcome.INFO, result=None, returned=None)
    windows = in_windows([lost, *history], Log(), 5)

    assert verdict_of(windows) is Verdict.VALID
    assert max(row["operations"] for row in windows) > 50
    assert verdict_of(in_windows([lost, *history], Log(), 5, most=30)) is Verdict.UNKNOWN
    assert verdict_of(in_windows(history, Log(), 5, most=30)) is Verdict.INVALID


def test_a_read_from_the_beginning_is_compared_with_what_is_known() -> None:
    """Records of windows long gone are still what every read must show."""
    steps = [("append", k, k) for k in range(50)]
    reasons = []
    for records, verdict in ((tuple(range(50)), Verdict.VALID), ((*range(20), 7, *range(21, 50)), Verdict.INVALID)):
        read = overlapping([*steps, ("fetch", (0, None), records)])
        read[-1] = replace(read[-1], invoked=1_000, returned=1_010)
        windows = in_windows(read, Log(), 5)
        assert verdict_of(windows) is verdict
        reasons.append(windows[-1]["reason"])
    assert reasons == [None, "offset 20 has 20 and 7"]


APPENDED = tuple(("append", (f"a{k}", f"b{k}") if k == 8 else k, k + (k > 8)) for k in range(20))
"""A log of numbers, and a batch of two texts at offset 8."""
LATE: dict[str, tuple[tuple[str, Value, Value], Verdict]] = {
    "acknowledged_as_a_pair": (("append", 30, (21, 30)), Verdict.VALID),
    "at_the_offset_from_the_window_on": (("append", 30, (1, 30)), Verdict.INVALID),
    "a_text": (("append", "x", 21), Verdict.VALID),
    "a_text_at_a_place_that_is_taken": (("append", "x", 20), Verdict.INVALID),
    "nil_behind_a_hole": (("append", None, 22), Verdict.INVALID),
    "a_batch_of_texts": (("append", ("x", None, "y"), (21, "x")), Verdict.VALID),
    "a_number_that_no_column_holds": (("append", -(2**63), 21), Verdict.VALID),
    "the_texts_are_read": (("fetch", (7, 4), (7, "a8", "b8", 9)), Verdict.VALID),
    "other_texts_are_read": (("fetch", (7, 4), (7, "b8", "a8", 9)), Verdict.INVALID),
    "a_part_of_the_batch": (("fetch", (9, 1), ("b8",)), Verdict.VALID),
    "too_little": (("fetch", (7, None), (7, "a8", "b8")), Verdict.INVALID),
    "whole_numbers_with_fractions": (("fetch", (3, 2), (3.0, 4.0)), Verdict.VALID),
    "too_little_but_stale": (("fetch", (7, None, True), (7, "a8", "b8")), Verdict.VALID),
    "behind_the_end": (("fetch", (2**70, None), ()), Verdict.VALID),
    "from_before_the_beginning": (("fetch", (-1, None), (19,)), Verdict.UNKNOWN),
}


@pytest.mark.parametrize(("last", "verdict"), LATE.values(), ids=LATE)
@pytest.mark.parametrize("process", [0, "a word"])
def test_a_late_operation_on_a_log_means_what_it_means_whole(
    last: tuple[str, Value, Value], verdict: Verdict, process: Hashable
) -> None:
    """However it was recorded, an operation behind known records stands where it says, and shows what it shows."""
    history = [replace(op, invoked=20 * place) for place, op in enumerate(overlapping([*APPENDED, last]))]
    history = [replace(op, returned=op.invoked + 10) for op in history]
    history[-1] = replace(history[-1], process=process)
    windows = in_windows(history, Log(), 3)

    assert len(windows) > 4
    assert verdict_of(windows) is verdict is whole(history, Log())[0]
    if verdict is Verdict.INVALID:
        assert windows[-1]["last_line"] == 21
        assert windows[-1]["conflict"][-1]["process"] == edn_text(process)


def test_what_is_known_of_a_log_is_told_as_it_was_recorded() -> None:
    """The evidence has the texts, not what stands for them."""
    history = overlapping([*APPENDED, ("fetch", (7, 4), (7, "b8", "a8", 9))])
    history[-1] = replace(history[-1], invoked=1_000, returned=1_010)
    (wrong,) = (row for row in in_windows(history, Log(), 3) if row["verdict"] == "invalid")
    assert wrong["reason"] == "offset 8 has 'a8' and 'b8'"


def test_a_log_is_not_cut_while_two_appends_may_have_put_a_record() -> None:
    """Of a record that a batch and a single append of unknown outcome put, nobody knows whose is shown first."""
    steps: list[tuple[str, Value, Value]] = [("append", (0, 1, 2), None), ("append", 1, None)]
    steps += [("fetch", (0, None), (0, 1, 2)), *(("append", 3 + k, 3 + k) for k in range(5)), ("fetch", (8, 1), (1,))]
    history = [replace(op, invoked=20 * place, returned=20 * place + 10) for place, op in enumerate(overlapping(steps))]
    history[:2] = [replace(op, outcome=Outcome.INFO, returned=None) for op in history[:2]]

    assert whole(history, Log())[0] is Verdict.VALID
    assert verdict_of(in_windows(history, Log(), 3)) is Verdict.VALID


def test_a_text_that_was_not_appended_does_not_matter() -> None:
    """An append that failed is behind its window, whatever it would have put."""
    history = overlapping([*APPENDED, ("append", 30, 21)])
    history.insert(5, replace(history[5], line=99, argument="x", result=None, outcome=Outcome.FAIL, process="word"))
    history.insert(12, replace(history[12], line=98, argument="y", result=None, outcome=Outcome.FAIL))
    assert verdict_of(in_windows(history, Log(), 3)) is Verdict.VALID
