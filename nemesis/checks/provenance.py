"""Every value that was read was written, by a write that may have happened.

Owns **phantom-read** (nobody wrote it), **aborted-read** (every write of it definitely failed) and
**malformed-operation** (the record of an operation lacks what its kind must have, so that it cannot be judged). Source:
G1a of Adya's thesis, as ``jepsen.tests.kafka`` judges it; the phantom read is ours, Jepsen gives up there.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from nemesis.checks.anomalies import Anomaly
from nemesis.checks.observations import Observations, contains, observe
from nemesis.checks.partition import NONE, Bools, Ints, Partition
from nemesis.checks.schemas import AnomalyName, Severity


def check_phantom_read(partition: Partition) -> Iterator[Anomaly]:
    """Values that were read or are vouched for by a replica, and that nobody wrote; lowest offset first."""
    operations = partition.operations
    written = np.unique(operations.value[operations.append & operations.has_value])
    seen = observe(partition)
    phantom = ~contains(written, seen.value)
    if not partition.history_complete:
        # A replica's final log may hold what was written after the last shard that is known.
        phantom &= seen.row != NONE
    if partition.evidence_due:
        # Nor is a history whole that does not tell of the log.
        phantom &= (seen.row != NONE) | np.isin(seen.replica_id, list(partition.events.dumped))
    for i in _first_by_value(seen, phantom):
        what = f"value {seen.value[i]} at offset {seen.offset[i]} was read, and nobody wrote it"
        yield _anomaly(partition, AnomalyName.PHANTOM_READ, seen, i, what, ())


def check_aborted_read(partition: Partition) -> Iterator[Anomaly]:
    """Values that were read or are vouched for by a replica, and whose writes all failed definitely."""
    operations = partition.operations
    attempts = operations.append & operations.has_value
    possible = np.unique(operations.value[attempts & ~operations.fail])
    failed_rows = np.flatnonzero(attempts & operations.fail)
    failed_rows = failed_rows[np.argsort(operations.value[failed_rows], kind="stable")]
    failed = operations.value[failed_rows]
    seen = observe(partition)
    # What an operation polled that itself did not succeed is no evidence: it may have been aborted for that.
    aborted = contains(failed, seen.value) & ~contains(possible, seen.value)
    aborted[aborted] = (seen.row[aborted] == NONE) | operations.ok[seen.row[aborted]]
    for i in _first_by_value(seen, aborted):
        row = int(failed_rows[np.searchsorted(failed, seen.value[i])])
        write = int(operations.invoke_index[row])
        what = f"value {seen.value[i]} at offset {seen.offset[i]} was read, and its write, operation {write}, failed"
        yield _anomaly(partition, AnomalyName.ABORTED_READ, seen, i, what, (row,))


def check_malformed_operation(partition: Partition) -> Iterator[Anomaly]:
    """Appends without a value and ok polls without records, in order."""
    operations = partition.operations
    malformed = (operations.append & ~operations.has_value) | (
        operations.poll & operations.ok & ~operations.has_records
    )
    for row in np.flatnonzero(malformed):
        index, lacks = int(operations.invoke_index[row]), "a value" if operations.append[row] else "records"
        yield Anomaly(
            name=AnomalyName.MALFORMED_OPERATION,
            severity=Severity.UNKNOWN,
            detail=f"operation {index} was recorded without {lacks}: it cannot be judged",
            op_indexes=(index,),
            evidence={"operations": [operations.described(int(row))]},
        )


def _first_by_value(seen: Observations, mask: Bools) -> list[int]:
    """The first observation of each value under the mask, in order of offset."""
    rows: Ints = np.flatnonzero(mask)
    _, first = np.unique(seen.value[rows], return_index=True)
    return [int(row) for row in rows[np.sort(first)]]


def _anomaly(
    partition: Partition, name: AnomalyName, seen: Observations, i: int, what: str, writes: tuple[int, ...]
) -> Anomaly:
    operations = partition.operations
    by_replica = seen.row[i] == NONE
    rows = writes if by_replica else (*writes, int(seen.row[i]))
    replicas = [int(seen.replica_id[i])] if by_replica else []
    by = f"held by replica {seen.replica_id[i]}" if by_replica else f"by operation {seen.op_index[i]}"
    evidence: dict[str, Any] = {"offset": int(seen.offset[i]), "value": int(seen.value[i])}
    return Anomaly(
        name=name,
        detail=f"{what} ({by})",
        offsets=(int(seen.offset[i]),),
        op_indexes=[int(operations.invoke_index[row]) for row in rows],
        replicas=replicas,
        evidence=evidence | {"operations": [operations.described(row) for row in rows]},
    )
