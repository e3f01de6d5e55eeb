"""Judge runs on Spark: read the shards, run the chain of ``frames``, collect verdict material once at the end.

Owns reading and the one action. Needs a session; knows nothing of how it was started.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Sequence
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from nemesis.checks.run_checks import CheckOptions
from nemesis.checks.verdict import RunCounts
from nemesis.history.schemas import SCHEMAS, Kind
from nemesis.pipeline import frames
from nemesis.pipeline.judgement import Judgement, judgement_of
from nemesis.pipeline.key_by_key import Task, told_of
from nemesis.pipeline.runs import RunFolder, declared_logs
from nemesis.pipeline.weight import WEIGHT_MAX
from nemesis.workload.objects import ObjectWorkload

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


def judge_on_spark(
    spark: SparkSession, runs: Sequence[RunFolder], weight_max: int = WEIGHT_MAX
) -> tuple[Judgement, ...]:
    """The judgements of these runs, in their order."""
    folders = folders_of(spark, runs)
    history, logs, events = (read_shards(spark, runs, folders, kind) for kind in (Kind.HISTORY, Kind.LOGS, Kind.EVENTS))
    declared = _frame(spark, pa.concat_tables([declared_logs(run) for run in runs]))
    facts = frames.facts(history, logs, events, history.transform(frames.dumped_logs).unionByName(declared))
    found = facts.transform(frames.findings, _task(runs, weight_max), tasks_of(spark))
    findings, counts = told_of(found.transform(frames.told_of_runs, tasks_of(spark)).toArrow())
    rows, coverage = _by_run(findings.anomalies), _by_run(findings.coverage)
    engine = _engine(spark)
    return tuple(
        judgement_of(run, counts.get(run.run_id, RunCounts()), rows[run.run_id], coverage[run.run_id], engine)
        for run in runs
    )


def _task(runs: Sequence[RunFolder], weight_max: int) -> Task:
    """What is known of the runs before a row is read."""
    workloads = {run.run_id: run.workload for run in runs if issubclass(run.workload, ObjectWorkload)}
    incomplete = (run.run_id for run in runs if not run.history_whole or run.run_id in workloads)
    evident = (run.run_id for run in runs if run.is_evident)
    return Task(
        options=CheckOptions(incomplete_runs=frozenset(incomplete), evident_runs=frozenset(evident)),
        workloads=workloads,
        weight_max=weight_max,
    )


def _by_run(table: pa.Table) -> dict[str, list[dict[str, Any]]]:
    rows: dict[str, list[dict[str, Any]]] = defaultdict(list)
    for row in table.to_pylist():
        rows[row["run_id"]].append(row)
    return rows


def folders_of(spark: SparkSession, runs: Sequence[RunFolder]) -> DataFrame:
    """Each folder, as ``with_run_id`` names it, with the ``run_id`` of its run."""
    names = [re.sub("^file:/*", "/", str(run.folder)) for run in runs]
    return _frame(spark, pa.table({"folder": names, "run_id": [run.run_id for run in runs]}))


def read_shards(spark: SparkSession, runs: Sequence[RunFolder], folders: DataFrame, kind: Kind) -> DataFrame:
    """The usable shards of one table of all runs, with the ``run_id`` of each row."""
    from pyspark.sql.pandas.types import from_arrow_schema

    schema = from_arrow_schema(SCHEMAS[kind])
    paths = [spark_path(path) for run in runs for path in run.shards[kind].paths]
    if not paths:
        return _frame(spark, SCHEMAS[kind].append(pa.field("run_id", pa.string())).empty_table())
    # Without the option a changed bit on the disk is read as another value.
    reader = spark.read.schema(schema).option("parquet.page.verify-checksum.enabled", True)
    return reader.parquet(*paths).transform(frames.with_run_id, folders)


def _frame(spark: SparkSession, table: pa.Table) -> DataFrame:
    """A small table that is part of the plan: it costs no job.

    In one piece: Spark takes an empty piece for the end of the table.
    """
    return spark.createDataFrame(table.combine_chunks())


def spark_path(path: Path) -> str:
    """The path as Spark reads it: not quoted as in a URL, but as a pattern in which nothing stands for anything else.

    Hadoop cannot expand patterns with colons, so nothing is escaped that need not be.
    """
    system = "file://" if str(path).startswith("/") else ""
    return system + re.sub(r"([\\{}\[\]*?])", r"\\\1", str(path))


def tasks_of(spark: SparkSession) -> int:
    """In how many tasks keys are judged: as many as a shuffle has partitions."""
    return int(spark.conf.get("spark.sql.shuffle.partitions") or "1")


def _engine(spark: SparkSession) -> dict[str, str]:
    versions = {name: version(name) for name in ("numpy", "pyarrow")}
    jvm = getattr(spark, "_jvm", None)  # Spark Connect has none.
    java = {} if jvm is None else {"java": str(jvm.java.lang.System.getProperty("java.version"))}
    return {"name": "spark", "spark": spark.version, **java, **versions}
