"""Where a directed graph has circles, and the shortest ways in it: what the search for cycles asks of any graph.

Owns the graph and two algorithms on it, both linear in its edges, with stacks of their own, for graphs are deeper than
Python's. Knows nothing of operations. Source: Tarjan, "Depth-first search and linear graph algorithms" (1972); of the
shortest ways with steps that cost nothing, Dial (1969).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass


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
