"""Every value that was read was written, by a write that may have happened.

Owns **phantom-read** (nobody wrote it), **aborted-read** (every write of it definitely failed) and
**malformed-operation** (the record of an operation lacks what its kind must have, so that it cannot be judged). Source:
G1a of Adya's thesis, as ``jepsen.tests.kafka`` judges it; the phantom read is ours, Jepsen gives up there.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from nemesis.checks.anomalies import Anomaly
from nemesis.checks.check import Coverage, Found, LogCheck, by_value
from nemesis.checks.observations import Observations, contains, observe
from nemesis.checks.partition import NONE, Bools, Ints, Partition
from nemesis.checks.schemas import Severity


def check_phantom_read(partition: Partition) -> Found:
    """Values that were read or are vouched for by a replica, and that nobody wrote; lowest offset first."""
    operations = partition.operations
    written = np.unique(operations.value[operations.append & operations.has_value])
    seen = observe(partition)
    judged = np.ones(len(seen.value), np.bool_)
    if not partition.history_complete:
        # A replica's final log may hold what was written after the last shard that is known.
        judged &= seen.row != NONE
    if partition.evidence_due:
        # Nor is a history whole that does not tell of the log.
        judged &= (seen.row != NONE) | np.isin(seen.replica_id, list(partition.events.dumped))
    for i in _first_by_value(seen, judged & ~contains(written, seen.value)):
        what = f"value {seen.value[i]} at offset {seen.offset[i]} was read, and nobody wrote it"
        yield _anomaly(partition, seen, i, what, ())
    return Coverage(looked=len(np.unique(seen.value[judged])))


def check_aborted_read(partition: Partition) -> Found:
    """Values that were read or are vouched for by a replica, and whose writes all failed definitely."""
    operations = partition.operations
    attempts = operations.append & operations.has_value
    possible = np.unique(operations.value[attempts & ~operations.fail])
    failed_rows = np.flatnonzero(attempts & operations.fail)
    failed_rows = failed_rows[np.argsort(operations.value[failed_rows], kind="stable")]
    failed = operations.value[failed_rows]
    seen = observe(partition)
    # What an operation polled that itself did not succeed is no evidence: it may have been aborted for that.
    judged = seen.row == NONE
    judged[~judged] = operations.ok[seen.row[~judged]]
    for i in _first_by_value(seen, judged & contains(failed, seen.value) & ~contains(possible, seen.value)):
        row = int(failed_rows[np.searchsorted(failed, seen.value[i])])
        write = int(operations.invoke_index[row])
        what = f"value {seen.value[i]} at offset {seen.offset[i]} was read, and its write, operation {write}, failed"
        yield _anomaly(partition, seen, i, what, (row,))
    return Coverage(looked=len(np.unique(seen.value[judged])))


def check_malformed_operation(partition: Partition) -> Found:
    """Appends without a value and ok polls without records, in order."""
    operations = partition.operations
    malformed = (operations.append & ~operations.has_value) | (
        operations.poll & operations.ok & ~operations.has_records
    )
    for row in np.flatnonzero(malformed):
        index, lacks = int(operations.invoke_index[row]), "a value" if operations.append[row] else "records"
        yield Anomaly(
            severity=Severity.UNKNOWN,
            detail=f"operation {index} was recorded without {lacks}: it cannot be judged",
            op_indexes=(index,),
            evidence={"operations": [operations.described(int(row))]},
        )
    return Coverage(looked=len(np.unique(operations.invoke_index)))


def _first_by_value(seen: Observations, mask: Bools) -> list[int]:
    """The first observation of each value under the mask, in order of offset."""
    rows: Ints = np.flatnonzero(mask)
    _, first = np.unique(seen.value[rows], return_index=True)
    return [int(row) for row in rows[np.sort(first)]]


def _anomaly(partition: Partition, seen: Observations, i: int, what: str, writes: tuple[int, ...]) -> Anomaly:
    operations = partition.operations
    by_replica = seen.row[i] == NONE
    rows = writes if by_replica else (*writes, int(seen.row[i]))
    replicas = [int(seen.replica_id[i])] if by_replica else []
    by = f"in the log of replica {seen.replica_id[i]}" if by_replica else f"by operation {seen.op_index[i]}"
    evidence: dict[str, Any] = {"offset": int(seen.offset[i]), "value": int(seen.value[i])}
    return Anomaly(
        detail=f"{what} ({by})",
        offsets=(int(seen.offset[i]),),
        op_indexes=[int(operations.invoke_index[row]) for row in rows],
        replicas=replicas,
        evidence=evidence | {"operations": [operations.described(row) for row in rows]},
    )


# Somebody may still send the value. He does so after it was read: where it stood then, he comes too late; where he gets
# another offset, it stands twice; if he fails, it was read all the same.
PHANTOM_READ = LogCheck(
    name="phantom-read",
    promise="Nobody reads a value that nobody wrote.",
    needs="values that were read, or that a replica's log holds",
    implies=frozenset({"phantom-read", "aborted-read", "duplicate", "realtime-reorder"}),
    identity=by_value,
    rests_on_all=True,
    run=check_phantom_read,
)
ABORTED_READ = LogCheck(
    name="aborted-read",
    promise="Nobody reads a value whose write definitely failed.",
    needs="values that were read, or that a replica's log holds",
    implies=frozenset({"aborted-read", "duplicate", "realtime-reorder"}),
    identity=by_value,
    run=check_aborted_read,
)
MALFORMED_OPERATION = LogCheck(
    name="malformed-operation",
    promise="Every operation was recorded with all that its kind needs.",
    needs="operations on logs",
    run=check_malformed_operation,
)
