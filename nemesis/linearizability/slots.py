"""The events of a history in their order, and small bits for what is pending.

Owns the numbering that the searches share. An event is ``k`` where operation ``k`` begins and ``~k`` where it returns.
Operations that return share the bits of slots, so that a set of pending ones stays as small as the history is
concurrent; unknown operations have bits of their own, in another set.
"""

from __future__ import annotations

from collections.abc import Sequence

from nemesis.linearizability.forms import EVER
from nemesis.linearizability.operations import Operation


def ordered_events(operations: Sequence[Operation]) -> list[int]:
    """All events in their order; ``operations`` may stand in any."""
    stamped = [(operation.invoked, k) for k, operation in enumerate(operations)]
    stamped += [(operation.returned, ~k) for k, operation in enumerate(operations) if operation.returned is not None]
    stamped.sort()
    return [event for _, event in stamped]


def ends_of(events: Sequence[int], count: int) -> list[int]:
    """By operation, the index of its return among ``events``; EVER for what never returns."""
    ends = [EVER] * count
    for index, event in enumerate(events):
        if event < 0:
            ends[~event] = index
    return ends


def slot_bits(events: Sequence[int], ends: Sequence[int]) -> tuple[list[int], int, int]:
    """By operation, its bit; and how many bits there are of slots, and of unknown operations.

    A slot is free again once its operation returned. An operation without an event has no bit.
    """
    bits = [0] * len(ends)
    free: list[int] = []
    slots = unknown = 0
    for event in events:
        if event < 0:
            free.append(bits[~event])
        elif ends[event] == EVER:
            bits[event] = 1 << unknown
            unknown += 1
        elif free:
            bits[event] = free.pop()
        else:
            bits[event] = 1 << slots
            slots += 1
    return bits, slots, unknown
