"""A register's history as arrays of small integers: what the register search works on.

Owns the encoding: values as ids, events in their order, a bit for each operation that is pending. Operations that
return share the bits of slots, so that a set of pending ones stays as small as the history is concurrent; unknown
operations have bits of their own in another set. Everything is an array of integers, which the search in C takes as
they are.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from nemesis.linearizability.forms import EVER, RegisterForm, RegisterKind
from nemesis.linearizability.operations import Operation, Value
from nemesis.linearizability.slots import ends_of, ordered_events, slot_bits

NEVER = -1
"""Before every event."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RegisterEvents:
    """The arrays of one register.

    ``events`` are ``k`` where operation ``k`` begins and ``~k`` where it returns. By operation: ``kinds``, ``values``
    and ``news`` (ids), ``bits``, and ``ends``, the index of its return among ``events`` (EVER for unknown ones).
    ``needed`` is, by value id, the index of the last event at which some operation may still ask for it, EVER if there
    is no last one. The register begins with value id 0. ``useless`` unknown operations have no event.
    """

    events: list[int]
    kinds: list[int]
    values: list[int]
    news: list[int]
    bits: list[int]
    ends: list[int]
    needed: list[int]
    slots: int
    unknown: int
    has_misses: bool
    names: list[Value]


def encode(operations: Sequence[Operation], forms: Sequence[RegisterForm], initial: Value) -> RegisterEvents:
    """The arrays of ``operations``, which stand in the order of their invocations; ``forms`` says what each does."""
    ids: dict[Value, int] = {initial: 0}
    kinds = [int(form[0]) for form in forms]
    values = [ids.setdefault(form[1], len(ids)) for form in forms]
    news = [ids.setdefault(form[2], len(ids)) if form[0] == RegisterKind.CAS else 0 for form in forms]
    events = ordered_events(operations)
    ends = ends_of(events, len(operations))
    begins = [0] * len(operations)
    for index, event in enumerate(events):
        if event >= 0:
            begins[event] = index
    has_misses = RegisterKind.MISS in kinds
    needed = _needed(kinds, values, news, begins, ends, len(ids))
    if not has_misses:
        events = _without_useless(events, kinds, values, news, ends, needed)
    bits, slots, unknown = slot_bits(events, ends)
    return RegisterEvents(
        events=events,
        kinds=kinds,
        values=values,
        news=news,
        bits=bits,
        ends=ends,
        needed=needed,
        slots=slots,
        unknown=unknown,
        has_misses=has_misses,
        names=list(ids),
    )


def _needed(
    kinds: list[int], values: list[int], news: list[int], begins: list[int], ends: list[int], count: int
) -> list[int]:
    """When each value is asked for last; an unknown compare-and-set asks as long as what it sets is asked for."""
    needed = [NEVER] * count
    unknown: list[int] = []
    for k, kind in enumerate(kinds):
        if kind == RegisterKind.WRITE:
            continue
        if ends[k] == EVER:
            unknown.append(k)
        elif ends[k] > needed[values[k]]:
            needed[values[k]] = ends[k]
    changed = True
    while changed:
        changed = False
        for k in unknown:
            if needed[values[k]] < needed[news[k]] and needed[news[k]] > begins[k]:
                needed[values[k]] = needed[news[k]]
                changed = True
    return needed


def _without_useless(
    events: list[int], kinds: list[int], values: list[int], news: list[int], ends: list[int], needed: list[int]
) -> list[int]:
    """The events but for those of unknown operations that set what nobody asks for afterwards.

    ``ends`` and ``needed`` are moved to the new indexes.
    """
    kept: list[int] = []
    moved = [0] * (len(events) + 1)
    for index, event in enumerate(events):
        moved[index] = len(kept)
        if event >= 0 and ends[event] == EVER:
            target = values[event] if kinds[event] == RegisterKind.WRITE else news[event]
            if needed[target] <= index:
                continue
        kept.append(event)
    if len(kept) < len(events):
        for k, end in enumerate(ends):
            if end != EVER:
                ends[k] = moved[end]
        for value, last in enumerate(needed):
            if last not in {NEVER, EVER}:
                needed[value] = moved[last]
    return kept
