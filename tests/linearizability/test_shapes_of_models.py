"""The models: values of the wrong shape are no operations of theirs, and no evidence either."""

from __future__ import annotations

from dataclasses import replace

import pytest

from nemesis.linearizability.kernel import judge
from nemesis.linearizability.model import Model, ModelError
from nemesis.linearizability.models.registry import load_model
from nemesis.linearizability.operations import Operation, Outcome
from nemesis.verdict import Verdict
from tests.linearizability.written import sequence

VALID, INVALID = Verdict.VALID, Verdict.INVALID


def take(model: Model, operation: Operation) -> None:
    """Show one operation to a model, or what its failure proves."""
    shown = model.evidence(operation) if operation.outcome is Outcome.FAIL else operation
    if shown is not None:
        model.step(model.initial(), shown)


@pytest.mark.parametrize(
    ("name", "events"),
    [
        ("cas-register", "0 cas (1, 2); 0 ok False"),
        ("kv", "0 cas (1, 2); 0 ok False"),
        ("kv", "0 cas-version (0, 2); 0 ok False"),
        ("kv", "0 cas-version (7, 'b'); 0 fail 'a'"),
        ("kv", "0 cas-version (7, 'b'); 0 fail ('a', 'b')"),
        ("kv", "0 get-versioned; 0 ok 'a'"),
        ("kv", "0 increment 'a'; 0 ok 1"),
        ("kv", "0 increment 1; 0 ok 'a'"),
        ("counter", "0 increment 1; 0 ok 'a'"),
        ("counter", "0 read; 0 ok 'a'"),
        ("queue", "0 enqueue None; 0 ok"),
        ("queue", "0 enqueue None; 0 info"),
        ("set", "0 read; 0 ok 'ab'"),
        ("set", "0 read; 0 ok 5"),
        ("log", "0 append 1; 0 ok 'a'"),
        ("log", "0 append ((1, 2), 3); 0 ok 0"),
        ("log", "0 fetch (0, 10); 0 ok ((1, 2),)"),
        ("log", "0 fetch (0, 10, 'no'); 0 ok ()"),
        ("log", "0 fetch (-1, 10); 0 ok ()"),
        ("log", "0 fetch (0, -1); 0 ok ()"),
        ("multi-register", "0 txn (('w', 'x', 1),); 0 ok ()"),
        ("multi-register", "0 txn (('w', 'x', 1),); 0 ok (('w', 'x', 2),)"),
        ("multi-register", "0 txn (('r', 'x', None),); 0 ok (('r', 'y', None),)"),
        ("multi-register", "0 txn (('r', 'x', None),); 0 ok (('w', 'x', None),)"),
    ],
)
def test_a_value_of_the_wrong_shape_is_not_judged(name: str, events: str) -> None:
    """What no client of the object can have been asked or told is an error of the history, with its line."""
    (operation,) = sequence(events)

    with pytest.raises(ModelError, match="line 1: "):
        take(load_model(name), operation)


@pytest.mark.parametrize(
    ("name", "events", "expected"),
    [
        ("cas-register", "0 write 1; 0 ok; 0 cas (1, 2); 0 ok True", VALID),
        ("kv", "0 get-versioned; 0 ok", VALID),
        ("kv", "0 put 1; 0 ok; 0 get-versioned; 0 ok", INVALID),
        ("kv", "0 put 'x'; 1 increment 1; 1 ok 1; 0 ok", VALID),
        ("kv", "0 put 'x'; 0 ok; 1 increment 1; 1 ok 1", INVALID),
        ("kv", "0 put 3.0; 0 ok; 1 increment 2; 1 ok 5", VALID),
        ("kv", "0 put 'x'; 0 ok; 1 increment 1; 1 info; 0 get; 0 ok 'x'", VALID),
        ("kv", "0 put 'a'; 0 ok; 0 cas-version (7, 'b'); 0 fail ('a', 1)", VALID),
        ("set", "0 add 'a'; 0 ok; 0 read; 0 ok ('a',)", VALID),
        ("log", "0 append 7; 0 ok 0; 1 fetch (0, 10, False); 1 ok ()", INVALID),
        ("log", "0 append (1, 2); 0 ok 0; 1 fetch (0, 10); 1 ok (1, 2)", VALID),
    ],
)
def test_values_of_the_right_shape_are_judged(name: str, events: str, expected: Verdict) -> None:
    """What stands next to a wrong shape, and is right, has its verdict."""
    (judgement,) = judge(sequence(events), load_model(name))

    assert judgement.verdict is expected, judgement


def test_lines_may_repeat() -> None:
    """States of a counterexample are told though every operation claims the same line, as several files may."""
    history = [replace(operation, line=1) for operation in sequence("0 enqueue 1; 0 ok; 1 dequeue; 1 ok 2")]

    (judgement,) = judge(history, load_model("queue"))

    assert judgement.counterexample is not None
    assert judgement.counterexample.states == ((1,),)
