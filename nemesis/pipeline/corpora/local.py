"""Judge a folder of operations in this process, in bounded memory and without a JVM.

Owns the two passes: count the rows of each object, then deal them into files of buckets and judge one after the other.
What fits one bucket is judged at once, without files. Must give the same judgements as ``on_spark``.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa

from nemesis.linearizability.arrays.columns import Ints
from nemesis.pipeline.corpora.bucket import Task, judge_bucket, judge_sorted
from nemesis.pipeline.corpora.dealing import Dealer, Part, readable, take
from nemesis.pipeline.corpora.encoding import ints
from nemesis.pipeline.corpora.hot import cut_rows, is_cut_ahead, judge_chains
from nemesis.pipeline.corpora.plan import SLOTS, Plan, Sizes, planned
from nemesis.pipeline.corpora.schemas import JUDGEMENT_ROWS, OPTIONAL

Pieces = Callable[[], Iterator[pa.Table]]
"""Gives the operations in pieces, each time from the first on."""
_COUNTS_HELD = 4_000_000
_SLICE_ROWS = 500_000
"""How many rows of a hot object are sorted at once, if they are spread evenly over time."""


def judge_locally(pieces: Pieces, task: Task, sizes: Sizes) -> pa.Table:
    """The judgements (``JUDGEMENT_ROWS``) of all objects, in no particular order.

    Raises ChangedError if the pieces are not of as many operations each time.
    """
    plan = plan_of(pieces, sizes)
    if not plan.hot and plan.buckets == 1:
        rows = list(pieces())
        whole = judge_bucket(readable(pa.concat_tables(rows)), task) if rows else JUDGEMENT_ROWS.empty_table()
        return plan.check_whole(whole)
    with tempfile.TemporaryDirectory(prefix="nemesis-buckets-") as scratch:
        found = [JUDGEMENT_ROWS.empty_table()]
        for part in _dealt(pieces, plan, Path(scratch)):
            found.append(judge_bucket(take(part), task))
        for number, count in plan.hot.items():
            found += _judge_hot(pieces, number, count, task, sizes, Path(scratch))
    return plan.check_whole(pa.concat_tables(found))


def plan_of(pieces: Pieces, sizes: Sizes) -> Plan:
    """Count the rows of each object, and plan."""
    counts = [np.zeros((2, 0), dtype=np.int64)]
    filled: set[str] = set()
    operations = 0
    for rows in pieces():
        filled |= {name for name in OPTIONAL if name in rows.schema.names and rows.column(name).null_count < len(rows)}
        operations += rows.num_rows
        counts.append(np.stack(np.unique(ints(rows, "object", 0), return_counts=True)))
        if rows.num_rows and "records" in filled:
            counts.append(_records_of(rows))
        if sum(part.shape[1] for part in counts) > _COUNTS_HELD:
            counts = [_summed(counts)]
    objects, weights = _summed(counts)
    is_hot = weights > sizes.hot
    slots = np.bincount(objects[~is_hot] % SLOTS, weights=weights[~is_hot], minlength=SLOTS).astype(np.int64)
    hot = dict(zip(objects[is_hot].tolist(), weights[is_hot].tolist(), strict=True))
    return planned(dict(enumerate(slots.tolist())), hot, sorted(filled), sizes, parallelism=1, operations=operations)


def _records_of(rows: pa.Table) -> Ints:
    """Objects and how many records their rows have."""
    records = rows.column("records").combine_chunks()
    lengths = records.value_lengths().fill_null(0).to_numpy(zero_copy_only=False)
    return np.stack((ints(rows, "object", 0), lengths.astype(np.int64)))


def _summed(counts: list[Ints]) -> Ints:
    """Objects and counts, with one column for each object."""
    objects, weights = np.concatenate(counts, axis=1)
    different, places = np.unique(objects, return_inverse=True)
    total = np.bincount(places, weights=weights, minlength=len(different)).astype(np.int64)
    return np.stack((different, total))


def _dealt(pieces: Pieces, plan: Plan, scratch: Path) -> Iterator[Part]:
    """Deal the rows of objects that are not hot into files for each bucket, then hand those out."""
    dealer = Dealer(scratch)
    for rows in pieces():
        dealer.deal(rows, plan.buckets_of(ints(rows, "object", 0)))
    yield from dealer.close()


def _judge_hot(pieces: Pieces, number: int, count: int, task: Task, sizes: Sizes, scratch: Path) -> list[pa.Table]:
    """The judgements of the windows of one hot object, whose rows are sorted by dealing them into slices of time."""
    moments = _moments(pieces, number)
    if moments is None:
        return []
    begin, end = moments
    slices = -(-count // _SLICE_ROWS)
    width = (end - begin) // slices + 1
    dealer = Dealer(scratch)
    for rows in pieces():
        own = rows.filter(pa.array(ints(rows, "object", 0) == number))
        # A distance may be more than a signed number holds, and wraps around to what an unsigned one holds.
        distance = ints(own, "invoked", 0).view(np.uint64) - np.int64(begin).view(np.uint64)
        dealer.deal(own, (distance // np.uint64(min(width, 2**64 - 1))).astype(np.int64))
    in_order = _in_order(dealer.close())
    if is_cut_ahead(task.model):
        return list(judge_sorted(cut_rows(in_order, task, sizes.window), task, sizes.bucket))
    return list(judge_chains(in_order, task, sizes.window))


def _moments(pieces: Pieces, number: int) -> tuple[int, int] | None:
    """When the first and the last operation of an object began; None if it is there no more."""
    found = [ints(rows, "invoked", 0)[ints(rows, "object", 0) == number] for rows in pieces()]
    times = [int(time) for part in found if len(part) for time in (part.min(), part.max())]
    return (min(times), max(times)) if times else None


def _in_order(parts: list[Part]) -> Iterator[pa.RecordBatch]:
    for part in parts:
        yield from take(part).sort_by([("invoked", "ascending"), ("line", "ascending")]).combine_chunks().to_batches()
