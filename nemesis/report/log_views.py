"""Each log over time: leaders, who was in sync, high watermarks, and how far each replica's log went.

Owns the reading of the replicas' events, the harness's looks and the clients' acknowledgements into intervals and
series for one small drawing each. Says nothing between two log end offsets that were told: each is a point.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from nemesis.checks.replica_events import replica_ids
from nemesis.history.events import APPEND, BECAME_LEADER, FINAL_ISR, HIGH_WATERMARK
from nemesis.report.operations import NS_PER_SECOND
from nemesis.report.timeline import TRUNCATED, event_rows
from nemesis.report.values import Cut, InSync, LogView, ReplicaLog, Series, Timeline

LOGS_MAX = 24
"""So many logs are drawn; the page says when there were more."""
POINTS_MAX = 300
"""Points of one series; of more, the highest and the lowest of each stretch."""
ISR_TOLD = frozenset({BECAME_LEADER, "isr-shrunk", "isr-expanded", FINAL_ISR})
Rows = Sequence[Mapping[str, Any]]


def log_views(
    history: pa.Table,
    events: pa.Table,
    timeline: Timeline,
    logs: Sequence[ReplicaLog],
    extent_ns: tuple[int, int],
    in_question: Iterable[str],
) -> tuple[LogView, ...]:
    """All logs of which anything is known over time: first those ``in_question``, then those to which most happened."""
    origin_ns, end_ns = extent_ns
    end_s = (end_ns - origin_ns) / NS_PER_SECOND
    told: defaultdict[str, list[Mapping[str, Any]]] = defaultdict(list)
    for row in event_rows(events, origin_ns):
        if row["topic_partition"] is not None:
            told[row["topic_partition"]].append(row)
    acknowledged = _acknowledged(history, origin_ns)
    happened = Counter(mark.log for mark in timeline.marks)
    names = [*in_question, *sorted({*told, *acknowledged}, key=lambda name: (-happened[name], name))]
    return tuple(
        LogView(
            name=name,
            reigns=tuple(reign for reign in timeline.leaderships if reign.log == name),
            in_sync=tuple(_in_sync(told[name], end_s)),
            high_watermarks=_by_replica(_high_watermarks(told[name])),
            log_ends=_by_replica([*_log_ends(told[name]), *_final_ends(logs, name, end_s)]),
            cuts=tuple(_cuts(told[name])),
            acknowledged=acknowledged.get(name, _series(None, (), ())),
        )
        for name in dict.fromkeys(names)
        if name in told or name in acknowledged
    )


Point = tuple[int, float, int]
"""A replica, a time in seconds and an offset."""


def _high_watermarks(rows: Rows) -> Iterator[Point]:
    for row in rows:
        if row["event"] == HIGH_WATERMARK and row["offset"] is not None:
            yield row["replica_id"], row["time_s"], row["offset"]


def _log_ends(rows: Rows) -> Iterator[Point]:
    for row in rows:
        end = row["offset"] if row["event"] == TRUNCATED else row["told"].get("log_end_offset")
        if isinstance(end, int):
            yield row["replica_id"], row["time_s"], end


def _final_ends(logs: Sequence[ReplicaLog], name: str, end_s: float) -> Iterator[Point]:
    for log in logs:
        if log.topic_partition == name:
            yield log.replica_id, end_s, log.log_end_offset


def _cuts(rows: Rows) -> Iterator[Cut]:
    for row in rows:
        if row["event"] == TRUNCATED and row["offset"] is not None:
            begin = row["told"].get("from_offset")
            yield Cut(
                replica_id=row["replica_id"],
                time_s=row["time_s"],
                from_offset=begin if isinstance(begin, int) else None,
                to_offset=row["offset"],
            )


def _in_sync(rows: Rows, end_s: float) -> Iterator[InSync]:
    """Who was in sync, each time until it was told again, or a leader was elected that did not tell.

    A new leader tells who is in sync in its epoch. It tells of a change who is from then on, and who was until then:
    that is all that is known of the time before the first one, and behind a leader that did not tell.
    """
    tellings = [row for row in rows if row["event"] in ISR_TOLD and replica_ids(row["told"].get("isr")) is not None]
    told_s = {row["time_s"] for row in tellings}
    silent_s = {row["time_s"] for row in rows if row["event"] == BECAME_LEADER} - told_s
    bounds = sorted({*silent_s, *told_s, end_s})
    for row in tellings:
        at, isr = row["time_s"], set(replica_ids(row["told"].get("isr")) or ())
        left, joined = (set(replica_ids(row["told"].get(name)) or ()) for name in ("left", "joined"))
        begin = max((bound for bound in bounds if bound < at), default=None)
        if begin is not None and begin in silent_s:
            yield from (InSync(replica_id=one, start_s=begin, end_s=at) for one in sorted((isr | left) - joined))
        end = min((bound for bound in bounds if bound > at), default=end_s)
        yield from (InSync(replica_id=one, start_s=at, end_s=end) for one in sorted(isr))


def _by_replica(points: Iterable[Point]) -> tuple[Series, ...]:
    grouped: defaultdict[int, list[Point]] = defaultdict(list)
    for point in points:
        grouped[point[0]].append(point)
    return tuple(
        _series(replica_id, [time_s for _, time_s, _ in own], [offset for _, _, offset in own])
        for replica_id, own in sorted(grouped.items())
    )


def _series(replica_id: int | None, times_s: Sequence[float], offsets: Sequence[int]) -> Series:
    return (
        Series(
            replica_id=replica_id,
            times_s=tuple(round(time_s, 4) for time_s in times_s),
            offsets=tuple(int(offset) for offset in offsets),
        )
        if len(times_s) <= POINTS_MAX
        else _thinned(replica_id, np.asarray(times_s), np.asarray(offsets))
    )


def _thinned(replica_id: int | None, times_s: npt.NDArray[Any], offsets: npt.NDArray[Any]) -> Series:
    """The lowest and the highest offset of each stretch, in order of time."""
    stretches = POINTS_MAX // 2
    stretch = np.arange(len(offsets)) * stretches // len(offsets)
    order = np.lexsort((offsets, stretch))
    edges = np.searchsorted(stretch, np.arange(stretches + 1))
    kept = np.union1d(order[edges[:-1]], order[edges[1:] - 1])
    return _series(replica_id, times_s[kept].tolist(), offsets[kept].tolist())


def _acknowledged(history: pa.Table, origin_ns: int) -> dict[str, Series]:
    """By log, the offsets that clients were told, in order of time."""
    columns = history.select(["time_ns", "type", "f", "topic_partition", "offset"])
    is_ok = pc.and_(pc.equal(columns.column("f"), APPEND), pc.equal(columns.column("type"), "ok"))
    placed = columns.filter(pc.and_(is_ok, pc.is_valid(columns.column("offset"))))
    names = placed.column("topic_partition").combine_chunks().dictionary_encode()
    codes = np.asarray(pc.fill_null(names.indices, -1).to_numpy(zero_copy_only=False))
    times_s = (placed.column("time_ns").to_numpy() - origin_ns) / NS_PER_SECOND
    offsets = placed.column("offset").to_numpy()
    order = np.argsort(codes, kind="stable")
    edges = np.searchsorted(codes[order], np.arange(len(names.dictionary) + 1))
    parts = (order[edges[code] : edges[code + 1]] for code in range(len(names.dictionary)))
    return {
        name: _series(None, times_s[own].tolist(), offsets[own].tolist())
        for name, own in zip(names.dictionary.to_pylist(), parts, strict=True)
    }
