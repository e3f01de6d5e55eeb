"""What a run did, counted piece by piece: the tallies of its parts come to the tally of the whole.

Owns which of the counts add up, which are a least or a greatest, and of which each entry counts once, wherever it is.
A piece has any rows of the three tables of a run, but the two events of an operation together, and so all that the
nemesis did. Knows no engine: one process counts a run as one piece, Spark each topic-partition in many.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from nemesis.checks.partition import NONE, ints
from nemesis.checks.verdict import COUNTED_EPOCHS, COUNTED_EVENTS, RunCounts
from nemesis.faults.catalogue import DEEDS, FAULT_NAMES
from nemesis.history.events import (
    APPEND,
    BECAME_LEADER,
    FINAL_READ,
    HARNESS_PROCESS,
    METADATA_LOG,
    NEMESIS_PROCESS,
    ON_LOGS,
    POLL,
    STARTED,
    EventType,
)

_ENDS = (EventType.OK, EventType.FAIL, EventType.INFO)
_STRETCH_BITS = 6
"""So many indexes are told apart by the bits of one number, as a power of two."""


class Tally:
    """The counts of what it was given so far. Pickled, it goes from one worker to another."""

    def __init__(self) -> None:
        self._sums: Counter[str] = Counter()
        self._sets: defaultdict[str, set[Any]] = defaultdict(set)
        self._least: dict[str, int] = {}
        self._epoch_max = NONE
        self._index_end = 0
        self._indexes = _Indexes()
        self._led_ns: dict[tuple[str | None, int | None], int] = {}

    def add(self, history: pa.Table, operations: pa.Table, logs: pa.Table, events: pa.Table) -> None:
        """Count rows of ``HISTORY_SCHEMA``, the operations that clients' rows are, and what replicas had and told."""
        self._add_history(history, operations)
        self._add_operations(operations)
        self._add_logs(logs)
        self._add_events(events)

    def merge(self, other: Tally) -> None:
        """Count what another one has counted, too."""
        self._sums.update(other._sums)
        for name, entries in other._sets.items():
            self._sets[name] |= entries
        for name, number in other._least.items():
            self._see_least(name, number)
        self._epoch_max = max(self._epoch_max, other._epoch_max)
        self._index_end = max(self._index_end, other._index_end)
        self._indexes.merge(other._indexes)
        for log, time_ns in other._led_ns.items():
            self._led_ns[log] = min(time_ns, self._led_ns.get(log, time_ns))

    def counts(self) -> RunCounts:
        """All of it, where it is of a whole run."""
        sums, sets = self._sums, self._sets
        asked_ns, deed_ns = self._least.get("asked_ns"), self._least.get("deed_ns")
        since_ns = None if asked_ns is None or deed_ns is None else max(asked_ns, deed_ns)
        of_clients = {log: time_ns for log, time_ns in self._led_ns.items() if log[0] != METADATA_LOG}
        distinct = ["objects", "final_reads", "final_reads_whole", "leader_elections", "logs_led"]
        distinct += ["controller_elections", "logs_dumped", "epochs", "topic_partitions", *COUNTED_EPOCHS]
        return RunCounts(
            **{name: number for name, number in sums.items() if not name.startswith("_")},
            **{name: len(sets[name]) for name in distinct},
            index_end=self._index_end,
            repeated=sums["events"] - len(self._indexes),
            orphans=sums["_completions"] - sums["_returned"],
            logs_dumped_completely=len(sets["logs_dumped"] - sets["_logs_partly"]),
            replicas_silent=len(sets["_have_logs"] - sets["_have_told"]),
            replicas_undumped=len(sets["_were_started"] - sets["_have_logs"]),
            leader_changes=_changes(of_clients, asked_ns),
            changes_after_faults=_changes(self._led_ns, since_ns),
            epoch_max=self._epoch_max,
        )

    def _see_least(self, name: str, number: int | None) -> None:
        if number is not None:
            self._least[name] = min(number, self._least.get(name, number))

    def _add_history(self, history: pa.Table, operations: pa.Table) -> None:
        indexes = ints(history, "index")
        process = history.column("process")
        failed = pc.and_(pc.equal(process, HARNESS_PROCESS), pc.equal(history.column("type"), EventType.FAIL.value))
        of_clients = pc.greater_equal(process, 0)
        returned = operations.num_rows - operations.column("return_index").null_count
        self._index_end = max(self._index_end, int(indexes.max(initial=-1)) + 1)
        self._indexes.add(indexes[indexes >= 0])
        self._see_least("asked_ns", pc.min(history.column("time_ns").filter(of_clients)).as_py())
        self._sums.update(
            events=len(indexes),
            harness_failures=_true(failed),
            _completions=_true(of_clients) - operations.num_rows,
            _returned=returned,
        )
        self._add_faults(history)

    def _add_faults(self, history: pa.Table) -> None:
        """What was done to the system; what came to something was done when it was begun."""
        is_fault = pc.is_in(history.column("f"), pa.array(sorted(FAULT_NAMES | DEEDS)))
        rows = history.filter(pc.and_(pc.equal(history.column("process"), NEMESIS_PROCESS), is_fault))
        invoked_ns: dict[str, int] = {}
        for row in rows.select(["index", "f", "type", "time_ns"]).sort_by("index").to_pylist():
            if row["type"] == EventType.INVOKE:
                invoked_ns[row["f"]] = row["time_ns"]
                continue
            began_ns = invoked_ns.pop(row["f"], row["time_ns"])
            is_done = row["f"] in DEEDS and row["type"] != EventType.FAIL
            self._sums.update(faults_tried=1, faults=int(is_done))
            self._see_least("deed_ns", began_ns if is_done else None)

    def _add_operations(self, operations: pa.Table) -> None:
        acked = operations.filter(_rows(operations, APPEND, EventType.OK))
        weak = acked.column("acks").is_valid()
        placed = pc.and_not(acked.column("offset").is_valid(), weak)
        read = operations.column("records").filter(
            pc.or_(_rows(operations, POLL, EventType.OK), _rows(operations, FINAL_READ, EventType.OK))
        )
        final_reads = operations.filter(pc.equal(operations.column("f"), FINAL_READ))
        saw_the_end = pc.and_not(_rows(final_reads, FINAL_READ, EventType.OK), final_reads.column("limited"))
        on_objects = operations.filter(pc.invert(pc.is_in(operations.column("f"), pa.array(sorted(ON_LOGS)))))
        groups = operations.group_by(["f", "type"]).aggregate([([], "count_all")]).to_pylist()
        for group in groups:
            kind = {APPEND: "append", POLL: "poll", FINAL_READ: "poll"}.get(group["f"], "operations")
            if group["type"] in _ENDS:
                self._sums[f"{kind}_{group['type']}"] += group["count_all"]
        self._sums.update(
            backwards=_true(pc.less(operations.column("return_ns"), operations.column("invoke_ns"))),
            append_weak=_true(weak),
            acked_checked=_true(placed) + _true(pc.equal(on_objects.column("type"), EventType.OK.value)),
            values_read=int(pc.sum(pc.list_value_length(read)).as_py() or 0),
        )
        self._sets["objects"] |= _different(on_objects, "topic_partition")
        self._sets["final_reads"] |= _different(final_reads, "topic_partition")
        self._sets["final_reads_whole"] |= _different(final_reads.filter(saw_the_end), "topic_partition")

    def _add_logs(self, logs: pa.Table) -> None:
        partly = logs.filter(pc.invert(logs.column("complete")))
        written = _of_clients(logs.filter(logs.column("leader_epoch").is_valid()))
        self._sums["batches_dumped"] += _true(logs.column("base_offset").is_valid())
        self._sets["_have_logs"] |= _different(logs, "replica_id")
        self._sets["logs_dumped"] |= _different(logs, "topic_partition", "replica_id")
        self._sets["_logs_partly"] |= _different(partly, "topic_partition", "replica_id")
        self._sets["epochs"] |= _different(written, "topic_partition", "leader_epoch")
        self._sets["topic_partitions"] |= _different(written, "topic_partition")
        self._see_epochs(written, "leader_epoch")

    def _add_events(self, events: pa.Table) -> None:
        elected = _told(events, BECAME_LEADER)
        led, about_logs = _of_clients(elected), _of_clients(events)
        of_controllers = elected.filter(pc.equal(elected.column("topic_partition"), METADATA_LOG))
        self._sets["_have_told"] |= _different(events, "replica_id")
        self._sets["_were_started"] |= _different(_told(events, STARTED), "replica_id")
        self._sets["leader_elections"] |= _different(led, "topic_partition", "epoch")
        self._sets["logs_led"] |= _different(led, "topic_partition")
        self._sets["controller_elections"] |= _different(of_controllers, "epoch")
        for name, event in COUNTED_EVENTS.items():
            self._sums[name] += _told(about_logs, event).num_rows
        for name, event in COUNTED_EPOCHS.items():
            self._sets[name] |= _different(_told(about_logs, event), "topic_partition", "epoch")
        self._see_epochs(about_logs, "epoch")
        firsts = elected.group_by(["topic_partition", "epoch"]).aggregate([("time_ns", "min")])
        for row in firsts.to_pylist():
            log, time_ns = (row["topic_partition"], row["epoch"]), row["time_ns_min"]
            self._led_ns[log] = min(time_ns, self._led_ns.get(log, time_ns))

    def _see_epochs(self, rows: pa.Table, column: str) -> None:
        self._epoch_max = max(self._epoch_max, int(ints(rows, column).max(initial=NONE)))


class _Indexes:
    """A set of numbers that are not negative, as bits: those of a history are near to each other."""

    def __init__(self) -> None:
        self._stretches = np.empty(0, dtype=np.int64)
        self._bits = np.empty(0, dtype=np.uint64)

    def __len__(self) -> int:
        return int(np.unpackbits(self._bits.view(np.uint8)).sum())

    def add(self, indexes: npt.NDArray[np.int64]) -> None:
        """Put these into it."""
        within = (indexes & ((1 << _STRETCH_BITS) - 1)).astype(np.uint64)
        self._put(indexes >> _STRETCH_BITS, np.left_shift(np.uint64(1), within))

    def merge(self, other: _Indexes) -> None:
        """Put all of another one into it."""
        self._put(other._stretches, other._bits)

    def _put(self, stretches: npt.NDArray[np.int64], bits: npt.NDArray[np.uint64]) -> None:
        if not len(stretches):
            return
        stretches, bits = np.concatenate((self._stretches, stretches)), np.concatenate((self._bits, bits))
        order = np.argsort(stretches, kind="stable")
        stretches, bits = stretches[order], bits[order]
        starts = np.flatnonzero(np.append(True, stretches[1:] != stretches[:-1]))
        self._stretches, self._bits = stretches[starts], np.bitwise_or.reduceat(bits, starts)


def count(history: pa.Table, operations: pa.Table, logs: pa.Table, events: pa.Table) -> RunCounts:
    """What a run did and what of it was looked at, from all of its rows; see ``Tally``."""
    tally = Tally()
    tally.add(history, operations, logs, events)
    return tally.counts()


def _changes(led_ns: dict[tuple[str | None, int | None], int], since_ns: int | None) -> int:
    """How often, since then, a log that was led was led in another epoch; never, if that time never came."""
    if since_ns is None:
        return 0
    led = {log for (log, _), time_ns in led_ns.items() if time_ns <= since_ns}
    changed = [log for (log, _), time_ns in led_ns.items() if time_ns > since_ns]
    return len(changed) - len(set(changed) - led)


def _of_clients(rows: pa.Table) -> pa.Table:
    """The rows about logs that clients write to, and those about no log."""
    return rows.filter(pc.not_equal(rows.column("topic_partition").fill_null(""), METADATA_LOG))


def _told(events: pa.Table, event: str) -> pa.Table:
    """The events of one kind."""
    return events.filter(pc.equal(events.column("event"), event))


def _different(rows: pa.Table, *columns: str) -> set[Any]:
    """The different entries of these columns; absent is one of them."""
    if not rows.num_rows:
        return set()
    if len(columns) == 1:
        return set(pc.unique(rows.column(columns[0])).to_pylist())
    found = rows.group_by(list(columns)).aggregate([])
    return set(zip(*(found.column(name).to_pylist() for name in columns), strict=True))


def _rows(operations: pa.Table, f: str, kind: EventType) -> Any:
    return pc.and_(pc.equal(operations.column("f"), f), pc.equal(operations.column("type"), kind.value))


def _true(mask: Any) -> int:
    return int(pc.sum(mask).as_py() or 0)
