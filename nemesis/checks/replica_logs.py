"""The replicas' final logs agree, and epochs never fall along a log.

Owns **diverged-log**, **epoch-regression** (of a replica's log), **two-leaders** and **replica-stopped**. A batch is
the same in two logs when its offsets, its leader epoch and its checksum are. Two logs that part at offset ``x`` are a
violation when

1. both replicas vouch for ``x``: it is below the high watermark of each. A straggler that has not yet cut its
   uncommitted tail does not vouch for it, so it is not convicted for being late;
2. or they hold the same batch again above ``x``: a leader's batch follows the leader's log, so equal batches have equal
   pasts (the Log Matching property), whatever any replica knows of the high watermark.

When ``x`` is only below the largest high watermark that any replica knows, the replicas had not yet converged when they
were read, and whether they would have is unknown. So it is where one of the two was read without its high watermark.
Source: Raft (Ongaro and Ousterhout 2014) figure 3: Election Safety, Log Matching, State Machine Safety; Kafka's
``RaftEventSimulationTest``.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import combinations, groupby
from typing import Any

import numpy as np

from nemesis.checks.anomalies import Anomaly
from nemesis.checks.check import Coverage, Found, LogCheck, Row
from nemesis.checks.partition import NONE, Ints, Partition, ReplicaLog
from nemesis.checks.real_time import check_acknowledged_epochs
from nemesis.checks.schemas import Severity
from nemesis.history.events import KILLED_FROM_OUTSIDE

NS_PER_SECOND = 1_000_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class _Parting:
    """Where two logs first differ, the highest base offset at which they agree, and at how many batches they differ."""

    offset: int
    last_agreed_base_offset: int
    batches: int


def check_diverged_log(partition: Partition) -> Found:
    """One row for each pair of replicas whose logs part below a high watermark, in order of replica ids.

    Before them, one row for each replica whose batches break off before the end that they tell: the rest is unknown.
    """
    for log in partition.logs:
        if log.told_complete and not log.complete:
            yield _broken_off(log)
    high_watermark = max((log.high_watermark for log in partition.logs), default=NONE)
    for first, second in combinations(partition.logs, 2):
        parting = _parting(first, second)
        if parting is None:
            continue
        vouched = parting.offset < min(first.committed_end_offset, second.committed_end_offset)
        if vouched or parting.last_agreed_base_offset > parting.offset:
            reason = (
                "both have a high watermark above it"
                if vouched
                else f"both hold the same batch again at {parting.last_agreed_base_offset}"
            )
            yield _diverged(first, second, parting, Severity.VIOLATION, reason)
        elif parting.offset < high_watermark:
            reason = f"it is below high watermark {high_watermark} of another replica, so these two had not caught up"
            yield _diverged(first, second, parting, Severity.UNKNOWN, reason)
        elif NONE in (first.high_watermark, second.high_watermark):
            yield _diverged(first, second, parting, Severity.UNKNOWN, "no replica tells whether that is committed")
    return _coverage(partition.logs)


def _coverage(logs: tuple[ReplicaLog, ...]) -> Coverage:
    """The logs that another one was compared with; one that was not read to its end may part from it there."""
    missed = sum(not log.told_complete for log in logs)
    why = f"{len(logs) - missed} of {len(logs)} replicas' logs were read to their end" if missed else ""
    return Coverage(looked=len(logs) - missed if len(logs) > 1 else 0, missed=missed, why=why)


def _broken_off(log: ReplicaLog) -> Anomaly:
    what = f"the log of replica {log.replica_id} was read to its end, but no batch is known at offset {log.end_offset}"
    return Anomaly(
        severity=Severity.UNKNOWN,
        detail=f"{what}: what follows there cannot be compared",
        offsets=(log.end_offset,),
        replicas=(log.replica_id,),
        evidence={"replica_id": log.replica_id, "end_offset": log.end_offset},
    )


def _parting(first: ReplicaLog, second: ReplicaLog) -> _Parting | None:
    """Compare two logs over the offsets that both have; ``None`` when they agree there."""
    start = max(first.log_start_offset, second.log_start_offset)
    end = min(first.end_offset, second.end_offset)
    rows = [_identities(log, start, end) for log in (first, second)]
    both = np.concatenate(rows)
    unique, count = np.unique(both, axis=0, return_counts=True)
    lonely = unique[count == 1][:, 0]
    if not len(lonely):
        return None
    agreed = unique[count == 2][:, 0]
    return _Parting(
        offset=int(lonely.min()),
        last_agreed_base_offset=int(agreed.max()) if len(agreed) else -1,
        batches=len(np.unique(lonely)),
    )


def _identities(log: ReplicaLog, start: int, end: int) -> Ints:
    """The batches that begin in [start, end), no repeats: rows of (base offset, last offset, leader epoch, crc)."""
    columns = np.stack([log.base_offset, log.last_offset, log.leader_epoch, log.crc], axis=1)
    within = (log.base_offset >= start) & (log.base_offset < end)
    return np.unique(columns[within], axis=0).astype(np.int64)


def _diverged(first: ReplicaLog, second: ReplicaLog, parting: _Parting, severity: Severity, reason: str) -> Anomaly:
    replicas = (first.replica_id, second.replica_id)
    return Anomaly(
        severity=severity,
        detail=f"the logs of replicas {replicas[0]} and {replicas[1]} differ at offset {parting.offset}: {reason}",
        offsets=(parting.offset,),
        replicas=replicas,
        evidence={
            "differing_batches": parting.batches,
            "batches": [_batch_at(log, parting.offset) for log in (first, second)],
        },
    )


def _batch_at(log: ReplicaLog, offset: int) -> dict[str, Any]:
    """The batch that covers an offset, as evidence; without a batch where the log has none there."""
    entry: dict[str, Any] = {"replica_id": log.replica_id, "high_watermark": log.high_watermark}
    covering = np.flatnonzero((log.base_offset <= offset) & (log.last_offset >= offset))
    if not len(covering):
        return entry
    i = int(covering[0])
    values = log.value[(log.value_offset >= log.base_offset[i]) & (log.value_offset <= log.last_offset[i])]
    return entry | {
        "base_offset": int(log.base_offset[i]),
        "last_offset": int(log.last_offset[i]),
        "leader_epoch": int(log.leader_epoch[i]),
        "crc": int(log.crc[i]),
        "values": [int(value) for value in values[:5]],
    }


def check_epoch_regression(partition: Partition) -> Found:
    """Batches whose leader epoch is below that of the batch before them, by replica and offset; before them
    acknowledgements of which that is so."""
    acknowledged = yield from check_acknowledged_epochs(partition)
    for log in partition.logs:
        for i in np.flatnonzero(np.diff(log.leader_epoch) < 0):
            before, after = int(log.leader_epoch[i]), int(log.leader_epoch[i + 1])
            offsets = (int(log.base_offset[i]), int(log.base_offset[i + 1]))
            what = f"falls from epoch {before} at offset {offsets[0]} to epoch {after} at offset {offsets[1]}"
            yield Anomaly(
                detail=f"the log of replica {log.replica_id} {what}",
                offsets=offsets,
                replicas=(log.replica_id,),
                evidence={"batches": [_batch_at(log, offset) for offset in offsets]},
            )
    return acknowledged + Coverage(looked=sum(len(log.leader_epoch) for log in partition.logs))


def check_two_leaders(partition: Partition) -> Found:
    """Epochs in which more than one replica reported that it became the leader, lowest first."""
    for epoch, found in groupby(partition.events.leaders, key=lambda leader: leader[0]):
        replicas = [replica_id for _, replica_id in found]
        if len(replicas) > 1:
            yield Anomaly(
                detail=f"replicas {', '.join(map(str, replicas))} each became the leader in epoch {epoch}",
                replicas=replicas,
                evidence={"epoch": epoch, "replicas": replicas},
            )
    return Coverage(looked=len(partition.events.leaders))


def check_replica_stopped(partition: Partition) -> Found:
    """Replicas that halted, or whose process ended, without the nemesis having done it; in order of time.

    A replica halts when it sees what cannot happen in a sound cluster, so a run with a halt in it is not a good one,
    even if nothing was lost. A kill from outside says nothing of the replica: what it would have done is unknown.
    """
    for replica_id, event, detail, time_ns in partition.events.stops:
        if event == KILLED_FROM_OUTSIDE:
            what = (
                f"{detail} of replica {replica_id} at {time_ns / NS_PER_SECOND:.1f} s, which the harness did not send"
            )
            yield Anomaly(
                severity=Severity.UNKNOWN,
                detail=f"the run was disturbed by {what}: the kernel, for want of memory, or another program sent it",
                replicas=(replica_id,),
                evidence={"event": event, "detail": detail, "time_ns": time_ns, "cause": what},
            )
            continue
        yield Anomaly(
            detail=f"replica {replica_id} {event} by itself" + (f": {detail}" if detail else ""),
            replicas=(replica_id,),
            evidence={"event": event, "detail": detail},
        )
    return Coverage(looked=len(partition.events.started.union(stop[0] for stop in partition.events.stops)))


def _by_epoch(row: Row, evidence: Mapping[str, Any]) -> tuple[Any, ...]:
    del row
    return (evidence["epoch"],)


def _by_stop(row: Row, evidence: Mapping[str, Any]) -> tuple[Any, ...]:
    del evidence
    return (*row["replicas"], row["detail"])


# The replicas' logs are read when everything has healed, so that a prefix proves nothing of them.
DIVERGED_LOG = LogCheck(
    name="diverged-log",
    promise="Below the high watermark all replicas hold the same batches.",
    needs="logs of several replicas",
    run=check_diverged_log,
)
EPOCH_REGRESSION = LogCheck(
    name="epoch-regression",
    promise="Along a log the leader epoch never falls.",
    needs="acknowledgements or batches with a leader epoch",
    implies=frozenset({"epoch-regression"}),
    run=check_epoch_regression,
)
TWO_LEADERS = LogCheck(
    name="two-leaders",
    promise="One epoch has one leader.",
    needs="replicas that told that they became leader",
    implies=frozenset({"two-leaders"}),
    identity=_by_epoch,
    run=check_two_leaders,
)
REPLICA_STOPPED = LogCheck(
    name="replica-stopped",
    promise="A replica ends only when it is told or killed.",
    needs="replicas that told of their start",
    implies=frozenset({"replica-stopped"}),
    identity=_by_stop,
    run=check_replica_stopped,
)
