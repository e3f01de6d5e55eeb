"""What one consumer sees goes forward, without gaps, and never past the high watermark.

Owns **nonmonotonic-poll**, **poll-skip** and **uncommitted-read**. Positions are compared over the offsets that are
known to hold values, because control records take offsets and are never returned. A process reads on from its last ok
poll, unless it seeks: its first poll, a final read, or a poll marked as a seek begins at the position it asks for.
Source: the analyses of the same names in ``jepsen.tests.kafka``, with the explicit seek that is missing there.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from nemesis.checks.anomalies import LISTED_MAX, Anomaly
from nemesis.checks.observations import known_offsets, observe
from nemesis.checks.partition import NONE, Ints, Operations, Partition
from nemesis.checks.schemas import AnomalyName


@dataclass(frozen=True, slots=True, kw_only=True)
class _Reads:
    """The ok polls that returned records: arrays of equal length.

    ``expected`` is the lowest offset that may come next, ``before`` the row of the poll that it follows from (``NONE``
    after a seek, then it is the position asked for). ``first`` is the first record's offset, ``lowest`` and ``highest``
    are over all records, ``begin`` and ``end`` delimit them.
    """

    row: Ints
    expected: Ints
    before: Ints
    first: Ints
    lowest: Ints
    highest: Ints
    begin: Ints
    end: Ints


def _reads(operations: Operations) -> _Reads:
    row, begin, size = np.unique(operations.record_row, return_index=True, return_counts=True)
    if len(row):
        lowest = np.minimum.reduceat(operations.record_offset, begin)
        highest = np.maximum.reduceat(operations.record_offset, begin)
    else:
        lowest = highest = row
    expected, before = _expectations(operations, row, highest)
    first = operations.record_offset[begin]
    return _Reads(
        row=row,
        expected=expected,
        before=before,
        first=first,
        lowest=lowest,
        highest=highest,
        begin=begin.astype(np.int64),
        end=(begin + size).astype(np.int64),
    )


def _expectations(operations: Operations, read_row: Ints, highest: Ints) -> tuple[Ints, Ints]:
    """For each read, the lowest offset that may come next and the row that says so.

    A poll sets the position of its process when it returned records; a seek sets it whatever came of it.
    """
    polls = np.flatnonzero(operations.poll & (operations.ok | operations.seek))
    polls = polls[np.lexsort((operations.invoke_index[polls], operations.process[polls]))]
    process = operations.process[polls]
    begins = np.append(True, np.diff(process) != 0) if len(polls) else np.zeros(0, np.bool_)
    seeks = begins | operations.seek[polls] | operations.final_read[polls]
    next_offset = np.full(len(operations.process), NONE)
    next_offset[read_row] = highest + 1
    returned = next_offset[polls] != NONE
    place = np.where(returned, next_offset[polls], operations.position[polls])
    source = np.maximum.accumulate(np.where(seeks | returned, np.arange(len(polls)), 0))
    earlier = np.append(0, source[:-1]) if len(polls) else source
    expected = np.where(seeks, operations.position[polls], place[earlier])
    before = np.where(seeks | ~returned[earlier], NONE, polls[earlier])
    at = np.full(len(operations.process), 0)
    at[polls] = np.arange(len(polls))
    return expected[at[read_row]], before[at[read_row]]


def check_nonmonotonic_poll(partition: Partition) -> Iterator[Anomaly]:
    """Polls that return something before their position, or records that do not ascend; in order of invocation."""
    operations, reads = partition.operations, _reads(partition.operations)
    falls = np.flatnonzero((np.diff(operations.record_offset) <= 0) & (np.diff(operations.record_row) == 0))
    falling = np.isin(reads.row, operations.record_row[falls])
    for i in np.flatnonzero(falling | (reads.lowest < reads.expected)):
        if falling[i]:
            where = int(falls[np.searchsorted(operations.record_row[falls], reads.row[i])])
            offsets = [int(offset) for offset in operations.record_offset[where : where + 2]]
            what = f"returned offset {offsets[1]} after offset {offsets[0]}"
        else:
            offsets = [int(reads.expected[i]), int(reads.lowest[i])]
            what = f"returned offset {offsets[1]}, though its process had come to {offsets[0]}"
        yield _anomaly(operations, AnomalyName.NONMONOTONIC_POLL, reads, int(i), what, offsets)


def check_poll_skip(partition: Partition) -> Iterator[Anomaly]:
    """Polls that pass over offsets known to hold values, in order of invocation."""
    operations, reads = partition.operations, _reads(partition.operations)
    known = known_offsets(observe(partition))
    start = np.where(reads.expected == NONE, reads.lowest, reads.expected)
    wanted = np.searchsorted(known, reads.highest, side="right") - np.searchsorted(known, start)
    got = _distinct_from(operations, reads, start)
    for i in np.flatnonzero(wanted > got):
        returned = operations.record_offset[reads.begin[i] : reads.end[i]]
        between = known[np.searchsorted(known, start[i]) : np.searchsorted(known, reads.highest[i], side="right")]
        skipped = np.setdiff1d(between, returned)
        what = f"reading from {start[i]}, passed over {len(skipped)} known offsets, the first is {skipped[0]}"
        offsets = [int(offset) for offset in skipped[:LISTED_MAX]]
        yield _anomaly(operations, AnomalyName.POLL_SKIP, reads, int(i), what, offsets)


def _distinct_from(operations: Operations, reads: _Reads, start: Ints) -> Ints:
    """For each read, how many different offsets at or above ``start`` it returned."""
    which = np.searchsorted(reads.row, operations.record_row)
    order = np.lexsort((operations.record_offset, operations.record_row))
    offset, which = operations.record_offset[order], which[order]
    new = np.append(True, (np.diff(offset) != 0) | (np.diff(which) != 0)) if len(order) else np.zeros(0, np.bool_)
    counted = new & (offset >= start[which])
    return np.bincount(which[counted], minlength=len(reads.row)).astype(np.int64)


def check_uncommitted_read(partition: Partition) -> Iterator[Anomaly]:
    """Polls that return an offset at or above the high watermark that came with them."""
    operations, reads = partition.operations, _reads(partition.operations)
    high_watermark = operations.high_watermark[reads.row]
    for i in np.flatnonzero((high_watermark != NONE) & (reads.highest >= high_watermark)):
        what = f"returned offset {reads.highest[i]} with high watermark {high_watermark[i]}"
        yield _anomaly(operations, AnomalyName.UNCOMMITTED_READ, reads, int(i), what, [int(reads.highest[i])])


def _anomaly(
    operations: Operations, name: AnomalyName, reads: _Reads, i: int, what: str, offsets: list[int]
) -> Anomaly:
    row, before = int(reads.row[i]), int(reads.before[i])
    rows = [row] if before == NONE else [before, row]
    returned = operations.record_offset[reads.begin[i] : reads.end[i]][:LISTED_MAX]
    return Anomaly(
        name=name,
        detail=f"operation {operations.invoke_index[row]} of process {operations.process[row]} {what}",
        offsets=offsets,
        op_indexes=[int(operations.invoke_index[one]) for one in rows],
        evidence={
            "operations": [operations.described(one) for one in rows],
            "returned_offsets": [int(offset) for offset in returned],
        },
    )
