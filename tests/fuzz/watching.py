"""Fuzzing in processes of their own, which are watched: one that dies or stands still is a finding, another goes on.

Owns the processes. Which input it was, the file says into which each writes the number of its input.
"""

from __future__ import annotations

import json
import select
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import asdict, replace
from pathlib import Path

import psutil

from tests.fuzz.decoder import Decoder
from tests.fuzz.running import Finding, Kind, Report, inputs_of
from tests.fuzz.worker import NUMBER_BYTES, Task, report_from_json

STANDSTILL_CPU_S_MAX = 60.0
"""An input that has taken so much of the processor hangs: the timer of the process itself has not ended it."""
STANDSTILL_S_MAX = 900.0
"""And one that is not done by then, whatever it waits for. A busy machine gives a process little of itself."""
DEATHS_MAX = 50
"""So often a decoder may end its process before it is given up."""
SLICE = 2_000
WORKER = "tests.fuzz.worker"
CATALOGUE = "tests.fuzz.catalogue"


def watched(
    decoder: Decoder,
    *,
    seed: int,
    numbers: range,
    time_s: float | None = None,
    catalogue: str = CATALOGUE,
    report: Report | None = None,
    told: Callable[[Report, int], None] = lambda *_: None,
) -> Report:
    """Run the inputs of these numbers, or as many as there is time for, and count them in ``report``.

    ``told`` is called after each slice, with the first number that is still to come, and in the end.
    """
    report = report or Report()
    slice = max(1, SLICE // decoder.cost)
    first, end = numbers.start, numbers.stop
    task = Task(catalogue=catalogue, decoder=decoder.name, seed=seed, first=first, end=end, slice=slice)
    until = None if time_s is None else time.monotonic() + time_s
    with tempfile.TemporaryDirectory() as folder:
        progress = Path(folder) / "progress"
        while task.first < task.end and len(task.skip) < DEATHS_MAX:
            progress.write_bytes(bytes(NUMBER_BYTES))
            done, ended = _run(task, progress, report, told, until)
            task = replace(task, first=min(task.end, task.first + done * slice))
            if ended is None:
                break
            number = int.from_bytes(progress.read_bytes(), "big")
            (_, content), *_ = inputs_of(decoder, seed, [number])
            kind, where = ended
            if number in task.skip:
                raise RuntimeError(f"the process for {decoder.name} does not begin: {where}")
            report.note(Finding(kind=kind, where=f"{decoder.name}: {where}", number=number, content=content))
            task = replace(task, skip=(*task.skip, number))
    told(report, task.first)
    return report


def _run(
    task: Task, progress: Path, report: Report, told: Callable[[Report, int], None], until: float | None
) -> tuple[int, tuple[Kind, str] | None]:
    """How many slices one process has done, and how it has ended before the last of them, if it has."""
    words = (sys.executable, "-m", WORKER, json.dumps(asdict(task)), str(progress))
    done, last, since = 0, b"", (time.monotonic(), 0.0)
    with subprocess.Popen(words, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        watched = psutil.Process(process.pid)
        while True:
            ready, _, _ = select.select([process.stdout], [], [], 1.0)
            if ready:
                line = process.stdout.readline()
                if not line:
                    break
                report.add(report_from_json(json.loads(line)))
                done += 1
                told(report, min(task.end, task.first + done * task.slice))
            if until is not None and time.monotonic() > until:
                process.kill()
                return done, None
            now, at = progress.read_bytes(), (time.monotonic(), _cpu_s(watched))
            last, since = now, since if now == last else at
            if at[0] - since[0] > STANDSTILL_S_MAX or at[1] - since[1] > STANDSTILL_CPU_S_MAX:
                process.kill()
                return done, (Kind.HANG, "it stands still")
    return done, (Kind.DIED, f"status {process.returncode}") if process.returncode else None


def _cpu_s(process: psutil.Process) -> float:
    """What a process has taken of the processor; one that has just ended is not seen to take more."""
    with suppress(psutil.Error):
        times = process.cpu_times()
        return float(times.user + times.system)
    return 0.0
