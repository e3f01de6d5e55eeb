"""What was acknowledged is still there.

Owns **lost-write** and **unseen**. An acknowledged value is lost when

1. an ok poll passed over its offset (asked at or below it, returned something at or above it), and no poll returned it;
   a poll that does not say where it asked is taken to follow upon others, of which the first began with the log; where
   the acknowledgement did not tell an offset, the last one counts at which anybody saw the value, be it in a poll of
   unknown outcome;
2. a final read that began after the acknowledgement covers its offset and does not return it;
3. a replica whose log was read whole vouches for its offset and holds something else there;
4. a majority of the replicas, whose logs were read whole, do not hold it anywhere: then no majority has it, and without
   the few that do it could be lost at the next election; of a log with an ISR, a member of the final ISR will do, for
   each of them may be elected.

What none of this decides and what nobody has ever seen is *unseen*: nobody looked where it must stand, so it is
unknown. Source: ``lost-write`` and ``unseen`` of ``jepsen.tests.kafka``, and "acknowledged is a part of the final log".
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from nemesis.checks.anomalies import LISTED_MAX, Anomaly
from nemesis.checks.check import Coverage, Found, LogCheck
from nemesis.checks.observations import contains, observe
from nemesis.checks.partition import NEVER, NONE, Bools, Ints, Operations, Partition, ReplicaLog, ints
from nemesis.checks.schemas import Severity


def check_lost_write(partition: Partition) -> Found:
    """Acknowledged appends that are lost, in order of invocation; one row each, by the first rule that convicts it.

    A rule that cannot decide leaves it to those after it. What caused a loss is not said here.
    """
    operations = partition.operations
    convicted: dict[tuple[int, int], Anomaly] = {}
    for anomaly in (
        *_overwritten(partition),
        *_missing_from_final_reads(operations),
        *_missing_from_logs(partition),
        *(_missing_from_majority(partition) if partition.events.isr_claim is None else _missing_from_isr(partition)),
    ):
        before = convicted.setdefault(_lost_append(anomaly), anomaly)
        if before.severity is Severity.UNKNOWN and anomaly.severity is Severity.VIOLATION:
            convicted[_lost_append(anomaly)] = anomaly
    for lost in sorted(convicted):
        yield convicted[lost]
    return _coverage(partition)


def _coverage(partition: Partition) -> Coverage:
    """The acknowledged appends: of those that were told no offset, a replica's log says nothing, and polls only where
    one has returned the value."""
    operations = partition.operations
    rows = np.flatnonzero(acknowledged(operations))
    blind = operations.offset[rows] == NONE
    if not partition.logs:
        blind &= ~contains(np.unique(operations.record_value), operations.value[rows])
    missed = int(blind.sum())
    why = f"{missed} of {len(rows)} acknowledgements do not tell an offset" if missed else ""
    return Coverage(looked=len(rows) - missed, missed=missed, why=why)


def _lost_append(anomaly: Anomaly) -> tuple[int, int]:
    """The operation and the value: a transaction may send several."""
    return anomaly.op_indexes[0], anomaly.evidence["value"]


def check_unseen(partition: Partition) -> Found:
    """One row for all acknowledged appends that nothing has shown and that are not convicted as lost."""
    operations = partition.operations
    shown = [operations.record_value]
    shown += [log.value[log.value_offset < log.committed_end_offset] for log in partition.logs]
    rows = np.flatnonzero(acknowledged(operations))
    unseen = rows[~contains(np.unique(np.concatenate(shown)), operations.value[rows])]
    lost = {_lost_append(anomaly) for anomaly in check_lost_write(partition)}
    appends = zip(operations.invoke_index[unseen].tolist(), operations.value[unseen].tolist(), strict=True)
    unseen = unseen[np.asarray([append not in lost for append in appends], np.bool_)]
    if not len(unseen):
        return Coverage(looked=len(rows))
    offsets = operations.offset[unseen]
    yield Anomaly(
        severity=Severity.UNKNOWN,
        detail=f"{len(unseen)} acknowledged values were never seen again: no poll and no log covers their offsets",
        offsets=[int(offset) for offset in np.unique(offsets[offsets != NONE])],
        op_indexes=[int(index) for index in operations.invoke_index[unseen]],
        evidence={"unseen": len(unseen), "operations": [operations.described(int(r)) for r in unseen[:LISTED_MAX]]},
    )
    return Coverage(looked=len(rows))


def acknowledged(operations: Operations) -> Bools:
    """The appends whose success was promised."""
    return operations.append & operations.ok & operations.has_value


def _overwritten(partition: Partition) -> Iterator[Anomaly]:
    """Rule 1."""
    operations = partition.operations
    reads = read_ranges(operations)
    if not len(reads[0]):
        return
    read_row, start, end = reads
    happened = acknowledged(operations) | (operations.append & operations.committed & operations.has_value)
    rows = np.flatnonzero(happened)
    rows = rows[~contains(np.unique(operations.record_value), operations.value[rows])]
    places = _places(partition, rows)
    rows, places = rows[places != NONE], places[places != NONE]
    order = np.lexsort((read_row, start))
    furthest = np.maximum.accumulate(end[order])
    below = np.searchsorted(start[order], places, side="right") - 1
    covered = (below >= 0) & (furthest[np.maximum(below, 0)] > places)
    for row, place, last in zip(rows[covered], places[covered], below[covered], strict=True):
        reach = int(np.searchsorted(furthest[: last + 1], place, side="right"))
        read = int(read_row[order][reach])
        what = f"operation {operations.invoke_index[read]} read past that offset without returning it"
        yield _lost(operations, int(row), read, what, place=int(place))


def _places(partition: Partition, rows: Ints) -> Ints:
    """Where these appends stand: as they were told, or else the last offset at which anybody saw them; or ``NONE``."""
    places = partition.operations.offset[rows]
    untold = np.flatnonzero(places == NONE)
    seen = observe(partition) if len(untold) else None
    if seen is None or not len(seen.value):
        return places
    order = np.lexsort((seen.offset, seen.value))
    values, wanted = seen.value[order], partition.operations.value[rows[untold]]
    last = np.searchsorted(values, wanted, side="right") - 1
    places[untold] = np.where(contains(values, wanted), seen.offset[order][last], NONE)
    return places


def read_ranges(operations: Operations) -> tuple[Ints, Ints, Ints]:
    """For each ok poll with records: its row, where it began to read, and the end (exclusive) of what it returned."""
    rows, first = np.unique(operations.record_row, return_index=True)
    if not len(rows):
        return rows, rows, rows
    lowest = np.minimum.reduceat(operations.record_offset, first)
    highest = np.maximum.reduceat(operations.record_offset, first)
    asked = operations.position[rows]
    return rows, np.where(asked == NONE, 0, np.minimum(asked, lowest)), highest + 1


def _missing_from_final_reads(operations: Operations) -> Iterator[Anomaly]:
    """Rule 2. An append whose offset is not known must be in every final read that begins at the start."""
    rows = np.flatnonzero(acknowledged(operations))
    rows = rows[np.argsort(operations.offset[rows], kind="stable")]
    offsets = operations.offset[rows]
    read_rows, _, ends = read_ranges(operations)
    end_of = dict(zip(read_rows.tolist(), ends.tolist(), strict=True))
    for read in np.flatnonzero(operations.final_read & operations.ok & operations.has_records):
        start = max(int(operations.position[read]), 0)
        end = end_of.get(int(read), start) if operations.limited[read] else NEVER
        whole = start == 0 and not operations.limited[read]
        low = 0 if whole else int(np.searchsorted(offsets, start))
        covered = rows[low : int(np.searchsorted(offsets, end))]
        covered = covered[operations.return_index[covered] < operations.invoke_index[read]]
        mine = slice(*np.searchsorted(operations.record_row, [read, read + 1]))
        returned = np.unique(operations.record_value[mine])
        for row in covered[~contains(returned, operations.value[covered])]:
            what = f"the final read, operation {operations.invoke_index[read]}, does not return it"
            yield _lost(operations, int(row), int(read), what)


def _missing_from_logs(partition: Partition) -> Iterator[Anomaly]:
    """Rule 3; unknown where the replica's batch at that offset could not be decoded."""
    operations = partition.operations
    rows = np.flatnonzero(acknowledged(operations) & (operations.offset != NONE))
    offsets, values = operations.offset[rows], operations.value[rows]
    for log in partition.logs:
        held = _value_at(log, offsets) == values if len(log.value) else np.zeros(len(rows), np.bool_)
        held &= contains(log.value_offset, offsets)
        vouched = log.complete & (offsets >= log.log_start_offset) & (offsets < log.committed_end_offset)
        undecoded = np.zeros(len(rows), np.bool_)
        for start, end in log.undecoded:
            undecoded |= (offsets >= start) & (offsets < end)
        for i in np.flatnonzero(vouched & ~held):
            what = f"replica {log.replica_id}, with high watermark {log.high_watermark}, holds something else there"
            severity = Severity.VIOLATION
            if undecoded[i]:
                what, severity = f"replica {log.replica_id} has a batch there that was not decoded", Severity.UNKNOWN
            yield _lost(operations, int(rows[i]), None, what, (log.replica_id,), severity)


def _value_at(log: ReplicaLog, offsets: Ints) -> Ints:
    """What the log holds at these offsets; meaningless where it holds no value."""
    return log.value[np.minimum(np.searchsorted(log.value_offset, offsets), len(log.value) - 1)]


def _missing_from_majority(partition: Partition) -> Iterator[Anomaly]:
    """Rule 4; unknown where it takes logs with batches that could not be decoded to make the majority, and where an ISR
    should have been told."""
    operations = partition.operations
    known = {log.replica_id for log in partition.logs} | set(ints(operations.table, "node").tolist()) - {NONE}
    known |= partition.events.dumped.keys()
    rows = np.flatnonzero(acknowledged(operations) & (operations.offset != NONE))
    whole = [log for log in partition.logs if log.complete]
    lacking = {log.replica_id: _lacking(log, operations, rows) for log in whole}
    nobody = np.zeros(len(rows), np.int64)
    certainly = sum((lacking[log.replica_id] for log in whole if not log.undecoded), nobody)
    # Where it may be that only nobody tells of the ISR, a majority proves nothing.
    is_isr_known = partition.history_complete and not partition.evidence_due
    convicted = (2 * certainly > len(known)) & is_isr_known
    for i in np.flatnonzero(2 * sum(lacking.values(), nobody) > len(known)):
        replicas = tuple(replica_id for replica_id, absent in lacking.items() if absent[i])
        what = f"{len(replicas)} of {len(known)} replicas, a majority, do not have it in their logs"
        severity = Severity.VIOLATION if convicted[i] else Severity.UNKNOWN
        yield _lost(operations, int(rows[i]), None, what, replicas, severity)


def _missing_from_isr(partition: Partition) -> Iterator[Anomaly]:
    """Rule 4 where there is an ISR; unknown where a batch could not be decoded, or the ISR may be another."""
    operations, claim = partition.operations, partition.events.isr_claim
    assert claim is not None, partition.topic_partition
    rows = np.flatnonzero(acknowledged(operations) & (operations.offset != NONE))
    for log in partition.logs:
        if log.replica_id not in claim.isr or not log.complete:
            continue
        what = f"replica {log.replica_id}, which is in the ISR, does not have it in its log"
        severity = Severity.VIOLATION if claim.restored and not log.undecoded else Severity.UNKNOWN
        for i in np.flatnonzero(_lacking(log, operations, rows)):
            yield _lost(operations, int(rows[i]), None, what, (log.replica_id,), severity)


def _lacking(log: ReplicaLog, operations: Operations, rows: Ints) -> Ints:
    """1 for each of these appends whose value is nowhere in the log, though it cannot have been deleted; else 0."""
    absent = ~contains(np.unique(log.value), operations.value[rows])
    return (absent & (operations.offset[rows] >= log.log_start_offset)).astype(np.int64)


def _lost(
    operations: Operations,
    row: int,
    read: int | None,
    what: str,
    replicas: tuple[int, ...] = (),
    severity: Severity = Severity.VIOLATION,
    place: int = NONE,
) -> Anomaly:
    """One loss; ``place`` is where the append was seen to stand, of use where it was not told."""
    told, value = int(operations.offset[row]), int(operations.value[row])
    offset = told if told != NONE else place
    involved = [row] if read is None else [row, read]
    promised = "acknowledged" if operations.ok[row] else "committed"
    where = f" at offset {told}" if told != NONE else ""
    shown = f", seen at offset {place}" if told == NONE and place != NONE else ""
    return Anomaly(
        is_loss=True,
        severity=severity,
        detail=f"operation {operations.invoke_index[row]} appended value {value}, {promised}{where}{shown}, and {what}",
        offsets=() if offset == NONE else (offset,),
        op_indexes=[int(operations.invoke_index[one]) for one in involved],
        replicas=replicas,
        evidence={"value": value, "operations": [operations.described(one) for one in involved]},
    )


# Somebody may still read it, so that a prefix proves nothing.
LOST_WRITE = LogCheck(
    name="lost-write",
    promise="A write that was acknowledged stays in the log.",
    needs="acknowledged writes",
    run=check_lost_write,
)
UNSEEN = LogCheck(
    name="unseen",
    promise="Every acknowledged write is seen by the end.",
    needs="acknowledged writes",
    run=check_unseen,
)
