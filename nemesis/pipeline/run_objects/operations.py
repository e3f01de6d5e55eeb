"""Rows of the history of one object as operations, and the places in the one order that the servers claim for them.

Owns the reading of the columns of each workload (``nemesis.history.events`` says what they mean). A fail that was
answered is a read of what the answer tells. The place of an operation is the revision that its answer came with; that
of an unknown one is known where somebody has seen what it wrote, which is unique, with the revision at which it came
to be. The log says *whether and where*, and never moves the moments of an operation.
"""

from __future__ import annotations

import json
from bisect import bisect_left
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa

from nemesis.history.events import ACQUIRE, INCREMENT, READ
from nemesis.history.pairing import pairs
from nemesis.history.workloads import Workload
from nemesis.linearizability.model import ModelError
from nemesis.linearizability.operations import Operation, Outcome, Value
from nemesis.pipeline.run_objects.leased_lock import EXPIRE

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


def object_history(rows: pa.Table, workload: Workload) -> ObjectHistory:
    """The operations that ``rows`` (``HISTORY_SCHEMA``, of clients, all of one object) tell of, by their invocation.

    Completions without an invocation are left out: they are counted elsewhere. Raises ModelError for what was not
    recorded as its workload records it.
    """
    recorded = sorted(_paired(rows), key=lambda one: one.begin["index"])
    operations = [operation for one in recorded if (operation := _operation(one, workload)) is not None]
    places = {one.begin["index"]: one.place for one in recorded if one.place is not None}
    places |= _places_seen(operations, _seen(recorded))
    unknown = [operation for operation in operations if operation.outcome is Outcome.INFO and operation.f != READ]
    unplaced = sum(operation.line not in places for operation in unknown)
    if workload is Workload.LOCK:
        operations = _with_expiries(operations, recorded)
        unplaced += sum(operation.f == EXPIRE for operation in operations)
    times_ns = {
        one.begin["index"]: (one.begin["time_ns"], None if one.end is None else one.end["time_ns"]) for one in recorded
    }
    return ObjectHistory(operations=tuple(operations), places=places, unplaced=unplaced, times_ns=times_ns)


def _paired(rows: pa.Table) -> Iterator[_Recorded]:
    recorded = [*rows.to_pylist(), None]
    for begin, end in zip(*(map(recorded.__getitem__, found.tolist()) for found in pairs(rows)), strict=True):
        yield _Recorded(begin=begin, end=end, asked=_detail(begin), told={} if end is None else _detail(end))


def _detail(row: Row) -> Row:
    found: Row = json.loads(row["detail"] or "{}")
    return found


def _operation(one: _Recorded, workload: Workload) -> Operation | None:
    """None for what certainly was not done and tells nothing."""
    begin, outcome = one.begin, one.outcome
    if outcome is Outcome.FAIL and one.place is None:
        return None
    f, argument, result = begin["f"], _argument(one), None
    if outcome is Outcome.FAIL:
        # What it was conditional on was not so: it has read the object.
        f, argument, outcome = READ, None, Outcome.OK
    if outcome is Outcome.OK:
        result = _state(one, workload) if f == READ else one.end["value"] if one.end and f == INCREMENT else None
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


def _argument(one: _Recorded) -> Value:
    value, asked = one.begin["value"], one.asked
    try:
        match one.begin["f"]:
            case "cas":
                return (asked["expected"], value)
            case "open":
                return _pairs(asked["accounts"])
            case "transfer":
                return (asked["from"], asked["to"], value, *asked["expected"])
            case _:
                return int(value) if value is not None else None
    except KeyError as error:
        raise ModelError(f"line {one.begin['index']}: {one.begin['f']} was recorded without {error}") from error


def _state(one: _Recorded, workload: Workload) -> Value:
    """What an answer says that the object holds."""
    assert one.end is not None, one
    match workload:
        case Workload.SET:
            return tuple(element for element, _ in _pairs(one.told.get("elements", ())))
        case Workload.BANK:
            return tuple(sorted(_pairs(one.told.get("accounts", ()))))
        case Workload.COUNTER:
            return one.end["value"] or 0
        case _:
            value: int | None = one.end["value"]
            return value


def _pairs(told: Sequence[Sequence[int]]) -> tuple[tuple[int, int], ...]:
    return tuple((first, second) for first, second in told)


# --- places -----------------------------------------------------------------------------------------------------------


def _seen(recorded: Sequence[_Recorded]) -> Mapping[int, int]:
    """At which revision each value came to be, as answers tell."""
    seen: dict[int, int] = {}
    for one in recorded:
        if one.end is not None and "changed_at" in one.told:
            seen[one.end["value"]] = one.told["changed_at"]
        elements = one.told.get("elements", ())
        seen.update((value, changed_at) for value, changed_at in elements if changed_at is not None)
    return seen


def _places_seen(operations: Sequence[Operation], seen: Mapping[int, int]) -> dict[int, int]:
    """The places of unknown operations that wrote a value of their own which somebody saw."""
    places: dict[int, int] = {}
    for operation in operations:
        if operation.outcome is Outcome.INFO and (value := _written(operation)) in seen:
            places[operation.line] = seen[value]
    return places


def _written(operation: Operation) -> Any:
    match operation.f:
        case "write" | "add" | "acquire":
            return operation.argument
        case "cas":
            return operation.argument[1] if isinstance(operation.argument, tuple) else None
        case _:
            return None


# --- leases -----------------------------------------------------------------------------------------------------------


def _with_expiries(operations: Sequence[Operation], recorded: Sequence[_Recorded]) -> list[Operation]:
    """The operations with an expiry for each holding that can have ended by itself while the object was used."""
    events = sorted((row["time_ns"], row["index"]) for one in recorded for row in (one.begin, one.end) if row)
    times = [time_ns for time_ns, _ in events]
    lent = {one.begin["index"]: _ends_ns(one) for one in recorded if one.begin["f"] == ACQUIRE}
    found: list[tuple[tuple[int, int, int], Operation]] = []
    for operation in operations:
        if operation.f == ACQUIRE and (place := bisect_left(times, lent[operation.line])) < len(times):
            # Just before the first event that is not earlier than the end of the lease.
            expiry = replace(
                operation,
                process=LEASE_PROCESS,
                f=EXPIRE,
                result=None,
                outcome=Outcome.INFO,
                returned=None,
                line=UNASKED - operation.line,
            )
            found.append(((events[place][1], -1, operation.line), expiry))
    return _renumbered(operations, found)


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
