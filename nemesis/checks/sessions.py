"""What one consumer sees goes forward, without gaps, and never past the high watermark.

Owns **nonmonotonic-poll** and **poll-skip** from one operation to the next, **int-nonmonotonic-poll** and
**int-poll-skip** within one, and **uncommitted-read**. Positions are compared over the offsets that are known to hold
values, because control records take offsets and are never returned. A process reads on from its last ok poll, unless it
seeks: its first poll, a final read, or a poll marked as a seek begins at the position it asks for. Where a group
assigned the topic-partition, it may take a consumer back or on, so that the first two are *allowed*; where it did so
while an operation went on, nothing is said of the others. Source: the analyses of the same names in
``jepsen.tests.kafka``, with the explicit seek that is missing there.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from nemesis.checks.anomalies import LISTED_MAX, Anomaly
from nemesis.checks.check import Coverage, Found, LogCheck
from nemesis.checks.observations import known_offsets, observe
from nemesis.checks.partition import NONE, Bools, Ints, Operations, Partition
from nemesis.checks.schemas import Severity


@dataclass(frozen=True, slots=True, kw_only=True)
class _Reads:
    """The polls that returned records: arrays of equal length.

    ``expected`` is the lowest offset that may come next (``NONE`` where that is not known), ``before`` the row of the
    poll that it follows from (``NONE`` after a seek, then it is the position asked for). ``lowest`` and ``highest`` are
    over all records, ``begin`` and ``end`` delimit them.
    """

    row: Ints
    expected: Ints
    before: Ints
    lowest: Ints
    highest: Ints
    begin: Ints
    end: Ints


def _reads(operations: Operations) -> _Reads:
    row, begin, size = np.unique(operations.returned_row, return_index=True, return_counts=True)
    if len(row):
        lowest = np.minimum.reduceat(operations.returned_offset, begin)
        highest = np.maximum.reduceat(operations.returned_offset, begin)
    else:
        lowest = highest = row
    expected, before = _expectations(operations, row, highest)
    return _Reads(
        row=row,
        expected=expected,
        before=before,
        lowest=lowest,
        highest=highest,
        begin=begin.astype(np.int64),
        end=(begin + size).astype(np.int64),
    )


def _expectations(operations: Operations, read_row: Ints, highest: Ints) -> tuple[Ints, Ints]:
    """For each read, the lowest offset that may come next and the row that says so.

    An ok poll sets the position of its process when it returned records; a seek sets it whatever came of it.
    """
    next_offset = np.full(len(operations.process), NONE)
    next_offset[read_row] = highest + 1
    polls = np.flatnonzero(operations.poll & (operations.ok | operations.seek | (next_offset != NONE)))
    polls = polls[np.lexsort((operations.invoke_index[polls], operations.process[polls]))]
    process = operations.process[polls]
    begins = np.append(True, np.diff(process) != 0) if len(polls) else np.zeros(0, np.bool_)
    seeks = begins | operations.seek[polls] | operations.final_read[polls]
    returned = (next_offset[polls] != NONE) & operations.ok[polls]
    place = np.where(returned, next_offset[polls], operations.position[polls])
    source = np.maximum.accumulate(np.where(seeks | returned, np.arange(len(polls)), 0))
    earlier = np.append(0, source[:-1]) if len(polls) else source
    expected = np.where(seeks, operations.position[polls], place[earlier])
    before = np.where(seeks | ~returned[earlier], NONE, polls[earlier])
    at = np.full(len(operations.process), 0)
    at[polls] = np.arange(len(polls))
    return expected[at[read_row]], before[at[read_row]]


def check_nonmonotonic_poll(partition: Partition) -> Found:
    """Polls that return something before their position, in order of invocation."""
    operations, reads = partition.operations, _reads(partition.operations)
    for i in np.flatnonzero(reads.lowest < reads.expected):
        offsets = [int(reads.expected[i]), int(reads.lowest[i])]
        what = f"returned offset {offsets[1]}, but its process had come to offset {offsets[0]}"
        yield _between(operations, reads, int(i), what, offsets)
    return Coverage(looked=int((reads.expected != NONE).sum()))


def check_poll_skip(partition: Partition) -> Found:
    """Polls whose records begin beyond an offset that is known to hold a value, in order of invocation."""
    operations, reads = partition.operations, _reads(partition.operations)
    known = known_offsets(observe(partition))
    first, beyond = np.searchsorted(known, reads.expected), np.searchsorted(known, reads.lowest)
    for i in np.flatnonzero((reads.expected != NONE) & (first < beyond)):
        skipped = known[first[i] : beyond[i]]
        what = f"read on from {reads.expected[i]} and skipped {len(skipped)} known offsets, the first is {skipped[0]}"
        offsets = [int(offset) for offset in skipped[:LISTED_MAX]]
        yield _between(operations, reads, int(i), what, offsets)
    return Coverage(looked=int((reads.expected != NONE).sum()))


def check_int_nonmonotonic_poll(partition: Partition) -> Found:
    """Operations whose polls return records that do not ascend, in order of invocation; the first fall of each."""
    operations, reads = partition.operations, _reads(partition.operations)
    falls = np.flatnonzero((np.diff(operations.returned_offset) <= 0) & (np.diff(operations.returned_row) == 0))
    rows, first = np.unique(operations.returned_row[falls], return_index=True)
    for row, at in zip(rows, falls[first], strict=True):
        if not operations.rebalanced[row]:
            offsets = [int(offset) for offset in operations.returned_offset[at : at + 2]]
            what = f"returned offset {offsets[1]} after offset {offsets[0]}"
            i = int(np.searchsorted(reads.row, row))
            yield _anomaly(operations, reads, i, what, offsets)
    return Coverage(looked=int(_several(operations, reads).sum()))


def check_int_poll_skip(partition: Partition) -> Found:
    """Operations that return what is below and what is above a known offset, and not it; in order of invocation."""
    operations, reads = partition.operations, _reads(partition.operations)
    known = known_offsets(observe(partition))
    wanted = np.searchsorted(known, reads.highest, side="right") - np.searchsorted(known, reads.lowest)
    several = _several(operations, reads)
    for i in np.flatnonzero(several & (wanted > _distinct(operations, reads))):
        returned = operations.returned_offset[reads.begin[i] : reads.end[i]]
        between = known[np.searchsorted(known, reads.lowest[i]) : np.searchsorted(known, reads.highest[i])]
        skipped = np.setdiff1d(between, returned)
        what = f"skipped {len(skipped)} known offsets among those that it returned, the first is {skipped[0]}"
        offsets = [int(offset) for offset in skipped[:LISTED_MAX]]
        yield _anomaly(operations, reads, int(i), what, offsets)
    return Coverage(looked=int(several.sum()))


def _several(operations: Operations, reads: _Reads) -> Bools:
    """Which reads returned more than one record, and all of them of one assignment."""
    return np.asarray((reads.end - reads.begin > 1) & ~operations.rebalanced[reads.row], np.bool_)


def _distinct(operations: Operations, reads: _Reads) -> Ints:
    """For each read, how many different offsets it returned."""
    order = np.lexsort((operations.returned_offset, operations.returned_row))
    offset, row = operations.returned_offset[order], operations.returned_row[order]
    new = np.append(True, (np.diff(offset) != 0) | (np.diff(row) != 0)) if len(order) else np.zeros(0, np.bool_)
    return np.bincount(np.searchsorted(reads.row, row[new]), minlength=len(reads.row)).astype(np.int64)


def check_uncommitted_read(partition: Partition) -> Found:
    """Polls that return an offset at or above the high watermark that came with them."""
    operations, reads = partition.operations, _reads(partition.operations)
    high_watermark = operations.high_watermark[reads.row]
    told = high_watermark != NONE
    for i in np.flatnonzero(told & (reads.highest >= high_watermark)):
        what = (
            f"returned offset {reads.highest[i]}, at or above the high watermark {high_watermark[i]} that came with it"
        )
        yield _anomaly(operations, reads, int(i), what, [int(reads.highest[i])])
    return Coverage(looked=int(told.sum()))


def _between(operations: Operations, reads: _Reads, i: int, what: str, offsets: list[int]) -> Anomaly:
    """What one poll shows against what its process had come to."""
    severity = Severity.ALLOWED if operations.subscribed[reads.row[i]] else Severity.VIOLATION
    return _anomaly(operations, reads, i, what, offsets, int(reads.before[i]), severity)


def _anomaly(
    operations: Operations,
    reads: _Reads,
    i: int,
    what: str,
    offsets: list[int],
    before: int = NONE,
    severity: Severity = Severity.VIOLATION,
) -> Anomaly:
    row = int(reads.row[i])
    rows = [row] if before == NONE else [before, row]
    returned = operations.returned_offset[reads.begin[i] : reads.end[i]][:LISTED_MAX]
    return Anomaly(
        severity=severity,
        detail=f"operation {operations.invoke_index[row]} of process {operations.process[row]} {what}",
        offsets=offsets,
        op_indexes=[int(operations.invoke_index[one]) for one in rows],
        evidence={
            "operations": [operations.described(one) for one in rows],
            "returned_offsets": [int(offset) for offset in returned],
        },
    )


# One poll by itself, or against what its process had come to before. What is known to hold a value stays known.
NONMONOTONIC_POLL = LogCheck(
    name="nonmonotonic-poll",
    promise="A consumer that polls on never goes back.",
    needs="polls with records whose position was known",
    implies=frozenset({"nonmonotonic-poll"}),
    rests_on_all=True,
    run=check_nonmonotonic_poll,
)
POLL_SKIP = LogCheck(
    name="poll-skip",
    promise="A consumer that polls on skips no value.",
    needs="polls with records whose position was known",
    implies=frozenset({"poll-skip"}),
    rests_on_all=True,
    run=check_poll_skip,
)
INT_NONMONOTONIC_POLL = LogCheck(
    name="int-nonmonotonic-poll",
    promise="What one poll returns ascends.",
    needs="polls that returned several records",
    implies=frozenset({"int-nonmonotonic-poll"}),
    run=check_int_nonmonotonic_poll,
)
INT_POLL_SKIP = LogCheck(
    name="int-poll-skip",
    promise="What one poll returns skips no value.",
    needs="polls that returned several records",
    implies=frozenset({"int-poll-skip"}),
    run=check_int_poll_skip,
)
UNCOMMITTED_READ = LogCheck(
    name="uncommitted-read",
    promise="Nobody reads at or above the high watermark.",
    needs="polls with records that came with a high watermark",
    implies=frozenset({"uncommitted-read"}),
    run=check_uncommitted_read,
)
