"""The kinds of faults that a run can be asked for by name, and what each of them may be.

Owns the dice's choices for each package: one fault that takes a leader away, and any fault. Knows no time.
"""

from __future__ import annotations

from enum import StrEnum
from random import Random
from typing import Literal, assert_never

from nemesis.disks.damage import CUT, WAYS
from nemesis.faults.clocks import DriftClock, JumpWallClock, StrobeWallClock
from nemesis.faults.crash_points import CrashPoint
from nemesis.faults.links import LinkMode
from nemesis.faults.network import (
    Bandwidth,
    Between,
    Delay,
    Duplicate,
    Loss,
    NetworkFault,
    ReplyLost,
    Reset,
    SlowClose,
)
from nemesis.faults.shapes import DRAWN_SHAPES, Shape
from nemesis.faults.targets import Role
from nemesis.faults.values import (
    Burst,
    ChangeVoters,
    Course,
    CutClients,
    DamageDisk,
    DiskPart,
    FailDisk,
    Fault,
    FillDisk,
    JumpClock,
    Kill,
    KillAt,
    KillStarting,
    LimitMemory,
    Partition,
    Pause,
    PowerLoss,
    Reassign,
    ReplaceDisk,
    RollingRestart,
    SlowDisk,
    StopClock,
    VoterChange,
)


class Package(StrEnum):
    """What ``--nemesis`` chooses from."""

    PARTITION = "partition"
    KILL = "kill"
    PAUSE = "pause"
    ROLLING_RESTART = "rolling-restart"
    MEMBERSHIP = "membership"
    REASSIGN = "reassign"
    DELAY = "delay"
    LOSS = "loss"
    BANDWIDTH = "bandwidth"
    RESET = "reset"
    SLOW_CLOSE = "slow-close"
    REPLY_LOST = "reply-lost"
    DUPLICATE = "duplicate"
    KILL_STARTING = "kill-starting"
    KILL_AT = "kill-at"
    CLOCK_JUMP = "clock-jump"
    CLOCK_STOP = "clock-stop"
    CLOCK_DRIFT = "clock-drift"
    WALL_CLOCK_JUMP = "wall-clock-jump"
    CLOCK_STROBE = "clock-strobe"
    BURST = "burst"
    MEMORY_LIMIT = "memory-limit"
    POWER_LOSS = "power-loss"
    FILL_DISK = "fill-disk"
    SLOW_DISK = "slow-disk"
    FAIL_DISK = "fail-disk"
    DAMAGE_DISK = "damage-disk"
    REPLACE_DISK = "replace-disk"


USUAL = (Package.PARTITION, Package.KILL, Package.PAUSE, Package.ROLLING_RESTART)
"""What is drawn from where nothing is asked for."""
CLOCKS = frozenset(
    {Package.CLOCK_JUMP, Package.CLOCK_STOP, Package.CLOCK_DRIFT, Package.WALL_CLOCK_JUMP, Package.CLOCK_STROBE}
)
"""What needs nodes whose clocks can be set."""
OF_DISKS = frozenset({Package.POWER_LOSS, Package.FILL_DISK, Package.SLOW_DISK, Package.FAIL_DISK, Package.DAMAGE_DISK})
"""Those that need replicas whose disks can be broken."""


def leader_fault(random: Random, package: Package) -> Fault:
    """A fault after which the others must choose a new leader, or one that comes as near to it as the package can."""
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
        case Package.REPLACE_DISK:
            return ReplaceDisk(target=Role.LEADER, outage=True)
        case Package.MEMBERSHIP | Package.REASSIGN:
            return leader_change(package)
        case Package.KILL_STARTING:
            return KillStarting(target=Role.LEADER, after_ms=random.choice(_STARTING_MS))
        case Package.KILL_AT:
            return KillAt(target=Role.LEADER, point=CrashPoint.AFTER_FLUSH)
        case Package.BURST | Package.MEMORY_LIMIT:
            return leader_strain(package)
        case (
            Package.CLOCK_JUMP
            | Package.CLOCK_STOP
            | Package.CLOCK_DRIFT
            | Package.WALL_CLOCK_JUMP
            | Package.CLOCK_STROBE
        ):
            return leader_clock(package)
        case Package.POWER_LOSS | Package.FILL_DISK | Package.SLOW_DISK | Package.FAIL_DISK | Package.DAMAGE_DISK:
            return leader_disk(package)
        case _:
            return leader_impairment(package)


_STARTING_MS = (0, 100, 300, 600, 1000, 1500)
"""A replica needs something like a second until it serves."""
_ANY_ONE = (Role.LEADER, Role.FOLLOWER, Role.CONTROLLER, Role.ONE)
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
        case Package.REPLACE_DISK:
            return ReplaceDisk(target=random.choice(_ANY_ONE), outage=random.choice((True, False)))
        case Package.MEMBERSHIP | Package.REASSIGN:
            return any_change(random, package)
        case Package.KILL_STARTING:
            after_ms, times = random.choice(_STARTING_MS), random.choice((1, 2))
            return KillStarting(target=random.choice((*_ANYONE, Role.ALL)), after_ms=after_ms, times=times)
        case Package.KILL_AT:
            nth = random.choice((1, 2, 5, 20))
            return KillAt(target=random.choice((*_ANYONE, Role.ALL)), point=random.choice(tuple(CrashPoint)), nth=nth)
        case Package.BURST | Package.MEMORY_LIMIT:
            return any_strain(random, package)
        case (
            Package.CLOCK_JUMP
            | Package.CLOCK_STOP
            | Package.CLOCK_DRIFT
            | Package.WALL_CLOCK_JUMP
            | Package.CLOCK_STROBE
        ):
            return any_clock(random, package)
        case Package.POWER_LOSS | Package.FILL_DISK | Package.SLOW_DISK | Package.FAIL_DISK | Package.DAMAGE_DISK:
            return any_disk(random, package)
        case _:
            return any_impairment(random, package)


def _any_partition(random: Random) -> Fault:
    about_one = (Shape.ISOLATE, Shape.ONE_WAY_MUTE, Shape.ONE_WAY_DEAF, Shape.BRIDGE)
    shape = random.choice((None, *DRAWN_SHAPES))
    if shape is None:
        return CutClients(target=random.choice((Role.LEADER, Role.ONE)))
    target = random.choice((Role.LEADER, Role.FOLLOWER, Role.CONTROLLER)) if shape in about_one else Role.NOBODY
    # A reset shows itself in both directions of a connection, so that it cannot do what a one-way cut does.
    is_one_way = shape in (Shape.ONE_WAY_MUTE, Shape.ONE_WAY_DEAF, Shape.MAJORITIES_RING)
    mode = LinkMode.BLACKHOLE if is_one_way else random.choice((LinkMode.BLACKHOLE, LinkMode.RESET))
    return Partition(shape=shape, target=target, mode=mode)


# --- who has the logs, and who votes ----------------------------------------------------------------------------------

LEADER_GOES = 0.5
"""How often a partition moves away from its leader for certain."""
_Changing = Literal[Package.MEMBERSHIP, Package.REASSIGN]


def leader_change(package: _Changing) -> Fault:
    """A leader that votes no more, or one whose partition moves away from it."""
    if package is Package.REASSIGN:
        return Reassign(course=Course.MOVE, leader_goes=True)
    return ChangeVoters(change=VoterChange.REMOVE, target=Role.LEADER)


def any_change(random: Random, package: _Changing) -> Fault:
    """Any fault of the package. Moves leave as many replicas as there were, as a rule."""
    if package is Package.REASSIGN:
        return Reassign(
            course=random.choice((Course.MOVE, *Course)),
            partitions=random.choice((1, 1, 2, 4)),
            more=random.choice((0, 0, 0, 1, -1)),
            leader_goes=random.random() < LEADER_GOES,
        )
    change = random.choice(tuple(VoterChange))
    is_transfer = change is VoterChange.TRANSFER
    target = Role.FOLLOWER if is_transfer else random.choice((Role.LEADER, Role.FOLLOWER, Role.CONTROLLER))
    return ChangeVoters(change=change, target=target)


# --- more than there is room for --------------------------------------------------------------------------------------

_Straining = Literal[Package.BURST, Package.MEMORY_LIMIT]
_TIGHT_PERCENTS = (50, 80, 95, 105)
"""Of the memory in use."""


def leader_strain(package: _Straining) -> Fault:
    """A leader without memory may be killed; more load takes nobody away."""
    if package is Package.MEMORY_LIMIT:
        return LimitMemory(target=Role.LEADER, percent=_TIGHT_PERCENTS[0])
    return Burst(factor=5)


def any_strain(random: Random, package: _Straining) -> Fault:
    """Any fault of the package."""
    if package is Package.MEMORY_LIMIT:
        return LimitMemory(target=random.choice(_ANYONE), percent=random.choice(_TIGHT_PERCENTS))
    return Burst(factor=random.choice((2, 5, 10)))


# --- clocks -----------------------------------------------------------------------------------------------------------

_Timing = Literal[
    Package.CLOCK_JUMP,
    Package.CLOCK_STOP,
    Package.CLOCK_DRIFT,
    Package.WALL_CLOCK_JUMP,
    Package.CLOCK_STROBE,
]
_HOUR_MS = 3_600_000


def leader_clock(package: _Timing) -> Fault:
    """A leader whose timers run out too early gives up; one whose clock stands still, or whose date is wrong, stays."""
    leader = Role.LEADER
    match package:
        case Package.CLOCK_JUMP:
            return JumpClock(target=leader, by_ms=10_000)
        case Package.CLOCK_STOP:
            return StopClock(target=leader)
        case Package.CLOCK_DRIFT:
            return DriftClock(target=leader, percent=2000)
        case Package.WALL_CLOCK_JUMP:
            return JumpWallClock(target=leader, by_ms=-_HOUR_MS)
        case Package.CLOCK_STROBE:
            return StrobeWallClock(target=leader, by_ms=-_HOUR_MS, period_ms=100)
        case _:
            assert_never(package)


def any_clock(random: Random, package: _Timing) -> Fault:
    """Any fault of the package: little or much, too fast or too slow, ahead or behind."""
    target = random.choice((*_ANYONE, Role.ALL))
    match package:
        case Package.CLOCK_JUMP:
            return JumpClock(target=target, by_ms=random.choice((100, 1_000, 10_000)))
        case Package.CLOCK_STOP:
            return StopClock(target=target)
        case Package.CLOCK_DRIFT:
            return DriftClock(target=target, percent=random.choice((10, 50, 90, 110, 200, 1000)))
        case Package.WALL_CLOCK_JUMP:
            return JumpWallClock(target=target, by_ms=random.choice((-1, 1)) * random.choice((200, 60_000, _HOUR_MS)))
        case Package.CLOCK_STROBE:
            by_ms, period_ms = random.choice((-200, 200, 60_000, -_HOUR_MS)), random.choice((10, 100, 1000))
            return StrobeWallClock(target=target, by_ms=by_ms, period_ms=period_ms)
        case _:
            assert_never(package)


# --- disks ------------------------------------------------------------------------------------------------------------

_Storing = Literal[Package.POWER_LOSS, Package.FILL_DISK, Package.SLOW_DISK, Package.FAIL_DISK, Package.DAMAGE_DISK]
_SLOW_FACTORS = (5, 30, 100)
_FAILING_CALLS = ("fsync", "pwrite", "pread", "rename")


def leader_disk(package: _Storing) -> Fault:
    """A leader whose disk refuses ends, a slow one is late; the power goes everywhere, where it costs the most."""
    match package:
        case Package.POWER_LOSS:
            return PowerLoss(target=Role.ALL)
        case Package.FILL_DISK:
            return FillDisk(target=Role.LEADER)
        case Package.SLOW_DISK:
            return SlowDisk(target=Role.LEADER, factor=_SLOW_FACTORS[-1])
        case Package.FAIL_DISK:
            return FailDisk(target=Role.LEADER, call="fsync")
        case Package.DAMAGE_DISK:
            return DamageDisk(target=Role.LEADER, how="flip")
        case _:
            assert_never(package)


def any_disk(random: Random, package: _Storing) -> Fault:
    """Any fault of the package: power is taken from all more often than from anyone else."""
    match package:
        case Package.POWER_LOSS:
            return PowerLoss(target=random.choice((*_ANYONE, Role.ALL, Role.ALL)))
        case Package.FILL_DISK:
            return FillDisk(target=random.choice(_ANYONE))
        case Package.SLOW_DISK:
            return SlowDisk(target=random.choice((*_ANYONE, Role.ALL)), factor=random.choice(_SLOW_FACTORS))
        case Package.FAIL_DISK:
            return FailDisk(target=random.choice(_ANYONE), call=random.choice(_FAILING_CALLS))
        case Package.DAMAGE_DISK:
            part = random.choice((DiskPart.LOG, DiskPart.LOG, DiskPart.SNAPSHOT, DiskPart.STATE))
            how = CUT if part is DiskPart.STATE else random.choice(WAYS)
            return DamageDisk(target=random.choice(_ANY_ONE), how=how, part=part)
        case _:
            assert_never(package)


# --- networks that still work -----------------------------------------------------------------------------------------

_Impairing = Literal[
    Package.DELAY,
    Package.LOSS,
    Package.BANDWIDTH,
    Package.RESET,
    Package.SLOW_CLOSE,
    Package.REPLY_LOST,
    Package.DUPLICATE,
]


def leader_impairment(package: _Impairing) -> NetworkFault:
    """So strong that the others lose the leader, where that can be: a late end or a duplicate harms no connection."""
    leader = Role.LEADER
    match package:
        case Package.DELAY:
            return Delay(latency_ms=3000, target=leader)
        case Package.LOSS:
            return Loss(percent=90, target=leader)
        case Package.BANDWIDTH:
            return Bandwidth(rate_bytes_per_s=200, target=leader)
        case Package.RESET:
            return Reset(times=200, every_ms=50, target=leader)
        case Package.SLOW_CLOSE:
            return SlowClose(delay_ms=3000, target=leader, between=Between.ALL)
        case Package.REPLY_LOST:
            return ReplyLost(target=leader)
        case Package.DUPLICATE:
            return Duplicate(target=leader, between=Between.ALL)
        case _:
            assert_never(package)


_SOMEONE = (Role.LEADER, Role.FOLLOWER, Role.CONTROLLER, Role.ISR, Role.MINORITY, Role.ALL)


def any_impairment(random: Random, package: _Impairing) -> NetworkFault:
    """Any fault of the package, weak or strong, between anybody."""
    between = random.choice(tuple(Between))
    shapes = (Shape.ISOLATE,) if between is Between.CLIENTS else (Shape.ISOLATE, Shape.ISOLATE, *DRAWN_SHAPES)
    shape = random.choice(shapes)
    target = _shape_target(random, shape)
    match package:
        case Package.DELAY:
            latency_ms = random.choice((5, 50, 200, 800))
            jitter_ms = random.choice((0, latency_ms // 2, latency_ms))
            return Delay(latency_ms=latency_ms, jitter_ms=jitter_ms, target=target, shape=shape, between=between)
        case Package.LOSS:
            return Loss(percent=random.choice((1, 5, 20, 50)), target=target, shape=shape, between=between)
        case Package.BANDWIDTH:
            rate = random.choice((1_000, 10_000, 100_000))
            return Bandwidth(rate_bytes_per_s=rate, target=target, shape=shape, between=between)
        case Package.RESET:
            times, every_ms = random.choice(((1, 500), (5, 500), (50, 100)))
            return Reset(times=times, every_ms=every_ms, target=target, shape=shape, between=between)
        case Package.SLOW_CLOSE:
            return SlowClose(delay_ms=random.choice((200, 2000)), target=target, shape=shape, between=between)
        case Package.REPLY_LOST:
            return ReplyLost(percent=random.choice((5, 30, 100)), target=target, shape=shape, between=between)
        case Package.DUPLICATE:
            return Duplicate(delay_ms=random.choice((0, 50, 1000)), target=target, shape=shape, between=between)
        case _:
            assert_never(package)


def _shape_target(random: Random, shape: Shape) -> Role:
    """Whom a shape is about: a bridge is one, and halves and rings are about nobody."""
    match shape:
        case Shape.ISOLATE | Shape.ONE_WAY_MUTE | Shape.ONE_WAY_DEAF:
            return random.choice(_SOMEONE)
        case Shape.BRIDGE:
            return random.choice((Role.LEADER, Role.FOLLOWER, Role.CONTROLLER))
        case _:
            return Role.NOBODY
