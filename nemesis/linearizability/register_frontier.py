"""From the configurations before a return to those after it, without those that another one makes superfluous.

Owns one level of the register search: the return itself, and which configurations are worth keeping. Source: just-in-
time linearization, Lowe, "Testing for linearizability" (2017).
"""

from __future__ import annotations

from functools import partial

from nemesis.linearizability.register_pending import FORGOTTEN, REUSED, WRITE, Config, Explorer, Pending

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
