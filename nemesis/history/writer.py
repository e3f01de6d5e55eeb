"""Write a run's tables as Parquet shards while the run goes on.

Owns the pairing of completions with invocations, as they come, and the layout of the folder:
``<table>/part-00000.parquet`` and so on, and the marker of a history that has its end. A shard is written under a
temporary name and renamed, so that whatever is found under its real name is whole, even when the run was killed. Knows
no clock and no event loop: when a shard that is not full should be written is the caller's decision (``flush``).
"""

from __future__ import annotations

import json
from pathlib import Path
from types import TracebackType
from typing import Any, assert_never

import pyarrow as pa
import pyarrow.parquet as pq

from nemesis.history.events import HistoryEvent, ReplicaEvent, ReplicaLogBatch, RunEvent
from nemesis.history.pairing import Pairing
from nemesis.history.schemas import COMPLETE_MARKER, SCHEMAS, Kind

SHARD_ROWS_DEFAULT = 10_000
SHARD_ROWS_MAX = 10_000_000


def shard_name(number: int) -> str:
    """The file of a table's shard; they are numbered from 0 without gaps."""
    return f"part-{number:05d}.parquet"


def _row(event: RunEvent) -> dict[str, Any]:
    row = {name: getattr(event, name) for name in type(event).__struct_fields__}
    if row.get("records") is not None:
        row["records"] = [(record.offset, record.value) for record in row["records"]]
    return row


class _Shards:
    """The shards of one table: rows wait here until a shard is full or the caller flushes."""

    def __init__(self, folder: Path, kind: Kind) -> None:
        self._folder = folder / kind
        self._schema = SCHEMAS[kind]
        self._rows: list[dict[str, Any]] = []
        self._written = 0
        self.total = 0

    def add(self, row: dict[str, Any]) -> int:
        self._rows.append(row)
        self.total += 1
        return len(self._rows)

    def flush(self) -> None:
        """Write the waiting rows as one shard; nothing when none wait."""
        if not self._rows:
            return
        path = self._folder / shard_name(self._written)
        unfinished = self._folder / f".{path.name}.unfinished"
        table = pa.Table.from_pylist(self._rows, schema=self._schema)
        pq.write_table(table, unfinished, write_page_checksum=True)
        unfinished.rename(path)
        self._written += 1
        self._rows = []


class HistoryWriter:
    """Records the events of one run into ``folder``; a full shard is written at once.

    Not for use from several threads. As a context manager it closes on a clean exit and abandons on an exception.
    Raises ``FileExistsError`` when the folder already holds a history, ``ValueError`` when an index is not the next one
    or something is written after the end.
    """

    def __init__(self, folder: Path, *, shard_rows: int = SHARD_ROWS_DEFAULT) -> None:
        if not 1 <= shard_rows <= SHARD_ROWS_MAX:
            raise ValueError(f"shard_rows is {shard_rows}: give 1 to {SHARD_ROWS_MAX}")
        for kind in Kind:
            if any((folder / kind).glob("*.parquet")):
                raise FileExistsError(f"{folder / kind} already holds a recorded run: give a new folder")
        self._marker = folder / Kind.HISTORY / COMPLETE_MARKER
        # All of them from the start, and the history, by which a run is known, when the others are there: who watches
        # it grow must have something to watch.
        for kind in sorted(Kind, key=lambda kind: kind is Kind.HISTORY):
            (folder / kind).mkdir(parents=True, exist_ok=True)
        self._shard_rows = shard_rows
        self._shards = {kind: _Shards(folder, kind) for kind in Kind}
        self._next_index = 0
        self._pairing = Pairing()
        self._closed = False

    @property
    def next_index(self) -> int:
        """The index that the next event of the history must have."""
        return self._next_index

    def write(self, event: RunEvent) -> None:
        """Record one event in the table that is made for it."""
        if self._closed:
            raise ValueError(f"the history is closed: {event} comes after its end")
        kind = self._kind_of(event)
        row = _row(event)
        if isinstance(event, HistoryEvent):
            row["invoked"] = self._pairing.invoked(event.index, event.process, event.type, event.f)
        if self._shards[kind].add(row) >= self._shard_rows:
            self._shards[kind].flush()

    def _kind_of(self, event: RunEvent) -> Kind:
        match event:
            case HistoryEvent():
                if event.index != self._next_index:
                    raise ValueError(f"event {event.index} follows {self._next_index - 1}: indexes have no gaps")
                self._next_index += 1
                return Kind.HISTORY
            case ReplicaLogBatch():
                return Kind.LOGS
            case ReplicaEvent():
                return Kind.EVENTS
            case _:
                assert_never(event)

    def flush(self) -> None:
        """Write what waits in all three tables, so that a kill from now on loses none of it."""
        for shards in self._shards.values():
            shards.flush()

    def close(self) -> None:
        """Write what waits and mark the history as complete. Closing again does nothing.

        The mark says how many rows each table has: one that has lost some looks whole otherwise.
        """
        if self._closed:
            return
        self.flush()
        unfinished = self._marker.with_name(f".{COMPLETE_MARKER}.unfinished")
        rows = {kind.value: shards.total for kind, shards in self._shards.items()}
        unfinished.write_text(json.dumps(rows) + "\n", encoding="utf-8")
        unfinished.rename(self._marker)
        self._closed = True

    def abandon(self) -> None:
        """Write what waits, without the marker: the run did not reach its end, so its verdict is *unknown* at best."""
        if not self._closed:
            self.flush()
            self._closed = True

    def __enter__(self) -> HistoryWriter:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if error is None:
            self.close()
        else:
            self.abandon()
