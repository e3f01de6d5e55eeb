"""All that could have shown a violation is there to be looked at.

Owns **missing-evidence**: what a run recorded to its end must hold of a topic-partition, and does not. What that is,
the run says itself: the history counts the batches of each log that was dumped, the final ISR names whose logs there
must be, and what was acknowledged must lie within the final reads. And it owns what a log vouches for beside its own
high watermark, which its dump may lack: that of a member of the final ISR for all that is known to be committed.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from nemesis.checks.anomalies import Anomaly
from nemesis.checks.check import Coverage, Found, LogCheck
from nemesis.checks.in_sync import known_committed_end
from nemesis.checks.losses import acknowledged, read_ranges
from nemesis.checks.partition import NEVER, NONE, Ints, Operations, Partition, ReplicaLog
from nemesis.checks.replica_events import ANY, ReplicaEvents
from nemesis.checks.schemas import Severity


def as_dumped(
    logs: tuple[ReplicaLog, ...], operations: Operations, events: ReplicaEvents, *, evidence_due: bool
) -> tuple[ReplicaLog, ...]:
    """The logs as far as other witnesses bear them out.

    A log is not complete unless it has as many batches as were dumped; where evidence is due, one whose dump nobody
    tells of is not. If its replica was in sync in the end it vouches for what was committed then, whatever it knows of
    that itself.
    """
    claim = events.isr_claim
    committed = known_committed_end(operations, claim) if claim is not None and claim.restored else 0
    in_sync = () if claim is None or committed == 0 else claim.isr

    def dumped(log: ReplicaLog) -> int | None:
        return events.dumped.get(log.replica_id, None if evidence_due else len(log.base_offset))

    return tuple(
        replace(
            log,
            complete=log.complete and dumped(log) == len(log.base_offset),
            high_watermark=max(log.high_watermark, committed if log.replica_id in in_sync else NONE),
        )
        for log in logs
    )


def check_missing_evidence(partition: Partition) -> Found:
    """What should be there and is not, of the logs, the final ISR and the final reads; nothing where none is due."""
    if not partition.evidence_due:
        return Coverage()
    looks = (_appends, _logs, _high_watermarks, _isr, _final_reads)
    for what, replicas in (missing for look in looks for missing in look(partition)):
        yield Anomaly(
            severity=Severity.UNKNOWN,
            detail=what,
            replicas=replicas,
            evidence={"missing": what},
        )
    return Coverage(looked=1)


Missing = Iterator[tuple[str, tuple[int, ...]]]
"""A sentence, and whose evidence it is about."""


def _appends(partition: Partition) -> Missing:
    """Each value was sent once; else a line is there twice, or is another than it was."""
    operations = partition.operations
    sent = operations.value[operations.append & operations.has_value]
    again = len(sent) - len(np.unique(sent))
    if again:
        yield f"{again} appends send a value that another append sends", ()


def _logs(partition: Partition) -> Missing:
    """Each log has what was dumped of it, nothing is there that was not dumped, and whoever has the log was dumped."""
    found = {log.replica_id: len(log.base_offset) for log in partition.logs}
    dumped, due = partition.events.dumped, partition.events.due
    if due and not found and not dumped:
        yield "the run had this log, and no replica's copy was read in the end", ()
    for replica_id in sorted(found.keys() | dumped.keys() | due - {ANY}):
        told, there = dumped.get(replica_id), found.get(replica_id)
        if told is None and there is None:
            yield f"replica {replica_id} has this log, which was not read in the end", (replica_id,)
        elif told is None:
            yield f"the history does not say that the log of replica {replica_id} was read", (replica_id,)
        elif there is None:
            yield f"the log of replica {replica_id} was read, and none of its rows is stored", (replica_id,)
        elif there != told:
            yield f"{told} batches of replica {replica_id} were read, and {there} are stored", (replica_id,)


def _high_watermarks(partition: Partition) -> Missing:
    """Somebody says what of the logs is committed."""
    written = [log for log in partition.logs if len(log.base_offset)]
    if written and all(log.high_watermark == NONE for log in written):
        yield "no replica's high watermark is known", tuple(log.replica_id for log in written)


def _isr(partition: Partition) -> Missing:
    """Who was in sync in the end is known, and has a log."""
    claim = partition.events.isr_claim
    if claim is None:
        if partition.operations.append.any():
            yield "the final ISR is not known", ()
        return
    logs = {log.replica_id for log in partition.logs}
    # What was dumped and is gone has been told already.
    for replica_id in sorted(set(claim.isr) - logs - partition.events.dumped.keys()):
        yield f"replica {replica_id} is in the final ISR, and its log was not read", (replica_id,)


def _final_reads(partition: Partition) -> Missing:
    """What was acknowledged lies within the final reads, or was deleted by retention from every log that is whole."""
    operations = partition.operations
    if not operations.append.any():
        return
    if not operations.final_read.any():
        yield "there is no final read", ()
    starts, ends = _final_ranges(operations)
    if NEVER not in ends:
        # That none saw the end is counted elsewhere.
        return
    acked = acknowledged(operations)
    late = int((operations.return_index[acked] > operations.invoke_index[operations.final_read].min()).sum())
    if late:
        yield f"{late} appends were acknowledged when the final read had begun", ()
    starts_of_logs = [log.log_start_offset for log in partition.logs if log.complete and partition.events.trimmed]
    deleted_end = min(starts_of_logs, default=0)
    offsets = np.unique(operations.offset[acked & (operations.offset >= deleted_end)])
    order = np.argsort(starts, kind="stable")
    furthest = np.append(NONE, np.maximum.accumulate(ends[order]) if len(order) else order)
    passed = offsets[furthest[np.searchsorted(starts[order], offsets, side="right")] <= offsets]
    if len(passed):
        yield f"no final read covers {len(passed)} offsets that were acknowledged, the first is {passed[0]}", ()


def _final_ranges(operations: Operations) -> tuple[Ints, Ints]:
    """What each final read covers: where it begins, and its end, exclusive."""
    final = np.flatnonzero(operations.final_read & operations.ok & operations.has_records)
    start = np.maximum(operations.position[final], 0)
    end = start.copy()
    rows, starts, ends = read_ranges(operations)
    returned = np.isin(final, rows)
    at = np.searchsorted(rows, final[returned])
    start[returned], end[returned] = starts[at], ends[at]
    return start, np.where(operations.limited[final], end, NEVER)


MISSING_EVIDENCE = LogCheck(
    name="missing-evidence",
    promise="Everything that could show a violation was recorded and is there.",
    needs="logs of a run that was recorded to its end",
    run=check_missing_evidence,
)
