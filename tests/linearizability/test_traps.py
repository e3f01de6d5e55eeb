"""Registers: the histories at which a search that leaves something out goes wrong, each by hand.

Every kernel that can decide one must, and alike; so must every run of the searches alone.
"""

from __future__ import annotations

from contextlib import suppress

import pytest

from nemesis.linearizability.kernel import KERNELS, judge
from nemesis.linearizability.models.register import CasRegister
from nemesis.linearizability.violation import InapplicableError
from nemesis.verdict import Verdict
from tests.linearizability.oracle import linearizable
from tests.linearizability.runs import judge_by, verdicts_of_runs
from tests.linearizability.written import sequence

RIGHT = {
    "a pending write hides before one that was read": (
        "0 write 2; 1 write 1; 1 ok; 2 read; 2 ok 1; 0 ok; 2 read; 2 ok 1"
    ),
    "a pending write hides before an unknown one": ("0 write 2; 1 write 1; 2 read; 2 ok 1; 0 ok; 2 read; 2 ok 1"),
    "an overlapped write is used late": ("0 write 1; 1 write 2; 1 ok; 2 read; 2 ok 2; 0 ok; 2 read; 2 ok 1"),
    "a write hides before a compare-and-set, behind an unknown write of the present value": (
        "0 write 1; 0 ok; 1 write 1; 2 write 2; 3 cas (1, 3); 3 ok; 2 ok; 0 read; 0 ok 3"
    ),
    "a write hides before a compare-and-set, behind another write of the present value": (
        "0 write 1; 0 ok; 1 write 1; 2 write 2; 3 cas (1, 3); 3 ok; 2 ok; 1 ok; 0 read; 0 ok 3"
    ),
    "a write of the expected value hides before the compare-and-set": (
        "0 write 1; 0 ok; 1 write 1; 2 cas (1, 2); 2 ok; 1 ok; 0 read; 0 ok 2"
    ),
    "two unknown writes of one value explain two visits": (
        "0 write 1; 1 write 1; 2 write 2; 2 ok; 2 read; 2 ok 1; 2 write 2; 2 ok; 2 read; 2 ok 1"
    ),
    "unknown compare-and-sets form a chain": ("0 write 1; 0 ok; 1 cas (2, 3); 2 cas (1, 2); 0 read; 0 ok 3"),
    "an unknown write lands after a later one": ("1 write 2; 1 info; 0 write 1; 0 ok; 0 read; 0 ok 1; 0 read; 0 ok 2"),
    "of two writes of one value, the one that returns first is used": (
        "0 write 1; 1 write 1; 2 read; 2 ok 1; 0 ok; 3 write 2; 3 ok; 2 read; 2 ok 2; 2 read; 2 ok 1; 1 ok"
    ),
    "a compare-and-set of a value with itself reads": ("0 cas (None, None); 0 ok; 0 read; 0 ok"),
    "a failed compare-and-set proves nothing": ("0 write 1; 0 ok; 1 cas (1, 2); 1 fail; 0 read; 0 ok 1"),
    "a failed compare-and-set that returned the value is a read": ("0 write 1; 1 cas (3, 2); 1 fail 1; 0 ok"),
}

WRONG = {
    "nothing hides the write before the compare-and-set": (
        "0 write 1; 0 ok; 2 write 2; 3 cas (1, 3); 3 ok; 2 ok; 0 read; 0 ok 3; 0 read; 0 ok 2"
    ),
    "a write is used twice": ("0 write 1; 1 write 2; 1 ok; 2 read; 2 ok 1; 2 read; 2 ok 2; 2 read; 2 ok 1; 0 ok"),
    "an unknown compare-and-set is used twice": (
        "0 write 1; 0 ok; 1 cas (1, 2); 0 read; 0 ok 2; 0 write 1; 0 ok; 0 read; 0 ok 1; 0 read; 0 ok 2"
    ),
    "the new value is seen, then the old one": ("0 write 1; 0 ok; 1 write 2; 2 read; 2 ok 2; 3 read; 3 ok 1; 1 ok"),
    "a read returns before the write begins": ("1 read; 1 ok 1; 0 write 1; 0 ok"),
    "a failed write is seen": ("0 write 1; 0 fail; 1 read; 1 ok 1"),
    "two compare-and-sets find the same value": ("0 write 1; 0 ok; 1 cas (1, 2); 2 cas (1, 3); 1 ok; 2 ok"),
    "compare-and-sets need each other": ("0 cas (2, 1); 1 cas (1, 2); 0 ok; 1 ok"),
    "a chain breaks the order of time": ("0 cas (1, 2); 0 ok; 1 cas (None, 1); 1 ok"),
    "a failed compare-and-set returned what was not there": ("0 write 1; 0 ok; 1 cas (3, 2); 1 fail 4"),
}


def check(events: str, expected: Verdict, *, strict_cas: bool = False) -> None:
    """Compare every kernel and every run with ``expected``, and ``expected`` with the oracle."""
    model = CasRegister(failed_cas_is_read=strict_cas)
    history = sequence(events)
    assert linearizable(history, "cas-register", strict_cas=strict_cas) is (expected is Verdict.VALID)
    said = {"judge": judge(history, model)[0].verdict, **dict(verdicts_of_runs(history, model))}
    for name in KERNELS:
        with suppress(InapplicableError):
            said[name] = judge_by(name, None, history, model).verdict
    assert said == dict.fromkeys(said, expected)


@pytest.mark.parametrize("name", RIGHT)
def test_what_can_be_is_valid(name: str) -> None:
    """No kernel refuses a history that some order explains, however hidden."""
    check(RIGHT[name], Verdict.VALID)


@pytest.mark.parametrize("name", WRONG)
def test_what_cannot_be_is_invalid(name: str) -> None:
    """No kernel accepts a history that no order explains, however close."""
    check(WRONG[name], Verdict.INVALID)


def test_a_failed_compare_and_set_is_evidence_if_the_model_says_so() -> None:
    """Under the strict rule the value differed at some moment of the attempt."""
    before = "0 write 1; 0 ok; 1 cas (1, 2); "
    check(before + "1 fail", Verdict.INVALID, strict_cas=True)
    check(before + "0 write 3; 1 fail; 0 ok", Verdict.VALID, strict_cas=True)
    check(before + "1 fail 1", Verdict.VALID, strict_cas=True)
