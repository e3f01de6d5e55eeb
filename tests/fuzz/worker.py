"""A process of its own that fuzzes one decoder: a decoder that ends it, or hangs where no timer of Python's counts, is
seen by who has started it (``watching``).

Run as ``python -m tests.fuzz.worker TASK PROGRESS`` with a task in JSON; a line of JSON comes back for each slice. The
file PROGRESS holds the number of the input that is being run.
"""

from __future__ import annotations

import faulthandler
import json
import mmap
import resource
import sys
import tempfile
from base64 import b64decode, b64encode
from collections import Counter
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from importlib import import_module
from pathlib import Path
from typing import Any

from tests.fuzz.decoder import Decoder
from tests.fuzz.running import Finding, Kind, Report, fuzz, warm_up

NUMBER_BYTES = 8
IN_MEMORY = Path("/dev/shm")
"""Where the files that are decoded take no disk, if there is such a folder: a fifth of the time."""
ADDRESSES_BYTES = 2 << 30
"""What the process may take of addresses beside what it has when it begins: the kernel refuses a claim of more."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Task:
    """The inputs from ``first`` up to ``end`` in slices, but for those that have ended a process before.

    ``catalogue`` is the module whose ``DECODERS`` have the one of this name.
    """

    catalogue: str
    decoder: str
    seed: int
    first: int
    end: int
    slice: int
    skip: tuple[int, ...] = ()


def report_to_json(report: Report) -> dict[str, Any]:
    """A report as JSON has it."""
    examples = [asdict(one) | {"content": b64encode(one.content).decode()} for one in report.examples]
    return {
        "accepted": report.accepted,
        "refused": report.refused,
        "traced": report.traced,
        "peak_bytes": report.peak_bytes,
        "found": dict(report.found),
        "examples": examples,
    }


def report_from_json(document: Mapping[str, Any]) -> Report:
    """What ``report_to_json`` gave."""
    examples = [
        Finding(kind=Kind(one["kind"]), where=one["where"], number=one["number"], content=b64decode(one["content"]))
        for one in document["examples"]
    ]
    plain = {name: document[name] for name in ("accepted", "refused", "traced", "peak_bytes")}
    return Report(**plain, found=Counter(document["found"]), examples=examples)


def _bound_addresses(decoder: Decoder) -> None:
    taken = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[0]) * mmap.PAGESIZE
    _, most = resource.getrlimit(resource.RLIMIT_AS)
    resource.setrlimit(resource.RLIMIT_AS, (taken + ADDRESSES_BYTES + decoder.memory_bytes, most))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


def main(task: Task, progress: Path) -> None:
    """Fuzz, slice by slice."""
    faulthandler.enable()
    decoder: Decoder = import_module(task.catalogue).DECODERS[task.decoder]
    with (
        tempfile.TemporaryDirectory(dir=IN_MEMORY if IN_MEMORY.is_dir() else None) as folder,
        progress.open("r+b") as file,
    ):
        place = mmap.mmap(file.fileno(), NUMBER_BYTES)

        def begin(number: int) -> None:
            place[:] = number.to_bytes(NUMBER_BYTES, "big")

        warm_up(decoder, Path(folder))
        _bound_addresses(decoder)
        for first in range(task.first, task.end, task.slice):
            numbers = range(first, min(first + task.slice, task.end))
            report = fuzz(decoder, numbers, seed=task.seed, folder=Path(folder), skip=task.skip, begin=begin)
            sys.stdout.write(json.dumps(report_to_json(report)) + "\n")
            sys.stdout.flush()


if __name__ == "__main__":
    main(Task(**json.loads(sys.argv[1])), Path(sys.argv[2]))
