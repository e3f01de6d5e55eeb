"""No transaction comes before itself: the one judgement that crosses topic-partitions.

Owns **G0** and **G1c** among transactions that are known to have happened. One stands before another where its value is
the one before the other's in a log (*ww*), where the other polled a value of it (*wr*), or where one process did both,
one after the other (*process*). A circle of ww alone is G0, which logs allow: transactions of several processes may
take turns in each. One of wr, and of process where need be, is G1c, and convicts; one that closes only with ww is
*allowed*, for the same reason as G0. One circle is shown for each group of transactions that lie in circles, a shortest
one through one of its edges. Of several values at one offset, the one that the earliest operation showed is believed.
Source: Adya, "Weak Consistency" (1999); the graph of ``jepsen.tests.kafka``; Tarjan (1972).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from nemesis.checks.anomalies import LISTED_MAX, Anomaly
from nemesis.checks.observations import Observations, contains, first_offsets, observe
from nemesis.checks.partition import Ints, Partition
from nemesis.checks.schemas import AnomalyName, Severity

WW, WR, PROCESS = "ww", "wr", "process"
Graph = Mapping[int, Sequence[int]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Edge:
    """Operation ``before`` stands before operation ``after``, and what shows it; no place where a process does."""

    before: int
    after: int
    kind: str
    topic_partition: str = ""
    offset: int | None = None
    value: int | None = None


def cycles(partitions: Sequence[Partition]) -> Iterator[tuple[str, Anomaly]]:
    """The circles of one run, the smallest of each kind first, each with the least topic-partition that it touches.

    ``partitions`` are all of the run. Where each operation is one send or poll there are no transactions, and what
    could be found is for the checks of one topic-partition to find.
    """
    rows = np.concatenate([one.operations.invoke_index for one in partitions] or [np.zeros(0, np.int64)])
    if len(np.unique(rows)) == len(rows):
        return
    ww = [edge for partition in partitions for edge in _ww(partition)]
    wr = [edge for partition in partitions for edge in _wr(partition)]
    real = [*wr, *_process(partitions)]
    inside = {index for group in _groups(_graph(real)) for index in group}
    convicted = _circles(real, through=WR)
    groups = _groups(_graph([*ww, *wr]))
    mixed = [group for group in groups if not inside & set(group)]
    found = [(AnomalyName.WRITE_CYCLE, Severity.ALLOWED, circle) for circle in _circles(ww, through=WW)]
    found += [(AnomalyName.CIRCULAR_INFORMATION_FLOW, Severity.VIOLATION, circle) for circle in convicted]
    found += [
        (AnomalyName.CIRCULAR_INFORMATION_FLOW, Severity.ALLOWED, circle)
        for circle in _circles([*ww, *wr], through=WR, groups=mixed)
    ]
    for name, severity, circle in sorted(found, key=lambda one: (one[0], one[1], len(one[2]), one[2][0].before)):
        yield min(edge.topic_partition for edge in circle if edge.kind != PROCESS), _anomaly(name, severity, circle)


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
            yield Edge(
                before=writers[first],
                after=writers[second],
                kind=WW,
                topic_partition=partition.topic_partition,
                offset=offset,
                value=second,
            )


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
            yield Edge(
                before=before,
                after=after,
                kind=WR,
                topic_partition=partition.topic_partition,
                offset=offset,
                value=value,
            )


def _process(partitions: Sequence[Partition]) -> Iterator[Edge]:
    """From each operation that happened to the next of the same process."""
    last: dict[int, int] = {}
    done: set[tuple[int, int]] = set()
    for partition in partitions:
        operations = partition.operations
        rows = np.flatnonzero(operations.ok | operations.committed)
        done.update(zip(operations.invoke_index[rows].tolist(), operations.process[rows].tolist(), strict=True))
    for index, process in sorted(done):
        if process in last:
            yield Edge(before=last[process], after=index, kind=PROCESS)
        last[process] = index


def _graph(edges: Sequence[Edge]) -> dict[int, list[int]]:
    graph: dict[int, list[int]] = {}
    for edge in edges:
        graph.setdefault(edge.before, []).append(edge.after)
        graph.setdefault(edge.after, [])
    return graph


def _circles(
    edges: Sequence[Edge], *, through: str, groups: Sequence[Sequence[int]] | None = None
) -> list[tuple[Edge, ...]]:
    """One circle for each group, by its first edge of this kind that lies in the group."""
    graph = _graph(edges)
    by_pair: dict[tuple[int, int], Edge] = {}
    for edge in edges:
        by_pair.setdefault((edge.before, edge.after), edge)
    groups = _groups(graph) if groups is None else groups
    member = {node: number for number, group in enumerate(groups) for node in group}
    chosen: dict[int, tuple[Edge, ...]] = {}
    for edge in edges:
        number = member.get(edge.before)
        if edge.kind != through or number is None or member.get(edge.after) != number or number in chosen:
            continue
        way = _way(graph, edge.after, edge.before)
        chosen[number] = (edge, *(by_pair[step] for step in pairwise(way)))
    return [_from_least(circle) for circle in chosen.values()]


def _from_least(circle: tuple[Edge, ...]) -> tuple[Edge, ...]:
    start = min(range(len(circle)), key=lambda i: circle[i].before)
    return circle[start:] + circle[:start]


def _way(graph: Graph, start: int, end: int) -> list[int]:
    """A shortest way, both ends included; there is one."""
    came: dict[int, int] = {start: start}
    waiting = deque([start])
    while end not in came:
        node = waiting.popleft()
        for following in graph[node]:
            if following not in came:
                came[following] = node
                waiting.append(following)
    way = [end]
    while way[-1] != start:
        way.append(came[way[-1]])
    return way[::-1]


def _groups(graph: Graph) -> list[list[int]]:
    """The strongly connected components of more than one operation, by Tarjan's algorithm with a stack of its own."""
    number: dict[int, int] = {}
    low: dict[int, int] = {}
    open_nodes: list[int] = []
    is_open: set[int] = set()
    groups: list[list[int]] = []
    for root in sorted(graph):
        waiting = [] if root in number else [(root, 0)]
        while waiting:
            node, at = waiting.pop()
            if at == 0:
                number[node] = low[node] = len(number)
                open_nodes.append(node)
                is_open.add(node)
            else:
                low[node] = min(low[node], low[graph[node][at - 1]]) if graph[node][at - 1] in is_open else low[node]
            deeper = _next_unseen(graph[node], at, number, low, node, is_open)
            if deeper is not None:
                waiting += [(node, deeper + 1), (graph[node][deeper], 0)]
            elif low[node] == number[node]:
                group = _closed(open_nodes, is_open, node)
                groups += [sorted(group)] if len(group) > 1 else []
    return groups


def _next_unseen(
    following: Sequence[int], at: int, number: dict[int, int], low: dict[int, int], node: int, is_open: set[int]
) -> int | None:
    """Where among ``following`` the next one stands that was never seen; what was seen on the way lowers the node."""
    for place in range(at, len(following)):
        if following[place] not in number:
            return place
        if following[place] in is_open:
            low[node] = min(low[node], number[following[place]])
    return None


def _closed(open_nodes: list[int], is_open: set[int], node: int) -> list[int]:
    """Take a finished component from the stack."""
    group: list[int] = []
    while not group or group[-1] != node:
        group.append(open_nodes.pop())
        is_open.discard(group[-1])
    return group


def _anomaly(name: AnomalyName, severity: Severity, circle: Sequence[Edge]) -> Anomaly:
    steps = [
        f"{edge.before} before {edge.after} (process)"
        if edge.kind == PROCESS
        else f"{edge.before} before {edge.after} ({edge.kind} of {edge.topic_partition} at offset {edge.offset})"
        for edge in circle[:LISTED_MAX]
    ]
    return Anomaly(
        name=name,
        severity=severity,
        detail=f"{len(circle)} operations come before themselves: {', '.join(steps)}",
        offsets=[edge.offset for edge in circle if edge.offset is not None],
        op_indexes=[edge.before for edge in circle],
        evidence={"circle": [_step(edge) for edge in circle[:LISTED_MAX]]},
    )


def _step(edge: Edge) -> dict[str, int | str | None]:
    about = ("before", "after", "kind", "topic_partition", "offset", "value")
    return {name: getattr(edge, name) for name in about if getattr(edge, name) not in (None, "")}
