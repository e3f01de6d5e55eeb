"""Kernels on columns decide what the kernels of single objects decide, and as they do."""

from __future__ import annotations

from collections import Counter
from random import Random
from typing import Any

import numpy as np
import pytest

from nemesis.linearizability.arrays import logs, registers
from nemesis.linearizability.arrays.columns import NEVER, NIL, Columns, Decision, Ending, Function
from nemesis.linearizability.arrays.judge import judge_columns
from nemesis.linearizability.judgement import Budget
from nemesis.linearizability.kernel import judge
from nemesis.linearizability.models.registry import load_model
from tests.linearizability.columns import columns, decision, histories
from tests.linearizability.oracle import linearizable

ENDINGS = (Ending.OK, Ending.OK, Ending.OK, Ending.FAIL, Ending.INFO)
REGISTERS = [
    ("register", False),
    ("cas-register", False),
    ("cas-register", True),
    ("cas-register-wild", False),
]


@pytest.mark.parametrize(("workload", "strict"), REGISTERS)
def test_registers_are_decided_alike(workload: str, strict: bool) -> None:
    """Whether decided, right or wrong: each register as the kernel that knows one register says."""
    name = workload.removesuffix("-wild")
    model = load_model(name, **({"failed_cas_is_read": True} if strict else {}))
    parts = histories(workload, 500, 1, unique=True)
    initial = np.full(len(parts), NIL)

    found = registers.decide(columns(parts), initial, has_cas=name == "cas-register", misses_tell=strict).decisions

    expected = [decision("zones", number, part, model) for number, part in enumerate(parts)]
    assert found.tolist() == expected
    assert len(Counter(expected)) == 3


@pytest.mark.parametrize("workload", ["log", "log-unseen", "log-batches"])
def test_logs_are_decided_alike(workload: str) -> None:
    """What is decided of logs is as the kernel of one log says; the rest is left to that kernel."""
    model = load_model("log")
    parts = histories(workload, 500, 2, unique=False)

    found = logs.decide(columns(parts)).decisions.tolist()

    expected = [decision("logs", number, part, model) for number, part in enumerate(parts)]
    assert [d for d, e in zip(found, expected, strict=True) if d not in (e, Decision.UNDECIDED)] == []
    assert {Decision.VALID, Decision.VIOLATED} <= set(found)
    assert workload != "log" or found.count(Decision.UNDECIDED) <= expected.count(Decision.UNDECIDED) + 60


@pytest.mark.parametrize(("workload", "kernel"), [("cas-register", "zones"), ("log", "logs")])
def test_the_oracle_agrees(workload: str, kernel: str) -> None:
    """What columns prove right or wrong is so, by a judge that tries every order."""
    parts = histories(workload, 400, 3, unique=True, large=False)
    initial = np.full(len(parts), NIL)
    numbered = columns(parts)

    decided = registers.decide(numbered, initial) if kernel == "zones" else logs.decide(numbered)

    for number, part in enumerate(parts):
        if decided.decisions[number] != Decision.UNDECIDED:
            assert (decided.decisions[number] == Decision.VALID) == linearizable(part, workload, strict_cas=False)


@pytest.mark.parametrize("workload", ["cas-register", "log-batches", "kv-simple"])
def test_all_is_judged_alike(workload: str) -> None:
    """Whatever columns cannot prove is judged alone: verdicts and evidence are those of single objects."""
    model = load_model("kv" if workload == "kv-simple" else workload.removesuffix("-batches"))
    parts = histories(workload, 150, 4, unique=True, large=False)

    judged = judge_columns(columns(parts), model, Budget(), lambda number: parts[number])

    for number, part in enumerate(parts):
        (expected,) = judge(part, model)
        found = judged.told.get(number)
        if found is None:
            assert (expected.verdict.value, expected.operations) == ("valid", judged.operations[number])
        else:
            assert (found.verdict, found.kernel, found.counterexample, found.decided, found.configurations) == (
                *(expected.verdict, expected.kernel, expected.counterexample, expected.decided),
                expected.configurations,
            )


R, W, C = Function.READ, Function.WRITE, Function.CAS
OK, INFO = Ending.OK, Ending.INFO
CASES = {
    "two concurrent swaps of one value": [
        (W, OK, 1, NIL, NIL, 0, 1),
        (C, OK, 1, 2, NIL, 2, 9),
        (C, OK, 1, 3, NIL, 3, 8),
    ],
    "swaps in a circle": [(C, OK, 1, 2, NIL, 0, 9), (C, OK, 2, 1, NIL, 1, 8)],
    "a swap of what nobody wrote": [(C, OK, 1, 2, NIL, 0, 9)],
    "a read of what nobody wrote": [(R, OK, NIL, NIL, 7, 0, 9)],
    "a read before its write": [(R, OK, NIL, NIL, 1, 0, 1), (W, OK, 1, NIL, NIL, 2, 3)],
    "nil after a write": [(W, OK, 1, NIL, NIL, 0, 1), (R, OK, NIL, NIL, NIL, 2, 3)],
    "a swap of nil after a write": [(W, OK, 1, NIL, NIL, 0, 1), (C, OK, NIL, 2, NIL, 2, 3)],
    "a value that comes back": [
        *((W, OK, value, NIL, NIL, value, 90) for value in (1, 2)),
        *((R, OK, NIL, NIL, value, 100 + 2 * at, 101 + 2 * at) for at, value in enumerate((1, 2, 1))),
    ],
    "a swap of an unknown write's value, that was read before": [
        (W, INFO, 1, NIL, NIL, 10, NEVER),
        (C, OK, 1, 2, NIL, 4, 5),
    ],
}


@pytest.mark.parametrize("name", CASES)
def test_each_rule_convicts(name: str) -> None:
    """A history that breaks one rule only is wrong."""
    operations = CASES[name]
    columns_ = {
        field: np.array([operation[place] for operation in operations])
        for place, field in enumerate(("function", "ending", "argument", "second", "result", "invoked", "returned"))
    }
    whole = Columns(objects=1, object=np.zeros(len(operations), dtype=np.int64), **columns_)

    assert registers.decide(whole, np.full(1, NIL)).decisions.tolist() == [Decision.VIOLATED]


def test_nothing_is_right() -> None:
    """No operations at all contradict nothing."""
    assert registers.decide(columns([[]]), np.full(1, NIL)).decisions.tolist() == [Decision.VALID]
    assert logs.decide(columns([[]])).decisions.tolist() == [Decision.VALID]


def test_times_may_be_huge_and_far_apart() -> None:
    """Times near the end of 64 bits, and many objects, give what small times give: no key overflows."""
    parts = histories("cas-register", 300, 5, unique=True)
    small = columns(parts)
    span = 2**63 - 2
    largest = int(max(small.invoked.max(), small.returned[small.ending != Ending.INFO].max()))
    huge = Columns(
        objects=small.objects,
        object=small.object,
        function=small.function,
        ending=small.ending,
        argument=small.argument,
        second=small.second,
        result=small.result,
        invoked=small.invoked * (span // largest),
        returned=np.where(small.ending == Ending.INFO, small.returned, small.returned % 2**32 * (span // largest)),
    )
    initial = np.full(small.objects, NIL)

    found = registers.decide(huge, initial).decisions.tolist()

    assert found == registers.decide(small, initial).decisions.tolist()
    assert len(set(found)) == 3


def test_values_may_be_huge_and_far_apart() -> None:
    """Values at both ends of 64 bits give what small values give."""
    parts = histories("cas-register", 300, 6, unique=True)
    small = columns(parts)
    stretched = {
        name: np.where(column == NIL, NIL, column * (2**62 // 1_000) - 2**62)
        for name, column in (("argument", small.argument), ("second", small.second), ("result", small.result))
    }
    huge = Columns(
        objects=small.objects,
        object=small.object,
        function=small.function,
        ending=small.ending,
        invoked=small.invoked,
        returned=small.returned,
        **stretched,
    )
    initial = np.full(small.objects, NIL)

    found = registers.decide(huge, initial).decisions.tolist()

    assert found == registers.decide(small, initial).decisions.tolist()


def test_a_long_line_of_unknown_swaps_is_left_to_others() -> None:
    """Where each of thousands of unknown compare-and-sets is known by the next one only, another kernel decides."""
    length = 3_000
    function = np.full(length + 1, Function.CAS, dtype=np.int8)
    function[-1] = Function.READ
    ending = np.full(length + 1, Ending.INFO, dtype=np.int8)
    ending[-1] = Ending.OK
    places = np.arange(length + 1)
    line = Columns(
        objects=1,
        object=np.zeros(length + 1, dtype=np.int64),
        function=function,
        ending=ending,
        argument=places,
        second=places + 1,
        result=np.where(places == length, length, NIL),
        invoked=2 * places,
        returned=np.where(places == length, 2 * length + 1, 2**63 - 1),
    )

    assert registers.decide(line, np.zeros(1, dtype=np.int64)).decisions.tolist() == [Decision.UNDECIDED]


def test_a_long_chain_is_in_order() -> None:
    """A chain of a hundred thousand compare-and-sets is followed to its end; one read out of its order is found."""
    length = 100_000
    order = np.random.default_rng(1).permutation(length)
    chain: dict[str, Any] = {
        "object": np.zeros(length, dtype=np.int64),
        "function": np.full(length, Function.CAS, dtype=np.int8),
        "ending": np.zeros(length, dtype=np.int8),
        "argument": np.arange(length)[order],
        "second": np.arange(1, length + 1)[order],
        "result": np.full(length, NIL),
        "invoked": (10 * np.arange(length))[order],
        "returned": (10 * np.arange(length) + 5)[order],
    }
    late = chain | {"invoked": chain["invoked"].copy(), "returned": chain["returned"].copy()}
    moved = int(np.flatnonzero(order == 70_000)[0])
    late["invoked"][moved], late["returned"][moved] = 600_006, 600_007
    initial = np.zeros(1, dtype=np.int64)

    assert registers.decide(Columns(objects=1, **chain), initial).decisions.tolist() == [Decision.VALID]
    assert registers.decide(Columns(objects=1, **late), initial).decisions.tolist() == [Decision.VIOLATED]


def test_endings_at_random_crash_nothing() -> None:
    """Whatever the numbers are, each object gets one decision of three."""
    random = Random(1)
    rows = 3_000
    numbers = np.random.default_rng(1)
    wild = Columns(
        objects=300,
        object=numbers.integers(0, 300, rows),
        function=numbers.integers(0, 7, rows).astype(np.int8),
        ending=np.array([random.choice(ENDINGS) for _ in range(rows)], dtype=np.int8),
        argument=numbers.integers(-2, 6, rows),
        second=numbers.choice([NIL, 0, 1, 5], rows),
        result=numbers.choice([NIL, 0, 1, 2**63 - 1], rows),
        invoked=numbers.integers(0, 50, rows),
        returned=numbers.integers(50, 100, rows),
    )

    for decided in (registers.decide(wild, np.full(300, NIL)), logs.decide(wild)):
        assert set(decided.decisions.tolist()) <= set(Decision)
