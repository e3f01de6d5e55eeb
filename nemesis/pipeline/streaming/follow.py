"""The way in: follow one run folder with the engine of the caller's choice.

Owns the choice, and what a follower is to whoever asks it.

Follow a run in this process, without a JVM.
"""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Protocol, assert_never

import pyarrow as pa
import pyarrow.compute as pc

from nemesis.checks.check import Row
from nemesis.checks.run_checks import CheckOptions, judge_partitions
from nemesis.checks.schemas import LOG_BATCH_SCHEMA, RUN_EVENT_SCHEMA
from nemesis.history.errors import HistoryError
from nemesis.history.reader import ShardListing, read_table
from nemesis.history.schemas import SCHEMAS, Kind
from nemesis.pipeline.engine import EngineName
from nemesis.pipeline.local import heavy_ones, of_run, pair_operations, without
from nemesis.pipeline.session import EngineUnavailableError, is_remote, spark_session
from nemesis.pipeline.streaming.finality import Told
from nemesis.pipeline.streaming.growth import FOLLOWED, FollowError, Growth
from nemesis.pipeline.streaming.on_spark import SparkFollower, warm_up
from nemesis.pipeline.weight import WEIGHT_MAX
from nemesis.workload.catalogue import workload_of
from nemesis.workload.objects import ObjectWorkload

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


class Follower(Protocol):
    """Tells each anomaly of a growing run once. All calls come one after the other, from any thread."""

    def look(self) -> list[Row]:
        """What has come to be known since the last call, soon; rows of ``ANOMALY_SCHEMA``, the earliest first."""
        ...

    def catch_up(self) -> list[Row]:
        """The same, when everything that is written by now has been judged."""
        ...

    def close(self) -> None:
        """Stop working; nothing is found any more."""
        ...


def check_can_follow(engine: EngineName | str, master: str) -> None:
    """Raise ``EngineUnavailableError`` where an engine could judge, but hand nothing back while it follows."""
    if EngineName(engine) is EngineName.SPARK and is_remote(master):
        raise EngineUnavailableError(
            f"{master} is a Spark Connect server: a run is followed by a session of this process, or without"
        )


@contextmanager
def following(folder: Path, *, engine: EngineName | str, master: str = "local[*]") -> Iterator[Follower]:
    """Follow the run in ``folder``, which may be still to come.

    With Spark the session is there when this begins and stays to the end, so that the run can be judged with it too.
    Raises ``EngineUnavailableError`` when Spark cannot run here, or runs where it can hand nothing back while it does,
    ``HistoryError`` for a run on objects, which is judged when it is over.
    """
    if issubclass(workload := workload_of(folder), ObjectWorkload):
        raise HistoryError(f"{folder} is of the workload {workload.name}: judge it when it is over, without --follow")
    match EngineName(engine):
        case EngineName.LOCAL:
            yield InProcessFollower(folder)
        case EngineName.SPARK:
            check_can_follow(engine, master)
            with _quiet_session(master) as spark:
                warm_up(spark)
                follower = SparkFollower(spark, folder)
                try:
                    yield follower
                finally:
                    follower.close()
        case other:
            assert_never(other)


@contextmanager
def _quiet_session(master: str) -> Iterator[SparkSession]:
    """A session that leaves Ctrl-C to whoever had it: Spark's own handler would break into the running loop."""
    is_main = threading.current_thread() is threading.main_thread()
    before = signal.getsignal(signal.SIGINT)
    with spark_session(master) as spark:
        if is_main:
            signal.signal(signal.SIGINT, before)
        yield spark


class InProcessFollower:
    """Judges what is new of one run folder whenever it is asked to."""

    def __init__(self, folder: Path, growth: Growth | None = None, *, weight_max: int = WEIGHT_MAX) -> None:
        self._run_id = folder.name
        self._weight_max = weight_max
        self._growth = Growth(folder) if growth is None else growth
        self._tables = {kind: SCHEMAS[kind].empty_table() for kind in FOLLOWED}
        self._told = Told()
        self._error: FollowError | None = None

    def look(self) -> list[Row]:
        """The anomalies that are final and were not told before. Raises ``FollowError``, from then on the same."""
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

    def catch_up(self) -> list[Row]:
        """The same, of everything that is written by now."""
        return self.look()

    def close(self) -> None:
        """Nothing goes on by itself."""

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
