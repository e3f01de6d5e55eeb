"""Rows of the history of one object as operations, and the places in the one order that the servers claim for them.

Owns the pairing of events, and what follows from outcomes; what the columns mean is said by the workload. A fail that
was answered is a read of what the answer tells, where there are reads. The place of an operation is the revision that
its answer came with; that of an unknown one is known where somebody has seen what it wrote, which is unique, with the
revision at which it came to be. The log says *whether and where*, and never moves the moments of an operation.
"""

from __future__ import annotations

import json
from bisect import bisect_left
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa

from nemesis.history.events import READ
from nemesis.history.pairing import pairs
from nemesis.linearizability.model import ModelError
from nemesis.linearizability.operations import Operation, Outcome, Value
from nemesis.workload.encoding import Encoding
from nemesis.workload.objects import ObjectWorkload

CLOCK_ERROR_NS = 100_000_000
"""By so much earlier than told a lease may end. It hides violations that are nearer to its end, and invents none."""
LEASE_PROCESS = "lease"
UNASKED = -1
"""Minus the line of the acquisition, the line of its expiry: nobody invoked that."""
Row = Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class ObjectHistory:
    """What was done with one object.

    ``places`` maps the line of an operation, which is the index of its invocation, to its revision. ``unplaced`` counts
    operations of unknown outcome that may have changed the object and have no place. ``times_ns`` maps a line to the
    time of the invocation and, where there was one, of the completion.
    """

    operations: tuple[Operation, ...]
    places: Mapping[int, int]
    unplaced: int
    times_ns: Mapping[int, tuple[int, int | None]]

    def described(self, operation: Operation) -> dict[str, Any]:
        """One operation as evidence, without what is absent."""
        invoke_ns, return_ns = self.times_ns[operation.line]
        is_read = operation.f == READ
        entry = {
            "process": operation.process,
            "f": operation.f,
            "type": operation.outcome.value,
            "invoke_index": operation.line,
            "invoke_ns": invoke_ns,
            "return_ns": return_ns,
            "value": operation.result if is_read else operation.argument,
            "result": None if is_read else operation.result,
            "offset": self.places.get(operation.line),
        }
        return {name: value for name, value in entry.items() if value is not None}


@dataclass(frozen=True, slots=True, kw_only=True)
class _Recorded:
    """An invocation and its completion, absent where there is none; ``asked`` and ``told`` are their details."""

    begin: Row
    end: Row | None
    asked: Row
    told: Row

    @property
    def outcome(self) -> Outcome:
        return Outcome.INFO if self.end is None else Outcome(self.end["type"])

    @property
    def place(self) -> int | None:
        return None if self.end is None else self.end["offset"]


def object_history(rows: pa.Table, workload: type[ObjectWorkload]) -> ObjectHistory:
    """The operations that ``rows`` (``HISTORY_SCHEMA``, of clients, all of one object) tell of, by their invocation.

    Completions without an invocation are left out: they are counted elsewhere. Raises ModelError for what was not
    recorded as its workload records it.
    """
    recorded = sorted(_paired(rows), key=lambda one: one.begin["index"])
    operations = [operation for one in recorded if (operation := _operation(one, workload)) is not None]
    places = {one.begin["index"]: one.place for one in recorded if one.place is not None}
    places |= _places_seen(operations, recorded, workload)
    unknown = [operation for operation in operations if operation.outcome is Outcome.INFO and operation.f != READ]
    unplaced = sum(operation.line not in places for operation in unknown)
    operations, expiries = _with_expiries(operations, recorded, workload)
    times_ns = {
        one.begin["index"]: (one.begin["time_ns"], None if one.end is None else one.end["time_ns"]) for one in recorded
    }
    return ObjectHistory(operations=tuple(operations), places=places, unplaced=unplaced + expiries, times_ns=times_ns)


def _paired(rows: pa.Table) -> Iterator[_Recorded]:
    recorded = [*rows.to_pylist(), None]
    for begin, end in zip(*(map(recorded.__getitem__, found.tolist()) for found in pairs(rows)), strict=True):
        yield _Recorded(begin=begin, end=end, asked=_detail(begin), told={} if end is None else _detail(end))


def _detail(row: Row) -> Row:
    found: Row = json.loads(row["detail"] or "{}")
    return found


def _encoding(f: str, workload: type[ObjectWorkload]) -> Encoding:
    """How an operation was recorded; of one that the workload does not have the model will say that it is none."""
    return workload.encodings.get(f, Encoding())


def _operation(one: _Recorded, workload: type[ObjectWorkload]) -> Operation | None:
    """None for what certainly was not done and tells nothing."""
    begin, outcome, result = one.begin, one.outcome, None
    if outcome is Outcome.FAIL and (one.place is None or READ not in workload.encodings):
        return None
    f = begin["f"]
    argument = _argument(one, _encoding(f, workload))
    if outcome is Outcome.FAIL:
        # What it was conditional on was not so: it has read the object.
        f, argument, outcome = READ, None, Outcome.OK
    if outcome is Outcome.OK and one.end is not None:
        result = _encoding(f, workload).result(one.end["value"], one.told)
    return Operation(
        process=begin["process"],
        f=f,
        key=begin["topic_partition"],
        argument=argument,
        result=result,
        outcome=outcome,
        invoked=begin["index"],
        returned=None if outcome is Outcome.INFO or one.end is None else one.end["index"],
        line=begin["index"],
    )


def _argument(one: _Recorded, encoding: Encoding) -> Value:
    try:
        return encoding.argument(one.begin["value"], one.asked)
    except KeyError as error:
        raise ModelError(f"line {one.begin['index']}: {one.begin['f']} was recorded without {error}") from error


# --- places -----------------------------------------------------------------------------------------------------------


def _places_seen(
    operations: Sequence[Operation], recorded: Sequence[_Recorded], workload: type[ObjectWorkload]
) -> dict[int, int]:
    """The places of unknown operations that wrote a value of their own which somebody saw, with its revision."""
    seen: dict[int, int] = {}
    for one in recorded:
        if one.end is not None:
            seen |= workload.seen(one.end["value"], one.told)
    places: dict[int, int] = {}
    for operation in operations:
        written = _encoding(operation.f, workload).writes(operation.argument)
        if operation.outcome is Outcome.INFO and written in seen:
            places[operation.line] = seen[written]
    return places


# --- leases -----------------------------------------------------------------------------------------------------------


def _with_expiries(
    operations: Sequence[Operation], recorded: Sequence[_Recorded], workload: type[ObjectWorkload]
) -> tuple[list[Operation], int]:
    """The operations with an expiry for each that can have ended by itself while the object was used; how many."""
    ends = {f: encoding.expires_as for f, encoding in workload.encodings.items() if encoding.expires_as is not None}
    if not ends:
        return list(operations), 0
    events = sorted((row["time_ns"], row["index"]) for one in recorded for row in (one.begin, one.end) if row)
    times = [time_ns for time_ns, _ in events]
    lent = {one.begin["index"]: _ends_ns(one) for one in recorded if one.begin["f"] in ends}
    found: list[tuple[tuple[int, int, int], Operation]] = []
    for operation in operations:
        if operation.f in ends and (place := bisect_left(times, lent[operation.line])) < len(times):
            # Just before the first event that is not earlier than the end of the lease.
            expiry = replace(
                operation,
                process=LEASE_PROCESS,
                f=ends[operation.f],
                result=None,
                outcome=Outcome.INFO,
                returned=None,
                line=UNASKED - operation.line,
            )
            found.append(((events[place][1], -1, operation.line), expiry))
    return _renumbered(operations, found), len(found)


def _ends_ns(one: _Recorded) -> int:
    """When a lease that was asked for can have ended at the earliest."""
    return int(one.begin["time_ns"]) + int(one.asked["ttl_ms"]) * 1_000_000 - CLOCK_ERROR_NS


def _renumbered(
    operations: Sequence[Operation], expiries: Sequence[tuple[tuple[int, int, int], Operation]]
) -> list[Operation]:
    """All of them with moments that differ: an expiry begins just before the event that it is put before."""
    if not expiries:
        return list(operations)
    moments = [(moment, 0, 0) for op in operations for moment in (op.invoked, op.returned) if moment is not None]
    order = {moment: place for place, moment in enumerate(sorted([*moments, *(moment for moment, _ in expiries)]))}
    own = [
        replace(
            op,
            invoked=order[op.invoked, 0, 0],
            returned=None if op.returned is None else order[op.returned, 0, 0],
        )
        for op in operations
    ]
    return [*own, *(replace(expiry, invoked=order[moment]) for moment, expiry in expiries)]
