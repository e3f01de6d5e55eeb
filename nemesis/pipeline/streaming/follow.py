"""Follow one run folder while the run goes on.

Owns what has been read of it, and which of it is judged again.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc

from nemesis.checks.check import Row
from nemesis.checks.run_checks import CheckOptions, judge_partitions
from nemesis.checks.schemas import LOG_BATCH_SCHEMA, RUN_EVENT_SCHEMA
from nemesis.history.errors import HistoryError
from nemesis.history.reader import ShardListing, read_table
from nemesis.history.schemas import SCHEMAS, Kind
from nemesis.pipeline.local import heavy_ones, of_run, pair_operations, without
from nemesis.pipeline.streaming.finality import Told
from nemesis.pipeline.streaming.growth import FOLLOWED, FollowError, Growth
from nemesis.pipeline.weight import WEIGHT_MAX
from nemesis.workload.catalogue import workload_of
from nemesis.workload.objects import ObjectWorkload


def follow(folder: Path) -> Follower:
    """Follow the run in ``folder``, which may be still to come. Raises HistoryError for one on objects, which is judged
    when it is over."""
    if issubclass(workload := workload_of(folder), ObjectWorkload):
        raise HistoryError(f"{folder} is of the workload {workload.name}: judge it when it is over, without --follow")
    return Follower(folder)


class Follower:
    """Judges what is new of one run folder whenever it is asked to, from one thread at a time."""

    def __init__(self, folder: Path, growth: Growth | None = None, *, weight_max: int = WEIGHT_MAX) -> None:
        self._run_id = folder.name
        self._weight_max = weight_max
        self._growth = Growth(folder) if growth is None else growth
        self._tables = {kind: SCHEMAS[kind].empty_table() for kind in FOLLOWED}
        self._told = Told()
        self._error: FollowError | None = None

    def look(self) -> list[Row]:
        """What has come to be known since the last call: anomalies that are final, as rows of ``ANOMALY_SCHEMA``, the
        earliest first. Raises ``FollowError``, from then on the same."""
        new = self._new()
        self._tables = {kind: pa.concat_tables([self._tables[kind], new[kind]]) for kind in FOLLOWED}
        touched = sorted({name for table in new.values() for name in _names(table)})
        return list(self._told.new(self.judge(touched))) if touched else []

    def _new(self) -> dict[Kind, pa.Table]:
        """The rows that have been added. What could not be read once is missing ever after."""
        if self._error is not None:
            raise self._error
        try:
            return {kind: _read(kind, paths) for kind, paths in self._growth.look().items()}
        except FollowError as error:
            self._error = error
            raise

    def judge(self, touched: list[str]) -> list[Row]:
        """The anomaly rows of these topic-partitions, by all that has been read of them."""
        operations = _of(pair_operations(self._tables[Kind.HISTORY], self._run_id), touched)
        events = _of(of_run(self._tables[Kind.EVENTS], self._run_id, RUN_EVENT_SCHEMA), touched)
        options = CheckOptions(incomplete_runs=frozenset({self._run_id}))
        heavy = heavy_ones([operations, events], self._weight_max)
        operations, events = without(operations, heavy), without(events, heavy)
        found = judge_partitions(operations, LOG_BATCH_SCHEMA.empty_table(), events, options)
        rows: list[Row] = found.anomalies.to_pylist()
        return rows


def _read(kind: Kind, paths: tuple[Path, ...]) -> pa.Table:
    try:
        return read_table(ShardListing(kind=kind, paths=paths, problems=()))
    except HistoryError as error:
        raise FollowError(str(error)) from error


def _names(table: pa.Table) -> Iterator[str]:
    yield from table.column("topic_partition").fill_null("").unique().to_pylist()


def _of(table: pa.Table, names: list[str]) -> pa.Table:
    """The rows of these topic-partitions."""
    return table.filter(pc.is_in(table.column("topic_partition").fill_null(""), pa.array(names, pa.string())))
