"""What a run has kept of what its replicas took, and how long its operations lasted, as medians of windows of time.

Owns the cutting of a run into windows and lives. The run's folder is all that is read: ``resources.jsonl``, the table
of operations and the length of the workload in ``test.json``.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from nemesis.history.document import TEST_NAME
from nemesis.history.events import FINAL_READ
from nemesis.history.reader import read_history

RESOURCES_NAME = "resources.jsonl"
WINDOWS = 60
"""So many windows a run is cut into: medians of enough looks, and enough of them to see a trend."""
WINDOW_S_MIN = 10.0
"""Shorter ones have one look, or none."""

Floats = npt.NDArray[np.float64]


class TooShortError(ValueError):
    """The run has nothing to be judged by; the message says why."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Life:
    """A quantity of one process of a replica, or of all of a run: one value for each window of its life."""

    time_s: Floats
    """The middle of each window, from the beginning of the workload."""
    age_s: Floats
    """The same from the first look at it."""
    value: Floats


@dataclass(frozen=True, slots=True, kw_only=True)
class Series:
    """One quantity of one replica, life after life; ``node`` is absent for what is the cluster's."""

    quantity: str
    node: int | None
    lives: tuple[Life, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class RunSeries:
    """Every quantity of a run, whose workload lasted ``limit_s``."""

    series: tuple[Series, ...]
    window_s: float
    limit_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Look:
    """One look at one process."""

    time_s: float
    process: int
    values: Mapping[str, float]


def read_series(folder: Path) -> RunSeries:
    """Read a run's folder. Raises TooShortError, HistoryError, and what a document raises that is damaged."""
    limit_s = float(json.loads((folder / TEST_NAME).read_text(encoding="utf-8"))["options"]["time_limit"])
    window_s = limit_s / WINDOWS
    if window_s < WINDOW_S_MIN:
        least_s = WINDOWS * WINDOW_S_MIN
        raise TooShortError(f"the workload lasted {limit_s:g} s: drift takes {least_s:g} s or more to be seen")
    ended_s, lasted_ms = _latencies(folder)
    if not len(ended_s):
        raise TooShortError("no operation was answered")
    begin_s = float(ended_s.min())
    looks = looks_in(folder / RESOURCES_NAME, begin_s, begin_s + limit_s)
    operations = of_operations(ended_s - begin_s, lasted_ms, window_s, limit_s)
    return RunSeries(series=(*of_replicas(looks, window_s), *operations), window_s=window_s, limit_s=limit_s)


def looks_in(path: Path, begin_s: float, end_s: float) -> dict[int, list[Look]]:
    """What was seen of each replica while the workload went on, by the time since it began."""
    if not path.exists():
        raise TooShortError(f"it has no {RESOURCES_NAME}: its nodes were no processes that this machine could look at")
    found: dict[int, list[Look]] = {}
    for line in path.read_text(encoding="utf-8").splitlines():
        row: dict[str, Any] = json.loads(line)
        time_s, node, process = row.pop("time_s"), row.pop("node"), row.pop("process")
        if begin_s <= time_s <= end_s:
            found.setdefault(node, []).append(Look(time_s=time_s - begin_s, process=process, values=row))
    return found


def of_replicas(looks: Mapping[int, list[Look]], window_s: float) -> Iterator[Series]:
    """Each quantity of each replica. A disk outlives its processes, and has one life."""
    for node, of_node in sorted(looks.items()):
        by_process: dict[int, list[Look]] = {}
        for look in of_node:
            by_process.setdefault(look.process, []).append(look)
        lives = list(by_process.values())
        for name in ("resident_bytes", "descriptors", "threads"):
            yield Series(quantity=name, node=node, lives=tuple(_life(name, life, window_s) for life in lives))
        busy = tuple(_life("busy", _with_rates(life), window_s) for life in lives if len(life) > 1)
        yield Series(quantity="processor", node=node, lives=busy)
        yield Series(quantity="data_bytes", node=node, lives=(_life("data_bytes", of_node, window_s),))


def _with_rates(life: list[Look]) -> list[Look]:
    """How busy a process was from each look to the next, as a share of one core."""
    return [
        Look(
            time_s=after.time_s,
            process=after.process,
            values={"busy": (after.values["processor_s"] - one.values["processor_s"]) / (after.time_s - one.time_s)},
        )
        for one, after in pairwise(life)
        if after.time_s > one.time_s
    ]


def _life(name: str, looks: list[Look], window_s: float) -> Life:
    time_s = np.array([look.time_s for look in looks], np.float64)
    value = np.array([look.values[name] for look in looks], np.float64)
    return windowed(time_s, value, window_s)


def windowed(time_s: Floats, value: Floats, window_s: float, percent: float = 50) -> Life:
    """One value for each window that has any: that percentile of its values."""
    number = np.floor_divide(time_s, window_s)
    present = np.unique(number)
    at_s = (present + 0.5) * window_s
    begin_s = time_s.min() if len(time_s) else 0.0
    return Life(
        time_s=at_s,
        age_s=at_s - begin_s,
        value=np.array([np.percentile(value[number == one], percent) for one in present], np.float64),
    )


def of_operations(ended_s: Floats, lasted_ms: Floats, window_s: float, limit_s: float) -> Iterator[Series]:
    """How long operations lasted that were done: most, and nearly all."""
    within = ended_s <= limit_s
    for name, percent in (("latency_p50_ms", 50), ("latency_p99_ms", 99)):
        life = windowed(ended_s[within], lasted_ms[within], window_s, percent)
        yield Series(quantity=name, node=None, lives=(life,))


def _latencies(folder: Path) -> tuple[Floats, Floats]:
    """When each operation of a client ended that was done, and how long it had lasted."""
    table = read_history(folder)
    index, time_ns, invoked = (table.column(name).to_numpy() for name in ("index", "time_ns", "invoked"))
    process = table.column("process").to_numpy()
    kind, f = table.column("type").to_numpy(zero_copy_only=False), table.column("f").to_numpy(zero_copy_only=False)
    rows = np.flatnonzero((kind == "ok") & (process >= 0) & (f != FINAL_READ))
    begun_ns = time_ns[np.searchsorted(index, invoked[rows].astype(np.int64))]
    return time_ns[rows] / 1e9, (time_ns[rows] - begun_ns) / 1e6
