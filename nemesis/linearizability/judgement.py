"""What a kernel says of one key: the verdict, what it took to find, and the evidence.

Owns the three-valued result and the budget. A budget counts configurations, not seconds, so that a verdict does not
depend on the speed of the machine. Source: the three-valued checkers of ``jepsen.checker``.
"""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass, replace

from nemesis.linearizability.operations import Operation, Value
from nemesis.verdict import Verdict

CONFIGURATIONS = 2_000_000
CONFIGURATIONS_PER_EVENT = 16


@dataclass(frozen=True, slots=True, kw_only=True)
class Budget:
    """How much may be tried for one key before the verdict is *unknown*.

    ``configurations`` bounds the states that a search visits in all: by default CONFIGURATIONS, and more for a history
    that is so long that each of its events must have its share. ``frontier`` bounds how many of them are held at a
    time, each for one reason: because one return led to them, because they wait to be taken up again, or because they
    were tried before. So it bounds the memory.
    """

    configurations: int | None = None
    frontier: int = 200_000

    def limit(self, events: int) -> int:
        """How many configurations may be visited in a history of so many events."""
        if self.configurations is not None:
            return self.configurations
        return max(CONFIGURATIONS, CONFIGURATIONS_PER_EVENT * events)

    def of(self, events: int) -> Budget:
        """The budget for a history of so many events, with the configurations as a number."""
        return Budget(configurations=self.limit(events), frontier=self.frontier)


@dataclass(frozen=True, slots=True, kw_only=True)
class Counterexample:
    """Why a history is not linearizable.

    ``operations`` are those of a prefix that fails which conflict, in the order of their invocations; ``last`` is the
    one whose return ends it and cannot be explained. If they are ``is_minimal``, they have no order, whatever became of
    all others, and with the outcome of any one of them forgotten there is one; else the budget did not allow to show
    that. ``states`` are states that the object could be in just before, at most 10 of them; none if it would take a
    kernel that does not search too long to find some. ``reason`` is one sentence for people.

    ``undecided`` is the number of shorter prefixes, counted by their last returns, that could not be decided within the
    budget; ``reason`` says so too. Where it is 0, the prefix is the shortest that fails.
    """

    last: Operation
    operations: tuple[Operation, ...]
    states: tuple[Value, ...]
    reason: str
    undecided: int = 0
    is_minimal: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyJudgement:
    """The verdict on one key.

    ``kernel`` names the algorithm that decided. ``configurations`` is how many it visited; 0 for kernels that do not
    search, unless a prefix had to be searched for the counterexample. ``decided`` is the number of operations in the
    longest prefix that is known to be linearizable: all of them if the verdict is *valid*. ``counterexample`` is there
    exactly if the verdict is *invalid*, ``reason`` exactly if it is *unknown*.
    """

    key: Hashable
    verdict: Verdict
    kernel: str
    operations: int
    decided: int
    configurations: int
    counterexample: Counterexample | None = None
    reason: str | None = None

    @classmethod
    def undecided(cls, key: Hashable, operations: int, kernel: str, reason: str) -> KeyJudgement:
        """That nothing is known of an object with so many operations, and why."""
        return cls(
            key=key,
            verdict=Verdict.UNKNOWN,
            kernel=kernel,
            operations=operations,
            decided=0,
            configurations=0,
            reason=reason,
        )

    def doubted(self, doubt: str) -> KeyJudgement:
        """The same, where a conviction is none because of ``doubt``."""
        if self.counterexample is None:
            return self
        reason = f"{self.counterexample.reason}; {doubt}"
        return replace(self, verdict=Verdict.UNKNOWN, counterexample=None, reason=reason)
