"""A run that refutes histories too wide for the others: it has one set of operations for each value, no configurations.

Owns the outline of a history. For each value that the register may have, it has the pending operations that may have
taken effect on some way there, put together as if all had done so on the same way; and a pending operation may take
effect again and again. So it knows more ways than there are, and what it refutes has none. It takes no more than a few
steps for each return and value, however much is pending.
"""

from __future__ import annotations

from nemesis.linearizability.beam import Answer, Effort, Finding
from nemesis.linearizability.register_events import RegisterEvents
from nemesis.linearizability.register_pending import MISS, READ, Config, Pending


def outline_run(history: RegisterEvents, effort: Effort) -> Finding[Config]:
    """NO at the first return that has no explanation even so; UNDECIDED if there is none."""
    pending = Pending(history)
    found: Finding[Config] = Finding()
    ways = {0: 0}
    for index, event in enumerate(history.events):
        if event >= 0:
            pending.enter(event)
            _begin(history, event, ways)
            continue
        k = ~event
        before = dict(ways)
        _close(pending, ways)
        bit = history.bits[k]
        ways = {value: done ^ bit for value, done in ways.items() if done & bit}
        pending.leave(k)
        effort.spend(max(1, len(ways)))
        found.visited = effort.visited
        if effort.is_spent:
            return found
        if not ways:
            found.answer, found.died = Answer.NO, index
            found.frontier = [(value, done, 0, 0) for value, done in sorted(before.items())]
            return found
    return found


def _begin(history: RegisterEvents, k: int, ways: dict[int, int]) -> None:
    """A read or a miss takes effect where it can."""
    value, bit = history.values[k], history.bits[k]
    if history.kinds[k] == READ and value in ways:
        ways[value] |= bit
    elif history.kinds[k] == MISS:
        for other in ways:
            if other != value:
                ways[other] |= bit


def _close(pending: Pending, ways: dict[int, int]) -> None:
    """Add to ``ways`` all that pending operations can make of them."""
    targets = {value: pending.seen(value) | pending.write_mask for value in (*pending.writes, *pending.unknown_writes)}
    size = -1
    while size != (size := sum(done.bit_count() + 1 for done in ways.values())):
        anyhow = 0
        for done in ways.values():
            anyhow |= done
        for value, done in targets.items():
            ways[value] = ways.get(value, 0) | anyhow | done
        for value, done in list(ways.items()):
            hidden = sum(bit for _, bit in pending.writes.get(value, ()))
            for _, bit, new in pending.cas.get(value, ()):
                ways[new] = ways.get(new, 0) | done | bit | hidden | pending.seen(new)
            for new in pending.unknown_from.get(value, {}):
                ways[new] = ways.get(new, 0) | done | hidden | pending.seen(new)
