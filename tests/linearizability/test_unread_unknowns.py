"""The general search: unknown operations that nobody saw cost nothing."""

from __future__ import annotations

import pytest

from nemesis.linearizability.judgement import Budget
from nemesis.linearizability.kernel import judge
from nemesis.linearizability.models.registry import load_model
from nemesis.verdict import Verdict
from tests.linearizability.written import sequence

CASES = [
    ("set", "add", "99 add 1000; 99 ok; 99 add 1000; 99 ok; 99 read; 99 ok (1000,)", Verdict.VALID),
    ("queue", "enqueue", "99 enqueue 1000; 99 ok; 99 dequeue; 99 ok 1000", Verdict.VALID),
    ("queue", "enqueue", "99 enqueue 1000; 99 ok; 99 dequeue; 99 ok 7; 99 dequeue; 99 ok 1000", Verdict.VALID),
    ("counter", "add", "99 add 1000; 99 ok; 99 read; 99 ok 1007", Verdict.VALID),
]


@pytest.mark.parametrize(("model", "unknown", "then", "expected"), CASES)
def test_unknown_operations_take_effect_only_where_they_must(
    model: str, unknown: str, then: str, expected: Verdict
) -> None:
    """Of many that nobody saw, none is tried before a return has no other explanation."""
    events = "; ".join(f"{k} {unknown} {k}" for k in range(20))

    (judgement,) = judge(sequence(f"{events}; {then}"), load_model(model), Budget(configurations=10_000))

    assert judgement.verdict is expected, judgement
    assert judgement.kernel == "search"


def test_thrift_proves_nothing_wrong() -> None:
    """Where the thrifty order goes wrong, an order that spends more early is still found."""
    # The first dequeue is explained without the unknown enqueue, which the second shows to have come later.
    history = sequence("0 enqueue 1; 1 enqueue 2; 1 ok; 2 enqueue 3; 2 ok; 3 dequeue; 3 ok 2; 3 dequeue; 3 ok 1")

    (judgement,) = judge(history, load_model("queue"))

    assert judgement.verdict is Verdict.VALID
