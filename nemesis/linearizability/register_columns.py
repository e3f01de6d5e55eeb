"""The operations of many registers as columns of numbers: what the search in C takes in one call.

Owns what the columns mean, and making them of the operations of one register. Whoever has columns already, from Arrow
or numpy, needs none of Python's values: any column of 64-bit numbers that can be written to will do.
"""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from dataclasses import dataclass
from operator import attrgetter
from typing import NamedTuple, TypeAlias

from nemesis.linearizability.beam import Answer
from nemesis.linearizability.forms import EVER, RegisterForm
from nemesis.linearizability.operations import Operation, Value

Column: TypeAlias = "array[int]"
"""64-bit numbers, in an array or in whatever else has such a buffer."""

COLUMNS = ("starts", "initial", "kinds", "values", "news", "invoked", "returned")
"""The columns, in the order in which the library has them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RegisterColumns:
    """Operations that say something, one row each, by register and then in the order of their invocations.

    ``starts`` has the first row of each register, and behind the last the number of rows; ``initial`` what each begins
    with. ``kinds`` are those of ``RegisterKind``; ``values`` and ``news`` are any numbers that tell values apart.
    Unknown operations return at EVER, and are writes and compare-and-sets only.
    """

    starts: Column
    initial: Column
    kinds: Column
    values: Column
    news: Column
    invoked: Column
    returned: Column


class FirstAnswer(NamedTuple):
    """What was found of one register: ``last`` is the row of the operation whose return refutes it, or -1."""

    answer: Answer
    last: int
    visited: int


def columns_of(operations: Sequence[Operation], forms: Sequence[RegisterForm], initial: Value) -> RegisterColumns:
    """The columns of one register, whose ``operations`` stand in the order of their invocations."""
    ids: dict[Value, int] = {initial: 0}
    number = ids.setdefault
    return RegisterColumns(
        starts=array("q", (0, len(operations))),
        initial=array("q", (0,)),
        kinds=array("q", [form[0] for form in forms]),
        values=array("q", [number(form[1], len(ids)) for form in forms]),
        news=array("q", [number(form[2], len(ids)) for form in forms]),
        invoked=array("q", map(attrgetter("invoked"), operations)),
        returned=array("q", [EVER if operation.returned is None else operation.returned for operation in operations]),
    )
