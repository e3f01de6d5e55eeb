"""Recorded runs cut off after each of their events, and what is said of the beginnings and of the whole."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa

from nemesis.checks import LOG_BATCH_SCHEMA, RUN_EVENT_SCHEMA, CheckOptions, judge_partitions
from nemesis.history import ReplicaEvent, ReplicaLogBatch
from nemesis.history.pairing import paired
from nemesis.history.reader import read_history, read_replica_events, read_replica_logs
from nemesis.history.schemas import SCHEMAS, Kind
from nemesis.history.tables import table_of
from nemesis.history.writer import HistoryWriter
from nemesis.pipeline.local import of_run, pair_operations
from tests.checks.histories import RUN, Row
from tests.checks.simulation import Run
from tests.pipeline.recorded import dumps_of, history_events


@dataclass(frozen=True, slots=True, kw_only=True)
class Tables:
    """The three tables of a run."""

    history: pa.Table
    logs: pa.Table
    events: pa.Table

    def judged(self) -> list[Row]:
        """The anomaly rows of the whole."""
        return self._judged(self.history, self.logs, self.events, frozenset())

    def prefixes(self) -> Iterator[list[Row]]:
        """The anomaly rows of each prefix: so many events of the history, as large a share of the replicas', no log."""
        nothing = self.logs.slice(0, 0)
        for end in range(self.history.num_rows + 1):
            told = self.events.slice(0, self.events.num_rows * end // max(self.history.num_rows, 1))
            yield self._judged(self.history.slice(0, end), nothing, told, frozenset({RUN}))

    def _judged(self, history: pa.Table, logs: pa.Table, events: pa.Table, cut_off: frozenset[str]) -> list[Row]:
        logs, events = of_run(logs, RUN, LOG_BATCH_SCHEMA), of_run(events, RUN, RUN_EVENT_SCHEMA)
        options = CheckOptions(incomplete_runs=cut_off)
        rows: list[Row] = judge_partitions(pair_operations(history, RUN), logs, events, options).anomalies.to_pylist()
        return rows


def tables_in(folder: Path) -> Tables:
    """Those of a recorded run."""
    return Tables(history=read_history(folder), logs=read_replica_logs(folder), events=read_replica_events(folder))


def tables_from(run: Run) -> Tables:
    """Those of a run that was made up, without a folder."""

    def of_kind(kind: Kind, rows: Sequence[Row]) -> pa.Table:
        make = ReplicaLogBatch if kind is Kind.LOGS else ReplicaEvent
        return table_of(
            kind, [make(**{name: row[name] for name in SCHEMAS[kind].names if name in row}) for row in rows]
        )

    history = table_of(Kind.HISTORY, paired(history_events(run.operations)))
    return Tables(history=history, logs=of_kind(Kind.LOGS, run.logs), events=of_kind(Kind.EVENTS, run.events))


class Growing:
    """Records a run bit by bit, each as a shard of its own, so that a test says how far it is."""

    def __init__(self, folder: Path, run: Run) -> None:
        self.folder = folder
        self.writer = HistoryWriter(folder)
        self._history = history_events(run.operations)
        self._run = run

    def write(self, end: int) -> None:
        """Write the history up to this event."""
        for event in self._history[self.writer.next_index : end]:
            self.writer.write(event)
        self.writer.flush()

    def tell(self, *rows: Row) -> None:
        """Write what replicas have told."""
        for row in rows:
            self.writer.write(ReplicaEvent(**{name: value for name, value in row.items() if name != "run_id"}))
        self.writer.flush()

    def finish(self) -> None:
        """Write the rest and the end."""
        self.write(len(self._history))
        self.tell(*self._run.events)
        for row in self._run.logs:
            self.writer.write(ReplicaLogBatch(**{name: value for name, value in row.items() if name != "run_id"}))
        for dump in dumps_of(self._run.logs, self.writer.next_index):
            self.writer.write(dump)
        self.writer.close()
