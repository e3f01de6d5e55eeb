"""What happens later stands later.

Owns **realtime-reorder**, **stale-read**, **hole** and the order of acknowledged epochs: along the log
(**epoch-regression**) and in time (**fenced-acknowledgement**). An
append that stands at ``o`` makes the log at least ``o + 1`` long, a poll makes it as long as what it returned or as the
high watermark that it was told. M(t) is the longest length that an operation returned before t has shown; an append
invoked at t must stand at M(t) or above, and a strict read must return what was known by then. Only lower bounds travel
forward in time, so this with one value for each offset is exactly linearizability of a log; ``hole`` completes it for
logs in which every offset holds a value: append lengths nest, so Hall's condition is a count. Source: Herlihy and Wing
1990; the count is Hall's theorem for nested neighbourhoods.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from nemesis.checks.anomalies import Anomaly
from nemesis.checks.check import Coverage, Found, LogCheck
from nemesis.checks.observations import Observations, contains, first_offsets, known_offsets, observe
from nemesis.checks.partition import NEVER, NONE, Ints, Operations, Partition


@dataclass(frozen=True, slots=True, kw_only=True)
class _Lengths:
    """What was known of the log's length after each return: ascending returns, the running maximum, who showed it."""

    return_index: Ints
    length: Ints
    row: Ints

    def before(self, invoke_index: Ints) -> tuple[Ints, Ints]:
        """M at these moments and the row that showed it; 0 and ``NONE`` when nothing had returned."""
        at = np.searchsorted(self.return_index, invoke_index) - 1
        if not len(self.length):
            return np.zeros(len(at), np.int64), np.full(len(at), NONE)
        return np.where(at < 0, 0, self.length[at]), np.where(at < 0, NONE, self.row[at])


def _running(operations: Operations, length: Ints) -> _Lengths:
    rows = np.flatnonzero((operations.return_index != NEVER) & (length > 0))
    rows = rows[np.argsort(operations.return_index[rows], kind="stable")]
    grown = np.maximum.accumulate(length[rows]) if len(rows) else rows
    raised = np.append(True, np.diff(grown) > 0) if len(rows) else np.zeros(0, np.bool_)
    witness = np.maximum.accumulate(np.where(raised, np.arange(len(rows)), 0)) if len(rows) else rows
    return _Lengths(return_index=operations.return_index[rows], length=grown, row=rows[witness])


def _shown_lengths(operations: Operations) -> Ints:
    """For each operation, the log length that its offset and its records show; 0 when they show none."""
    length = np.where(operations.ok & operations.append, operations.offset + 1, 0)
    np.maximum.at(length, operations.record_row, operations.record_offset + 1)
    return length


def placed(operations: Operations, seen: Observations) -> tuple[Ints, Ints]:
    """The rows of appends that have a place, and their offsets: acknowledged, or else shown by someone."""
    values, offsets = first_offsets(seen)
    appends = np.flatnonzero(operations.append & operations.has_value & ~operations.fail)
    shown = contains(values, operations.value[appends])
    place = np.full(len(appends), NONE)
    place[shown] = offsets[np.searchsorted(values, operations.value[appends][shown])]
    place = np.where(operations.offset[appends] != NONE, operations.offset[appends], place)
    return appends[place != NONE], place[place != NONE]


def check_realtime_reorder(partition: Partition) -> Found:
    """Appends placed below a length that was known before they began, in order of invocation."""
    operations = partition.operations
    told = np.where(operations.ok, operations.high_watermark, 0)
    lengths = _running(operations, np.maximum(_shown_lengths(operations), told))
    rows, place = placed(operations, observe(partition))
    known, witness = lengths.before(operations.invoke_index[rows])
    for i in np.flatnonzero(known > place):
        row, shown_by = int(rows[i]), int(witness[i])
        what = f"appended at offset {place[i]}, but operation {operations.invoke_index[shown_by]} had shown before it"
        what += f" began that the log ended at offset {known[i]} or later"
        yield _anomaly(operations, (shown_by, row), what, [int(place[i])])
    return Coverage(looked=len(rows))


def check_stale_read(partition: Partition) -> Found:
    """Strict reads and final reads that end before a value that was known when they began, in order of invocation."""
    operations = partition.operations
    shown = _shown_lengths(operations)
    promised = operations.ok & operations.has_records & ~operations.limited
    promised &= operations.poll & (operations.strict | operations.final_read)
    rows = np.flatnonzero(promised)
    reached = np.maximum(shown[rows], np.maximum(operations.position[rows], 0))
    known, witness = _running(operations, shown).before(operations.invoke_index[rows])
    for i in np.flatnonzero(known > reached):
        row, shown_by = int(rows[i]), int(witness[i])
        what = f"read to offset {reached[i]} only, but operation {operations.invoke_index[shown_by]} had shown before"
        what += f" it began that there is a record at offset {known[i] - 1}: stale read"
        yield _anomaly(operations, (shown_by, row), what, [int(known[i]) - 1])
    final = operations.final_read
    is_blind = bool(final.any() and not (final & operations.ok & ~operations.limited).any())
    why = "no final read saw the end of the log" if is_blind else ""
    return Coverage(looked=len(rows), missed=int(is_blind), why=why)


def check_hole(partition: Partition) -> Found:
    """The first offset that no append of unknown outcome can fill; only where every offset holds a value.

    What a replica holds and nobody can decode is a value.
    """
    if not (partition.events.gapless and partition.history_complete):
        return Coverage()
    operations, seen = partition.operations, observe(partition)
    appends = np.flatnonzero(operations.append & operations.has_value & ~operations.fail)
    appends = appends[
        (operations.offset[appends] == NONE) & ~contains(np.unique(seen.value), operations.value[appends])
    ]
    told = np.where(operations.ok, operations.high_watermark, 0)
    lengths = _running(operations, np.maximum(_shown_lengths(operations), told))
    threshold = np.sort(lengths.before(operations.invoke_index[appends])[0])
    holes = _first_holes(known_offsets(seen), len(appends) + 1)
    for start, end in (undecoded for log in partition.logs for undecoded in log.undecoded):
        holes = holes[(holes < start) | (holes >= end)]
    eligible = np.searchsorted(threshold, holes, side="right")
    unfilled = np.flatnonzero(eligible <= np.arange(len(holes)))
    for i in unfilled[:1]:
        what = f"{i + 1} offsets up to {holes[i]} were never seen, and only {eligible[i]} appends can have filled them"
        yield Anomaly(detail=what, offsets=[int(holes[i])], evidence={"holes": holes.tolist()})
    return Coverage(looked=1)


def _first_holes(known: Ints, count: int) -> Ints:
    """The first ``count`` offsets below the last known one that are not known: sparse offsets cost nothing."""
    before = np.append(-1, known[:-1]) if len(known) else known
    sizes = known - before - 1
    holes: list[int] = []
    for i in np.flatnonzero(sizes):
        take = min(int(sizes[i]), count - len(holes))
        holes.extend(range(int(before[i]) + 1, int(before[i]) + 1 + take))
        if len(holes) == count:
            break
    return np.asarray(holes, np.int64)


def check_acknowledged_epochs(partition: Partition) -> Found:
    """Acknowledged appends whose leader's epoch is below that of an append at a lower offset, by offset."""
    operations = partition.operations
    rows = np.flatnonzero(
        operations.append & operations.ok & (operations.offset != NONE) & (operations.leader_epoch != NONE)
    )
    rows = rows[np.lexsort((operations.invoke_index[rows], operations.offset[rows]))]
    epochs = operations.leader_epoch[rows]
    highest = np.maximum.accumulate(epochs) if len(rows) else epochs
    for i in np.flatnonzero(epochs < highest):
        before = int(rows[int(np.searchsorted(highest, epochs[i], side="right"))])
        row = int(rows[i])
        what = f"was acknowledged at offset {operations.offset[row]} in epoch {epochs[i]}, operation"
        what += f" {operations.invoke_index[before]} at offset {operations.offset[before]} in epoch"
        what += f" {operations.leader_epoch[before]}"
        offsets = [int(operations.offset[before]), int(operations.offset[row])]
        yield _anomaly(operations, (before, row), what, offsets)
    return Coverage(looked=len(rows))


def check_fenced_acknowledgement(partition: Partition) -> Found:
    """Appends acknowledged in an epoch, though they began after one of a later epoch was; in order of invocation.

    Whoever acknowledged in the later epoch had been elected by those who must have the record, and from then on they
    take nothing from the leader of an earlier one.
    """
    operations = partition.operations
    told = operations.append & operations.ok & (operations.leader_epoch != NONE)
    lengths = _running(operations, np.where(told, operations.leader_epoch + 1, 0))
    rows = np.flatnonzero(told)
    latest, witness = lengths.before(operations.invoke_index[rows])
    for i in np.flatnonzero(latest - 1 > operations.leader_epoch[rows]):
        row, before = int(rows[i]), int(witness[i])
        what = f"was acknowledged in epoch {operations.leader_epoch[row]}, after operation"
        what += f" {operations.invoke_index[before]} had been in epoch {latest[i] - 1}: by a fenced leader"
        offsets = [int(offset) for offset in operations.offset[[before, row]] if offset != NONE]
        yield _anomaly(operations, (before, row), what, offsets)
    return Coverage(looked=len(rows))


def _anomaly(operations: Operations, rows: tuple[int, int], what: str, offsets: list[int]) -> Anomaly:
    first, second = rows
    return Anomaly(
        detail=f"operation {operations.invoke_index[second]} {what}",
        offsets=offsets,
        op_indexes=[int(operations.invoke_index[row]) for row in (first, second)],
        evidence={"operations": [operations.described(row) for row in (first, second)]},
    )


REALTIME_REORDER = LogCheck(
    name="realtime-reorder",
    promise="A write that begins after another was acknowledged has a higher offset.",
    needs="writes whose offset is known",
    # An operation that began earlier may yet return and show another place: then the value has two.
    implies=frozenset({"realtime-reorder", "duplicate"}),
    run=check_realtime_reorder,
)
STALE_READ = LogCheck(
    name="stale-read",
    promise="A read that promises to be recent returns all that was known before it began.",
    needs="strict or final reads that saw the end of the log",
    # What had returned before an operation began is all there when that has returned.
    implies=frozenset({"stale-read"}),
    run=check_stale_read,
)
HOLE = LogCheck(
    name="hole",
    promise="Every offset below the end of the log was filled by a write.",
    needs="logs that are known to hold a value at every offset",
    rests_on_all=True,
    run=check_hole,
)
FENCED_ACKNOWLEDGEMENT = LogCheck(
    name="fenced-acknowledgement",
    promise="Once a leader has acknowledged, none of an earlier epoch does.",
    needs="acknowledgements that tell their leader's epoch",
    implies=frozenset({"fenced-acknowledgement"}),
    run=check_fenced_acknowledgement,
)
