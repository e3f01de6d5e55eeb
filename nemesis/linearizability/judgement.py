"""What a kernel says of one key: the verdict, what it took to find, and the evidence.

Owns the three-valued result and the budget. A budget counts configurations, not seconds, so that a verdict does not
depend on the speed of the machine. Source: the three-valued checkers of ``jepsen.checker``.
"""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass

from nemesis.checks.verdict import Verdict
from nemesis.linearizability.operations import Operation, Value


@dataclass(frozen=True, slots=True, kw_only=True)
class Budget:
    """How much may be tried for one key before the verdict is *unknown*.

    ``configurations`` bounds the states that a search visits in all, ``frontier`` how many of them wait to be taken up
    again. What one return leads to is held as a whole until that is known: memory is bounded by ``configurations``, and
    by ``frontier`` only where no single return leads to more.
    """

    configurations: int = 2_000_000
    frontier: int = 200_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Counterexample:
    """Why a history is not linearizable.

    ``operations`` are those of the shortest prefix that fails which conflict, in the order of their invocations;
    ``last`` is the one whose return cannot be explained. ``states`` are the states that the object could be in just
    before, at most 10 of them. ``reason`` is one sentence for people. Of logs with
    appends of unknown offset that nobody read, the prefix may not be the shortest.
    """

    last: Operation
    operations: tuple[Operation, ...]
    states: tuple[Value, ...]
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyJudgement:
    """The verdict on one key.

    ``kernel`` names the algorithm that decided. ``configurations`` is how many it visited; 0 for kernels that do not
    search. ``decided`` is the number of operations in the longest prefix that is known to be linearizable: all of them
    if the verdict is *valid*. ``counterexample`` is there exactly if the verdict is *invalid*, ``reason`` exactly if it
    is *unknown*.
    """

    key: Hashable
    verdict: Verdict
    kernel: str
    operations: int
    decided: int
    configurations: int
    counterexample: Counterexample | None = None
    reason: str | None = None
