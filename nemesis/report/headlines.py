"""The few sentences below the verdict, each said only when the run's files bear it out.

Owns how much may be claimed. "Each was found in the final log of every replica" needs every replica's log, read to its
end, with its high watermark above every acknowledged offset: a log vouches for nothing else.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from nemesis.checks.losses import LOST_WRITE
from nemesis.checks.objects import NONLINEARIZABLE, WRONG_ORDER
from nemesis.checks.promises import Kept
from nemesis.history.events import APPEND, METADATA_LOG, ON_LOGS
from nemesis.report.operations import Bools, Ints, Operations
from nemesis.report.values import (
    Judgement,
    LostRecord,
    MarkKind,
    Offline,
    Outcome,
    ReplicaLog,
    Timeline,
    UncleanElection,
)
from nemesis.verdict import Verdict

SENTENCES_MAX = 3


def headlines(
    judgement: Judgement,
    operations: Operations,
    history: pa.Table,
    logs: Sequence[ReplicaLog],
    timeline: Timeline,
    replicas: int,
) -> tuple[str, ...]:
    """Sentences on the acknowledged writes and on what befell the cluster; each log must have so many ``replicas``."""
    befell = ", ".join((counted(len(timeline.faults), "fault"), *counted_marks(timeline)))
    return (
        _on_objects(judgement, operations, history) or _writes(judgement, operations, history, logs, replicas),
        *_bounded(tuple(_unclean(election, judgement) for election in timeline.unclean_elections)),
        *_bounded(tuple(_offline(offline) for offline in timeline.offline)),
        f"What befell the replicas: {befell}.",
    )


def _bounded(sentences: tuple[str, ...]) -> tuple[str, ...]:
    """The first few of one kind; the tables of the page have them all."""
    rest = len(sentences) - SENTENCES_MAX
    return sentences if rest <= 0 else (*sentences[:SENTENCES_MAX], f"{rest} more of this kind are in the tables.")


def _unclean(election: UncleanElection, judgement: Judgement) -> str:
    """Who was elected without having everything, and what that has cost."""
    by = [record.offset for record in judgement.lost if is_by(record, election)]
    cost = "No acknowledged write is known to be lost by it."
    if judgement.verdict is Verdict.UNKNOWN:
        cost = "Whether acknowledged writes were lost by it is not known."
    if by:
        at_least = "at least " if judgement.lost_unlisted else ""
        cost = f"By it {at_least}{counted(len(by), 'acknowledged write')} from offset {min(by)} to {max(by)} were lost."
    end = "" if election.log_end_offset is None else f" with a log that ended at offset {election.log_end_offset}"
    return (
        f"{election.kind.capitalize()}: replica {election.leader_id} became the leader of {election.log} in epoch"
        f" {election.epoch}{end}. In sync before: {listed(election.isr)}; else eligible: {listed(election.elr)}. {cost}"
    )


def is_by(record: LostRecord, election: UncleanElection) -> bool:
    """Whether the record was lost by that election."""
    cause = f"{election.kind} in epoch {election.epoch} of replica {election.leader_id}"
    return (record.topic_partition, record.cause) == (election.log, cause)


def _offline(offline: Offline) -> str:
    """How long nobody led, for whom the partition waited, and whom it got."""
    waited = f"only {listed(offline.eligible)} could lead it without a loss"
    if offline.end_s is None:
        return f"{offline.log} was offline from {offline.start_s:.1f} s to the end: {waited}."
    lasted = f"for {offline.end_s - offline.start_s:.1f} s, from {offline.start_s:.1f} s to {offline.end_s:.1f} s"
    return f"{offline.log} was offline {lasted}: {waited}; then replica {offline.leader_id} led ({offline.ended})."


def listed(replicas: Sequence[int]) -> str:
    """``replica 1``, ``replicas 1, 2``, ``nobody``."""
    if not replicas:
        return "nobody"
    return f"replica{'' if len(replicas) == 1 else 's'} {', '.join(map(str, replicas))}"


def counted_marks(timeline: Timeline) -> tuple[str, ...]:
    """How many marks there were of each kind; controllers' elections and ISR shrinks only where there were any."""
    numbers = {kind: sum(mark.kind is kind for mark in timeline.marks) for kind in MarkKind}
    always = (MarkKind.ELECTION, MarkKind.TRUNCATION)
    return tuple(counted(number, kind) for kind, number in numbers.items() if number or kind in always)


def counted(number: int, noun: str) -> str:
    """``1 fault``, ``2 faults``."""
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def _on_objects(judgement: Judgement, operations: Operations, history: pa.Table) -> str | None:
    """What became of the operations on objects; None where there were none."""
    codes = [code for code, f in enumerate(operations.functions) if f not in ON_LOGS]
    chosen = np.isin(operations.f, codes) & (_processes(operations, history) >= 0)
    if not chosen.any():
        return None
    names = history.column("topic_partition").take(pa.array(operations.invoke_row[chosen])).unique()
    number = int((chosen & (operations.outcome == tuple(Outcome).index(Outcome.OK))).sum())
    said = f"{counted(number, 'acknowledged operation')} on {counted(len(names), 'object')}"
    some_order, told_order = judgement.kept(NONLINEARIZABLE.name), judgement.kept(WRONG_ORDER.name)
    if Kept.VIOLATED in (some_order, told_order):
        return f"{said}; not every object was linearizable."
    is_known = some_order is Kept.KEPT and told_order in (Kept.KEPT, Kept.NOT_JUDGED)
    if judgement.verdict is Verdict.UNKNOWN or not is_known:
        return f"{said}; whether each object was linearizable is not known."
    return f"{said}; each object was linearizable."


def _processes(operations: Operations, history: pa.Table) -> Ints:
    found: Ints = np.asarray(history.column("process").take(pa.array(operations.invoke_row)).to_numpy(), np.int64)
    return found


def _writes(
    judgement: Judgement, operations: Operations, history: pa.Table, logs: Sequence[ReplicaLog], replicas: int
) -> str:
    acknowledged = operations.where(operations.functions.index(APPEND), Outcome.OK) & _promised(operations, history)
    number = int(acknowledged.sum())
    said = f"{counted(number, 'acknowledged write')}"
    if number and judgement.kept(LOST_WRITE.name) is Kept.VIOLATED:
        return f"{said}; not all were kept."
    if not number or judgement.verdict is Verdict.UNKNOWN or judgement.kept(LOST_WRITE.name) is not Kept.KEPT:
        return f"{said}; whether all were kept is not known."
    placed = history.select(["topic_partition", "offset"]).take(pa.array(operations.return_row[acknowledged]))
    of_clients = [log for log in logs if log.topic_partition != METADATA_LOG]
    if _all_vouched(placed, of_clients, replicas):
        return f"{said}; each was found in the final log of all {_replicas_told(of_clients)}."
    return f"{said}; none was found missing, but not every replica's final log could be compared with them all."


def _promised(operations: Operations, history: pa.Table) -> Bools:
    """The operations that did not ask for less than all replicas."""
    asked = history.column("acks").take(pa.array(operations.invoke_row))
    return np.asarray(asked.is_null().to_numpy(), np.bool_)


def _all_vouched(placed: pa.Table, logs: Sequence[ReplicaLog], replicas: int) -> bool:
    """Whether each log has all its replicas' final logs above every offset that was acknowledged of it."""
    if placed.column("offset").null_count:
        return False
    highest = placed.group_by("topic_partition").aggregate([("offset", "max")]).to_pylist()
    return all(
        _vouched(row["offset_max"], [log for log in logs if log.topic_partition == row["topic_partition"]], replicas)
        for row in highest
    )


def _vouched(offset_max: int, logs: Sequence[ReplicaLog], replicas: int) -> bool:
    return len(logs) >= max(replicas, 1) and all(
        log.is_complete
        and log.log_start_offset == 0
        and log.high_watermark is not None
        and offset_max < min(log.high_watermark, log.log_end_offset)
        for log in logs
    )


def _replicas_told(logs: Sequence[ReplicaLog]) -> str:
    """``3 replicas``; of several logs, that these are the replicas of its own."""
    several = len({log.topic_partition for log in logs}) > 1
    return "replicas of its partition" if several else f"{len(logs)} replicas"
