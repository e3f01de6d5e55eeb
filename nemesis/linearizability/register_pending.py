"""What is pending on a register at one moment, and all that may happen to it before one of the pending returns.

Owns one step of the register search. A configuration is ``(value, done, optional, used)``: the register's value id, and
sets of bits. ``done`` are the pending operations that took effect. ``optional`` are pending writes that may have taken
effect unseen, right before another write, or may take effect yet. ``used`` are the unknown operations that took effect,
REUSED if one of them did so twice, which only the relaxed run allows.

Four facts keep configurations few. (1) A read takes effect as soon as it can: it disturbs nothing. (2) As soon as any
write takes effect, all other pending writes become optional: each may hide right before it. A compare-and-set hides
only writes of the value that it expects; but a write of the present value hides all others before it, so it is no
waste of time. (3) Of the pending writes of one value, the one that returns first is as good as any other, and any of
them is as good as an unknown one. (4) A write that is not about to return is worth a step only if it sets a value that
something pending asks for.

From the configurations before a return to those after it, without those that another one makes superfluous.
"""

from __future__ import annotations

from bisect import insort
from functools import partial

from nemesis.linearizability.beam import Effort
from nemesis.linearizability.forms import EVER, RegisterKind
from nemesis.linearizability.register_events import RegisterEvents

Config = tuple[int, int, int, int]

READ, WRITE, CAS, MISS = (int(kind) for kind in RegisterKind)
REUSED = -1
FORGOTTEN = -1
"""The value id of a register whose value nobody asks for any more."""


class Pending:
    """The pending operations, by what they do; events enter and leave them, in either direction of time.

    ``reads`` and ``misses`` are sets of bits by value id, with no empty ones. ``writes`` are (end, bit), and ``cas``
    (end, bit, new), by the id that is written or expected, the earliest end first. Unknown writes are sets of bits by
    value; unknown compare-and-sets are so by what they expect and then set, and by what they set and then expect.
    """

    __slots__ = (
        "cas",
        "cas_mask",
        "history",
        "misses",
        "reads",
        "unknown_from",
        "unknown_into",
        "unknown_writes",
        "write_mask",
        "writes",
    )

    def __init__(self, history: RegisterEvents) -> None:
        self.history = history
        self.reads: dict[int, int] = {}
        self.misses: dict[int, int] = {}
        self.writes: dict[int, list[tuple[int, int]]] = {}
        self.write_mask = 0
        self.cas: dict[int, list[tuple[int, int, int]]] = {}
        self.cas_mask = 0
        self.unknown_writes: dict[int, int] = {}
        self.unknown_from: dict[int, dict[int, int]] = {}
        self.unknown_into: dict[int, dict[int, int]] = {}

    def enter(self, k: int) -> None:
        """Operation ``k`` is pending from now on."""
        history = self.history
        kind, value, bit, end = history.kinds[k], history.values[k], history.bits[k], history.ends[k]
        if kind == READ:
            self.reads[value] = self.reads.get(value, 0) | bit
        elif kind == MISS:
            self.misses[value] = self.misses.get(value, 0) | bit
        elif end == EVER:
            self._toggle_unknown(k)
        elif kind == WRITE:
            insort(self.writes.setdefault(value, []), (end, bit))
            self.write_mask |= bit
        else:
            insort(self.cas.setdefault(value, []), (end, bit, history.news[k]))
            self.cas_mask |= bit

    def leave(self, k: int) -> None:
        """Operation ``k`` is no longer pending."""
        history = self.history
        kind, value, bit, end = history.kinds[k], history.values[k], history.bits[k], history.ends[k]
        if kind in {READ, MISS}:
            masks = self.reads if kind == READ else self.misses
            masks[value] ^= bit
            if not masks[value]:
                del masks[value]
        elif end == EVER:
            self._toggle_unknown(k)
        elif kind == WRITE:
            writes = self.writes[value]
            writes.remove((end, bit))
            self.write_mask ^= bit
            if not writes:
                del self.writes[value]
        else:
            cas = self.cas[value]
            cas.remove((end, bit, history.news[k]))
            self.cas_mask ^= bit
            if not cas:
                del self.cas[value]

    def _toggle_unknown(self, k: int) -> None:
        history = self.history
        value, new, bit = history.values[k], history.news[k], history.bits[k]
        if history.kinds[k] == WRITE:
            self.unknown_writes[value] = self.unknown_writes.get(value, 0) ^ bit
        else:
            into = self.unknown_from.setdefault(value, {})
            into[new] = into.get(new, 0) ^ bit
            self.unknown_into.setdefault(new, {})[value] = into[new]

    def seen(self, value: int) -> int:
        """The bits of all pending reads that a register with ``value`` satisfies."""
        bits = self.reads.get(value, 0)
        if self.misses:
            bits |= sum(mask for missed, mask in self.misses.items() if missed != value)
        return bits

    def eager(self, k: int, frontier: list[Config]) -> list[Config]:
        """``frontier`` after read or miss ``k`` began: it takes effect at once where it can."""
        value, bit = self.history.values[k], self.history.bits[k]
        hit = self.history.kinds[k] == READ
        return [(c[0], c[1] | bit, c[2], c[3]) if (c[0] == value) is hit else c for c in frontier]


class Explorer:
    """Finds what may have happened when a pending operation returns.

    It finds all, or no more than is ``enough``: the explanations that take the fewest steps. The effort tells then that
    others were left out.
    """

    __slots__ = ("effort", "enough", "pending", "relaxed")

    def __init__(self, pending: Pending, effort: Effort, *, relaxed: bool, enough: int = EVER) -> None:
        self.pending = pending
        self.effort = effort
        self.relaxed = relaxed
        self.enough = enough

    def reach(self, start: Config, k: int, out: list[Config]) -> None:
        """Add to ``out`` what ``start`` leads to by steps of which the last makes ``k`` take effect.

        ``k`` is gone from their sets.
        """
        history, pending = self.pending.history, self.pending
        bit, kind = history.bits[k], history.kinds[k]
        goal = history.values[k] if kind == WRITE else FORGOTTEN
        if goal != FORGOTTEN and not (pending.cas or pending.reads or pending.misses):
            self.effort.spend(1)
            out.append((goal, start[1], pending.write_mask & ~start[1] & ~bit, start[3]))
            return
        todo = [start]
        seen = {start[:3]: [start[3]]}
        room, held_max = self.effort.room - self.effort.visited, self.effort.held_max
        for config in todo:
            for step in self._steps(config, goal):
                if step[1] & bit:
                    out.append((step[0], step[1] ^ bit, step[2] & ~bit, step[3]))
                elif self._is_new(step, seen):
                    todo.append(step)
            if len(out) >= self.enough:
                self.effort.left_out = True
                break
            if len(todo) > room or max(len(todo), len(out)) > held_max:
                break
        self.effort.spend(len(todo), max(len(todo), len(out)))

    def _is_new(self, step: Config, seen: dict[tuple[int, int, int], list[int]]) -> bool:
        """Whether no step came to the same by fewer unknown operations, in the relaxed run by any; it is seen now."""
        used = step[3]
        others = seen.setdefault(step[:3], [])
        if any(not other & ~used or (self.relaxed and other != REUSED) for other in others):
            return False
        others.append(used)
        return True

    def _steps(self, config: Config, goal: int) -> list[Config]:
        value, done, optional, used = config
        pending = self.pending
        steps: list[Config] = []
        if value in pending.cas or value in pending.unknown_from:
            hidden = optional | sum(bit for _, bit in pending.writes.get(value, ())) & ~done
            offered: set[int] = set()
            for _, bit, new in pending.cas.get(value, ()):
                if not done & bit and new not in offered:
                    offered.add(new)
                    steps.append((new, done | bit | pending.seen(new), hidden, used))
        else:
            hidden = optional
        wanted = self._wanted(config, goal)
        for new, mask in pending.unknown_from.get(value, {}).items():
            if new in wanted and (spent := self._spend(used, mask)) is not None:
                steps.append((new, done | pending.seen(new), hidden, spent))
        writes = pending.write_mask & ~done
        for new in wanted:
            known = next((bit for _, bit in pending.writes.get(new, ()) if not done & bit), 0)
            if new == value and goal != value and not writes & ~optional & ~known:
                continue  # it would change nothing and hide nothing
            if known:
                steps.append((new, done | known | pending.seen(new), writes & ~known, used))
            elif (spent := self._spend(used, pending.unknown_writes.get(new, 0))) is not None:
                steps.append((new, done | pending.seen(new), writes, spent))
        return steps

    def _wanted(self, config: Config, goal: int) -> list[int]:
        """The values that something pending asks for, and the one that is to be written now."""
        done, used, pending = config[1], config[3], self.pending
        if any(mask & ~done for mask in pending.misses.values()):
            return sorted(
                {*pending.writes, *pending.unknown_writes, *pending.unknown_into, *pending.reads, *pending.cas}
            )
        wanted = [value for value, mask in pending.reads.items() if mask & ~done]
        for value, cas in pending.cas.items():
            if value not in wanted and any(not done & bit for _, bit, _ in cas):
                wanted.append(value)
        if pending.unknown_into:
            for new in wanted:
                for value, mask in pending.unknown_into.get(new, {}).items():
                    if value not in wanted and self._spend(used, mask) is not None:
                        wanted.append(value)
        if goal != FORGOTTEN and goal not in wanted:
            wanted.append(goal)
        return wanted

    def _spend(self, used: int, mask: int) -> int | None:
        """``used`` with one more of ``mask``, of unknown operations that do the same; None if there is none left."""
        if left := mask & ~used:
            return used | left & -left
        return REUSED if mask and self.relaxed else None


DOMINANCE_MAX = 64
"""How many configurations of one value are compared each with each."""

WITNESSES = 4
"""How many configurations the relaxed run keeps only because they reused nothing, though others may do all they can."""


def after_return(k: int, index: int, frontier: list[Config], explorer: Explorer) -> list[Config]:
    """The configurations after operation ``k`` returned by event ``index``; it is no longer pending then."""
    pending, history = explorer.pending, explorer.pending.history
    bit, needed, value = history.bits[k], history.needed, history.values[k]
    # The last write before a return that nobody waits for need not be the last one: it may as well have been hidden.
    as_last = history.kinds[k] == WRITE and (needed[value] > index or history.has_misses)
    after: list[Config] = []
    for config in frontier:
        if config[1] & bit:
            after.append((config[0], config[1] ^ bit, config[2], config[3]))
            continue
        if config[2] & bit:
            after.append((config[0], config[1], config[2] ^ bit, config[3]))
            if not as_last:
                continue
        explorer.reach(config, k, after)
    pending.leave(k)
    if len(after) > 1:
        after = [(FORGOTTEN, *c[1:]) if c[0] >= 0 and needed[c[0]] <= index else c for c in after]
        return without_dominated(after, pending, relaxed=explorer.relaxed)
    return after


def without_dominated(configs: list[Config], pending: Pending, *, relaxed: bool) -> list[Config]:
    """``configs`` without those for which another one of them, of the same value, can do all that they can."""
    alike: dict[int, list[Config]] = {}
    for config in dict.fromkeys(configs):
        alike.setdefault(config[0], []).append(config)
    if len(alike) == len(configs):
        return configs
    writes, cas = pending.write_mask, pending.cas_mask
    order = partial(promise, cas=cas)
    kept: list[Config] = []
    spare: list[Config] = []
    for group in alike.values():
        best: list[Config] = []
        for config in sorted(group, key=order) if len(group) > 1 else group:
            if any(_dominates(other, config, writes, cas, relaxed) for other in best[:DOMINANCE_MAX]):
                continue
            if relaxed:
                spare += [weak for weak in best if weak[3] != REUSED and _dominates(config, weak, writes, cas, relaxed)]
                best = [weak for weak in best if not _dominates(config, weak, writes, cas, relaxed)]
            best.append(config)
        kept += best
    return kept + sorted(spare, key=order)[:WITNESSES]


def _dominates(strong: Config, weak: Config, writes: int, cas: int, relaxed: bool) -> bool:
    """Whether all that ``weak`` may still do, ``strong`` may: their values are the same.

    A write that is optional may be what it is elsewhere, done or not done. A read that is done asks for nothing.
    Unknown operations that are not used may be; in the relaxed run, all may be.
    """
    _, done, optional, used = strong
    differing = done ^ weak[1]
    if weak[2] & ~optional or differing & writes & ~optional or differing & cas or weak[1] & ~(done | writes | cas):
        return False
    return relaxed or not used & ~weak[3]


def promise(config: Config, cas: int) -> tuple[bool, int, int, int, int]:
    """The order in which configurations are tried, ``cas`` being the pending compare-and-sets.

    Few unknown operations used; many compare-and-sets done, which ask for a value each; much optional, much done.
    """
    _, done, optional, used = config
    return (
        used == REUSED,
        used.bit_count(),
        -(done & cas).bit_count(),
        -optional.bit_count(),
        -done.bit_count(),
    )
