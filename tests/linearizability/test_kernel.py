"""The judgement: who decides, what is said of what was not decided, and the evidence."""

from __future__ import annotations

from random import Random

import pytest

from nemesis.linearizability.judgement import Budget
from nemesis.linearizability.kernel import judge
from nemesis.linearizability.model import Model, Refusal
from nemesis.linearizability.models.registry import load_model
from nemesis.linearizability.operations import Operation, Value
from nemesis.verdict import Verdict
from tests.linearizability.histories import Shape, random_history
from tests.linearizability.written import sequence

SMALL = Budget(configurations=3, frontier=3)


class Broken(Model):
    """A model that cannot do what it says."""

    name = "broken"

    def initial(self) -> Value:
        """Nothing."""
        return None

    def step(self, state: Value, operation: Operation) -> Value | Refusal:
        """Never returns."""
        raise ZeroDivisionError("no such step")


@pytest.mark.parametrize(
    ("model", "events", "kernel"),
    [
        ("register", "0 write 1; 0 ok; 0 write 2; 0 ok", "zones"),
        ("register", "0 write 1; 0 ok; 0 write 1; 0 ok", "register-search"),
        ("kv", "0 put 1; 0 ok; 0 delete; 0 ok", "register-search"),
        ("kv", "0 put 1; 0 ok; 0 get-versioned; 0 ok (1, 1)", "search"),
        ("log", "0 append 1; 0 ok 0", "logs"),
        ("log", "0 append 1; 0 ok 0; 0 append 1; 0 ok 1", "search"),
        ("list", "0 append 1; 0 ok; 0 read; 0 ok (1,)", "lists"),
        ("set", "0 add 1; 0 ok; 1 add 2; 0 read; 0 ok (2, 1)", "sets"),
        ("set", "0 add 1; 0 ok; 0 add 1; 0 ok; 0 read; 0 ok (1,)", "search"),
        ("queue", "0 enqueue 1; 0 ok", "search"),
    ],
)
def test_the_fastest_kernel_that_can_decides(model: str, events: str, kernel: str) -> None:
    """What a history is like chooses who judges it."""
    (judgement,) = judge(sequence(events), load_model(model))
    assert (judgement.kernel, judgement.verdict) == (kernel, Verdict.VALID)


def test_a_crash_is_unknown_and_stops_no_other_key() -> None:
    """A model that raises convicts nobody and acquits nobody."""
    (judgement,) = judge(sequence("0 write 1; 0 ok"), Broken())
    assert judgement.verdict is Verdict.UNKNOWN
    assert judgement.reason == "ZeroDivisionError in search: no such step"


def test_an_operation_that_the_model_lacks_is_unknown() -> None:
    """A history of another object is not judged, and the reason names the line."""
    (judgement,) = judge(sequence("0 enqueue 1; 0 ok"), load_model("register"))
    assert judgement.verdict is Verdict.UNKNOWN
    assert judgement.reason is not None
    assert "line 1" in judgement.reason


@pytest.mark.parametrize("model", ["cas-register", "queue"])
def test_a_budget_that_runs_out_is_unknown(model: str) -> None:
    """A search that may not go on says how far it came, and never that the rest is right."""
    random = Random(5)
    shape = Shape(operations=60, processes=6, values=2, unknown=0.1, failed=0, spoiled=0)
    (judgement,) = judge(random_history(model, random, shape), load_model(model), SMALL)
    assert judgement.verdict is Verdict.UNKNOWN
    assert judgement.counterexample is None
    assert judgement.reason is not None
    assert "3 configurations" in judgement.reason
    assert judgement.decided < judgement.operations


@pytest.mark.parametrize(
    ("model", "before", "last", "after", "states"),
    [
        ("register", "0 write 1; 0 ok; 0 write 1; 0 ok; 1 write 2; ", "2 read; 2 ok 3; ", "3 read; 3 ok 4", {1, 2}),
        ("register", "0 write 1; 0 ok; 0 write 2; 0 ok; ", "2 read; 2 ok 1; ", "2 read; 2 ok 2", {2}),
        ("queue", "0 enqueue 1; 0 ok; 1 enqueue 2; ", "2 dequeue; 2 ok 2; ", "1 ok", {(1,), (1, 2)}),
        ("log", "0 append 1; 0 ok 0; ", "2 fetch (0, 9); 2 ok (); ", "0 append 2; 0 ok 1", {(1,)}),
        ("list", "0 append 1; 0 ok; ", "2 read; 2 ok (); ", "0 append 2; 0 ok", {(1,)}),
        ("set", "0 add 1; 0 ok; ", "2 read; 2 ok (); ", "0 add 2; 0 ok", {frozenset({1})}),
    ],
)
def test_a_counterexample_ends_with_the_first_return_that_cannot_be(
    model: str, before: str, last: str, after: str, states: set[Value]
) -> None:
    """What came later is left out; what the object could be just before is told."""
    (judgement,) = judge(sequence(before + last + after), load_model(model))
    example = judgement.counterexample
    assert example is not None
    assert example.last.process == "2"
    assert set(example.states) == states
    assert example.last in example.operations
    assert all(operation.invoked < len((before + last).split(";")) for operation in example.operations)
    assert judgement.decided == before.count("ok")


def test_what_the_servers_know_proves_a_history() -> None:
    """An order that explains everything is a proof; one that does not is put aside."""
    history = sequence("0 write 1; 1 write 2; 0 ok; 1 ok; 2 read; 2 ok 1; 3 write 3")
    model = load_model("register")
    lines = {operation.process: operation.line for operation in history}
    order = {lines["1"]: 0, lines["0"]: 1, lines["2"]: 1}
    assert judge(history, model, witness=order)[0].kernel == "witness"
    for wrong in ({**order, lines["1"]: 2}, {**order, lines["2"]: 0}, {lines["1"]: 0}):
        (judgement,) = judge(history, model, witness=wrong)
        assert (judgement.kernel, judgement.verdict) == ("zones", Verdict.VALID)


def test_a_witness_that_turns_time_back_proves_nothing() -> None:
    """An order in which what was over comes behind what had not begun is no order of this history."""
    history = sequence("0 write 1; 0 ok; 0 write 2; 0 ok; 0 read; 0 ok 1")
    order = {operation.line: index for operation, index in zip(history, (1, 0, 1), strict=True)}
    (judgement,) = judge(history, load_model("register"), witness=order)
    assert (judgement.kernel, judgement.verdict) == ("zones", Verdict.INVALID)
