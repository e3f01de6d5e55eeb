"""The ways in which one job judges many objects: what each says of every object.

Each takes the readable rows of all objects, in no order, and gives their verdicts by the objects' numbers. Windows of
hot objects are judged as on Spark, in one stream of sorted rows, and as in this process.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from random import Random

import pyarrow as pa

from nemesis.linearizability.judgement import Budget
from nemesis.linearizability.kernel import judge
from nemesis.linearizability.model import Model
from nemesis.linearizability.models.log import Log
from nemesis.pipeline.corpora.bucket import Task, judge_bucket, judge_sorted
from nemesis.pipeline.corpora.dealing import parted
from nemesis.pipeline.corpora.encoding import ints, operations_of
from nemesis.pipeline.corpora.hot import cut_rows, is_cut_ahead, judge_chains
from nemesis.pipeline.corpora.local import judge_locally
from nemesis.pipeline.corpora.plan import Sizes
from nemesis.pipeline.corpora.results import results_of
from nemesis.pipeline.corpora.schemas import OBJECT_ROWS

Said = dict[int, tuple[str, str | None]]
"""By the number of an object, the verdict, and the reason of one that is unknown."""
Way = Callable[[pa.Table, Task, Random], Said]


def _said(judgements: pa.Table, task: Task) -> Said:
    results = results_of(judgements, OBJECT_ROWS.empty_table(), task.model.name)
    reasons = {row["object"]: row["reason"] for row in results.anomalies.to_pylist()}
    return {row["object"]: (row["verdict"], reasons.get(row["object"])) for row in results.keys.to_pylist()}


def alone(rows: pa.Table, task: Task, random: Random) -> Said:
    """Each object by itself, by the kernels of single objects."""
    said: Said = {}
    for number, part in parted(rows, ints(rows, "object", 0)):
        judged = judge(operations_of(part), task.model, task.budget)
        verdicts = {each.verdict.value: each.reason for each in judged}
        said[number] = next(
            ((worse, verdicts[worse]) for worse in ("invalid", "unknown") if worse in verdicts), ("valid", None)
        )
    return said


def together(rows: pa.Table, task: Task, random: Random) -> Said:
    """All objects in one call."""
    return _said(judge_bucket(rows, task), task)


def in_buckets(rows: pa.Table, task: Task, random: Random) -> Said:
    """In many buckets, and in windows the few objects that have the most operations."""
    halves = rows.slice(0, rows.num_rows // 2), rows.slice(rows.num_rows // 2)
    sizes = Sizes(bucket=100, hot=random.randint(13, 30), window=random.randint(1, 4), call=2_000)
    return _said(judge_locally(lambda: iter(halves), task, sizes), task)


def in_windows(rows: pa.Table, task: Task, random: Random) -> Said:
    """Every object is hot, and cut wherever that can be done after so many operations."""
    in_order = rows.sort_by([("object", "ascending"), ("invoked", "ascending"), ("line", "ascending")])
    batches = in_order.combine_chunks().to_batches(max_chunksize=random.choice((7, 1_000)))
    return _said(pa.concat_tables(_windows(batches, task, random.randint(1, 3))), task)


def _windows(batches: list[pa.RecordBatch], task: Task, window: int) -> Iterator[pa.Table]:
    if is_cut_ahead(task.model):
        return judge_sorted(cut_rows(batches, task, window), task, 500)
    return judge_chains(batches, task, window + 2 * (type(task.model) is Log))


WAYS: Mapping[str, Way] = {
    "alone": alone,
    "together": together,
    "in buckets": in_buckets,
    "in windows": in_windows,
}


def task_of(model: Model) -> Task:
    """What is asked of every way."""
    return Task(model=model, budget=Budget())
