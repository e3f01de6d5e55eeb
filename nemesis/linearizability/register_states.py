"""The values that a register could have when its history came to a dead end.

Owns the evidence of the register search, which forgets values that nobody asks for and so cannot tell by itself.
"""

from __future__ import annotations

from collections.abc import Iterator

from nemesis.linearizability.operations import Value
from nemesis.linearizability.register_events import RegisterEvents
from nemesis.linearizability.register_pending import FORGOTTEN, WRITE, Config, Pending


def values_before(history: RegisterEvents, begun: int, died: int, frontier: list[Config], most: int) -> list[Value]:
    """Values that the register could have just before the return of event index ``died``, at most ``most`` of them.

    ``frontier`` are the configurations there: their values come first, then those that what was pending could make of
    them, and what of the ``begun`` operations the search left out because nobody asks for it.
    """
    pending = Pending(history)
    for event in history.events[:died]:
        if event >= 0:
            pending.enter(event)
        else:
            pending.leave(~event)
    values = dict.fromkeys(config[0] for config in frontier if config[0] != FORGOTTEN)
    for config in frontier:
        values |= dict.fromkeys(_next_values(pending, config))
    for k in range(begun):
        if not history.bits[k] and history.kinds[k] == WRITE:
            values.setdefault(history.values[k])
        elif not history.bits[k] and history.values[k] in values:
            values.setdefault(history.news[k])
    return [history.names[value] for value in values][:most]


def _next_values(pending: Pending, config: Config) -> Iterator[int]:
    """What one pending operation could make of the register."""
    value, done, _, used = config
    for new, writes in pending.writes.items():
        if any(not done & bit for _, bit in writes):
            yield new
    yield from (new for new, mask in pending.unknown_writes.items() if mask & ~used)
    yield from (new for _, bit, new in pending.cas.get(value, ()) if not done & bit)
    yield from (new for new, mask in pending.unknown_from.get(value, {}).items() if mask & ~used)
