"""What one producer sends later stands later.

Owns **nonmonotonic-send** from one operation of a process to the next, **int-nonmonotonic-send** and **int-send-skip**
within one transaction. A send stands where it was acknowledged, or else where the earliest operation saw its value.
That others' values stand between the sends of one transaction is *allowed*: no transaction has a log for itself.
Source: the analyses of the same names in ``jepsen.tests.kafka``.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from nemesis.checks.anomalies import LISTED_MAX, Anomaly
from nemesis.checks.observations import known_offsets, observe
from nemesis.checks.partition import NONE, Ints, Operations, Partition
from nemesis.checks.real_time import placed
from nemesis.checks.schemas import AnomalyName, Severity


def check_nonmonotonic_send(partition: Partition) -> Iterator[Anomaly]:
    """Sends at or below what the same process had sent in its last ok operation before; in order of invocation.

    Of an operation with several, its first is compared with the last one of the operation before.
    """
    operations = partition.operations
    rows, offsets = _by_process(operations, *placed(operations, observe(partition)))
    process, index = operations.process[rows], operations.invoke_index[rows]
    begins = np.append(True, np.diff(index) != 0) if len(rows) else np.zeros(0, np.bool_)
    ends = np.append(begins[1:], True) & operations.ok[rows] if len(rows) else begins
    # The place of the last send of the last ok operation that ended before each place.
    latest = np.maximum.accumulate(np.where(ends, np.arange(len(rows)), NONE)) if len(rows) else rows
    before = np.append(NONE, latest[:-1]) if len(rows) else rows
    follows = begins & (before != NONE)
    follows[follows] = process[before[follows]] == process[follows]
    wrong = np.flatnonzero(follows)
    wrong = wrong[offsets[wrong] <= offsets[before[wrong]]]
    for i in wrong[np.argsort(index[wrong], kind="stable")]:
        what = f"after what process {process[i]} had sent before:"
        yield _anomaly(operations, AnomalyName.NONMONOTONIC_SEND, rows, offsets, (int(before[i]), int(i)), what)


def check_int_nonmonotonic_send(partition: Partition) -> Iterator[Anomaly]:
    """Sends of a transaction at or below the one before in the same transaction, in order of invocation."""
    operations = partition.operations
    rows, offsets = placed(operations, observe(partition))
    for i in np.flatnonzero((np.diff(operations.invoke_index[rows]) == 0) & (np.diff(offsets) <= 0)):
        pair = int(i), int(i) + 1
        what = "after what it had sent before itself,"
        yield _anomaly(operations, AnomalyName.INT_NONMONOTONIC_SEND, rows, offsets, pair, what)


def check_int_send_skip(partition: Partition) -> Iterator[Anomaly]:
    """Sends of a transaction with known offsets between them, which it has not sent there; allowed."""
    operations, seen = partition.operations, observe(partition)
    rows, offsets = placed(operations, seen)
    known = known_offsets(seen)
    within = np.flatnonzero(np.diff(operations.invoke_index[rows]) == 0)
    first, beyond = np.searchsorted(known, offsets[within], side="right"), np.searchsorted(known, offsets[within + 1])
    for i, low, high in zip(within, first, beyond, strict=True):
        if low < high:
            pair = int(i), int(i) + 1
            skipped = [int(offset) for offset in known[low:high][:LISTED_MAX]]
            what = f"with {high - low} known offsets between them,"
            yield _anomaly(operations, AnomalyName.INT_SEND_SKIP, rows, offsets, pair, what, skipped)


def _by_process(operations: Operations, rows: Ints, offsets: Ints) -> tuple[Ints, Ints]:
    """Rows are in order of invocation; a process does one thing after the other."""
    order = np.argsort(operations.process[rows], kind="stable")
    return rows[order], offsets[order]


def _anomaly(
    operations: Operations,
    name: AnomalyName,
    rows: Ints,
    offsets: Ints,
    pair: tuple[int, int],
    what: str,
    skipped: list[int] | None = None,
) -> Anomaly:
    """What two sends show, given by their places in ``rows``."""
    first, second = (int(rows[i]) for i in pair)
    earlier, later = (int(offsets[i]) for i in pair)
    indexes = [int(operations.invoke_index[row]) for row in (first, second)]
    told = f"operation {indexes[1]} sent value {operations.value[second]} to offset {later}, {what}"
    told += f" and value {operations.value[first]} stands at offset {earlier}"
    return Anomaly(
        name=name,
        severity=Severity.VIOLATION if skipped is None else Severity.ALLOWED,
        detail=told,
        offsets=[earlier, later] if skipped is None else skipped,
        op_indexes=indexes if indexes[0] != indexes[1] else indexes[:1],
        evidence={"operations": [operations.described(row) for row in (first, second)]},
    )
