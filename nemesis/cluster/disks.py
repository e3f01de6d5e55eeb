"""The disks of a cluster's replicas, as far as a harness can break them.

Owns what hinders each of them now, by whom, and since when: a replica that stops by itself while its disk refuses calls
does what it should, and is not held against the cluster.
"""

from __future__ import annotations

import asyncio
import time
from collections import defaultdict
from collections.abc import Awaitable, Callable
from dataclasses import replace
from random import Random

from nemesis.cluster.host import Host
from nemesis.cluster.system import Report
from nemesis.disks.hindrance import Hindrance, tell, together
from nemesis.disks.place import DiskPlace, place_in
from nemesis.disks.power import lose_power

ENDED_BY_DISK = {"halted": "halted-by-disk", "died": "died-by-disk"}
"""What is told instead of an end that the disk is the reason of."""
AFTERMATH_NS = 2_000_000_000
"""How long after its disk is well again a replica may still end because of an error that it was given before."""


class ReplicaDisks:
    """The ``SystemDisks`` of replicas on a ``host``; ``kill`` ends one of them, of which ``died`` tells its own end.

    ``locks`` are held while a disk changes behind a replica's back: a start waits for them.
    """

    def __init__(self, host: Host, kill: Callable[[int], Awaitable[bool]], locks: dict[int, asyncio.Lock]) -> None:
        self._host = host
        self._kill = kill
        self._locks = locks
        self._hindered: dict[int, dict[int, Hindrance]] = defaultdict(dict)
        self._spans: dict[int, list[tuple[int, int | None]]] = defaultdict(list)

    def ended_by_itself(self, node: int) -> bool:
        """Whether the replica's process is gone and nobody here has ended it."""
        return self._host.died(node)

    async def lose_power(self, node: int, draw: int) -> bool:
        """Kill the replica, and take back what was not flushed; whether it ran."""
        async with self._locks[node]:
            was_there = await self._kill(node)
            if was_there:
                await asyncio.to_thread(lose_power, self._place(node), Random(f"{draw} {node}"))
        return was_there

    def hinder(self, node: int, key: int, hindrance: Hindrance) -> None:
        """Hinder the disk until it is relieved of this key; also for later processes."""
        self._hindered[node][key] = hindrance
        self._tell(node)

    def relieve(self, node: int, key: int) -> None:
        """Take back what was done by this key."""
        self._hindered[node].pop(key, None)
        self._tell(node)

    def judged(self, report: Report) -> Report:
        """The report, or the same by another name if a disk that refuses calls is the reason of it."""
        if report.event not in ENDED_BY_DISK:
            return report
        spans = self._spans[report.node]
        is_excused = any(begin <= report.wall_ns and (end is None or report.wall_ns <= end) for begin, end in spans)
        return replace(report, event=ENDED_BY_DISK[report.event]) if is_excused else report

    def _tell(self, node: int) -> None:
        hindrance = together(self._hindered[node].values())
        tell(place_in(self._host.folder(node)).hindrance, hindrance)
        spans, now_ns = self._spans[node], time.time_ns()
        refuses = hindrance.is_full or bool(hindrance.failing)
        if refuses and (not spans or spans[-1][1] is not None):
            spans.append((now_ns, None))
        elif not refuses and spans and spans[-1][1] is None:
            spans[-1] = (spans[-1][0], now_ns + AFTERMATH_NS)

    def _place(self, node: int) -> DiskPlace:
        return place_in(self._host.folder(node))
