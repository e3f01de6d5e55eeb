"""An idempotent producer's batches stand in the log once, and in the order of their numbers.

Owns **duplicate-sequence** and **out-of-order-sequence**, in what each replica holds and vouches for. A leader derives
what it knows of a producer from its own log, and a replica's log below its high watermark is what the leader's was: so
for each batch, the batch of the same producer before it was known to whoever took it. Source: KIP-98; Kafka's
``ProducerAppendInfo.checkSequence``. A producer's first batch in a log may have any number (KIP-360).
"""

from __future__ import annotations

from typing import Any

import numpy as np

from nemesis.checks.anomalies import Anomaly
from nemesis.checks.check import Coverage, Found, LogCheck
from nemesis.checks.partition import NONE, Bools, Ints, Partition, ReplicaLog

SEQUENCES = 1 << 31
"""Behind the largest number they go on at 0."""


def check_duplicate_sequence(partition: Partition) -> Found:
    """Numbers of one producer epoch that stand at several offsets, by replica, producer and number."""
    for log in partition.logs:
        rows = _numbered(log)
        # A batch that wraps around is taken for the last one: nobody comes near 2**31 numbers in a run.
        order = np.lexsort(
            (log.base_offset[rows], log.base_sequence[rows], log.producer_epoch[rows], log.producer_id[rows])
        )
        rows = rows[order]
        reach = _reach(log, rows)
        same = _same(log.producer_id, rows) & _same(log.producer_epoch, rows)
        for i in np.flatnonzero(same & (log.base_sequence[rows[1:]] < reach[:-1])):
            first, second = sorted((int(rows[i]), int(rows[i + 1])))
            what = f"sequence number {log.base_sequence[rows[i + 1]]} of producer {_name(log, first)} is at offsets"
            what += f" {log.base_offset[first]} and {log.base_offset[second]} of replica {log.replica_id}"
            yield _anomaly(log, [first, second], what)
    return _coverage(partition)


def check_out_of_order_sequence(partition: Partition) -> Found:
    """Batches that do not follow upon the one before of the same producer, by replica, producer and offset."""
    for log in partition.logs:
        rows = _numbered(log)
        rows = rows[np.lexsort((log.base_offset[rows], log.producer_id[rows]))]
        reach = _reach(log, rows)
        raised = np.diff(log.producer_epoch[rows])
        expected = np.where(raised == 0, reach[:-1] % SEQUENCES, 0)
        # What stands there a second time is a duplicate, and told as such.
        wrong = (raised < 0) | (log.base_sequence[rows[1:]] > expected)
        for i in np.flatnonzero(_same(log.producer_id, rows) & wrong):
            before, after = int(rows[i]), int(rows[i + 1])
            what = f"the batch at offset {log.base_offset[after]} of replica {log.replica_id} has sequence"
            what += f" number {log.base_sequence[after]} of producer {_name(log, after)}, and the one before ended with"
            what += f" {reach[i] - 1} of {_name(log, before)} at offset {log.base_offset[before]}"
            yield _anomaly(log, [before, after], what)
    return _coverage(partition)


def _coverage(partition: Partition) -> Coverage:
    return Coverage(looked=sum(len(_numbered(log)) for log in partition.logs))


def _numbered(log: ReplicaLog) -> Ints:
    """The batches of idempotent producers that this replica vouches for."""
    return np.flatnonzero((log.producer_id != NONE) & (log.last_offset < log.committed_end_offset)).astype(np.int64)


def _reach(log: ReplicaLog, rows: Ints) -> Ints:
    """The number behind the last one of each batch."""
    return np.asarray(log.base_sequence[rows] + log.last_offset[rows] - log.base_offset[rows] + 1, np.int64)


def _same(column: Ints, rows: Ints) -> Bools:
    """For each of these rows but the first, whether it has the same as the one before."""
    return np.asarray(np.diff(column[rows]) == 0, np.bool_)


def _name(log: ReplicaLog, row: int) -> str:
    return f"{log.producer_id[row]} in epoch {log.producer_epoch[row]}"


def _anomaly(log: ReplicaLog, rows: list[int], what: str) -> Anomaly:
    return Anomaly(
        detail=what,
        offsets=[int(log.base_offset[row]) for row in rows],
        replicas=(log.replica_id,),
        evidence={"batches": [_described(log, row) for row in rows]},
    )


def _described(log: ReplicaLog, row: int) -> dict[str, Any]:
    return {
        "base_offset": int(log.base_offset[row]),
        "last_offset": int(log.last_offset[row]),
        "leader_epoch": int(log.leader_epoch[row]),
        "producer_id": int(log.producer_id[row]),
        "producer_epoch": int(log.producer_epoch[row]),
        "base_sequence": int(log.base_sequence[row]),
    }


DUPLICATE_SEQUENCE = LogCheck(
    name="duplicate-sequence",
    promise="What an idempotent producer repeats stands in the log once.",
    needs="batches of idempotent producers in replicas' logs",
    run=check_duplicate_sequence,
)
OUT_OF_ORDER_SEQUENCE = LogCheck(
    name="out-of-order-sequence",
    promise="An idempotent producer's batches stand in the order of their numbers.",
    needs="batches of idempotent producers in replicas' logs",
    run=check_out_of_order_sequence,
)
