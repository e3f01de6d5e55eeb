"""What the processes of a cluster's nodes take of the machine, looked at again and again while a run goes on.

Owns how that is read (Linux's ``/proc`` and the blocks of a data directory), and the file ``resources.jsonl``: a line
for each look at a node. A node that does not run has no line, and a process that takes its place has another number: so
whoever judges knows where a life ends. Source: ``proc(5)``.
"""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Protocol, TextIO, runtime_checkable

from nemesis.cluster.off_loop import off_loop

RESOURCES_NAME = "resources.jsonl"
LOOK_S = 5.0
_TICKS = os.sysconf("SC_CLK_TCK")
_BLOCK_BYTES = 512


@dataclass(frozen=True, slots=True, kw_only=True)
class Resources:
    """What one process of a node takes now; ``processor_s`` is since it began, ``data_bytes`` is its node's disk."""

    node: int
    process: int
    resident_bytes: int
    descriptors: int
    threads: int
    processor_s: float
    data_bytes: int


@runtime_checkable
class TellsResources(Protocol):
    """What a system has beside the rest whose nodes are processes that can be looked at."""

    def resources(self) -> Sequence[Resources]:
        """What each node takes that runs. Reads files, and so is called beside the event loop."""


def resources_of(node: int, process: int, data: Path) -> Resources | None:
    """Look at a process and at a data directory; None if it has just ended."""
    proc = Path("/proc") / str(process)
    try:
        status = dict(line.split(":", 1) for line in (proc / "status").read_text().splitlines())
        times = (proc / "stat").read_text().rpartition(")")[2].split()
        descriptors = len(os.listdir(proc / "fd"))
        resident_kib = int(status["VmRSS"].split()[0])
    except (OSError, KeyError):  # A process that has ended has no memory any more.
        return None
    return Resources(
        node=node,
        process=process,
        resident_bytes=resident_kib << 10,
        descriptors=descriptors,
        threads=int(status["Threads"]),
        processor_s=(int(times[11]) + int(times[12])) / _TICKS,
        data_bytes=sum(_bytes_below(data)),
    )


def _bytes_below(folder: Path) -> Iterator[int]:
    """What each file takes on the disk; those that go meanwhile take nothing."""
    for where, _, names in os.walk(folder):
        for name in names:
            with suppress(OSError):
                yield os.lstat(os.path.join(where, name)).st_blocks * _BLOCK_BYTES


@asynccontextmanager
async def resources_kept(
    system: object, folder: Path, now_ns: Callable[[], int], *, every_s: float = LOOK_S
) -> AsyncIterator[None]:
    """Within, look at the system every so often, and keep what was seen in ``folder``; nothing if it tells nothing."""
    if not isinstance(system, TellsResources):
        yield
        return
    with (folder / RESOURCES_NAME).open("w", encoding="utf-8") as file:
        looking = asyncio.create_task(_look(system, file, now_ns, every_s))
        try:
            yield
        finally:
            looking.cancel()
            with suppress(asyncio.CancelledError):
                await looking


async def _look(system: TellsResources, file: TextIO, now_ns: Callable[[], int], every_s: float) -> None:
    while True:
        time_s = round(now_ns() / 1e9, 3)
        for seen in await off_loop(system.resources):
            file.write(json.dumps({"time_s": time_s, **asdict(seen)}) + "\n")
        file.flush()
        await asyncio.sleep(every_s)
