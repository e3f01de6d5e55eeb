"""The columns that the search in C takes: what is not as they must be is refused, and never walked over."""

from __future__ import annotations

from array import array
from collections.abc import Callable
from ctypes import CDLL
from dataclasses import replace
from random import Random

import pytest

from nemesis.linearizability.accelerator import NativeRuns, first_answers
from nemesis.linearizability.beam import Answer
from nemesis.linearizability.forms import EVER, RegisterKind
from nemesis.linearizability.judgement import Budget
from nemesis.linearizability.models.register import CasRegister
from nemesis.linearizability.register_events import COLUMNS, RegisterColumns
from tests.depth import seeds
from tests.linearizability.native import needs_compiler
from tests.linearizability.runs import register_events
from tests.linearizability.written import sequence

pytestmark = needs_compiler

READ, WRITE = RegisterKind.READ, RegisterKind.WRITE
GIVEN: dict[str, list[int]] = {
    "starts": [0, 2, 5],
    "initial": [0, 0],
    "kinds": [WRITE, READ, WRITE, WRITE, READ],
    "values": [1, 1, 1, 2, 2],
    "news": [0] * 5,
    "invoked": [0, 2, 0, 1, 4],
    "returned": [1, 3, 3, EVER, 5],
}
"""Two registers, both right."""

WRONG: dict[str, tuple[str, list[int], str]] = {
    "not in the order of invocations": ("invoked", [0, 2, 1, 0, 4], "row 3 is out of the order"),
    "over before it has begun": ("returned", [1, 1, 3, EVER, 5], "row 1 is"),
    "over when it begins": ("returned", [0, 3, 3, EVER, 5], "row 0 is"),
    "of no kind": ("kinds", [WRITE, READ, 4, WRITE, READ], "row 2 is"),
    "of a kind below all": ("kinds", [-1, READ, WRITE, WRITE, READ], "row 0 is"),
    "an unknown read": ("returned", [1, 3, 3, EVER, EVER], "row 4 is"),
    "registers that go back": ("starts", [0, 9, 5], "row 0 is"),
    "a register that begins before all": ("starts", [0, -1, 5], "row 0 is"),
    "a first register that does not begin with the rows": ("starts", [1, 2, 5], "rows from 1 to 5"),
    "more rows than there are": ("starts", [0, 2, 6], "rows from 0 to 6"),
    "fewer starts than registers": ("starts", [0, 5], "2 numbers in starts of 2 registers"),
    "no starts": ("starts", [], "0 numbers in starts"),
    "a short column": ("values", [1, 1, 1, 2], "'values': 4"),
    "a long column": ("returned", [1, 3, 3, EVER, 5, 9], "'returned': 6"),
}


def given(**changed: list[int]) -> RegisterColumns:
    """The columns, some of them changed."""
    return RegisterColumns(**{name: array("q", column) for name, column in (GIVEN | changed).items()})


def test_what_is_in_order_is_answered(native: CDLL) -> None:
    """The columns that the other tests spoil are right; so are none at all, and such that begin at the same time."""
    assert [found.answer for found in first_answers(given(), Budget(), native)] == [Answer.YES] * 2
    assert first_answers(given(**{name: [] for name in COLUMNS} | {"starts": [0]}), Budget(), native) == []
    assert len(first_answers(given(invoked=[0, 2, 0, 0, 4]), Budget(), native)) == 2


@pytest.mark.parametrize("name", WRONG)
def test_what_is_out_of_order_is_refused(name: str, native: CDLL) -> None:
    """Each thing that columns may have wrong is told, with the row where there is one."""
    column, numbers, said = WRONG[name]
    with pytest.raises(ValueError, match=said):
        first_answers(given(**{column: numbers}), Budget(), native)


def test_numbers_of_other_sizes_are_refused(native: CDLL) -> None:
    """A column of 32 bits is not read as one of 64."""
    with pytest.raises(ValueError, match="64 bits"):
        first_answers(replace(given(), kinds=array("i", [1, 0, 1, 1, 0])), Budget(), native)


@pytest.mark.parametrize("seed", seeds(10))
def test_no_numbers_crash_it(seed: int, native: CDLL) -> None:
    """Whatever stands in the columns, there is an answer for each register, or a refusal."""
    random = Random(seed)
    choices: dict[str, Callable[[], int]] = {
        "starts": lambda: random.choice((0, 2, 5, 5, 7, -3, 1 << 62)),
        "kinds": lambda: random.choice((0, 1, 2, 3, 3, 9)),
        "values": lambda: random.choice((0, 1, -1, 1 << 63 - 1, -(1 << 63))),
        "invoked": lambda: random.randint(-3, 9),
        "returned": lambda: random.choice((EVER, (1 << 63) - 1, *range(9))),
    }
    answered = 0
    for _ in range(500):
        columns = given()
        for _ in range(random.randint(1, 4)):
            name = random.choice(list(choices))
            column: array[int] = getattr(columns, name)
            column[random.randrange(len(column))] = choices[name]()
        try:
            answered += len(first_answers(columns, Budget(configurations=1_000), native)) == 2
        except ValueError:
            continue
    assert 0 < answered < 500


def test_a_history_out_of_order_is_refused(native: CDLL) -> None:
    """Nor does a walk begin over an operation that is over before it has begun."""
    write, read = sequence("0 write 1; 0 ok; 1 read; 1 ok 1")
    history = register_events([replace(write, invoked=5, returned=1), read], CasRegister())
    assert history is not None
    with pytest.raises(ValueError, match="returns where it begins, or before"):
        NativeRuns(history, native).relaxed(room=99, held_max=99)
