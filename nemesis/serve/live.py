"""A run that goes on: what has happened so far, from the shards that it has written.

Owns the counting. Each shard is read once, when it has appeared; a shard has its name only when it is whole, so that
nothing is read that is still being written. Bounded: the latest events, and a drawing of the last minutes.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from threading import Lock
from typing import Any

import msgspec
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from nemesis.history.events import NEMESIS_PROCESS, EventType
from nemesis.history.schemas import Kind
from nemesis.serve.rows import shown
from nemesis.serve.store import NotInStoreError, open_plain, shards
from nemesis.serve.summary import NS_PER_S, text_of

COLUMNS = ["index", "time_ns", "process", "type", "f", "topic_partition", "value", "error", "node", "detail"]
LATEST_MAX = 12
SECONDS_DRAWN = 120
FOLLOWED_MAX = 16
HEIGHT = 60.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Second:
    """A bar of the drawing: how many operations ended well in that second, and the part of the height that it takes."""

    at_s: int
    ok: int
    height: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Live:
    """What is known of a run so far. ``latest`` and ``faults`` have the newest event first."""

    events: int
    until_s: float
    outcomes: Mapping[str, int]
    seconds: Sequence[Second]
    faults: Sequence[Mapping[str, str]]
    latest: Sequence[Mapping[str, str]]


class Following:
    """The shards of one run that were read, and what they came to."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._read = 0
        self._events = 0
        self._until_ns = 0
        self._outcomes: Counter[str] = Counter()
        self._per_second: Counter[int] = Counter()
        self._latest: deque[Mapping[str, str]] = deque(maxlen=LATEST_MAX)
        self._faults: deque[Mapping[str, str]] = deque(maxlen=LATEST_MAX)

    def look(self) -> Live:
        """Read what is new; returns all of it. A shard that cannot be read ends the reading."""
        for path in shards(self._folder, Kind.HISTORY)[self._read :]:
            try:
                with open_plain(path) as file:
                    self._add(pq.read_table(file, columns=COLUMNS))
            except (NotInStoreError, pa.ArrowException, OSError, UnicodeDecodeError):
                break
            self._read += 1
        return self._told()

    def _add(self, table: pa.Table) -> None:
        self._events += table.num_rows
        if not table.num_rows:
            return
        self._until_ns = max(self._until_ns, pc.max(table.column("time_ns")).as_py())
        of_clients = table.filter(pc.greater_equal(table.column("process"), 0))
        ended = of_clients.filter(pc.not_equal(of_clients.column("type"), EventType.INVOKE.value))
        self._outcomes.update(ended.column("type").to_pylist())
        ok = ended.filter(pc.equal(ended.column("type"), EventType.OK.value))
        self._per_second.update(pc.divide(ok.column("time_ns"), NS_PER_S).to_pylist())
        of_nemesis = table.filter(pc.equal(table.column("process"), NEMESIS_PROCESS))
        self._faults.extendleft(_rows(of_nemesis))
        self._latest.extendleft(_rows(of_clients))

    def _told(self) -> Live:
        now = self._until_ns // NS_PER_S
        first = max(now - SECONDS_DRAWN + 1, 0)
        for old in [second for second in self._per_second if second < first]:
            del self._per_second[old]
        most = max(self._per_second.values(), default=0) or 1
        seconds = [
            Second(at_s=at, ok=self._per_second[at], height=round(HEIGHT * self._per_second[at] / most, 1))
            for at in range(first, now + 1)
        ]
        return Live(
            events=self._events,
            until_s=self._until_ns / NS_PER_S,
            outcomes={name: self._outcomes[name] for name in ("ok", "fail", "info")},
            seconds=seconds,
            faults=tuple(self._faults),
            latest=tuple(self._latest),
        )


def _rows(table: pa.Table) -> Sequence[Mapping[str, str]]:
    """The last rows as texts, with their time in seconds."""
    rows = table.slice(max(table.num_rows - LATEST_MAX, 0)).to_pylist()
    return [
        {name: shown(value) for name, value in row.items()}
        | {"at": f"{row['time_ns'] / NS_PER_S:.2f} s", "detail": _worded(row["detail"])}
        for row in rows
    ]


def _worded(detail: str | None) -> str:
    """What an event tells of itself: names and values, where it is a JSON object."""
    try:
        return shown(_in_words(msgspec.json.decode(detail or "null")))
    except (msgspec.MsgspecError, RecursionError):
        return shown(detail)


def _in_words(value: Any) -> str:
    match value:
        case dict():
            return "; ".join(f"{name}: {_in_words(part)}" for name, part in value.items() if part not in (None, [], {}))
        case list():
            return ", ".join(map(_in_words, value))
        case _:
            return text_of(value)


class LiveRuns:
    """The runs that somebody watches; who was not asked for longest is forgotten, and read again if asked for."""

    def __init__(self) -> None:
        self._followed: dict[Path, Following] = {}
        self._lock = Lock()

    def look(self, folder: Path) -> Live:
        """How far that run is."""
        with self._lock:
            following = self._followed.pop(folder, None) or Following(folder)
            self._followed[folder] = following
            while len(self._followed) > FOLLOWED_MAX:
                del self._followed[next(iter(self._followed))]
            return following.look()
