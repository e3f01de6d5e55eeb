"""A run of this harness as a ``history.edn`` that Jepsen's checker of Kafka workloads reads.

Owns the translation: an append is a ``send``, a poll or final read is a ``poll``, each with one micro-operation. Two
things Jepsen takes otherwise than this harness. An ok of an append with acks of less than all promises nothing here, so
that it is written as *info*, without its offset. A process that seeks is expected to go on reading where it was, so
that whoever seeks in a log that it has polled becomes a new process, as a client of Jepsen's that was closed and opened
again. What Jepsen has no word for stands beside each operation (``kafka_marks``).
Source: ``jepsen.tests.kafka``.

Events as EDN, as Jepsen's own tools read a ``history.edn``: one map a line.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, TextIO

import pyarrow.compute as pc
import pyarrow.parquet as pq

from nemesis.formats.edn_text import edn_text, name_of
from nemesis.formats.events import Event
from nemesis.formats.kafka_marks import MARKS, marks_of
from nemesis.formats.values import Keyword, MapValue
from nemesis.history import APPEND, FINAL_READ, POLL, EventType
from nemesis.history.reader import list_shards
from nemesis.history.schemas import Kind
from nemesis.linearizability.operations import Value

_POLLS = (POLL, FINAL_READ)


def export_kafka_edn(folder: Path, target: Path) -> int:
    """Write the history of the run in ``folder`` to the file ``target``; returns the number of events."""
    shards = list_shards(folder, Kind.HISTORY).paths
    greatest = max((_greatest_process(path) for path in shards), default=0)
    rows = (row for path in shards for row in pq.read_table(path).to_pylist())
    with target.open("w", encoding="utf-8") as out:
        return write_edn(kafka_events(rows, first_free=greatest + 1), out)


def kafka_events(rows: Iterable[Mapping[str, Any]], *, first_free: int) -> Iterator[Event]:
    """The rows of a history as Jepsen's events. Process numbers from ``first_free`` on are nobody's."""
    clients = _Clients(first_free)
    for row in rows:
        if row["process"] < 0 or row["f"] not in (APPEND, *_POLLS):
            yield _of_harness(row)
        else:
            yield clients.event_of(row)


def _greatest_process(path: Path) -> int:
    found = pc.max(pq.read_table(path, columns=["process"]).column("process")).as_py()
    return 0 if found is None else int(found)


def _of_harness(row: Mapping[str, Any]) -> Event:
    """What no client did. Jepsen's nemesis has *info* before and after, whatever came of it."""
    return Event(
        line=row["index"] + 1,
        index=row["index"],
        time=row["time_ns"],
        process="nemesis",
        type=EventType.INFO,
        f=row["f"],
        value=row["detail"],
        error=row["error"],
    )


class _Clients:
    """Who each process is to Jepsen, and what of its present operation its completion does not repeat."""

    def __init__(self, first_free: int) -> None:
        self._next = first_free
        self._names: dict[int, int] = {}
        self._polled: set[tuple[int, str]] = set()
        self._ended: set[int] = set()
        self._promises_nothing: set[int] = set()
        self._pending: set[int] = set()
        self._values: dict[int, Value] = {}

    def event_of(self, row: Mapping[str, Any]) -> Event:
        process, kind = row["process"], EventType(row["type"])
        if kind is EventType.INVOKE:
            self._begin(row)
            self._pending.add(process)
        else:
            self._pending.discard(process)
        if kind is EventType.OK and process in self._promises_nothing:
            kind = EventType.INFO
        if kind is EventType.INFO:
            self._ended.add(process)
        return Event(
            line=row["index"] + 1,
            index=row["index"],
            time=row["time_ns"],
            process=self._names[process],
            type=kind,
            f="send" if row["f"] == APPEND else "poll",
            value=(_micro_operation(row, kind, self._values.get(process)),),
            error=row["error"],
            extra={MARKS: marks_of(row)},
        )

    def _begin(self, row: Mapping[str, Any]) -> None:
        process, name = row["process"], row["topic_partition"]
        present = self._names.setdefault(process, process)
        is_poll = row["f"] in _POLLS
        seeks = is_poll and (row["f"] == FINAL_READ or row["seek"]) and (present, name) in self._polled
        if seeks or process in self._ended or process in self._pending:
            present = self._names[process] = self._next
            self._next += 1
            self._ended.discard(process)
        if is_poll:
            self._polled.add((present, name))
        self._values[process] = row["value"]
        self._promises_nothing.discard(process)
        if row["acks"] is not None:
            self._promises_nothing.add(process)


def _micro_operation(row: Mapping[str, Any], kind: EventType, sent: Value) -> Value:
    """What an event tells; ``sent`` is what its operation was asked to send, which not every completion repeats."""
    name = row["topic_partition"]
    if row["f"] == APPEND:
        is_placed = kind is EventType.OK and row["offset"] is not None
        return (Keyword("send"), name, (row["offset"], sent) if is_placed else sent)
    if row["type"] != EventType.OK:
        return (Keyword("poll"),)
    records = tuple((record["offset"], record["value"]) for record in row["records"] or ())
    return (Keyword("poll"), MapValue.of([(name, records)] if records else []))


def write_edn(events: Iterable[Event], out: TextIO) -> int:
    """Write one map a line; returns how many. Events without an index get their place as one."""
    written = 0
    for place, event in enumerate(events):
        out.write(edn_of_event(event, place) + "\n")
        written += 1
    return written


def edn_of_event(event: Event, place: int) -> str:
    """One event as a map, in the order of Jepsen's own fields."""
    value = event.value if event.key is None else (event.key, event.value)
    process = event.process if isinstance(event.process, int) else name_of(str(event.process))
    fields: dict[str, Value] = {
        "index": place if event.index is None else event.index,
        "time": event.time,
        "type": Keyword(event.type.value),
        "process": process,
        "f": name_of(event.f),
        "value": value,
        "error": event.error,
        **dict(sorted(event.extra.items())),
    }
    absent_if_none = ("time", "error")
    kept = ((name, item) for name, item in fields.items() if item is not None or name not in absent_if_none)
    return "{" + ", ".join(f"{edn_text(name_of(name))} {edn_text(item)}" for name, item in kept) + "}"
