"""The way in: judge folders of operations with the engine of the caller's choice.

Owns the choice, and what an engine is given to read. Both give equal results.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias, assert_never

import pyarrow as pa

from nemesis.formats.errors import HistoryError
from nemesis.linearizability.judgement import Budget
from nemesis.linearizability.model import Model
from nemesis.pipeline.corpora.bucket import Task
from nemesis.pipeline.corpora.local import judge_locally
from nemesis.pipeline.corpora.plan import ChangedError, Sizes, TooManyError
from nemesis.pipeline.corpora.results import Results, results_of
from nemesis.pipeline.corpora.store import (
    batches_of,
    check_file,
    check_unchanged,
    names_of,
    nothing_in,
    operation_files,
    stamps_of,
)
from nemesis.pipeline.engine import EngineName

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_REFUSAL = re.compile(
    r"^(?:[\w.]+\.)?HistoryError: (?P<path>.+?)(?::(?P<line>\d+))?: (?P<problem>.+); (?P<remedy>.+)$", re.MULTILINE
)
"""The last line of such an error's trace."""
Session: TypeAlias = "SparkSession"
"""What callers outside this package call a session, who must not import pyspark."""


def judge_store(
    folder: Path,
    model: Model,
    *,
    budget: Budget | None = None,
    sizes: Sizes | None = None,
    engine: EngineName | str = EngineName.SPARK,
    master: str = "local[*]",
    spark: Session | None = None,
) -> Results:
    """Judge a folder that ``OperationWriter`` wrote, by ``model``.

    ``budget`` is for each object, or each window of a hot one. ``spark`` is a session to use, whose workers can import
    ``nemesis`` and read the folder; without it one is started on ``master`` and stopped. Raises ``HistoryError`` for a
    file that holds no operations, for a folder without any, with too many or that changes, ``EngineUnavailableError``
    when Spark cannot run here.
    """
    dimensions = sizes or Sizes()
    task = Task(model=model, budget=budget or Budget(), call_operations_max=dimensions.call)
    files, names = operation_files(folder), names_of(folder)
    before = stamps_of(files)
    try:
        match EngineName(engine):
            case EngineName.LOCAL:
                judgements = judge_locally(lambda: batches_of(files), task, dimensions)
            case EngineName.SPARK:
                judgements = _judge_on_spark(files, task, dimensions, master, spark)
            case other:
                assert_never(other)
        check_unchanged(files, before)
    except ChangedError as error:
        raise HistoryError(folder, None, str(error), "judge it when nobody writes to it") from error
    except TooManyError as error:
        raise HistoryError(folder, None, str(error), "judge it in parts, or number the objects from 0") from error
    return results_of(judgements if judgements.num_rows else nothing_in(folder), names, model.name)


def _judge_on_spark(paths: Sequence[Path], task: Task, sizes: Sizes, master: str, spark: Session | None) -> pa.Table:
    from nemesis.pipeline.corpora.on_spark import judge_on_spark
    from nemesis.pipeline.session import spark_session

    for path in paths:
        check_file(path)
    with spark_session(master) if spark is None else nullcontext(spark) as session, refusals_of_workers():
        return judge_on_spark(session, paths, task, sizes)


@contextmanager
def refusals_of_workers() -> Iterator[None]:
    """Of a HistoryError in a worker Spark knows its trace alone, as text: raise the error itself, with what it says."""
    try:
        yield
    except Exception as error:
        said = _REFUSAL.search(str(error))
        if said is None:
            raise
        line = None if said["line"] is None else int(said["line"])
        raise HistoryError(Path(said["path"]), line, said["problem"], said["remedy"]) from error
