"""The way in: judge recorded runs with the engine of the caller's choice.

Owns the choice of the engine, which changes no judgement: both call unknown what is too much to be judged at once.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import nullcontext
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, assert_never

from nemesis.history.errors import HistoryError
from nemesis.pipeline.hadoop import is_url, place_of
from nemesis.pipeline.judgement import Judgement
from nemesis.pipeline.local import judge_locally
from nemesis.pipeline.runs import open_runs
from nemesis.pipeline.weight import WEIGHT_MAX

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


class EngineName(StrEnum):
    """What does the judging."""

    SPARK = "spark"
    LOCAL = "local"


def judge_run(
    folder: Path | str,
    *,
    engine: EngineName | str = EngineName.SPARK,
    master: str = "local[*]",
    spark: SparkSession | None = None,
    weight_max: int = WEIGHT_MAX,
) -> Judgement:
    """Judge one recorded run; see ``judge_runs``."""
    return judge_runs([folder], engine=engine, master=master, spark=spark, weight_max=weight_max)[0]


def judge_runs(
    folders: Sequence[Path | str],
    *,
    engine: EngineName | str = EngineName.SPARK,
    master: str = "local[*]",
    spark: SparkSession | None = None,
    weight_max: int = WEIGHT_MAX,
) -> tuple[Judgement, ...]:
    """Judge recorded runs, all in one job on Spark; judgements in the order of the folders.

    A folder may be a URL of any file system that Spark knows. ``spark`` is a session to use, whose workers can import
    ``nemesis``; without it one is started on ``master`` and stopped. A topic-partition of which there is more than
    ``weight_max`` (see ``weight``) is counted and not judged, so that its run is *unknown* at best. Raises
    ``HistoryError`` for a folder that holds no run, or that this engine cannot read, ``EngineUnavailableError`` when
    Spark cannot run here, ``ValueError`` for an engine that does not exist.
    """
    match EngineName(engine):
        case EngineName.LOCAL:
            if urls := [str(folder) for folder in folders if is_url(folder)]:
                raise HistoryError(f"{urls[0]} is on a file system that only Spark reads: judge it with that engine")
            return judge_locally(open_runs([Path(folder) for folder in folders]), weight_max)
        case EngineName.SPARK:
            from nemesis.pipeline.session import spark_session
            from nemesis.pipeline.spark import judge_on_spark

            # What is here is looked at before a JVM is started for it.
            here = None if any(map(is_url, folders)) else open_runs([Path(folder) for folder in folders])
            with nullcontext(spark) if spark is not None else spark_session(master) as session:
                runs = here or open_runs([place_of(session, folder) for folder in folders])
                return judge_on_spark(session, runs, weight_max)
        case other:
            assert_never(other)
