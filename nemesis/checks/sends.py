"""What one producer sends later stands later.

Owns **nonmonotonic-send** from one operation of a process to the next, **int-nonmonotonic-send** and **int-send-skip**
within one transaction. A send stands where it was acknowledged, or else where the earliest operation saw its value.
That others' values stand between the sends of one transaction is *allowed*: no transaction has a log for itself.
Source: the analyses of the same names in ``jepsen.tests.kafka``.
"""

from __future__ import annotations

import numpy as np

from nemesis.checks.anomalies import LISTED_MAX, Anomaly
from nemesis.checks.check import Coverage, Found, LogCheck
from nemesis.checks.observations import known_offsets, observe
from nemesis.checks.partition import NONE, Ints, Operations, Partition
from nemesis.checks.real_time import placed
from nemesis.checks.schemas import Severity


def check_nonmonotonic_send(partition: Partition) -> Found:
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
    later = np.flatnonzero(follows)
    wrong = later[offsets[later] <= offsets[before[later]]]
    for i in wrong[np.argsort(index[wrong], kind="stable")]:
        what = f"which is not behind what process {process[i]} had sent before:"
        yield _anomaly(operations, rows, offsets, (int(before[i]), int(i)), what)
    return Coverage(looked=len(later))


def check_int_nonmonotonic_send(partition: Partition) -> Found:
    """Sends of a transaction at or below the one before in the same transaction, in order of invocation."""
    operations = partition.operations
    rows, offsets = placed(operations, observe(partition))
    within = np.diff(operations.invoke_index[rows]) == 0
    for i in np.flatnonzero(within & (np.diff(offsets) <= 0)):
        pair = int(i), int(i) + 1
        what = "which is not behind what it had sent before itself:"
        yield _anomaly(operations, rows, offsets, pair, what)
    return Coverage(looked=int(within.sum()))


def check_int_send_skip(partition: Partition) -> Found:
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
            what = f"and {high - low} known offsets lie between that and what it had sent before:"
            yield _anomaly(operations, rows, offsets, pair, what, skipped)
    return Coverage(looked=len(within))


def _by_process(operations: Operations, rows: Ints, offsets: Ints) -> tuple[Ints, Ints]:
    """Rows are in order of invocation; a process does one thing after the other."""
    order = np.argsort(operations.process[rows], kind="stable")
    return rows[order], offsets[order]


def _anomaly(
    operations: Operations,
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
    told += f" value {operations.value[first]} at offset {earlier}"
    return Anomaly(
        severity=Severity.VIOLATION if skipped is None else Severity.ALLOWED,
        detail=told,
        offsets=[earlier, later] if skipped is None else skipped,
        op_indexes=indexes if indexes[0] != indexes[1] else indexes[:1],
        evidence={"operations": [operations.described(row) for row in (first, second)]},
    )


# A send that was not told its offset stands where the earliest operation saw it. An operation that began earlier may
# yet return and show another place: then the value has two.
NONMONOTONIC_SEND = LogCheck(
    name="nonmonotonic-send",
    promise="What a process sends later has higher offsets than what it sent before.",
    needs="writes that follow another one of their process",
    implies=frozenset({"nonmonotonic-send", "duplicate"}),
    run=check_nonmonotonic_send,
)
INT_NONMONOTONIC_SEND = LogCheck(
    name="int-nonmonotonic-send",
    promise="What a transaction sends later has higher offsets than what it sent before.",
    needs="transactions with several sends to one log",
    implies=frozenset({"int-nonmonotonic-send", "duplicate"}),
    rests_on_all=True,
    run=check_int_nonmonotonic_send,
)
INT_SEND_SKIP = LogCheck(
    name="int-send-skip",
    promise="What a transaction sends has consecutive offsets; logs do not promise that.",
    needs="transactions with several sends to one log",
    run=check_int_send_skip,
)
