"""No transaction comes before itself: the one judgement that crosses topic-partitions.

Owns the circles among transactions that are known to have happened, and their names, which are Elle's. A circle of ww
alone is **G0**, one with wr is **G1c**. If it closes only because one process did one operation after the other, it is
**-process**; if only because one operation was over before another began, **-realtime**. Logs allow G0 in each form:
transactions of several processes may take turns in each log. G1c convicts in each form, unless it closes only with ww,
which is *allowed* for the same reason. A name is given only to what has no simpler one: circles are taken away as they
are found, the simplest kinds first and of each kind the smallest first, until none is left. Source: Adya, "Weak
Consistency" (1999); ``elle.txn``; the graph and the allowed errors of ``jepsen.tests.kafka``.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Generator, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from nemesis.checks.anomalies import LISTED_MAX, Anomaly
from nemesis.checks.check import Check, Coverage
from nemesis.checks.partition import Partition
from nemesis.checks.precedence import Edge, Graph, Kind, Precedence, components, graph_of, precedence_of, way
from nemesis.checks.schemas import Severity

Circle = tuple[Edge, ...]
ROUNDS_MAX = 20
"""How often circles are taken from one tangle; then its other dependencies of the kind are dropped, unlooked at."""
STEPS_MAX = 200_000
"""How many nodes are looked at for the smallest circle of a tangle, more or less; beyond that a small one will do."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Form:
    """One kind of circle: the edges that it may have."""

    check: Check
    severity: Severity
    kinds: frozenset[Kind]


NEEDS = "transactions of several operations"
OF_WRITES = (
    Check(
        name="G0",
        promise="All logs have the transactions in one order; logs do not promise that.",
        needs=NEEDS,
    ),
    Check(
        name="G0-process",
        promise="What a process sends later has higher offsets in all logs; logs do not promise that.",
        needs=NEEDS,
    ),
    Check(
        name="G0-realtime",
        promise="What begins later has higher offsets in all logs; logs do not promise that.",
        needs=NEEDS,
    ),
)
OF_READS = (
    Check(
        name="G1c",
        promise="No transaction reads a value that depends on its own writes.",
        needs=NEEDS,
    ),
    Check(
        name="G1c-process",
        promise="No transaction reads a value that its process sends later.",
        needs=NEEDS,
    ),
    Check(
        name="G1c-realtime",
        promise="No transaction reads a value that was sent after it had returned.",
        needs=NEEDS,
    ),
)
CYCLES = (*OF_WRITES, *OF_READS)
"""What one search looks for, over all topic-partitions of a run. A run has no transactions, so no prefix proves any."""


def _forms() -> Iterator[Form]:
    """Every form after those that are simpler; those that convict before those that are allowed."""
    orders: tuple[tuple[Kind, ...], ...] = ((), (Kind.PROCESS,), (Kind.PROCESS, Kind.REALTIME))
    for checks, severity, kinds in (
        (OF_READS, Severity.VIOLATION, (Kind.WR,)),
        (OF_WRITES, Severity.ALLOWED, (Kind.WW,)),
        (OF_READS, Severity.ALLOWED, (Kind.WW, Kind.WR)),
    ):
        for check, order in zip(checks, orders, strict=True):
            yield Form(check=check, severity=severity, kinds=frozenset((*kinds, *order)))


FORMS = tuple(_forms())


def cycles(partitions: Sequence[Partition]) -> Generator[tuple[Check, str, Anomaly], None, Coverage]:
    """The circles of one run, the smallest of each kind first, each with the least topic-partition that it touches;
    returns what was looked at, which is the same for all of ``CYCLES``.

    ``partitions`` are all of the run. Where each operation is one send or poll there are no transactions, and what
    could be found is for the checks of one topic-partition to find: operations that can be placed in the order of time
    in each log can be so in all of them at once (Herlihy and Wing, 1990).
    """
    rows = np.concatenate([one.operations.invoke_index for one in partitions] or [np.zeros(0, np.int64)])
    transactions = int((np.unique(rows, return_counts=True)[1] > 1).sum())
    if not transactions:
        return Coverage()
    precedence = precedence_of(partitions)
    tangles = _tangles(precedence, sorted(precedence.process))
    parts = zip(precedence.parts(tangles), tangles, strict=True)
    found: list[tuple[Form, Circle]] = []
    missed = 0
    for part, tangle in parts:
        for form in FORMS:
            circles, passed_over = _circles(part, tangle, form)
            found += [(form, circle) for circle in circles]
            missed += passed_over
    for form, circle in sorted(found, key=_order):
        where = min(edge.topic_partition for edge in circle if edge.topic_partition)
        yield form.check, where, _anomaly(form, circle)
    why = f"{missed} dependencies of tangled transactions were passed over" if missed else ""
    return Coverage(looked=transactions, missed=missed, why=why)


def _order(found: tuple[Form, Circle]) -> tuple[str, str, int, list[tuple[int, int]]]:
    form, circle = found
    return form.check.name, form.severity, len(circle), [(edge.before, edge.after) for edge in circle]


def _tangles(precedence: Precedence, operations: Sequence[int]) -> list[list[int]]:
    """The operations of each part of the whole graph that has circles; all circles lie in one of them."""
    graph = graph_of(precedence, operations, frozenset(Kind))
    return [[operations[node] for node in part if node < graph.places] for part in components(graph)]


def _circles(left: Precedence, operations: Sequence[int], form: Form) -> tuple[list[Circle], int]:
    """The circles of one form in a tangle, and how many of its dependencies were passed over in the end.

    Their dependencies are taken away from ``left``: none remains.
    """
    found: list[Circle] = []
    for _ in range(ROUNDS_MAX):
        for part in _parts(left, operations, form, graph_of(left, operations, form.kinds)):
            for circle in part.pairs() or [part.smallest()]:
                found.append(circle)
                _take_away(left, circle)
    rest = _parts(left, operations, form, graph_of(left, operations, form.kinds))
    pairs = [pair for part in rest for pair in part.dependencies]
    for pair in pairs:
        _take_away(left, [edge for edge in left.dependencies[pair].values() if edge.kind in form.kinds])
    return found, len(pairs)


def _take_away(left: Precedence, edges: Sequence[Edge]) -> None:
    for edge in edges:
        left.dependencies.get((edge.before, edge.after), {}).pop(edge.kind, None)


def _parts(left: Precedence, operations: Sequence[int], form: Form, graph: Graph) -> list[_Part]:
    """The strongly connected parts of a graph, each with the dependencies in it."""
    found = components(graph)
    owner = {operations[node]: number for number, part in enumerate(found) for node in part if node < graph.places}
    pairs: list[list[tuple[int, int]]] = [[] for _ in found]
    for (before, after), edges in left.dependencies.items() if found else ():
        if before in owner and owner[before] == owner.get(after) and not form.kinds.isdisjoint(edges):
            pairs[owner[before]].append((before, after))
    return [
        _Part(left, operations, form.kinds, graph, sorted(own), len(part))
        for part, own in zip(found, pairs, strict=True)
    ]


class _Part:
    """A strongly connected part of a graph, of so many nodes. ``dependencies`` are the pairs that have one in it."""

    def __init__(
        self,
        left: Precedence,
        operations: Sequence[int],
        kinds: frozenset[Kind],
        graph: Graph,
        dependencies: Sequence[tuple[int, int]],
        size: int,
    ) -> None:
        self._left, self._operations, self._kinds, self._graph = left, operations, kinds, graph
        self._size = size
        self.dependencies = dependencies

    def _edge(self, pair: tuple[int, int]) -> Edge | None:
        """What shows that the first stands before the second: a dependency rather than an order."""
        edges = self._left.dependencies.get(pair, {})
        shown = next((edges[kind] for kind in (Kind.WR, Kind.WW) if kind in edges and kind in self._kinds), None)
        order = self._left.order(*pair)
        if shown is not None or order not in self._kinds:
            return shown
        return Edge(before=pair[0], after=pair[1], kind=order)

    def _known(self, pair: tuple[int, int]) -> Edge:
        edge = self._edge(pair)
        assert edge is not None, f"{pair} follow one another in the graph and nowhere else"
        return edge

    def pairs(self) -> list[Circle]:
        """The circles of two operations."""
        found: dict[tuple[int, int], Circle] = {}
        for before, after in self.dependencies:
            back = self._edge((after, before))
            if back is not None:
                found.setdefault((min(before, after), max(before, after)), (self._known((before, after)), back))
        return [_from_least(circle) for circle in found.values()]

    def smallest(self) -> Circle:
        """A circle with as few operations as there are in any, unless the part is large."""
        best: list[int] = []
        for before, after in self.dependencies[: max(1, STEPS_MAX // self._size)]:
            start, end = (bisect_left(self._operations, index) for index in (after, before))
            walked = way(self._graph, start, end, len(best) - 2 if best else None)
            best = best if walked is None else self._places(walked)
        steps = [(self._operations[first], self._operations[second]) for first, second in pairwise([best[-1], *best])]
        return _from_least(tuple(map(self._known, steps)))

    def _places(self, walked: Sequence[int]) -> list[int]:
        return [node for node in walked if node < self._graph.places]


def _from_least(circle: Circle) -> Circle:
    start = min(range(len(circle)), key=lambda i: circle[i].before)
    return circle[start:] + circle[:start]


def _anomaly(form: Form, circle: Circle) -> Anomaly:
    steps = [
        f"{edge.before} before {edge.after} ({edge.kind})"
        if edge.offset is None
        else f"{edge.before} before {edge.after} ({edge.kind} of {edge.topic_partition} at offset {edge.offset})"
        for edge in circle[:LISTED_MAX]
    ]
    return Anomaly(
        severity=form.severity,
        detail=f"{len(circle)} operations form a cycle, in which each must come before the next: {', '.join(steps)}",
        offsets=[edge.offset for edge in circle if edge.offset is not None],
        op_indexes=[edge.before for edge in circle],
        evidence={"circle": [_step(edge) for edge in circle[:LISTED_MAX]]},
    )


def _step(edge: Edge) -> dict[str, int | str | None]:
    about = ("before", "after", "kind", "topic_partition", "offset", "value")
    return {name: getattr(edge, name) for name in about if getattr(edge, name) not in (None, "")}
