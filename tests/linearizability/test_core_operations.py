"""The operations that a counterexample names contradict each other, and none of them can be left out."""

from __future__ import annotations

from collections import deque
from dataclasses import replace
from random import Random
from typing import Any

import pytest

from nemesis.linearizability import core_operations, evidence
from nemesis.linearizability.judgement import Budget, Counterexample
from nemesis.linearizability.kernel import judge
from nemesis.linearizability.model import relevant
from nemesis.linearizability.models.registry import load_model
from nemesis.linearizability.operations import Operation, Outcome
from nemesis.linearizability.orders import order_of
from nemesis.verdict import Verdict
from tests.linearizability.fuzz import outcomes_known
from tests.linearizability.oracle import linearizable
from tests.linearizability.recorded import Recorded, recorded
from tests.linearizability.test_recorded import needs_recordings
from tests.linearizability.written import sequence

BEFORE = "9 read; 9 ok; 8 write 70; 8 ok; 9 read; 9 ok 70; "
"""Operations that contradict nothing."""


def conviction(history: str, model: str) -> Counterexample:
    """Why a history that was written by hand is not linearizable."""
    (judgement,) = judge(sequence(history), load_model(model))
    assert judgement.verdict is Verdict.INVALID
    assert judgement.counterexample is not None
    return judgement.counterexample


@pytest.mark.parametrize(
    ("model", "history", "told"),
    [
        pytest.param(
            "register",
            BEFORE + "0 write 1; 0 ok; 0 write 2; 0 ok; 1 read; 1 ok 1; 0 write 3; 0 ok",
            ["write 1 ok", "write 2 ok", "read None ok"],
            id="stale-read",
        ),
        pytest.param(
            "register",
            BEFORE + "1 write 2; 0 read; 1 fail; 0 ok 2",
            ["write 2 fail", "read None ok"],
            id="read-of-what-failed",
        ),
        pytest.param(
            "register",
            BEFORE + "1 write 2; 0 read; 0 ok 2; 1 fail",
            ["write 2 fail", "read None ok"],
            id="read-of-what-fails-later",
        ),
        pytest.param(
            "register",
            BEFORE + "1 write 1; 2 write 2; 3 read; 3 ok 2; 3 read; 3 ok 1; 3 read; 3 ok 2",
            ["read None ok", "read None ok", "read None ok"],
            id="unknown-writes-explain-one-read-each",
        ),
        pytest.param(
            "queue",
            "0 enqueue 1; 0 ok; 0 enqueue 2; 0 ok; 3 enqueue 3; 3 ok; 1 dequeue; 1 ok 2; 2 dequeue; 2 ok 1",
            ["enqueue 1 ok", "dequeue None ok"],
            id="not-first-in-first-out",
        ),
        pytest.param(
            "set",
            "0 add 1; 0 ok; 0 add 2; 0 ok; 1 read; 1 ok (2,); 0 add 3; 0 ok",
            ["add 1 ok", "read None ok"],
            id="lost-element",
        ),
        pytest.param(
            "set",
            "0 add 1; 1 add 2; 2 read; 3 read; 2 ok (1,); 3 ok (2,); 0 ok; 1 ok",
            ["read None ok", "read None ok"],
            id="two-orders-of-adds",
        ),
        pytest.param(
            "set",
            "1 read; 0 add 1; 0 ok; 0 add 2; 0 ok; 1 ok (2,)",
            ["read None ok", "add 1 ok"],
            id="later-add-without-the-earlier",
        ),
        pytest.param(
            "lock",
            "0 acquire; 0 ok; 0 release; 0 ok; 1 acquire; 1 ok; 2 acquire; 2 ok",
            ["acquire None ok", "acquire None ok"],
            id="two-owners",
        ),
    ],
)
def test_what_contradicts_itself_is_told_and_nothing_else(model: str, history: str, told: list[str]) -> None:
    """Of all that went on, exactly the operations are named that have no order whatever became of the others."""
    example = conviction(history, model)
    assert [f"{op.f} {op.argument} {op.outcome}" for op in example.operations] == told
    assert example.is_minimal


def test_without_the_budget_for_it_nothing_is_called_minimal(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where too much would have to be decided, the conviction stands, and does not claim that nothing can go."""
    monkeypatch.setattr(core_operations, "WORK_MAX", 10)
    example = conviction(BEFORE + "0 write 1; 0 ok; 0 write 2; 0 ok; 1 read; 1 ok 1", "register")
    assert not example.is_minimal
    assert example.last in example.operations


@needs_recordings
@pytest.mark.parametrize("kind", ["adversarial", "etcd"])
def test_recorded_histories_are_convicted_by_what_contradicts_itself(kind: str) -> None:
    """By brute force: what is told of each recorded history that is wrong has no order, and needs all that is told."""
    examples = [(history, example) for history in recorded(kind) for example in _convictions(history)]
    assert len(examples) >= sum(not history.linearizable for history in recorded(kind))
    for history, example in examples:
        assert example.is_minimal, history.name
        assert not linearizable(example.operations, history.model, strict_cas=history.strict_cas), history.name
        for one in example.operations:
            assert _is_needed(one, example, history), f"{history.name}: line {one.line}"


def _convictions(history: Recorded) -> list[Counterexample]:
    options = {"failed_cas_is_read": True} if history.strict_cas else {}
    found = judge(history.operations(), load_model(history.model, **options))
    return [judgement.counterexample for judgement in found if judgement.counterexample is not None]


def _is_needed(one: Operation, example: Counterexample, history: Recorded) -> bool:
    """Whether there is an order once the outcome of ``one`` is forgotten, and that of all that is not told.

    It is looked for by one who knows the models, and replayed by one who does not.
    """
    end = example.last.returned
    assert end is not None
    known = {operation.invoked for operation in example.operations if operation is not one}
    rest = outcomes_known(known, [op for op in history.operations() if op.key == one.key], end)
    options = {"failed_cas_is_read": True} if history.strict_cas else {}
    model = load_model(history.model, **options)
    order = order_of(relevant(rest, model), model)
    if order is None:
        return False
    used = {step.operation.invoked for step in order}
    assert all(op.invoked in used for op in rest if op.outcome is Outcome.OK)
    return linearizable([op for op in rest if op.invoked in used], history.model, strict_cas=history.strict_cas)


def busy_history(model: str, operations: int, processes: int) -> list[Operation]:
    """A random history of a right object, but for one answer three quarters through that cannot have been."""
    random, events = Random(f"{model} {operations}"), []
    pending: dict[int, str] = {}
    queue: deque[int] = deque()
    total = begun = 0
    while begun < operations or pending:
        process = random.randrange(processes)
        if process not in pending and begun < operations:
            begun += 1
            grows = random.random() < 0.35
            pending[process] = {"queue": f"enqueue {begun}" if grows else "dequeue", "counter": "increment 1"}[model]
            events.append(f"{process} {pending[process]}")
        elif process in pending:
            asked = pending.pop(process)
            answer = ""
            if asked == "increment 1":
                total += begun != operations * 3 // 4
                answer = f" {total}"
            elif asked == "dequeue":
                answer = f" {queue.popleft()}" if queue else " None"
            else:
                queue.append(int(asked.removeprefix("enqueue ")))
            events.append(f"{process} ok{answer}")
    if model == "queue":
        events += ["0 enqueue 998", "0 ok", "0 enqueue 999", "0 ok", "1 dequeue", "1 ok 999"]
    return sequence("; ".join(events))


@pytest.mark.parametrize("model", ["queue", "counter"])
def test_looking_for_what_contradicts_itself_ends(model: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is forgotten makes a search harder: all questions share one small budget, and the conviction stands."""
    budgets: list[int] = []
    half = evidence._Questions._half

    def noted(self: evidence._Questions, left: int) -> Budget:
        budget = half(self, left)
        if left <= 2000:  # Not that of registers.
            budgets.append(budget.limit(0))
        return budget

    monkeypatch.setattr(evidence._Questions, "_half", noted)
    monkeypatch.setattr(evidence, "CORE_CONFIGURATIONS", 2000)
    history = busy_history(model, 100, {"queue": 5, "counter": 10}[model])
    (judgement,) = judge(history, load_model(model))
    assert judgement.verdict is Verdict.INVALID
    assert judgement.counterexample is not None
    assert judgement.counterexample.operations
    assert budgets[0] == 1000
    assert budgets == sorted(budgets, reverse=True)
    assert budgets[-1] < budgets[0]


def test_what_the_object_does_not_have_and_failed_changes_no_verdict() -> None:
    """A failed operation that the model does not know never happened: nobody asks whether it may have."""
    example = conviction("0 write 1; 0 ok; 2 frob 7; 2 fail; 0 write 2; 0 ok; 1 read; 1 ok 1", "register")
    assert [op.f for op in example.operations] == ["write", "write", "read"]
    assert example.is_minimal


def test_evidence_is_looked_for_in_so_many_objects_as_were_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of many objects that are wrong each has its verdict and a reason; only the shortest few have their evidence."""
    asked: list[int] = []
    core_of = core_operations.core_of

    def noted(*given: Any) -> core_operations.CoreOperations | None:
        asked.append(1)
        return core_of(*given)

    monkeypatch.setattr(evidence, "core_of", noted)
    wrong = "0 enqueue 1; 0 ok; 1 dequeue; 1 ok 2"
    histories = {key: sequence("9 dequeue; 9 ok None; " * (7 - key) + wrong) for key in range(7)}
    operations = [replace(op, key=key) for key, history in histories.items() for op in history]
    found = judge(operations, load_model("queue"), evidence_max=2)
    examples = {judgement.key: judgement.counterexample for judgement in found}
    assert [judgement.verdict for judgement in found] == [Verdict.INVALID] * 7
    assert len(asked) == 2
    assert [key for key, example in examples.items() if example and example.is_minimal] == [5, 6]
    assert all(example and example.operations and example.reason for example in examples.values())
