"""What will be done to the cluster and when: a pure function of the seed and the options.

Owns the steps as data, their form in ``schedule.json``, and the making of random schedules. Whom a step hits is decided
when it strikes; ``draw`` fixes the dice for that, so that the seed fixes the whole. Knows no clock and no cluster.

A random schedule is one fault after the other with healthy time between them, sometimes two at once. The first one
always takes the leader away for longer than the others wait for it: a run without a change of leader shows nothing.
Where voters are changed, the second one always replaces a voter's disk, and has nothing beside it; into every other
change of voters another fault strikes, as a rule.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from random import Random
from typing import Any, assert_never

from nemesis.faults.links import LinkMode
from nemesis.faults.shapes import Shape
from nemesis.faults.targets import Role, Target
from nemesis.faults.values import (
    ChangeVoters,
    CutClients,
    Fault,
    Kill,
    Partition,
    Pause,
    RollingRestart,
    VoterChange,
    fault_from_json,
    fault_to_json,
)

TIME_LIMIT_S_MIN = 6.0
FIRST_FAULT_S = 2.0
LEADERLESS_S = (5.0, 6.5)
"""How long the leader is away in the first fault: the end of its session, and an election of a controller before that,
fit into it."""
FAULT_S = (1.0, 4.5)
ROLLING_S = (8.0, 12.0)
"""How long a rolling restart goes on: some of the replicas, or all of them, get their turn."""
REPLACED_S = (8.0, 12.0)
"""How long replacing a voter may take: it is removed, stopped, wiped, started, catches up, and is added."""
HEALTHY_S = (2.0, 4.0)
SECOND_FAULT_SHARE = 0.2
SECOND_BESIDE_CHANGE_SHARE = 0.7
"""How often something strikes while voters are changed."""
CHANGE_SHARE = 0.4
"""How often a change of voters is drawn for certain, where there are any; else by chance, as all others."""
CERTAIN_CHANGE_ID = 1
"""The fault that is a voter replaced, where voters are changed: a run without that shows little."""
STEPS_MAX = 100_000


class Package(StrEnum):
    """What ``--nemesis`` chooses from."""

    PARTITION = "partition"
    KILL = "kill"
    PAUSE = "pause"
    ROLLING_RESTART = "rolling-restart"
    MEMBERSHIP = "membership"


USUAL = tuple(package for package in Package if package is not Package.MEMBERSHIP)
"""What is drawn from where nothing is asked for: all but what needs a cluster of its own kind, and state machines."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Inject:
    """Do ``fault``; ``fault_id`` is how its healing names it, ``draw`` seeds the choices that are left."""

    fault_id: int
    fault: Fault
    draw: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Heal:
    """Undo the fault of that id, for those whom it hit."""

    fault_id: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Name:
    """Call whoever ``target`` is now ``name``, so that later steps mean the same one by ``@name``."""

    name: str
    target: Target
    draw: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class AwaitLeader:
    """Go on when ``target`` leads the first log, or that of the metadata; at the latest after ``at_most_s``."""

    target: Target
    at_most_s: float
    of_metadata: bool = False


Action = Inject | Heal | Name | AwaitLeader


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """One action at ``at_s`` seconds of the run, or as soon after that as the step before it is done."""

    at_s: float
    action: Action


@dataclass(frozen=True, slots=True, kw_only=True)
class Schedule:
    """Steps in order of time. What is not healed by a step is healed at ``time_limit_s``, when the workload ends."""

    name: str
    time_limit_s: float
    steps: tuple[Step, ...]

    def __post_init__(self) -> None:
        times = [step.at_s for step in self.steps]
        if times != sorted(times):
            raise ValueError(f"the steps of schedule {self.name!r} are not in order of time: {times}")
        if times and not 0 <= times[0] <= times[-1] <= self.time_limit_s:
            raise ValueError(f"the steps of schedule {self.name!r} are not within 0 to {self.time_limit_s} s: {times}")
        if len(times) > STEPS_MAX:
            raise ValueError(f"schedule {self.name!r} has {len(times)} steps: at most {STEPS_MAX}")

    @property
    def changes_voters(self) -> bool:
        """Whether it needs a cluster whose voters can be changed."""
        actions = (step.action for step in self.steps)
        return any(isinstance(action, Inject) and isinstance(action.fault, ChangeVoters) for action in actions)

    def to_json(self) -> str:
        """``schedule.json``: the same schedule gives the same bytes."""
        steps = [{"at_s": step.at_s, **_action_to_json(step.action)} for step in self.steps]
        document = {"name": self.name, "time_limit_s": self.time_limit_s, "steps": steps}
        return json.dumps(document, indent=2) + "\n"


def schedule_from_json(text: str) -> Schedule:
    """Read back what ``to_json`` wrote. Raises ``ValueError`` for anything else."""
    try:
        document = json.loads(text)
        steps = tuple(_step_from_json(step) for step in document["steps"])
        return Schedule(name=document["name"], time_limit_s=document["time_limit_s"], steps=steps)
    except json.JSONDecodeError as error:
        raise ValueError(f"this is not a schedule, nor any JSON: {error}") from None
    except (KeyError, TypeError) as error:
        raise ValueError(f"this is not a schedule: {error!r}") from None


def random_schedule(*, seed: int, packages: Sequence[Package], time_limit_s: float) -> Schedule:
    """The schedule of a seed. Raises ``ValueError`` when ``packages`` is not empty and the time is too short for them.

    The order in which packages are named does not matter. Without packages nothing is done.
    """
    chosen = sorted(set(packages), key=list(Package).index)
    if chosen and time_limit_s < TIME_LIMIT_S_MIN:
        raise ValueError(f"{time_limit_s} s is too short for faults to bite and heal: give {TIME_LIMIT_S_MIN} or more")
    random = Random(seed)
    steps = sorted(_random_steps(random, chosen, time_limit_s) if chosen else (), key=lambda step: step.at_s)
    return Schedule(name="random", time_limit_s=time_limit_s, steps=tuple(steps))


def _random_steps(random: Random, packages: Sequence[Package], time_limit_s: float) -> Iterator[Step]:
    at_s, fault_id = FIRST_FAULT_S, 0
    fault = leader_fault(random, random.choice(packages))
    lasts_s = _between(random, LEADERLESS_S)
    last_start_s = time_limit_s - FAULT_S[0]
    while at_s <= last_start_s or fault_id == 0:
        end_s = min(at_s + lasts_s, time_limit_s)
        yield from _fault_steps(random, fault_id, fault, at_s, end_s)
        if random.random() < _second_share(fault_id, fault, packages):
            fault_id += 1
            second = any_fault(random, random.choice(_beside(fault, packages)))
            yield from _fault_steps(random, fault_id, second, _rounded(at_s + (end_s - at_s) / 2), end_s)
        fault_id += 1
        at_s = _rounded(end_s + _between(random, HEALTHY_S))
        fault = any_fault(random, _drawn(random, packages))
        if fault_id == CERTAIN_CHANGE_ID and Package.MEMBERSHIP in packages:
            fault = ChangeVoters(change=VoterChange.REPLACE, target=random.choice((Role.LEADER, Role.FOLLOWER)))
        lasts_s = _between(random, _lasting(fault))


def _drawn(random: Random, packages: Sequence[Package]) -> Package:
    if Package.MEMBERSHIP in packages and random.random() < CHANGE_SHARE:
        return Package.MEMBERSHIP
    return random.choice(packages)


def _second_share(fault_id: int, fault: Fault, packages: Sequence[Package]) -> float:
    """How probable another fault is that strikes into this one."""
    if Package.MEMBERSHIP in packages and fault_id <= CERTAIN_CHANGE_ID:
        return 0.0
    return SECOND_BESIDE_CHANGE_SHARE if isinstance(fault, ChangeVoters) else SECOND_FAULT_SHARE


def _beside(fault: Fault, packages: Sequence[Package]) -> Sequence[Package]:
    """What may strike into this fault: of changes of voters there is one at a time."""
    others = [package for package in packages if package is not Package.MEMBERSHIP]
    return others if isinstance(fault, ChangeVoters) and others else packages


def _lasting(fault: Fault) -> tuple[float, float]:
    if isinstance(fault, ChangeVoters):
        return REPLACED_S if fault.change is VoterChange.REPLACE else FAULT_S
    return ROLLING_S if isinstance(fault, RollingRestart) else FAULT_S


def _fault_steps(random: Random, fault_id: int, fault: Fault, at_s: float, end_s: float) -> Iterator[Step]:
    yield Step(at_s=at_s, action=Inject(fault_id=fault_id, fault=fault, draw=random.getrandbits(32)))
    yield Step(at_s=end_s, action=Heal(fault_id=fault_id))


def _between(random: Random, bounds: tuple[float, float]) -> float:
    return _rounded(random.uniform(*bounds))


def _rounded(seconds: float) -> float:
    return round(seconds, 3)


def leader_fault(random: Random, package: Package) -> Fault:
    """A fault after which the others must choose a new leader."""
    match package:
        case Package.PARTITION:
            mode = random.choice((LinkMode.BLACKHOLE, LinkMode.RESET))
            return Partition(shape=Shape.ISOLATE, target=Role.LEADER, mode=mode)
        case Package.KILL:
            return Kill(target=Role.LEADER)
        case Package.PAUSE:
            return Pause(target=Role.LEADER)
        case Package.ROLLING_RESTART:
            return RollingRestart()
        case Package.MEMBERSHIP:
            return ChangeVoters(change=VoterChange.REMOVE, target=Role.LEADER)
        case _:
            assert_never(package)


_ANYONE = (Role.LEADER, Role.FOLLOWER, Role.CONTROLLER, Role.FOLLOWERS, Role.ONE, Role.MAJORITY)


def any_fault(random: Random, package: Package) -> Fault:
    """Any fault of the package."""
    match package:
        case Package.PARTITION:
            return _any_partition(random)
        case Package.KILL:
            return Kill(target=random.choice((*_ANYONE, Role.ALL)))
        case Package.PAUSE:
            return Pause(target=random.choice(_ANYONE))
        case Package.ROLLING_RESTART:
            return RollingRestart()
        case Package.MEMBERSHIP:
            return _any_change(random)
        case _:
            assert_never(package)


def _any_change(random: Random) -> Fault:
    change = random.choice(tuple(VoterChange))
    is_transfer = change is VoterChange.TRANSFER
    target = Role.FOLLOWER if is_transfer else random.choice((Role.LEADER, Role.FOLLOWER, Role.CONTROLLER))
    return ChangeVoters(change=change, target=target)


def _any_partition(random: Random) -> Fault:
    about_one = (Shape.ISOLATE, Shape.ONE_WAY_MUTE, Shape.ONE_WAY_DEAF, Shape.BRIDGE)
    shape = random.choice((None, *Shape))
    if shape is None:
        return CutClients(target=random.choice((Role.LEADER, Role.ONE)))
    target = random.choice((Role.LEADER, Role.FOLLOWER, Role.CONTROLLER)) if shape in about_one else Role.NOBODY
    # A reset shows itself in both directions of a connection, so that it cannot do what a one-way cut does.
    is_one_way = shape in (Shape.ONE_WAY_MUTE, Shape.ONE_WAY_DEAF, Shape.MAJORITIES_RING)
    mode = LinkMode.BLACKHOLE if is_one_way else random.choice((LinkMode.BLACKHOLE, LinkMode.RESET))
    return Partition(shape=shape, target=target, mode=mode)


def _action_to_json(action: Action) -> dict[str, Any]:
    match action:
        case Inject():
            fault = fault_to_json(action.fault)
            return {"action": "inject", "fault_id": action.fault_id, "fault": fault, "draw": action.draw}
        case Heal():
            return {"action": "heal", "fault_id": action.fault_id}
        case Name():
            return {"action": "name", "name": action.name, "target": action.target, "draw": action.draw}
        case AwaitLeader():
            waited = {"target": action.target, "at_most_s": action.at_most_s, "of_metadata": action.of_metadata}
            return {"action": "await-leader", **waited}
        case _:
            assert_never(action)


def _step_from_json(document: dict[str, Any]) -> Step:
    return Step(at_s=document["at_s"], action=_action_from_json(document))


def _action_from_json(document: dict[str, Any]) -> Action:
    match document["action"]:
        case "inject":
            fault = fault_from_json(document["fault"])
            return Inject(fault_id=document["fault_id"], fault=fault, draw=document["draw"])
        case "heal":
            return Heal(fault_id=document["fault_id"])
        case "name":
            return Name(name=document["name"], target=document["target"], draw=document["draw"])
        case "await-leader":
            return AwaitLeader(
                target=document["target"],
                at_most_s=document["at_most_s"],
                of_metadata=document.get("of_metadata", False),
            )
        case other:
            raise ValueError(f"{other!r} is no action of a schedule")
