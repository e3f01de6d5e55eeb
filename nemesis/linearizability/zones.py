"""Registers whose every value was written once: decided without a search.

Owns the rules. The write of a value and all reads of it are a cluster; a compare-and-set glues the cluster of what it
sets directly behind that of what it expected. Such a chain is in one fixed order, and no other write comes in between.
Unknown writes count only if somebody saw their value. Between chains: a chain that must be over before something of
another one, and the reverse, cannot be. With ``first`` the earliest return in a chain and ``last`` the latest
invocation, one chain must precede another exactly if its first is before the other's last; this relation has a circle
only if it has one of two chains, so pairs suffice, and sorting finds them. All but the sorting is linear: O(n log n).

Source: Gibbons and Korach, "Testing shared memories" (1997), which has the zones; chains are ours.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Hashable, Sequence
from dataclasses import dataclass, field
from itertools import pairwise

from nemesis.linearizability.forms import EVER, RegisterForm, RegisterKind
from nemesis.linearizability.operations import Operation, Value
from nemesis.linearizability.violation import InapplicableError, Violation

BEFORE_ALL = -1


@dataclass(slots=True, kw_only=True)
class Zone:
    """One chain: operations by index, when the first of them returned and the last one began.

    ``first`` is -1, and ``first_at`` before everything, for the chain of the value that the register begins with.
    """

    first: int = -1
    first_at: int = EVER
    last: int = -1
    last_at: int = BEFORE_ALL


@dataclass(slots=True, kw_only=True)
class _Clusters:
    """Operations by index: who wrote a value, who read it, which counted compare-and-sets expected it."""

    writer: dict[Value, int] = field(default_factory=dict)
    readers: dict[Value, list[int]] = field(default_factory=dict)
    expecting: dict[Value, list[int]] = field(default_factory=dict)


def violation_of(operations: Sequence[Operation], forms: Sequence[RegisterForm], initial: Value) -> Violation | None:
    """Why a register cannot have done ``operations``; None if it can.

    Raises InapplicableError if a value was written twice, or a compare-and-set proves only what it did not see.
    """
    returns = [EVER if operation.returned is None else operation.returned for operation in operations]
    begins = [operation.invoked for operation in operations]
    clusters = _clusters(forms, returns, initial)
    if (unwritten := _unwritten(clusters, initial)) is not None:
        return unwritten
    zones: list[Zone] = []
    seen = 0
    for value, writer in [(initial, -1), *clusters.writer.items()]:
        if writer >= 0 and forms[writer].kind is not RegisterKind.WRITE:
            continue
        zone, length, violation = _chain(value, writer, clusters, forms, begins, returns)
        if violation is not None:
            return violation
        seen += length
        zones.append(zone)
    if seen < len(clusters.writer):
        return _circle(clusters, forms)
    return _conflict(zones, forms)


def _clusters(forms: Sequence[RegisterForm], returns: Sequence[int], initial: Value) -> _Clusters:
    clusters = _Clusters()
    written: dict[Hashable, int] = {initial: -1}
    for k, form in enumerate(forms):
        match form.kind:
            case RegisterKind.READ:
                clusters.readers.setdefault(form.value, []).append(k)
            case RegisterKind.MISS:
                raise InapplicableError("a failed compare-and-set proves only what the value was not")
            case _:
                value = form.value if form.kind is RegisterKind.WRITE else form.new
                if value in written:
                    raise InapplicableError(f"{value!r} was written twice")
                written[value] = k
    # Unknown writes count if their value was read, or expected by a compare-and-set that counts.
    counted = [k for value, k in written.items() if k >= 0 and (returns[k] != EVER or value in clusters.readers)]
    while counted:
        k = counted.pop()
        form = forms[k]
        value = form.value if form.kind is RegisterKind.WRITE else form.new
        if value in clusters.writer:
            continue
        clusters.writer[value] = k
        if form.kind is RegisterKind.CAS:
            clusters.expecting.setdefault(form.value, []).append(k)
            if (before := written.get(form.value, -1)) >= 0:
                counted.append(before)
    return clusters


def _unwritten(clusters: _Clusters, initial: Value) -> Violation | None:
    """What was read or expected, and written by nobody; and what was expected twice, where it was there once."""
    for value, readers in [*clusters.readers.items(), *clusters.expecting.items()]:
        if value != initial and value not in clusters.writer:
            return Violation(operations=(readers[0],), reason=f"{_shown(value)} was never written")
    for value, expecting in clusters.expecting.items():
        if len(expecting) > 1:
            reason = f"two compare-and-sets replaced {_shown(value)}, which was written once"
            return Violation(operations=tuple(sorted(expecting)[:2]), reason=reason)
    return None


def _chain(
    value: Value,
    writer: int,
    clusters: _Clusters,
    forms: Sequence[RegisterForm],
    begins: Sequence[int],
    returns: Sequence[int],
) -> tuple[Zone, int, Violation | None]:
    """The zone of the chain that begins with ``value``, how many writes it has, and what is wrong within it."""
    zone = Zone(first_at=EVER if writer >= 0 else BEFORE_ALL)
    length = 0
    while True:
        length += writer >= 0
        for group in ((writer,) if writer >= 0 else (), clusters.readers.get(value, ())):
            for k in group:
                if returns[k] < zone.last_at:
                    reason = _too_early(forms[k], value, forms[zone.last])
                    return zone, length, Violation(operations=(k, zone.last), reason=reason)
                if returns[k] < zone.first_at:
                    zone.first, zone.first_at = k, returns[k]
            for k in group:
                if begins[k] > zone.last_at:
                    zone.last, zone.last_at = k, begins[k]
        following = clusters.expecting.get(value)
        if following is None:
            return zone, length, None
        writer, value = following[0], forms[following[0]].new


def _circle(clusters: _Clusters, forms: Sequence[RegisterForm]) -> Violation:
    """Compare-and-sets each of which needs another one's value, and nothing was there to begin with.

    Each is walked over once: whatever leads to where an earlier walk was leads to no circle, or it had been found.
    """
    walked: set[int] = set()
    for value, start in clusters.writer.items():
        writer = start
        place: dict[int, int] = {}
        while writer >= 0 and writer not in walked and forms[writer].kind is RegisterKind.CAS:
            walked.add(writer)
            place[writer] = len(place)
            writer = clusters.writer.get(forms[writer].value, -1)
        if writer in place:
            members = tuple(sorted(list(place)[place[writer] :]))
            return Violation(
                operations=members,
                reason=f"these compare-and-sets need the values of each other, such as {value!r}",
            )
    raise AssertionError("every compare-and-set hangs on a write")


def _conflict(zones: Sequence[Zone], forms: Sequence[RegisterForm]) -> Violation | None:
    """Two chains each of which must precede the other."""
    forward = sorted((zone for zone in zones if zone.first_at < zone.last_at), key=lambda zone: zone.first_at)
    for one, other in pairwise(forward):
        if other.first_at < one.last_at:
            return _clash(one, other, forms)
    starts = [zone.first_at for zone in forward]
    for zone in zones:
        if zone.first_at >= zone.last_at > BEFORE_ALL:
            place = bisect_left(starts, zone.last_at) - 1
            if place >= 0 and zone.first_at < forward[place].last_at:
                return _clash(forward[place], zone, forms)
    return None


def _clash(one: Zone, other: Zone, forms: Sequence[RegisterForm]) -> Violation:
    members = {one.first, one.last, other.first, other.last} - {-1}
    late, between = (one, other) if one.last_at > other.last_at else (other, one)
    met, replaced_by = forms[late.last], forms[between.first]
    return Violation(operations=tuple(sorted(members)), reason=_replaced(met, _left(replaced_by)))


def _too_early(over: RegisterForm, value: Value, began: RegisterForm) -> str:
    """``over``, on ``value``, was over before ``began`` began, which is before it in their chain."""
    if began.kind is RegisterKind.READ:
        return _replaced(began, value)
    if _left(began) == value:
        return f"{_named(over)} returned before {_shown(value)} was written"
    return f"{_named(over)} returned before {_named(began)} began, which it needs"


def _replaced(late: RegisterForm, by: Value) -> str:
    """``late`` met a value that another one had replaced before it began."""
    if late.kind is RegisterKind.READ:
        return f"{_named(late)} began after {_shown(by)} had replaced it: stale read"
    return f"{_named(late)} began after {_shown(by)} had replaced {_shown(late.value)}"


def _left(form: RegisterForm) -> Value:
    """The value that is there after it."""
    return form.new if form.kind is RegisterKind.CAS else form.value


def _named(form: RegisterForm) -> str:
    match form.kind:
        case RegisterKind.CAS:
            return f"the compare-and-set of {_shown(form.value)} to {_shown(form.new)}"
        case RegisterKind.WRITE:
            return f"the write of {_shown(form.value)}"
        case _:
            return f"the read of {_shown(form.value)}"


def _shown(value: Value) -> str:
    return "nil" if value is None else repr(value)
