"""Follow a run with Spark's Structured Streaming.

Owns the query: a stream over the shards of history and events, each of which is whole when it appears. What a
micro-batch brings says which topic-partitions have something new; they are judged again over all that there is of them
by then, by the chain of DataFrame functions that judges the whole run at the end. So the run's folder is the state:
nothing is kept between micro-batches but the names of shards and of what was told, and a Spark that dies takes nothing
along. Must give the same rows as ``follow.InProcessFollower``.
"""

from __future__ import annotations

import queue
import shutil
import tempfile
import threading
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from nemesis.checks.check import Row
from nemesis.checks.run_checks import CheckOptions
from nemesis.history.reader import ShardListing
from nemesis.history.schemas import SCHEMAS, Kind
from nemesis.pipeline import frames
from nemesis.pipeline.key_by_key import Task
from nemesis.pipeline.runs import RunFolder
from nemesis.pipeline.spark import folders_of, read_shards, spark_path, tasks_of
from nemesis.pipeline.streaming.finality import Told
from nemesis.pipeline.streaming.growth import FOLLOWED, FollowError, Growth

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

TRIGGER = "1 second"
"""How often Spark looks for new shards; a micro-batch that takes longer is followed by one with all that has come."""
CLOSE_S_MAX = 60.0
"""How long the end waits for the micro-batch at work: to break into it makes Spark tell of errors at length."""


class SparkFollower:
    """Judges what is new of one run folder while a query of its own goes on, from the first look on."""

    def __init__(self, spark: SparkSession, folder: Path, growth: Growth | None = None) -> None:
        self._spark = spark
        self._folder = folder.resolve()
        self._growth = Growth(self._folder) if growth is None else growth
        self._judged: queue.SimpleQueue[list[Row]] = queue.SimpleQueue()
        self._told = Told()
        self._query: StreamingQuery | None = None
        self._error: FollowError | None = None
        self._is_closed = False
        self._working = threading.Lock()
        self._checkpoint = tempfile.mkdtemp(prefix="nemesis-follow-")

    def look(self) -> list[Row]:
        """The anomalies that are final and were not told before, as far as Spark has come. Raises ``FollowError``."""
        query = self._running()
        return [] if query is None else self._found(query)

    def catch_up(self) -> list[Row]:
        """The same, of everything that is written by now: waits until it is judged."""
        query = self._running()
        if query is None:
            return []
        # It raises what has ended the query, whose cause is told below.
        try:
            query.processAllAvailable()
        except Exception:
            if query.isActive:
                raise
        return self._found(query)

    def close(self) -> None:
        """End the query; what it has not come to is not judged. Closing again does nothing, and no error is raised."""
        self._is_closed = True
        query, self._query = self._query, None
        if query is not None:
            if self._working.acquire(timeout=CLOSE_S_MAX):
                self._working.release()
            # A JVM that has died has ended it.
            with suppress(Exception):
                query.stop()
        shutil.rmtree(self._checkpoint, ignore_errors=True)

    def _running(self) -> StreamingQuery | None:
        """The query; there is none before the folder has a history, and after the end."""
        if self._query is None and not self._is_closed and (self._folder / Kind.HISTORY).is_dir():
            self._query = self._start()
        return self._query

    def _start(self) -> StreamingQuery:
        new = touched(self._spark, self._folder)
        writer = new.writeStream.foreachBatch(self._judge).trigger(processingTime=TRIGGER)
        return writer.option("checkpointLocation", self._checkpoint).start()

    def _judge(self, batch: DataFrame, batch_id: int) -> None:
        """Called by Spark with each micro-batch, one after the other, on a thread of its own."""
        del batch_id
        with self._working:
            if self._is_closed:
                return
            try:
                self._growth.look()
            except FollowError as error:
                self._error = error
                raise
            names = [row["topic_partition"] for row in batch.distinct().collect()]
            found = prefix_anomalies(self._spark, _prefix(self._folder, self._growth.paths), names)
            self._judged.put(found.toArrow().to_pylist())

    def _found(self, query: StreamingQuery) -> list[Row]:
        """What has been judged; when there is nothing more of it, why no more will come, if that is so."""
        is_active = query.isActive
        new: list[Row] = []
        while not self._judged.empty():
            new += self._told.new(self._judged.get())
        if not new and not is_active:
            raise self._error or FollowError(f"the streaming query has ended: {query.exception()}")
        return new


def warm_up(spark: SparkSession) -> None:
    """Judge nothing: what must be loaded and compiled for it is there when something is to be judged."""
    prefix_anomalies(spark, _prefix(Path("/nowhere"), {}), []).toArrow()


def _prefix(folder: Path, paths: Mapping[Kind, tuple[Path, ...]]) -> RunFolder:
    listings = {kind: ShardListing(kind=kind, paths=paths.get(kind, ()), problems=()) for kind in Kind}
    return RunFolder(run_id=folder.name, folder=folder, shards=listings, complete=False)


def touched(spark: SparkSession, folder: Path) -> DataFrame:
    """A stream with the ``topic_partition`` of every new row of history and events."""
    from pyspark.sql import functions as F  # noqa: N812 - Spark's own custom
    from pyspark.sql.pandas.types import from_arrow_schema

    def new(kind: Kind) -> DataFrame:
        schema = from_arrow_schema(SCHEMAS[kind])
        rows = spark.readStream.schema(schema).parquet(spark_path(folder / kind))
        return rows.select(F.coalesce("topic_partition", F.lit("")).alias("topic_partition"))

    history, *others = [new(kind) for kind in FOLLOWED if (folder / kind).is_dir()]
    for other in others:
        history = history.union(other)
    return history


def prefix_anomalies(spark: SparkSession, run: RunFolder, names: list[str]) -> DataFrame:
    """The anomaly rows of these topic-partitions of a run that goes on."""
    from pyspark.sql import functions as F  # noqa: N812

    def of_names(rows: DataFrame) -> DataFrame:
        return rows.where(F.coalesce("topic_partition", F.lit("")).isin(names))

    folders = folders_of(spark, [run])
    history, logs, events = (
        read_shards(spark, [run], folders, kind) for kind in (Kind.HISTORY, Kind.LOGS, Kind.EVENTS)
    )
    nothing = events.limit(0)
    told = frames.facts(history.transform(of_names), logs, events.transform(of_names), nothing)
    task = Task(options=CheckOptions(incomplete_runs=frozenset({run.run_id})))
    found = told.transform(frames.findings, task, tasks_of(spark))
    return found.where(F.col("anomaly").isNotNull()).select("anomaly.*")
