"""The disks of a cluster's replicas, as far as a harness can break them.

Owns what hinders each of them now, by whom, and since when: a replica that stops by itself because its disk refuses
calls does what it should, and is not held against the cluster. Who stops for another reason meanwhile is.
"""

from __future__ import annotations

import asyncio
import time
from collections import defaultdict
from collections.abc import Awaitable, Callable, Iterable, Iterator
from dataclasses import replace
from random import Random

from nemesis.cluster.host import Host
from nemesis.cluster.system import PowerLost, Report
from nemesis.disks.hindrance import REFUSALS, Hindrance, tell, together
from nemesis.disks.place import DiskPlace, place_in
from nemesis.disks.power import lose_power

ENDED_BY_DISK = {"halted": "halted-by-disk", "died": "died-by-disk"}
"""What is told instead of an end that the disk is the reason of."""
AFTERMATH_NS = 2_000_000_000
"""How long after its disk is well again a replica may still end because of an error that it was given before."""
EXIT_HALTED = "exit code 1"
"""How the process of a replica ends that has said why it halts."""


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

    async def lose_power(self, node: int, draw: int) -> PowerLost:
        """Kill the replica if it runs, and take back what was not flushed, by whichever of its processes it was."""
        async with self._locks[node]:
            was_there = await self._kill(node)
            lost = await asyncio.to_thread(lose_power, self._place(node), Random(f"{draw} {node}"))
        return PowerLost(ran=was_there, lost=lost)

    def hinder(self, node: int, key: int, hindrance: Hindrance) -> None:
        """Hinder the disk until it is relieved of this key; also for later processes."""
        self._hindered[node][key] = hindrance
        self._tell(node)

    def relieve(self, node: int, key: int) -> None:
        """Take back what was done by this key."""
        self._hindered[node].pop(key, None)
        self._tell(node)

    def judged(self, reports: Iterable[Report]) -> Iterator[Report]:
        """The reports, which are in order of time; ends by another name where a disk that refuses calls is the reason.

        A halt is excused that names an error of the disk while it was given such errors, and so is the orderly end of
        the process after that. No other end is, whatever the disk does meanwhile: a crash is a crash.
        """
        excused: set[int] = set()
        for report in reports:
            match report.event:
                case "started":
                    excused.discard(report.node)
                case "halted" if self._is_refused(report):
                    excused.add(report.node)
                case "halted":
                    excused.discard(report.node)
                case "died" if report.detail != EXIT_HALTED:
                    excused.discard(report.node)
                case _:
                    pass
            is_excused = report.event in ENDED_BY_DISK and report.node in excused
            yield replace(report, event=ENDED_BY_DISK[report.event]) if is_excused else report

    def _is_refused(self, halt: Report) -> bool:
        """Whether a replica says that it halts for an error that its disk gives, or has just given."""
        spans = self._spans[halt.node]
        was_hindered = any(begin <= halt.wall_ns and (end is None or halt.wall_ns <= end) for begin, end in spans)
        return was_hindered and any(error in (halt.detail or "") for error in REFUSALS)

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
