"""Hot objects of every kind for the tests: judged window after window, or in one piece."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from random import Random
from typing import Any, ClassVar

import pyarrow as pa

from nemesis.linearizability.judgement import Budget, KeyJudgement
from nemesis.linearizability.kernel import judge
from nemesis.linearizability.model import REFUSED, Model, Refusal
from nemesis.linearizability.models.registry import load_model
from nemesis.linearizability.operations import Operation, Outcome, Value
from nemesis.pipeline.corpora.bucket import Task
from nemesis.pipeline.corpora.encoding import rows_of
from nemesis.pipeline.corpora.hot import judge_chains
from nemesis.verdict import Verdict
from tests.linearizability.histories import ASK, Shape, random_history, random_shape

WORST = (Verdict.INVALID, Verdict.UNKNOWN, Verdict.VALID)


class Maximum(Model):
    """A user's model: a number that only rises, and tells at each offer what it was before."""

    name: ClassVar[str] = "maximum"

    def initial(self) -> Value:
        """Zero."""
        return 0

    def step(self, state: Value, operation: Operation) -> Value | Refusal:
        """The greater one."""
        assert isinstance(state, int)
        assert isinstance(operation.argument, int)
        if operation.outcome is Outcome.OK and operation.result != state:
            return REFUSED
        return max(state, operation.argument)


def in_windows(
    history: Sequence[Operation],
    model: Model,
    window: int,
    *,
    batch: int = 1_000,
    budget: Budget | None = None,
    most: int = 2_000_000,
) -> list[dict[str, Any]]:
    """The judgements of the windows of one object; ``window`` says how small they may be."""
    keys = {operation.key: 0 for operation in history}
    rows = rows_of(history, keys).sort_by([("invoked", "ascending"), ("line", "ascending")]).combine_chunks()
    task = Task(model=model, budget=budget or Budget(), call_operations_max=most)
    judged = pa.concat_tables(judge_chains(rows.to_batches(max_chunksize=batch), task, window))
    found: list[dict[str, Any]] = judged.to_pylist()
    return found


def verdict_of(windows: Sequence[dict[str, Any]]) -> Verdict:
    """The verdict on the object."""
    return min((Verdict(row["verdict"]) for row in windows), key=WORST.index)


def whole(history: Sequence[Operation], model: Model) -> tuple[Verdict, list[KeyJudgement]]:
    """The verdict on the history in one piece, and the judgements of what the model takes it apart into."""
    judged = judge(history, model)
    return min((each.verdict for each in judged), key=WORST.index, default=Verdict.VALID), judged


def drawn(workload: str, number: int) -> list[Operation]:
    """A random history: small and tangled, or longer."""
    random = Random(f"chain {workload} {number}")
    if random.random() < 0.5:
        return random_history(workload, random, random_shape(random))
    shape = Shape(
        operations=random.randint(8, 30),
        processes=random.randint(1, 5),
        values=random.choice((0, 0, 2, 3)),
        unknown=random.choice((0, 0, 0.05, 0.15)),
        failed=random.choice((0, 0.1)),
        spoiled=random.choice((0, 1)),
        begin=random.choice((0.2, 0.4, 0.6)),
    )
    return random_history(workload, random, shape)


def model_of(workload: str) -> Model:
    """The model of a workload's objects."""
    return load_model(ASK[workload][0])


def overlapping(steps: Sequence[tuple[str, Value, Value]], number: int = 0) -> list[Operation]:
    """Operations of ``f, argument, result`` that take effect in this order, each beside three others."""
    return [
        Operation(
            process=place % 4,
            f=f,
            key=number,
            argument=argument,
            result=result,
            outcome=Outcome.OK,
            invoked=10 * place,
            returned=10 * place + 35,
            line=place + 1,
        )
        for place, (f, argument, result) in enumerate(steps)
    ]


def spoiled(history: Sequence[Operation], place: int) -> list[Operation]:
    """The history, but for one answer."""
    found = list(history)
    wrong = (-7,) if found[place].f == "fetch" else -7
    found[place] = replace(found[place], result=wrong)
    return found


def _steps(kind: str, count: int) -> list[tuple[str, Value, Value]]:
    match kind:
        case "queue":
            pairs = [[("enqueue", k, None), ("dequeue", None, k)] for k in range(count // 2)]
            return [step for pair in pairs for step in pair]
        case "counter":
            return [("increment", 1, k + 1) for k in range(count)]
        case "cas-register":
            return [("cas", (k or "", k + 1), None) for k in range(count)]
        case "maximum":
            return [("offer", k + 1, k) for k in range(count)]
        case _:
            return [
                ("append", k // 2, k // 2) if k % 2 == 0 else ("fetch", (k // 2, 1), (k // 2,)) for k in range(count)
            ]


def right(kind: str, count: int, number: int = 0) -> tuple[Model, list[Operation]]:
    """A model and a right history of ``count`` operations."""
    history = overlapping(_steps(kind, count), number)
    if kind == "cas-register":
        return load_model(kind, initial=""), history
    return Maximum() if kind == "maximum" else load_model(kind), history


KINDS = ("log", "queue", "counter", "cas-register", "maximum")
