"""The few sentences below the verdict, each said only when the run's files bear it out.

Owns how much may be claimed. "Each was found in the final log of every replica" needs every replica's log, read to its
end, with its high watermark above every acknowledged offset: a log vouches for nothing else.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from nemesis.checks.schemas import AnomalyName
from nemesis.checks.verdict import Verdict
from nemesis.history.events import APPEND
from nemesis.report.operations import Operations
from nemesis.report.values import Judgement, Kept, MarkKind, Outcome, ReplicaLog, Timeline


def headlines(
    judgement: Judgement,
    operations: Operations,
    history: pa.Table,
    logs: Sequence[ReplicaLog],
    timeline: Timeline,
    nodes: int,
) -> tuple[str, ...]:
    """Sentences on the acknowledged writes and on what befell the cluster; ``nodes`` is the size of the cluster."""
    elections = sum(mark.kind is MarkKind.ELECTION for mark in timeline.marks)
    befell = ", ".join(
        (
            counted(len(timeline.faults), "fault"),
            counted(elections, "leader election"),
            counted(len(timeline.marks) - elections, "truncation"),
        )
    )
    return (_writes(judgement, operations, history, logs, nodes), f"What befell the replicas: {befell}.")


def counted(number: int, noun: str) -> str:
    """``1 fault``, ``2 faults``."""
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def _writes(
    judgement: Judgement, operations: Operations, history: pa.Table, logs: Sequence[ReplicaLog], nodes: int
) -> str:
    acknowledged = operations.where(operations.functions.index(APPEND), Outcome.OK)
    number = int(acknowledged.sum())
    said = f"{counted(number, 'acknowledged write')}"
    if not number or judgement.verdict is Verdict.UNKNOWN:
        return f"{said}; whether all were kept is not known."
    if any(p.anomaly == AnomalyName.LOST_WRITE and p.kept is not Kept.KEPT for p in judgement.promises):
        return f"{said}; not all were kept."
    offsets = history.column("offset").take(pa.array(operations.return_row[acknowledged]))
    if offsets.null_count == 0 and _vouched(np.asarray(offsets.to_numpy()).max(), logs, nodes):
        return f"{said}; each was found in the final log of all {len(logs)} replicas."
    return f"{said}; none was found missing, but not every replica's final log could be compared with them all."


def _vouched(offset_max: int, logs: Sequence[ReplicaLog], nodes: int) -> bool:
    return len(logs) >= max(nodes, 1) and all(
        log.is_complete
        and log.log_start_offset == 0
        and log.high_watermark is not None
        and offset_max < min(log.high_watermark, log.log_end_offset)
        for log in logs
    )
