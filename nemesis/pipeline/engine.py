"""The way in: judge recorded runs with the engine of the caller's choice.

Owns the choice of the engine. Both give the same anomaly rows; Spark for runs that outgrow one process and for corpora.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, assert_never

from nemesis.pipeline.judgement import Judgement
from nemesis.pipeline.local import judge_locally
from nemesis.pipeline.runs import open_runs

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


class EngineName(StrEnum):
    """What does the judging."""

    SPARK = "spark"
    LOCAL = "local"


def judge_run(
    folder: Path,
    *,
    engine: EngineName | str = EngineName.SPARK,
    master: str = "local[*]",
    spark: SparkSession | None = None,
) -> Judgement:
    """Judge one recorded run; see ``judge_runs``."""
    return judge_runs([folder], engine=engine, master=master, spark=spark)[0]


def judge_runs(
    folders: Sequence[Path],
    *,
    engine: EngineName | str = EngineName.SPARK,
    master: str = "local[*]",
    spark: SparkSession | None = None,
) -> tuple[Judgement, ...]:
    """Judge recorded runs, all in one job on Spark; judgements in the order of the folders.

    ``spark`` is a session to use, whose workers can import ``nemesis``; without it one is started on ``master`` and
    stopped. Raises ``HistoryError`` for a folder that holds no run, ``EngineUnavailableError`` when Spark cannot run
    here, ``ValueError`` for an engine that does not exist.
    """
    runs = open_runs(folders)
    match EngineName(engine):
        case EngineName.LOCAL:
            return judge_locally(runs)
        case EngineName.SPARK:
            from nemesis.pipeline.session import spark_session
            from nemesis.pipeline.spark import judge_on_spark

            if spark is not None:
                return judge_on_spark(spark, runs)
            with spark_session(master) as session:
                return judge_on_spark(session, runs)
        case other:
            assert_never(other)
