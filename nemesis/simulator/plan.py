"""The schedule of a seed: what befalls a simulated cluster and when, in the same form as for live runs.

Owns the drawing of a schedule from a climate. Whom a step hits is decided when it strikes, by the word in the schedule
and the step's own dice. Damage is bounded here: never more machines than a cluster can lose.
"""

from __future__ import annotations

from collections.abc import Iterator
from random import Random
from typing import assert_never

from nemesis.faults.damage import DamageDisk
from nemesis.faults.disks import FailDisk, FillDisk, PowerLoss, SlowDisk
from nemesis.faults.fault import Fault
from nemesis.faults.partitions import CutClients, Partition
from nemesis.faults.processes import Kill, Pause, Stop
from nemesis.faults.shapes import DRAWN_SHAPES, Shape
from nemesis.faults.simulated import Clog, DelayMetadata
from nemesis.faults.targets import Role, Target
from nemesis.faults.timekeeping import JumpClock, StopClock
from nemesis.schedules.schedule import Heal, Inject, Schedule, Step
from nemesis.simulator.climate import Climate, Weather

FIRST_FAULT_MS = 1500
_ABOUT_ONE = (Shape.ISOLATE, Shape.ONE_WAY_MUTE, Shape.ONE_WAY_DEAF, Shape.BRIDGE)
_FEW = (Role.LEADER, Role.LEADER, Role.FOLLOWER, Role.ONE, Role.MINORITY)
_ANY = (*_FEW, Role.MAJORITY, Role.ALL)


def draw_schedule(climate: Climate, random: Random, *, time_limit_s: float) -> Schedule:
    """Faults of the climate's weather with calm between them, sometimes several at once."""
    steps = sorted(_steps(climate, random, int(time_limit_s * 1000)), key=lambda step: step.at_s)
    return Schedule(name="simulated", time_limit_s=time_limit_s, steps=tuple(steps))


def _steps(climate: Climate, random: Random, end_ms: int) -> Iterator[Step]:
    at_ms, fault_id = FIRST_FAULT_MS, 0
    damages_left = damages_max(climate)
    while climate.weather and at_ms < end_ms:
        kind = random.choice(climate.weather)
        if kind is Weather.DAMAGE and at_ms < end_ms // 2:
            kind = random.choice(climate.weather)  # There is little to damage yet.
        until_ms = min(at_ms + random.randint(*climate.fault_ms), end_ms)
        if kind is not Weather.DAMAGE or damages_left:
            damages_left -= kind is Weather.DAMAGE
            fault = draw_fault(kind, climate, random)
            draw = random.getrandbits(32)
            yield Step(at_s=at_ms / 1000, action=Inject(fault_id=fault_id, fault=fault, draw=draw))
            yield Step(at_s=until_ms / 1000, action=Heal(fault_id=fault_id))
            fault_id += 1
        if random.random() >= climate.overlap:
            at_ms = until_ms
        at_ms += random.randint(*climate.calm_ms)


def damages_max(climate: Climate) -> int:
    """How many machines may lose what they had: less than half of a quorum, and no more than writes can do without."""
    minority = (climate.voters - 1) // 2
    if climate.cluster is None:
        return minority
    return min(minority, climate.cluster.replication_factor - climate.cluster.min_insync_replicas)


def draw_fault(kind: Weather, climate: Climate, random: Random) -> Fault:
    """Any fault of this kind."""
    match kind:
        case Weather.PARTITION:
            return _partition(climate, random)
        case Weather.KILL:
            return Kill(target=random.choice(_ANY))
        case Weather.PAUSE:
            return Pause(target=random.choice(_ANY))
        case Weather.POWER:
            return PowerLoss(target=random.choice((*_ANY, Role.ALL)))
        case Weather.STOP:
            return Stop(target=random.choice(_FEW))
        case Weather.CLOG:
            shape, target = _shape(climate, random)
            return Clog(shape=shape, target=target)
        case Weather.CLOCK | Weather.CLOCK_STOP:
            return _clock(kind, random)
        case Weather.SPACE:
            return FillDisk(target=random.choice(_FEW))
        case Weather.SLOW_DISK:
            return SlowDisk(target=random.choice(_ANY), factor=random.choice((5, 30)))
        case Weather.IO_ERROR:
            return FailDisk(target=random.choice(_FEW), call=random.choice(("fsync", "pwrite", "pread", "rename")))
        case Weather.DAMAGE:
            return DamageDisk(target=random.choice(_ONE), how=random.choice(("flip", "zero", "misdirect")))
        case Weather.STALE_METADATA:
            return _stale_metadata(climate, random)
        case _:
            assert_never(kind)


_HEARERS = (Role.ONE, Role.ONE, Role.LEADER, Role.FOLLOWER, Role.MAJORITY, Role.ALL)
_ONE = (Role.LEADER, Role.FOLLOWER, Role.ONE)


def _stale_metadata(climate: Climate, random: Random) -> Fault:
    """As late as may be without a follower of the metadata log giving its leader up, or well below that."""
    most_ms = climate.fetch_timeout_ms - climate.fetch_max_wait_ms
    return DelayMetadata(target=random.choice(_HEARERS), delay_ms=int(most_ms * random.choice((0.2, 0.35, 0.5, 0.85))))


def _clock(kind: Weather, random: Random) -> Fault:
    if kind is Weather.CLOCK:
        return JumpClock(target=random.choice(_ANY), by_ms=random.choice((100, 1_000, 10_000)))
    return StopClock(target=random.choice((*_ONE, *3 * (Role.LEADER,))))


def _partition(climate: Climate, random: Random) -> Fault:
    if random.random() < 0.1:
        return CutClients(target=random.choice((Role.LEADER, Role.ONE)))
    shape, target = _shape(climate, random)
    return Partition(shape=shape, target=target)


def _shape(climate: Climate, random: Random) -> tuple[Shape, Target]:
    """A shape, and whom it is about. A ring of majorities and a bridge need three machines."""
    shapes = DRAWN_SHAPES if climate.voters >= 3 else (Shape.ISOLATE, Shape.ONE_WAY_MUTE, Shape.ONE_WAY_DEAF)
    shape = random.choice(shapes)
    return shape, random.choice((Role.LEADER, Role.LEADER, Role.FOLLOWER)) if shape in _ABOUT_ONE else Role.NOBODY
