"""Schedules from dice: a pure function of the seed and the options.

A random schedule is one fault after the other with healthy time between them, sometimes two at once. The first one
takes the leader away for longer than the others wait for it, where its kind can: a run without a change of leader
shows nothing. Where voters are changed, the second one always replaces a voter's disk, and has nothing beside it; into
every other change of voters another fault strikes, as a rule. Where partitions are moved, the second one always moves
some, other faults strike into moves, and moves begin while other faults last. A kind that is named twice is drawn
twice as often.

A flip-flop has no healthy time: kinds take turns in the order in which they are named, and each strikes when the one
before it heals.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import cycle
from random import Random

from nemesis.faults.catalogue import KINDS
from nemesis.faults.fault import FAULT_S, Fault
from nemesis.schedules.schedule import Heal, Inject, Schedule, Step

Kind = type[Fault]
TIME_LIMIT_S_MIN = 6.0
FIRST_FAULT_S = 2.0
LEADERLESS_S = (5.0, 6.5)
"""How long the leader is away in the first fault: the end of its session, and an election of a controller before that,
fit into it."""
STRIKING_SHARE = 0.7
"""How often something strikes into a fault, where there is what is to strike into others."""
CERTAIN_ID = 1
"""The fault of which each run has a certain one, where there are such."""


def random_schedule(
    *, seed: int, kinds: Sequence[str], time_limit_s: float, interval_s: float | None = None
) -> Schedule:
    """The schedule of a seed. Raises ``ValueError`` when ``kinds`` is not empty and the time is too short for them.

    The order in which kinds are named does not matter, how often each is named does. Without kinds nothing is
    done. With ``interval_s`` it is healthy for so long on average after each fault.
    """
    chosen = [KINDS[word] for word in sorted(kinds, key=list(KINDS).index)]
    _check_time(chosen, time_limit_s)
    random = Random(seed)
    healthy_s = None if interval_s is None else (interval_s / 2, interval_s * 3 / 2)
    steps = sorted(_random_steps(random, chosen, time_limit_s, healthy_s) if chosen else (), key=lambda step: step.at_s)
    return Schedule(name="random", time_limit_s=time_limit_s, steps=tuple(steps))


def flip_flop_schedule(*, seed: int, kinds: Sequence[str], time_limit_s: float) -> Schedule:
    """Packages that take turns, from the first fault to the end of the time. Raises ``ValueError`` as above.

    The first of them takes the leader away; a kind that is named twice has two turns in each round.
    """
    chosen = [KINDS[word] for word in kinds]
    _check_time(chosen, time_limit_s)
    steps = _flip_flop_steps(Random(seed), chosen, time_limit_s) if chosen else ()
    return Schedule(name="flip-flop", time_limit_s=time_limit_s, steps=tuple(steps))


def _check_time(kinds: Sequence[Kind], time_limit_s: float) -> None:
    if kinds and time_limit_s < TIME_LIMIT_S_MIN:
        too_short = f"{time_limit_s:g} s is too short for faults to bite and heal"
        raise ValueError(f"{too_short}: give {TIME_LIMIT_S_MIN:g} or more")


def _flip_flop_steps(random: Random, kinds: Sequence[Kind], time_limit_s: float) -> Iterator[Step]:
    at_s, fault = FIRST_FAULT_S, kinds[0].on_leader(random)
    lasts_s = _between(random, LEADERLESS_S)
    for fault_id, kind in enumerate(cycle((*kinds[1:], kinds[0]))):
        end_s = min(_rounded(at_s + lasts_s), time_limit_s)
        yield from _fault_steps(random, fault_id, fault, at_s, end_s)
        if end_s > time_limit_s - FAULT_S[0]:
            return
        at_s, fault = end_s, kind.drawn(random)
        lasts_s = _between(random, fault.lasts_s)


def _random_steps(
    random: Random, kinds: Sequence[Kind], time_limit_s: float, healthy_s: tuple[float, float] | None
) -> Iterator[Step]:
    at_s, fault_id = FIRST_FAULT_S, 0
    fault = random.choice(kinds).on_leader(random)
    lasts_s = _between(random, LEADERLESS_S)
    last_start_s = time_limit_s - FAULT_S[0]
    while at_s <= last_start_s or fault_id == 0:
        was_first = fault_id == 0
        end_s = min(at_s + lasts_s, time_limit_s)
        yield from _fault_steps(random, fault_id, fault, at_s, end_s)
        if random.random() < _second_share(fault_id, fault, kinds):
            fault_id += 1
            second = random.choice(_beside(fault, kinds)).drawn(random)
            yield from _fault_steps(random, fault_id, second, _rounded(at_s + (end_s - at_s) / 2), end_s)
        fault_id += 1
        at_s = _rounded(end_s + _between(random, healthy_s or fault.recovery_s))
        fault = _drawn(random, kinds).drawn(random)
        if was_first:
            fault = _certain(random, kinds) or fault
        lasts_s = _between(random, fault.lasts_s)


def _drawn(random: Random, kinds: Sequence[Kind]) -> Kind:
    for kind in dict.fromkeys(kinds):
        if kind.share and random.random() < kind.share:
            return kind
    return random.choice(kinds)


def _certain(random: Random, kinds: Sequence[Kind]) -> Fault | None:
    """What strikes second for certain: of several such kinds the first one's."""
    certain = (kind.certain(random) for kind in kinds)
    return next((fault for fault in certain if fault is not None), None)


def _second_share(fault_id: int, fault: Fault, kinds: Sequence[Kind]) -> float:
    """How probable another fault is that strikes into this one."""
    if fault_id <= CERTAIN_ID and any(kind.is_alone_at_first for kind in kinds):
        return 0.0
    return STRIKING_SHARE if any(kind.strikes_into_others for kind in kinds) else fault.second_share


def _beside(fault: Fault, kinds: Sequence[Kind]) -> Sequence[Kind]:
    """What may strike into this fault."""
    striking = [kind for kind in kinds if kind.strikes_into_others]
    if striking and not fault.is_spared:
        return striking[:1]
    others = [kind for kind in kinds if not (fault.comes_one_at_a_time and kind is type(fault))]
    return others or kinds


def _fault_steps(random: Random, fault_id: int, fault: Fault, at_s: float, end_s: float) -> Iterator[Step]:
    yield Step(at_s=at_s, action=Inject(fault_id=fault_id, fault=fault, draw=random.getrandbits(32)))
    yield Step(at_s=end_s, action=Heal(fault_id=fault_id))


def _between(random: Random, bounds: tuple[float, float]) -> float:
    return _rounded(random.uniform(*bounds))


def _rounded(seconds: float) -> float:
    return round(seconds, 3)
