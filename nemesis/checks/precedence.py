"""Which operation stands before which, and by what: the graph that the search for cycles looks for circles in.

Owns the four kinds of edges. One operation stands before another where its value is the one before the other's in a log
(*ww*), where the other polled a value of it (*wr*), where one process did both, one after the other (*process*), or
where it was over before the other began (*realtime*). The first two are *dependencies*, of which there are few; the
last two are orders, which have as many edges as there are pairs, so that they are never written down: each operation
leads into a chain, ordered as they are, and out of it. Of several values at one offset, the one that the earliest
operation showed is believed. Knows nothing of circles. Source: the graphs of ``jepsen.tests.kafka`` and of Elle.

Where a directed graph has circles, and the shortest ways in it: what the search for cycles asks of any graph.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from itertools import pairwise

import numpy as np

from nemesis.checks.observations import Observations, contains, first_offsets, observe
from nemesis.checks.partition import NEVER, Ints, Partition


class Kind(StrEnum):
    """What shows that one operation stands before another."""

    WW = "ww"
    WR = "wr"
    PROCESS = "process"
    REALTIME = "realtime"


@dataclass(frozen=True, slots=True, kw_only=True)
class Edge:
    """Operation ``before`` stands before operation ``after``; a place is where a dependency shows it, else none."""

    before: int
    after: int
    kind: Kind
    topic_partition: str = ""
    offset: int | None = None
    value: int | None = None


Dependencies = dict[tuple[int, int], dict[Kind, Edge]]
"""By the two operations, one of each kind."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Precedence:
    """Operations that are known to have happened, by the indexes of their invocations.

    ``returned`` is ``NEVER`` of those of unknown outcome: they may have taken effect after they were answered.
    """

    process: Mapping[int, int]
    returned: Mapping[int, int]
    dependencies: Dependencies = field(default_factory=dict)

    def order(self, before: int, after: int) -> Kind | None:
        """Which order says that one stands before the other; None if neither does."""
        if before < after and self.process[before] == self.process[after]:
            return Kind.PROCESS
        return Kind.REALTIME if self.returned[before] < after else None

    def parts(self, groups: Sequence[Sequence[int]]) -> list[Precedence]:
        """The same of the operations of each group only, with dependencies that may be taken away."""
        owner = {index: number for number, group in enumerate(groups) for index in group}
        found: list[Dependencies] = [{} for _ in groups]
        for (before, after), edges in self.dependencies.items():
            if before in owner and owner[before] == owner.get(after):
                found[owner[before]][(before, after)] = dict(edges)
        return [Precedence(process=self.process, returned=self.returned, dependencies=one) for one in found]


def precedence_of(partitions: Sequence[Partition]) -> Precedence:
    """What stands before what in one run, of which ``partitions`` are all."""
    process: dict[int, int] = {}
    returned: dict[int, int] = {}
    for partition in partitions:
        operations = partition.operations
        rows = np.flatnonzero(operations.ok | operations.committed)
        ended = np.where(operations.ok[rows], operations.return_index[rows], NEVER)
        indexes = operations.invoke_index[rows].tolist()
        process.update(zip(indexes, operations.process[rows].tolist(), strict=True))
        returned.update(zip(indexes, ended.tolist(), strict=True))
    found = Precedence(process=process, returned=returned)
    for partition in partitions:
        for edge in (*_ww(partition), *_wr(partition)):
            found.dependencies.setdefault((edge.before, edge.after), {}).setdefault(edge.kind, edge)
    return found


def _happened(partition: Partition) -> Ints:
    operations = partition.operations
    return np.flatnonzero(operations.append & operations.has_value & (operations.ok | operations.committed))


def _writers(partition: Partition) -> dict[int, int]:
    """The operation that wrote each value; of several, the earliest."""
    operations, rows = partition.operations, _happened(partition)[::-1]
    return dict(zip(operations.value[rows].tolist(), operations.invoke_index[rows].tolist(), strict=True))


def _ww(partition: Partition) -> Iterator[Edge]:
    writers = _writers(partition)
    values, offsets = _versions(observe(partition), np.asarray(sorted(writers), np.int64))
    for (_, first), (offset, second) in pairwise(zip(offsets.tolist(), values.tolist(), strict=True)):
        if writers[first] != writers[second]:
            yield _edge(partition, (writers[first], writers[second]), Kind.WW, offset, second)


def _edge(partition: Partition, pair: tuple[int, int], kind: Kind, offset: int, value: int) -> Edge:
    before, after = pair
    where = partition.topic_partition
    return Edge(before=before, after=after, kind=kind, topic_partition=where, offset=offset, value=value)


def _versions(seen: Observations, written: Ints) -> tuple[Ints, Ints]:
    """The values that somebody wrote, and their offsets, ascending; at one offset the one that was shown first.

    A value that was seen at several offsets stands where it was seen first.
    """
    values, offsets = first_offsets(seen)
    is_written = contains(written, values)
    values, offsets = values[is_written], offsets[is_written]
    order = np.lexsort((values, _first_shown(seen, values), offsets))
    values, offsets = values[order], offsets[order]
    _, first = np.unique(offsets, return_index=True)
    return values[first], offsets[first]


def _first_shown(seen: Observations, values: Ints) -> Ints:
    """For each of these values, the least index of an operation that showed it."""
    order = np.lexsort((seen.op_index, seen.value))
    return seen.op_index[order][np.searchsorted(seen.value[order], values)]


def _wr(partition: Partition) -> Iterator[Edge]:
    operations, writers = partition.operations, _writers(partition)
    reader = operations.invoke_index[operations.record_row].tolist()
    records = zip(reader, operations.record_offset.tolist(), operations.record_value.tolist(), strict=True)
    for after, offset, value in records:
        before = writers.get(value)
        if before is not None and before != after:
            yield _edge(partition, (before, after), Kind.WR, offset, value)


def graph_of(precedence: Precedence, operations: Sequence[int], kinds: frozenset[Kind]) -> Graph:
    """The edges of these kinds among ``operations``, which ascend: the place of each is its node.

    The orders need no operation but these, for what stands before what by way of others does so by itself.
    """
    number = {index: node for node, index in enumerate(operations)}
    following: list[list[int]] = [[] for _ in operations]
    for (before, after), edges in precedence.dependencies.items():
        if not kinds.isdisjoint(edges) and before in number and after in number:
            following[number[before]].append(number[after])
    if Kind.PROCESS in kinds:
        for chain in _by_process(precedence, operations, number):
            _lay(following, chain, [(place, node) for place, node in enumerate(chain)])
    if Kind.REALTIME in kinds:
        ended = sorted((precedence.returned[index], node) for index, node in number.items())
        ended = [one for one in ended if one[0] != NEVER]
        moments = [moment for moment, _ in ended]
        _lay(following, [node for _, node in ended], [(bisect_left(moments, i), number[i]) for i in operations])
    return Graph(following=following, places=len(operations))


def _by_process(precedence: Precedence, operations: Sequence[int], number: Mapping[int, int]) -> list[list[int]]:
    chains: dict[int, list[int]] = {}
    for index in operations:
        chains.setdefault(precedence.process[index], []).append(number[index])
    return list(chains.values())


def _lay(following: list[list[int]], entering: Sequence[int], leaving: Sequence[tuple[int, int]]) -> None:
    """Add a chain: one link for each of ``entering``, in order; to a node one comes from all links before a place."""
    first = len(following)
    following += [[first + link + 1] if link + 1 < len(entering) else [] for link in range(len(entering))]
    for link, node in enumerate(entering):
        following[node].append(first + link)
    for place, node in leaving:
        if place:
            following[first + place - 1].append(node)


@dataclass(frozen=True, slots=True, kw_only=True)
class Graph:
    """``following[node]`` are the nodes that one comes to from it. The first ``places`` nodes are *places*.

    The others are passed on the way from one place to another. A step from a place costs one, any other nothing.
    """

    following: Sequence[Sequence[int]]
    places: int


def components(graph: Graph) -> list[list[int]]:
    """The strongly connected components of more than one node, each ascending, by their least nodes."""
    search = _Components(graph.following)
    for root in range(len(graph.following)):
        search.visit(root)
    return sorted(sorted(group) for group in search.found)


class _Components:
    """Tarjan's search. ``number`` is the order of discovery, ``low`` the least one that is reached and still open."""

    def __init__(self, following: Sequence[Sequence[int]]) -> None:
        self._following = following
        self._number = [-1] * len(following)
        self._low = [0] * len(following)
        self._is_open = [False] * len(following)
        self._open: list[int] = []
        self._count = 0
        self.found: list[list[int]] = []

    def visit(self, root: int) -> None:
        """Everything that is reached from ``root`` and was not before."""
        if self._number[root] >= 0:
            return
        waiting = [(root, iter(self._following[self._opened(root)]))]
        while waiting:
            node, rest = waiting[-1]
            deeper = next((one for one in rest if self._is_new(node, one)), None)
            if deeper is not None:
                waiting.append((deeper, iter(self._following[self._opened(deeper)])))
                continue
            waiting.pop()
            if waiting:
                above = waiting[-1][0]
                self._low[above] = min(self._low[above], self._low[node])
            if self._low[node] == self._number[node]:
                self._close(node)

    def _opened(self, node: int) -> int:
        self._number[node] = self._low[node] = self._count
        self._count += 1
        self._open.append(node)
        self._is_open[node] = True
        return node

    def _is_new(self, node: int, following: int) -> bool:
        """Whether nobody came there before; if it is open, the node has come back to it."""
        if self._number[following] >= 0 and self._is_open[following]:
            self._low[node] = min(self._low[node], self._number[following])
        return self._number[following] < 0

    def _close(self, node: int) -> None:
        """Take a finished component from the stack."""
        group: list[int] = []
        while not group or group[-1] != node:
            group.append(self._open.pop())
            self._is_open[group[-1]] = False
        if len(group) > 1:
            self.found.append(group)


def way(graph: Graph, start: int, end: int, cost_max: int | None = None) -> list[int] | None:
    """A cheapest way from one node to another, both included; None where there is none that costs so little."""
    came: dict[int, int] = {}
    waiting = deque([(start, start, 0)])
    while waiting:
        node, before, cost = waiting.popleft()
        if node in came or (cost_max is not None and cost > cost_max):
            continue
        came[node] = before
        if node == end:
            return _walked(came, start, end)
        steps = [(following, node, cost + (node < graph.places)) for following in graph.following[node]]
        waiting.extend(steps) if node < graph.places else waiting.extendleft(steps)
    return None


def _walked(came: dict[int, int], start: int, end: int) -> list[int]:
    found = [end]
    while found[-1] != start:
        found.append(came[found[-1]])
    return found[::-1]
