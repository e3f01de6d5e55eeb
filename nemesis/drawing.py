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

from nemesis.faults.targets import Role
from nemesis.faults.values import (
    ChangeVoters,
    Course,
    Fault,
    LimitMemory,
    PowerLoss,
    Reassign,
    ReplaceDisk,
    RollingRestart,
    VoterChange,
)
from nemesis.packages import Package, any_fault, leader_fault
from nemesis.schedule import Heal, Inject, Schedule, Step

TIME_LIMIT_S_MIN = 6.0
FIRST_FAULT_S = 2.0
LEADERLESS_S = (5.0, 6.5)
"""How long the leader is away in the first fault: the end of its session, and an election of a controller before that,
fit into it."""
FAULT_S = (1.0, 4.5)
ROLLING_S = (8.0, 12.0)
"""How long a rolling restart goes on: some of the replicas, or all of them, get their turn."""
REPLACED_S = (8.0, 12.0)
"""How long replacing a disk may take: a voter is removed, stopped, wiped, started, catches up, and is added."""
SQUEEZED_S = (6.0, 10.0)
"""How long memory is limited: finding the least that a kernel lets a node have takes some of it."""
HEALTHY_S = (2.0, 4.0)
RECOVERY_S = (5.0, 7.0)
"""How long it is healthy after power or a disk was lost: until all are back in sync there is nothing to lose."""
SECOND_FAULT_SHARE = 0.2
SECOND_BESIDE_CHANGE_SHARE = 0.7
"""How often something strikes while voters are changed."""
CHANGE_SHARE = 0.4
"""How often a change of voters is drawn for certain, where there are any; else by chance, as all others."""
CERTAIN_CHANGE_ID = 1
"""The fault that is a voter replaced, where voters are changed: a run without that shows little. So with moves."""
CERTAIN_MOVE = Reassign(course=Course.MOVE, partitions=2, leader_goes=True)


def random_schedule(*, seed: int, packages: Sequence[Package], time_limit_s: float) -> Schedule:
    """The schedule of a seed. Raises ``ValueError`` when ``packages`` is not empty and the time is too short for them.

    The order in which packages are named does not matter, how often each is named does. Without packages nothing is
    done.
    """
    chosen = sorted(packages, key=list(Package).index)
    _check_time(chosen, time_limit_s)
    random = Random(seed)
    steps = sorted(_random_steps(random, chosen, time_limit_s) if chosen else (), key=lambda step: step.at_s)
    return Schedule(name="random", time_limit_s=time_limit_s, steps=tuple(steps))


def flip_flop_schedule(*, seed: int, packages: Sequence[Package], time_limit_s: float) -> Schedule:
    """Packages that take turns, from the first fault to the end of the time. Raises ``ValueError`` as above.

    The first of them takes the leader away; a package that is named twice has two turns in each round.
    """
    _check_time(packages, time_limit_s)
    steps = _flip_flop_steps(Random(seed), packages, time_limit_s) if packages else ()
    return Schedule(name="flip-flop", time_limit_s=time_limit_s, steps=tuple(steps))


def _check_time(packages: Sequence[Package], time_limit_s: float) -> None:
    if packages and time_limit_s < TIME_LIMIT_S_MIN:
        raise ValueError(f"{time_limit_s} s is too short for faults to bite and heal: give {TIME_LIMIT_S_MIN} or more")


def _flip_flop_steps(random: Random, packages: Sequence[Package], time_limit_s: float) -> Iterator[Step]:
    at_s, fault = FIRST_FAULT_S, leader_fault(random, packages[0])
    lasts_s = _between(random, LEADERLESS_S)
    for fault_id, package in enumerate(cycle((*packages[1:], packages[0]))):
        end_s = min(_rounded(at_s + lasts_s), time_limit_s)
        yield from _fault_steps(random, fault_id, fault, at_s, end_s)
        if end_s > time_limit_s - FAULT_S[0]:
            return
        at_s, fault = end_s, any_fault(random, package)
        lasts_s = _between(random, _lasting(fault))


def _random_steps(random: Random, packages: Sequence[Package], time_limit_s: float) -> Iterator[Step]:
    at_s, fault_id = FIRST_FAULT_S, 0
    fault = leader_fault(random, random.choice(packages))
    lasts_s = _between(random, LEADERLESS_S)
    last_start_s = time_limit_s - FAULT_S[0]
    while at_s <= last_start_s or fault_id == 0:
        was_first = fault_id == 0
        end_s = min(at_s + lasts_s, time_limit_s)
        yield from _fault_steps(random, fault_id, fault, at_s, end_s)
        if random.random() < _second_share(fault_id, fault, packages):
            fault_id += 1
            second = any_fault(random, random.choice(_beside(fault, packages)))
            yield from _fault_steps(random, fault_id, second, _rounded(at_s + (end_s - at_s) / 2), end_s)
        fault_id += 1
        recovery_s = RECOVERY_S if isinstance(fault, PowerLoss | ReplaceDisk) else HEALTHY_S
        at_s = _rounded(end_s + _between(random, recovery_s))
        fault = any_fault(random, _drawn(random, packages))
        if fault_id == CERTAIN_CHANGE_ID and Package.MEMBERSHIP in packages:
            fault = ChangeVoters(change=VoterChange.REPLACE, target=random.choice((Role.LEADER, Role.FOLLOWER)))
        elif was_first and Package.REASSIGN in packages:
            fault = CERTAIN_MOVE
        lasts_s = _between(random, _lasting(fault))


def _drawn(random: Random, packages: Sequence[Package]) -> Package:
    if Package.MEMBERSHIP in packages and random.random() < CHANGE_SHARE:
        return Package.MEMBERSHIP
    if Package.REASSIGN in packages and random.random() < CHANGE_SHARE:
        return Package.REASSIGN
    return random.choice(packages)


def _second_share(fault_id: int, fault: Fault, packages: Sequence[Package]) -> float:
    """How probable another fault is that strikes into this one."""
    if Package.MEMBERSHIP in packages and fault_id <= CERTAIN_CHANGE_ID:
        return 0.0
    if isinstance(fault, ChangeVoters) or Package.REASSIGN in packages:
        return SECOND_BESIDE_CHANGE_SHARE
    return SECOND_FAULT_SHARE


def _beside(fault: Fault, packages: Sequence[Package]) -> Sequence[Package]:
    """What may strike into this fault: voters change, and disks are replaced, one at a time; moves begin meanwhile."""
    if Package.REASSIGN in packages and not isinstance(fault, Reassign | ChangeVoters):
        return (Package.REASSIGN,)
    if isinstance(fault, Reassign):
        return [package for package in packages if package is not Package.REASSIGN] or packages
    if isinstance(fault, ReplaceDisk):
        return [package for package in packages if package is not Package.REPLACE_DISK] or packages
    others = [package for package in packages if package is not Package.MEMBERSHIP]
    return others if isinstance(fault, ChangeVoters) and others else packages


def _lasting(fault: Fault) -> tuple[float, float]:
    if isinstance(fault, ChangeVoters):
        return REPLACED_S if fault.change is VoterChange.REPLACE else FAULT_S
    if isinstance(fault, ReplaceDisk):
        return REPLACED_S
    if isinstance(fault, LimitMemory):
        return SQUEEZED_S
    return ROLLING_S if isinstance(fault, RollingRestart) else FAULT_S


def _fault_steps(random: Random, fault_id: int, fault: Fault, at_s: float, end_s: float) -> Iterator[Step]:
    yield Step(at_s=at_s, action=Inject(fault_id=fault_id, fault=fault, draw=random.getrandbits(32)))
    yield Step(at_s=end_s, action=Heal(fault_id=fault_id))


def _between(random: Random, bounds: tuple[float, float]) -> float:
    return _rounded(random.uniform(*bounds))


def _rounded(seconds: float) -> float:
    return round(seconds, 3)
