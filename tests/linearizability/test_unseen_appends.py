"""Logs: acknowledged appends of unknown offset, which stand behind all that is known, or in a hole."""

from __future__ import annotations

import pytest

from nemesis.linearizability.kernel import judge
from nemesis.linearizability.models.registry import load_model
from nemesis.verdict import Verdict
from tests.linearizability.oracle import linearizable
from tests.linearizability.written import sequence

HISTORIES = [
    ("0 append 1; 0 ok; 0 fetch (1, 10); 0 ok ()", "logs", True),
    ("0 append 1; 0 ok; 0 fetch (5, None); 0 ok ()", "logs", True),
    ("0 append 1; 0 ok; 0 fetch (0, 10); 0 ok ()", "logs", False),
    ("0 append 1; 0 ok; 0 append 2; 0 ok; 0 fetch (1, 10); 0 ok ()", "logs", False),
    ("0 append 1; 0 ok; 0 append 2; 0 ok; 0 fetch (2, 10); 0 ok ()", "logs", True),
    ("0 append (1, 2); 0 ok; 0 fetch (1, 10); 0 ok ()", "logs", False),
    ("0 append (1, 2); 0 ok; 0 fetch (2, 10); 0 ok ()", "logs", True),
    ("0 append 1; 0 ok; 0 append 2; 0 ok 0", "logs", False),
    ("1 append 3; 0 append 1; 0 ok; 0 append 2; 0 ok 2", "logs", True),
    ("0 append 1; 0 ok; 1 fetch (1, 10); 0 append 2; 0 ok; 1 ok ()", "logs", True),
    ("0 append 1; 0 ok; 0 append 2; 0 ok 2; 0 append 3; 0 ok", "logs", False),
    ("1 append 3; 0 append 1; 0 ok; 0 append 2; 0 ok 2; 1 ok", "logs", True),
    ("1 append 3; 1 ok; 0 append 2; 0 ok 2; 0 append 1; 0 ok", "logs", False),
    ("1 append 3; 0 append 1; 0 ok; 0 append 2; 0 ok 1; 1 ok; 0 fetch (2, 1); 0 ok ()", "logs", False),
    ("1 append (3, 4); 0 append 1; 0 ok; 0 append 2; 0 ok 3; 1 ok", "logs", True),
    ("1 append (3, 4); 2 append (5, 6); 0 append 2; 0 ok 3; 1 ok; 2 ok", "search", False),
]


@pytest.mark.parametrize(("events", "kernel", "is_right"), HISTORIES)
def test_a_log_is_no_longer_than_it_must_be(events: str, kernel: str, is_right: bool) -> None:
    """A fetch beyond the end that is known, or a hole, has room for exactly as many records as fit before its end."""
    history = sequence(events)

    (judgement,) = judge(history, load_model("log"))

    assert linearizable(history, "log") is is_right
    assert (judgement.verdict, judgement.kernel) == (Verdict.VALID if is_right else Verdict.INVALID, kernel)
