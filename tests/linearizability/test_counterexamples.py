"""A counterexample ends with the first return that cannot be explained, or says that it may not; by every kernel."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import Any

import pytest

from nemesis.linearizability.accelerator import SWITCH
from nemesis.linearizability.arrays.judge import judge_columns
from nemesis.linearizability.counterexample import Contradiction, Cut, PrefixSearch, Silence, shortest
from nemesis.linearizability.judgement import Budget, Counterexample, KeyJudgement
from nemesis.linearizability.kernel import KERNELS, judge
from nemesis.linearizability.model import Model
from nemesis.linearizability.models.registry import load_model
from nemesis.linearizability.operations import Operation, Value
from nemesis.linearizability.violation import InapplicableError
from nemesis.verdict import Verdict
from tests.depth import seeds, times
from tests.linearizability.columns import columns
from tests.linearizability.fuzz import model_of
from tests.linearizability.histories import ASK, random_history, random_shape
from tests.linearizability.native import needs_compiler
from tests.linearizability.oracle import first_refuted, prefix, states
from tests.linearizability.runs import judge_by
from tests.linearizability.written import sequence

HISTORIES = 40
RETURNS = 40
BUDGETS = (1, 2, 4, 8, 16, 40, 100)
IN_COLUMNS = ("register", "cas-register", "cas-register-wild", "log", "log-unseen", "log-batches")
IN_C = ("register", "cas-register", "cas-register-wild", "kv-simple")


def wrong_histories(workload: str, count: int, kind: str) -> Iterator[tuple[str, list[Operation], bool, int]]:
    """Histories that are not linearizable: (name, history, strict, where the shortest prefix that is not ends)."""
    for number in seeds(count):
        name = f"{kind} {workload} {number}"
        random = Random(name)
        history = random_history(workload, random, random_shape(random))
        strict = random.random() < 0.3
        for part in model_of(workload, strict_cas=strict).partition(history).values():
            end = first_refuted(part, ASK[workload][0], strict_cas=strict)
            if end is not None:
                yield name, list(part), strict, end


def judgements(history: Sequence[Operation], model: Model, budget: Budget | None = None) -> Iterator[KeyJudgement]:
    """What each kernel says that can decide, and the choice of them."""
    yield from judge(history, model, budget)
    for kernel in KERNELS:
        try:
            yield judge_by(kernel, None, history, model, budget)
        except InapplicableError:
            continue


def evidence(judgement: KeyJudgement) -> Counterexample:
    """The counterexample, which must be there."""
    assert judgement.verdict is Verdict.INVALID
    assert judgement.counterexample is not None
    return judgement.counterexample


def unreachable(
    example: Counterexample, kernel: str, history: Sequence[Operation], workload: str, strict: bool
) -> list[Value]:
    """The states of a counterexample in which the object cannot have been just before its last return."""
    assert example.last.returned is not None
    model = ASK[workload][0]
    before = prefix(history, example.last.returned - 1)
    without = [op for op in before if op.invoked != example.last.invoked]
    possible = states(without, model, strict_cas=strict) or states(before, model, strict_cas=strict)
    if model == "kv" and kernel == "register-search":
        possible = [value for value, _ in possible]
    return [state for state in example.states if spelled(state, model) not in possible]


def spelled(state: Any, model: str) -> Any:
    """A model's state as the oracle has it."""
    match model:
        case "multi-register":
            return tuple(sorted(state))
        case _:
            return state


@pytest.mark.parametrize("workload", ASK)
def test_the_prefix_is_the_shortest_that_fails(workload: str) -> None:
    """Every kernel cuts where the oracle does, which tries all prefixes, and claims no doubt."""
    seen = 0
    for name, history, strict, end in wrong_histories(workload, HISTORIES, "shortest"):
        for judgement in judgements(history, model_of(workload, strict_cas=strict)):
            example = evidence(judgement)
            assert (example.last.returned, example.undecided) == (end, 0), f"{name} by {judgement.kernel}"
            assert example.last in example.operations
            assert "undecided" not in example.reason
            seen += 1
    assert seen >= times(HISTORIES) // 20


@pytest.mark.parametrize("workload", ASK)
def test_the_states_are_some_that_could_be(workload: str) -> None:
    """What is told of the object just before is so in some order of all that was over."""
    for name, history, strict, _ in wrong_histories(workload, HISTORIES, "states"):
        for judgement in judgements(history, model_of(workload, strict_cas=strict)):
            found = unreachable(evidence(judgement), judgement.kernel, history, workload, strict)
            assert found == [], f"{name} by {judgement.kernel}"


@pytest.mark.parametrize("workload", ASK)
def test_what_ran_out_is_told(workload: str) -> None:
    """However small the budget, no prefix is called the shortest that is not, and no doubt is left out."""
    for name, history, strict, end in wrong_histories(workload, HISTORIES, "budget"):
        ends = sorted(op.returned for op in history if op.returned is not None)
        for configurations in BUDGETS:
            budget = Budget(configurations=configurations, frontier=configurations)
            for judgement in judgements(history, model_of(workload, strict_cas=strict), budget):
                assert judgement.decided <= sum(other < end for other in ends), name
                if judgement.verdict is Verdict.UNKNOWN:
                    continue
                example = evidence(judgement)
                assert example.last.returned is not None
                assert end <= example.last.returned, f"{name} by {judgement.kernel} with {configurations}"
                missed = [other for other in ends if end <= other < example.last.returned]
                assert len(missed) <= example.undecided, f"{name} by {judgement.kernel} with {configurations}"
                assert ("undecided" in example.reason) is (example.undecided > 0)


@pytest.mark.parametrize("workload", IN_COLUMNS)
def test_columns_are_cut_alike(workload: str) -> None:
    """What is judged as columns has the shortest prefix as well."""
    found = [one for one in wrong_histories(workload, HISTORIES, "columns") if not one[2]]
    parts = [[replace(op, key=number) for op in history] for number, (_, history, _, _) in enumerate(found)]

    judged = judge_columns(columns(parts), load_model(ASK[workload][0]), Budget(), lambda number: parts[number])

    for number, (name, _, _, end) in enumerate(found):
        example = evidence(judged.told[number])
        assert (example.last.returned, example.undecided) == (end, 0), name


@needs_compiler
@pytest.mark.parametrize("workload", IN_C)
def test_the_search_in_c_cuts_alike(workload: str, library_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With the accelerator the prefix is the shortest, and the states could be, as they are without it."""
    monkeypatch.setenv(SWITCH, str(library_path))
    for name, history, strict, end in wrong_histories(workload, HISTORIES, "native"):
        model = model_of(workload, strict_cas=strict)
        (judgement,) = judge(history, model)
        example = evidence(judgement)
        assert (example.last.returned, example.undecided) == (end, 0), name
        assert unreachable(example, judgement.kernel, history, workload, strict) == [], name
        assert [judgement] == judge(history, model, accelerated=False)


def cut_by(said: Sequence[Silence | None]) -> tuple[Cut, list[int]]:
    """The cut of a history of one operation for each saying, None for wrong; and which prefixes were asked about."""
    history = sequence("; ".join("0 write 1; 0 ok" for _ in said))
    asked: list[int] = []

    def rule(end: int) -> Contradiction | Silence:
        asked.append(end // 2)
        return said[end // 2] or Contradiction(operations=(), reason=str(end // 2))

    return shortest(history, Contradiction(operations=(), reason="all"), rule), asked


@pytest.mark.parametrize("first", [0, 1, 20, RETURNS - 2, RETURNS - 1])
def test_where_all_is_decided_the_first_is_found(first: int) -> None:
    """One prefix is the shortest, wherever it ends, and no prefix is asked about twice."""
    cut, asked = cut_by([Silence.RIGHT] * first + [None] * (RETURNS - first))
    assert (cut.end // 2, cut.doubtful, cut.undecided) == (first, cut.end, 0)
    assert cut.found.reason in {str(first), "all"}
    assert len(asked) == len(set(asked)) <= 10


@pytest.mark.parametrize("doubts", [0.05, 0.3, 0.9])
def test_no_doubt_is_left_out(doubts: float) -> None:
    """Whatever is undecided, the cut is known to be wrong, and what ends before the doubtful return to be right."""
    for seed in range(100):
        random = Random(seed)
        first = random.randrange(RETURNS - 1)
        said = [
            Silence.UNDECIDED if random.random() < doubts else Silence.RIGHT if end < first else None
            for end in range(RETURNS - 1)
        ]

        cut, asked = cut_by([*said, None])

        end, doubtful = cut.end // 2, cut.doubtful // 2
        assert doubtful <= first <= end, seed
        assert [*said, None][end] is None, seed
        assert doubtful == 0 or said[doubtful - 1] is Silence.RIGHT, seed
        assert cut.undecided == end - doubtful, seed
        assert len(asked) == len(set(asked)), seed


@pytest.mark.parametrize(
    ("events", "expected"),
    [
        ("1 append (3, 4); 2 append (5, 6); 0 append 2; 0 ok 4; 1 ok; 2 ok", Silence.RIGHT),
        ("1 append (3, 4); 2 append (5, 6); 0 append 2; 0 ok 3; 1 ok; 2 ok", None),
    ],
)
def test_prefixes_that_are_searched_share_a_budget(events: str, expected: Silence | None) -> None:
    """With enough of it each is decided as it is; with less, nothing is said of those that come too late."""
    counts: Counter[Silence | None] = Counter()
    searched = PrefixSearch(load_model("log"), Budget())
    for configurations in range(200):
        searched = PrefixSearch(load_model("log"), Budget(configurations=configurations))
        said = [searched.said_of(sequence(events)) for _ in range(3)]
        counts.update(one if isinstance(one, Silence) else None for one in said)
        assert searched.visited <= configurations + 3
    assert set(counts) == {expected, Silence.UNDECIDED}
    assert searched.said_of(sequence(events)) is not Silence.UNDECIDED, "the greatest budget is enough"
