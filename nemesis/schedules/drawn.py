"""Schedules from dice: a pure function of the seed and the options.

A random schedule is one fault after the other with healthy time between them, sometimes two at once. The first one
takes the leader away for longer than the others wait for it, where its package can: a run without a change of leader
shows nothing. Where voters are changed, the second one always replaces a voter's disk, and has nothing beside it; into
every other change of voters another fault strikes, as a rule. Where partitions are moved, the second one always moves
some, other faults strike into moves, and moves begin while other faults last. A package that is named twice is drawn
twice as often.

A flip-flop has no healthy time: packages take turns in the order in which they are named, and each strikes when the one
before it heals.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import cycle
from random import Random

from nemesis.faults.catalogue import PACKAGES
from nemesis.faults.fault import FAULT_S, Fault
from nemesis.schedules.schedule import Heal, Inject, Schedule, Step

Package = type[Fault]
TIME_LIMIT_S_MIN = 6.0
FIRST_FAULT_S = 2.0
LEADERLESS_S = (5.0, 6.5)
"""How long the leader is away in the first fault: the end of its session, and an election of a controller before that,
fit into it."""
STRIKING_SHARE = 0.7
"""How often something strikes into a fault, where there is what is to strike into others."""
CERTAIN_ID = 1
"""The fault of which each run has a certain one, where there are such."""


def random_schedule(*, seed: int, packages: Sequence[str], time_limit_s: float) -> Schedule:
    """The schedule of a seed. Raises ``ValueError`` when ``packages`` is not empty and the time is too short for them.

    The order in which packages are named does not matter, how often each is named does. Without packages nothing is
    done.
    """
    chosen = [PACKAGES[word] for word in sorted(packages, key=list(PACKAGES).index)]
    _check_time(chosen, time_limit_s)
    random = Random(seed)
    steps = sorted(_random_steps(random, chosen, time_limit_s) if chosen else (), key=lambda step: step.at_s)
    return Schedule(name="random", time_limit_s=time_limit_s, steps=tuple(steps))


def flip_flop_schedule(*, seed: int, packages: Sequence[str], time_limit_s: float) -> Schedule:
    """Packages that take turns, from the first fault to the end of the time. Raises ``ValueError`` as above.

    The first of them takes the leader away; a package that is named twice has two turns in each round.
    """
    chosen = [PACKAGES[word] for word in packages]
    _check_time(chosen, time_limit_s)
    steps = _flip_flop_steps(Random(seed), chosen, time_limit_s) if chosen else ()
    return Schedule(name="flip-flop", time_limit_s=time_limit_s, steps=tuple(steps))


def _check_time(packages: Sequence[Package], time_limit_s: float) -> None:
    if packages and time_limit_s < TIME_LIMIT_S_MIN:
        raise ValueError(f"{time_limit_s} s is too short for faults to bite and heal: give {TIME_LIMIT_S_MIN} or more")


def _flip_flop_steps(random: Random, packages: Sequence[Package], time_limit_s: float) -> Iterator[Step]:
    at_s, fault = FIRST_FAULT_S, packages[0].on_leader(random)
    lasts_s = _between(random, LEADERLESS_S)
    for fault_id, package in enumerate(cycle((*packages[1:], packages[0]))):
        end_s = min(_rounded(at_s + lasts_s), time_limit_s)
        yield from _fault_steps(random, fault_id, fault, at_s, end_s)
        if end_s > time_limit_s - FAULT_S[0]:
            return
        at_s, fault = end_s, package.drawn(random)
        lasts_s = _between(random, fault.lasts_s)


def _random_steps(random: Random, packages: Sequence[Package], time_limit_s: float) -> Iterator[Step]:
    at_s, fault_id = FIRST_FAULT_S, 0
    fault = random.choice(packages).on_leader(random)
    lasts_s = _between(random, LEADERLESS_S)
    last_start_s = time_limit_s - FAULT_S[0]
    while at_s <= last_start_s or fault_id == 0:
        was_first = fault_id == 0
        end_s = min(at_s + lasts_s, time_limit_s)
        yield from _fault_steps(random, fault_id, fault, at_s, end_s)
        if random.random() < _second_share(fault_id, fault, packages):
            fault_id += 1
            second = random.choice(_beside(fault, packages)).drawn(random)
            yield from _fault_steps(random, fault_id, second, _rounded(at_s + (end_s - at_s) / 2), end_s)
        fault_id += 1
        at_s = _rounded(end_s + _between(random, fault.recovery_s))
        fault = _drawn(random, packages).drawn(random)
        if was_first:
            fault = _certain(random, packages) or fault
        lasts_s = _between(random, fault.lasts_s)


def _drawn(random: Random, packages: Sequence[Package]) -> Package:
    for package in dict.fromkeys(packages):
        if package.share and random.random() < package.share:
            return package
    return random.choice(packages)


def _certain(random: Random, packages: Sequence[Package]) -> Fault | None:
    """What strikes second for certain: of several such packages the first one's."""
    certain = (package.certain(random) for package in packages)
    return next((fault for fault in certain if fault is not None), None)


def _second_share(fault_id: int, fault: Fault, packages: Sequence[Package]) -> float:
    """How probable another fault is that strikes into this one."""
    if fault_id <= CERTAIN_ID and any(package.is_alone_at_first for package in packages):
        return 0.0
    return STRIKING_SHARE if any(package.strikes_into_others for package in packages) else fault.second_share


def _beside(fault: Fault, packages: Sequence[Package]) -> Sequence[Package]:
    """What may strike into this fault."""
    striking = [package for package in packages if package.strikes_into_others]
    if striking and not fault.is_spared:
        return striking[:1]
    others = [package for package in packages if not (fault.comes_one_at_a_time and package is type(fault))]
    return others or packages


def _fault_steps(random: Random, fault_id: int, fault: Fault, at_s: float, end_s: float) -> Iterator[Step]:
    yield Step(at_s=at_s, action=Inject(fault_id=fault_id, fault=fault, draw=random.getrandbits(32)))
    yield Step(at_s=end_s, action=Heal(fault_id=fault_id))


def _between(random: Random, bounds: tuple[float, float]) -> float:
    return _rounded(random.uniform(*bounds))


def _rounded(seconds: float) -> float:
    return round(seconds, 3)
