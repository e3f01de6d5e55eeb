"""The replicas' logs of one topic-partition side by side: how far each goes, its epochs, and what differs where.

Owns what is drawn of them: a bar for each replica with a part for each epoch, who led each epoch, and a table of the
offsets that an anomaly names. Compares batches to say where the logs differ first, and judges nothing: a tail that is
not committed may differ. Bounded: so many epochs and offsets are shown, those nearest to what is named, and the rest is
counted. Knows nothing of HTML.

A table of offsets, a column for each who says what stands there: which offsets, and what a row is made of.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from nemesis.history.events import APPEND, BECAME_LEADER, EventType
from nemesis.report.final_logs import ReplicaBatches, replica_batches

EPOCHS_MAX = 24
EPOCH_COLOURS = 6
STRETCHES_MAX = 100
"""So many parts of one bar are drawn."""
LEADERS_MAX = 3
"""Of one epoch so many leaders are named; there should be one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Stretch:
    """A part of a bar that is of one epoch: where it begins and how wide it is, in per cent of the width."""

    epoch: int
    colour: int
    begin: float
    width: float
    first_offset: int
    end_offset: int


@dataclass(frozen=True, slots=True, kw_only=True)
class LogBar:
    """One replica. ``mark`` is where its high watermark stands, in per cent; None where nobody told it."""

    replica_id: int
    log_start_offset: int
    log_end_offset: int
    high_watermark: int | None
    is_complete: bool
    mark: float | None
    stretches: Sequence[Stretch]


@dataclass(frozen=True, slots=True, kw_only=True)
class Epoch:
    """Who led an epoch, as the replicas told, and from which offset on each of them holds batches of it."""

    number: int
    colour: int
    leaders: str
    held: Sequence[str]


@dataclass(frozen=True, slots=True, kw_only=True)
class LogsSideBySide:
    """One topic-partition. ``parting`` is where the first offset that differs stands, in per cent."""

    topic_partition: str
    anomalies: Sequence[str]
    says: str
    parting: float | None
    begin: int
    end: int
    bars: Sequence[LogBar]
    epochs: Sequence[Epoch]
    epochs_left_out: int
    offsets: OffsetTable


def side_by_side(
    topic_partition: str,
    anomalies: Sequence[str],
    named: Iterable[int],
    logs: pa.Table,
    events: pa.Table,
    history: pa.Table,
) -> LogsSideBySide | None:
    """What is shown of a topic-partition in which ``anomalies`` name these offsets; None without logs of several."""
    replicas = replica_batches(logs, topic_partition)
    if len(replicas) < 2:
        return None
    parts = first_difference(replicas)
    focus = sorted({*named, *([] if parts is None else [parts])})
    numbers = sorted({int(epoch) for log in replicas for epoch in np.unique(log.epoch)})
    near = focus[0] if focus else max(log.end_offset for log in replicas)
    chosen = _nearest(replicas, numbers, near)
    colours = {epoch: place % EPOCH_COLOURS for place, epoch in enumerate(numbers)}
    stretches = {log.replica_id: list(islice(_stretches(log, chosen), STRETCHES_MAX)) for log in replicas}
    begin, end = _extent(replicas, stretches, is_cut=len(chosen) < len(numbers))
    return LogsSideBySide(
        topic_partition=topic_partition,
        anomalies=anomalies,
        says=_says(replicas, parts),
        parting=None if parts is None or not begin <= parts <= end else _percent(parts, begin, end),
        begin=begin,
        end=end,
        bars=[_bar(log, stretches[log.replica_id], begin, end, colours) for log in replicas],
        epochs=_epochs(topic_partition, chosen, colours, stretches, events),
        epochs_left_out=len(numbers) - len(chosen),
        offsets=_offsets(topic_partition, focus, parts, replicas, colours, history),
    )


def first_difference(replicas: Sequence[ReplicaBatches]) -> int | None:
    """The first offset, of those that all have, at which not all hold the same batch; None if they agree there."""
    start = max(log.start_offset for log in replicas)
    end = min(log.end_offset for log in replicas)
    rows = [np.unique(log.identities(start, end), axis=0) for log in replicas]
    unique, count = np.unique(np.concatenate(rows), axis=0, return_counts=True)
    lonely = unique[count < len(replicas)]
    return int(lonely[:, 0].min()) if len(lonely) else None


def _says(replicas: Sequence[ReplicaBatches], parts: int | None) -> str:
    start, end = max(log.start_offset for log in replicas), min(log.end_offset for log in replicas)
    if start >= end:
        return "No offset is held by all of them."
    if parts is None:
        return f"From offset {start} to {end - 1}, which all of them have, they hold the same."
    vouching = [log.replica_id for log in replicas if log.high_watermark is not None and parts < log.high_watermark]
    by = f"below the high watermark of replica{'s' if len(vouching) > 1 else ''} {_listed(vouching)}"
    return f"They differ first at offset {parts}, {by if vouching else 'above every high watermark that is known'}."


def _nearest(replicas: Sequence[ReplicaBatches], numbers: Sequence[int], offset: int) -> list[int]:
    """Of the epochs those that are held nearest to ``offset``."""

    if len(numbers) <= EPOCHS_MAX:
        return list(numbers)
    distance = dict.fromkeys(numbers, offset + max(log.end_offset for log in replicas))
    for log in replicas:
        held, places = np.unique(log.epoch, return_inverse=True)
        nearest = np.full(len(held), np.iinfo(np.int64).max)
        np.minimum.at(nearest, places, np.abs(log.base_offset - offset))
        for epoch, found in zip(held.tolist(), nearest.tolist(), strict=True):
            distance[epoch] = min(distance[epoch], found)
    return sorted(sorted(numbers, key=lambda epoch: distance[epoch])[:EPOCHS_MAX])


def _stretches(log: ReplicaBatches, epochs: Sequence[int]) -> Iterable[tuple[int, int, int]]:
    """Runs of batches of one epoch: the epoch, the first offset, and the one behind the last."""
    if not len(log.epoch):
        return
    starts = np.flatnonzero(np.r_[True, np.diff(log.epoch) != 0])
    for first, behind in zip(starts.tolist(), [*starts[1:].tolist(), len(log.epoch)], strict=True):
        if int(log.epoch[first]) in epochs:
            yield int(log.epoch[first]), int(log.base_offset[first]), int(log.last_offset[behind - 1]) + 1


def _extent(
    replicas: Sequence[ReplicaBatches], stretches: Mapping[int, Sequence[tuple[int, int, int]]], *, is_cut: bool
) -> tuple[int, int]:
    """The offsets that the bars reach over."""
    held = [stretch for own in stretches.values() for stretch in own]
    if is_cut and held:
        return min(first for _, first, _ in held), max(end for _, _, end in held)
    return min(log.start_offset for log in replicas), max(log.end_offset for log in replicas)


def _percent(offset: int, begin: int, end: int) -> float:
    return 100 * min(max(offset - begin, 0), end - begin) / max(end - begin, 1)


def _bar(
    log: ReplicaBatches,
    stretches: Sequence[tuple[int, int, int]],
    begin: int,
    end: int,
    colours: Mapping[int, int],
) -> LogBar:
    high_watermark = log.high_watermark
    is_seen = high_watermark is not None and begin <= high_watermark <= end
    return LogBar(
        replica_id=log.replica_id,
        log_start_offset=log.start_offset,
        log_end_offset=log.end_offset,
        high_watermark=high_watermark,
        is_complete=log.is_complete,
        mark=_percent(high_watermark, begin, end) if is_seen and high_watermark is not None else None,
        stretches=[
            Stretch(
                epoch=epoch,
                colour=colours[epoch],
                begin=_percent(first, begin, end),
                width=_percent(behind, begin, end) - _percent(first, begin, end),
                first_offset=first,
                end_offset=behind,
            )
            for epoch, first, behind in stretches
        ],
    )


def _epochs(
    topic_partition: str,
    numbers: Sequence[int],
    colours: Mapping[int, int],
    stretches: Mapping[int, Sequence[tuple[int, int, int]]],
    events: pa.Table,
) -> list[Epoch]:
    leaders = _leaders(topic_partition, events)
    return [
        Epoch(
            number=number,
            colour=colours[number],
            leaders=_led(leaders.get(number, ())),
            held=[_held([stretch for stretch in own if stretch[0] == number]) for own in stretches.values()],
        )
        for number in numbers
    ]


def _leaders(topic_partition: str, events: pa.Table) -> dict[int, list[int]]:
    """Who told that it had become the leader, by epoch; each once, in order of time."""
    about = events.column("topic_partition")
    own = pc.and_(
        pc.equal(events.column("event"), BECAME_LEADER),
        pc.or_(pc.is_null(about), pc.fill_null(pc.equal(about, topic_partition), False)),
    )
    found: dict[int, list[int]] = {}
    for row in events.filter(own).sort_by("time_ns").select(["epoch", "replica_id"]).to_pylist():
        if row["epoch"] is not None and row["replica_id"] not in found.setdefault(row["epoch"], []):
            found[row["epoch"]].append(row["replica_id"])
    return found


def _led(leaders: Sequence[int]) -> str:
    if not leaders:
        return "nobody told"
    more = f" and {len(leaders) - LEADERS_MAX} more" if len(leaders) > LEADERS_MAX else ""
    return f"replica{'s' if len(leaders) > 1 else ''} {_listed(leaders[:LEADERS_MAX])}{more}"


def _held(stretches: Sequence[tuple[int, int, int]]) -> str:
    """Where a replica holds batches of one epoch."""
    if not stretches:
        return "none"
    _, first, end = stretches[0]
    more = f", and {len(stretches) - 1} times more" if len(stretches) > 1 else ""
    return (f"{first} to {end - 1}" if end - 1 > first else str(first)) + more


def _listed(numbers: Iterable[int]) -> str:
    return ", ".join(map(str, numbers))


# --- offset by offset -------------------------------------------------------------------------------------------------


def _offsets(
    topic_partition: str,
    focus: Sequence[int],
    parts: int | None,
    replicas: Sequence[ReplicaBatches],
    colours: Mapping[int, int],
    history: pa.Table,
) -> OffsetTable:
    shown = windows(focus)
    acknowledged = _acknowledged(topic_partition, shown, history)
    rows: list[OffsetRow] = []
    for offset in shown:
        held = [log.at(offset) for log in replicas]
        known = {cell.identity for cell in held if cell.identity is not None}
        rows.append(
            OffsetRow(
                offset=offset,
                is_named=offset in focus,
                is_first=offset == parts,
                differs=len(known) > 1,
                follows=bool(rows) and rows[-1].offset == offset - 1,
                cells=[acknowledged.get(offset, ""), *(cell.text for cell in held)],
                colours=[None, *(None if cell.epoch is None else colours.get(cell.epoch) for cell in held)],
            )
        )
    return OffsetTable(
        columns=["Acknowledged to a client", *(f"Replica {log.replica_id}" for log in replicas)], rows=rows
    )


def _acknowledged(topic_partition: str, offsets: Sequence[int], history: pa.Table) -> dict[int, str]:
    """The values that were acknowledged at these offsets."""
    if not offsets:
        return {}
    masks: list[Any] = [
        pc.equal(history.column("f"), APPEND),
        pc.equal(history.column("type"), EventType.OK.value),
        pc.fill_null(pc.equal(history.column("topic_partition"), topic_partition), False),
        pc.is_in(history.column("offset"), pa.array(offsets, pa.int64())),
    ]
    mask = masks[0]
    for other in masks[1:]:
        mask = pc.and_(mask, other)
    found: dict[int, list[str]] = {}
    for row in history.filter(mask).select(["offset", "value", "leader_epoch"]).to_pylist():
        epoch = "" if row["leader_epoch"] is None else f" in epoch {row['leader_epoch']}"
        found.setdefault(row["offset"], []).append(f"{row['value']}{epoch}")
    return {offset: "; ".join(values[:LEADERS_MAX]) for offset, values in found.items()}


BEFORE, AFTER = 3, 4
NAMED_MAX = 4
"""So many of the offsets that are named are looked at, each with those around it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OffsetRow:
    """One offset. ``differs``: not all who hold something there hold the same. ``follows``: on the row above.

    ``is_named``: by an anomaly; ``is_first``: it is the first that differs. A cell has the colour of its epoch.
    """

    offset: int
    is_named: bool
    is_first: bool
    differs: bool
    follows: bool
    cells: Sequence[str]
    colours: Sequence[int | None]


@dataclass(frozen=True, slots=True, kw_only=True)
class OffsetTable:
    """Rows in the order of their offsets; the names of the columns are without that of the offset."""

    columns: Sequence[str]
    rows: Sequence[OffsetRow]


def windows(named: Iterable[int]) -> list[int]:
    """The offsets to show, in their order."""
    chosen = sorted(named)[:NAMED_MAX]
    return sorted({offset for one in chosen for offset in range(max(one - BEFORE, 0), one + AFTER + 1)})
