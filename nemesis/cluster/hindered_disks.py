"""The disks of a cluster's replicas, as far as a harness can break them.

Owns what hinders each of them now, by whom, and since when: a replica that stops by itself because its disk refuses
calls does what it should, and is not held against the cluster. Who stops for another reason meanwhile is.
"""

from __future__ import annotations

import asyncio
import time
from collections import defaultdict
from collections.abc import Awaitable, Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from random import Random

from nemesis.cluster.host import Host
from nemesis.cluster.log_lines import log_lines
from nemesis.cluster.system import Report
from nemesis.disks.damage import Damage, DiskPart
from nemesis.disks.hindrance import REFUSALS, Hindrance, tell, together
from nemesis.disks.place import DiskPlace, place_in
from nemesis.disks.power import lose_power
from nemesis.disks.spoiling import Spoiled, restore, spoil
from nemesis.faults.breakable import PowerLost
from replica.storage.segment import LOG_SUFFIX
from replica.storage.snapshots import CHECKPOINT_SUFFIX

ENDED_BY_DISK = {"halted": "halted-by-disk", "died": "died-by-disk"}
"""What is told instead of an end that the disk is the reason of."""
NOTICING_LINES = frozenset({"start_refused", "halted", "log_damaged"})
"""The lines by which a replica says what is wrong with its disk, and ends, or leaves a partition alone."""
AFTERMATH_NS = 2_000_000_000
"""How long after its disk is well again a replica may still end because of an error that it was given before."""
EXIT_HALTED = "exit code 1"
"""How the process of a replica ends that has said why it halts."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Rot:
    """From when on, and until when, a disk was damaged, and by which words a replica names that."""

    since_ns: int
    sign: str
    until_ns: int | None = None

    def explains(self, halt: Report) -> bool:
        """Whether a replica has halted meanwhile, and said that it was for this."""
        is_then = self.since_ns <= halt.monotonic_ns and (self.until_ns is None or halt.monotonic_ns <= self.until_ns)
        return is_then and self.sign in (halt.detail or "")


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
        self._spoilt: dict[int, Spoiled] = {}
        self._rotten: dict[int, list[_Rot]] = defaultdict(list)
        self._log_seen_bytes: dict[int, int] = {}

    def ended_by_itself(self, node: int) -> bool:
        """Whether the replica's process is gone and nobody here has ended it."""
        return self._host.died(node)

    async def lose_power(self, node: int, draw: int) -> PowerLost:
        """Kill the replica if it runs, and take back what was not flushed, by whichever of its processes it was."""
        async with self._locks[node]:
            if (
                node in self._spoilt
            ):  # It is out for repair. The account knows nothing of its damage, and would undo it.
                return PowerLost(ran=False, lost=False)
            was_there = await self._kill(node)
            lost = await asyncio.to_thread(lose_power, self._place(node), Random(f"{draw} {node}"))
        return PowerLost(ran=was_there, lost=lost)

    async def damage(self, node: int, part: DiskPart, how: str, draw: int) -> Damage | None:
        """Kill the replica, and damage a file of it; absent if it did not run."""
        async with self._locks[node]:
            if not await self._kill(node):
                return None
            place, dice = self._place(node), Random(f"{draw} {node}")
            self._log_seen_bytes[node] = place.log.stat().st_size if place.log.exists() else 0
            spoilt = self._spoilt[node] = await asyncio.to_thread(spoil, place, part, how, dice)
            self._rotten[node].append(_Rot(since_ns=time.monotonic_ns(), sign=_sign(spoilt.damage)))
        return spoilt.damage

    async def repair(self, node: int) -> str | None:
        """Put the sound file back; why not, if that cannot be."""
        async with self._locks[node]:
            spoilt = self._spoilt.get(node)
            if spoilt is None:
                return "the disk was replaced meanwhile"
            self.replaced(node)
            return await asyncio.to_thread(restore, self._place(node), spoilt)

    def is_damaged(self, node: int) -> bool:
        """Whether there is damage that was neither repaired nor thrown away with its disk."""
        return node in self._spoilt

    def replaced(self, node: int) -> None:
        """Another disk, or the sound file, comes in the place of what was damaged, if anything was."""
        if self._spoilt.pop(node, None) is not None:
            self._rotten[node][-1] = replace(self._rotten[node][-1], until_ns=time.monotonic_ns())

    def last_words(self, node: int) -> str | None:
        """The reason in the last line by which the replica has said what is wrong, since its disk was damaged."""
        lines = log_lines(self._place(node).log, skip_bytes=self._log_seen_bytes.get(node, 0))
        told = [line["reason"] for line in lines if line.get("event") in NOTICING_LINES and "reason" in line]
        return str(told[-1]) if told else None

    def hinder(self, node: int, key: int, hindrance: Hindrance) -> None:
        self._hindered[node][key] = hindrance
        self._tell(node)

    def relieve(self, node: int, key: int) -> None:
        self._hindered[node].pop(key, None)
        self._tell(node)

    def judged(self, reports: Iterable[Report]) -> Iterator[Report]:
        """The reports, which are in order of time; ends by another name where a disk that refuses calls is the reason.

        A halt is excused that names an error of the disk while it was given such errors, or the damage that was done to
        it, and so is the orderly end of the process after that. No other end is, whatever the disk does meanwhile: a
        crash is a crash.
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
        """Whether a replica says that it halts for its damage, or an error that its disk gives or has just given."""
        if any(rot.explains(halt) for rot in self._rotten[halt.node]):
            return True
        spans = self._spans[halt.node]
        was_hindered = any(
            begin <= halt.monotonic_ns and (end is None or halt.monotonic_ns <= end) for begin, end in spans
        )
        return was_hindered and any(error in (halt.detail or "") for error in REFUSALS)

    def _tell(self, node: int) -> None:
        hindrance = together(self._hindered[node].values())
        tell(self._place(node).hindrance, hindrance)
        spans, now_ns = self._spans[node], time.monotonic_ns()
        refuses = hindrance.is_full or bool(hindrance.failing)
        if refuses and (not spans or spans[-1][1] is not None):
            spans.append((now_ns, None))
        elif not refuses and spans and spans[-1][1] is None:
            spans[-1] = (spans[-1][0], now_ns + AFTERMATH_NS)

    def _place(self, node: int) -> DiskPlace:
        return place_in(self._host.folder(node))


def _sign(damage: Damage) -> str:
    """What a replica says of this damage: the file; of a log any of its segments, of a snapshot that it is corrupt."""
    path = Path(damage.file)
    if path.suffix == LOG_SUFFIX:
        return f"/{path.parent}/"
    return "is corrupt" if path.suffix == CHECKPOINT_SUFFIX else damage.file
