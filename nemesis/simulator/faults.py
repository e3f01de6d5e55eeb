"""How faults are done to a simulated world: the simulator's counterpart of what families do to live systems.

Owns the one table of it: how each is done and undone, which climates have it, and how it is drawn there. What is not
in it cannot be done here; nobody else lists what can. The schedule of a seed is drawn by it, in the
same form as for live runs. Whom a step hits is decided when it strikes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from random import Random
from typing import Any

from nemesis.faults.damage import DamageDisk
from nemesis.faults.disks import FailDisk, FillDisk, PowerLoss, SlowDisk
from nemesis.faults.family import OpenFault
from nemesis.faults.fault import Fault
from nemesis.faults.partitions import CutClients, CutLink, Partition
from nemesis.faults.processes import Kill, Pause, Stop
from nemesis.faults.shapes import DRAWN_SHAPES, Shape
from nemesis.faults.simulated import Clog, DelayMetadata
from nemesis.faults.targets import Role, Target
from nemesis.faults.timekeeping import JumpClock, StopClock
from nemesis.schedules.schedule import Heal, Inject, Schedule, Step
from nemesis.simulator.climate import Climate
from nemesis.simulator.node import Crash, Node
from nemesis.simulator.world import World
from replica.ids import ReplicaId

Striking = Callable[[World, OpenFault[Any], Random], tuple[int, ...]]
"""Does a fault; returns the machines that it hit."""
Healing = Callable[[World, OpenFault[Any]], None]
Drawing = Callable[[Climate, Random], Fault]
"""Any fault of a kind, in this climate."""

_FEW = (Role.LEADER, Role.LEADER, Role.FOLLOWER, Role.ONE, Role.MINORITY)
_ANY = (*_FEW, Role.MAJORITY, Role.ALL)
_ONE = (Role.LEADER, Role.FOLLOWER, Role.ONE)
_HEARERS = (Role.ONE, Role.ONE, Role.LEADER, Role.FOLLOWER, Role.MAJORITY, Role.ALL)
_ABOUT_ONE = (Shape.ISOLATE, Shape.ONE_WAY_MUTE, Shape.ONE_WAY_DEAF, Shape.BRIDGE)


@dataclass(frozen=True, slots=True, kw_only=True)
class Dice:
    """How a fault is drawn where the climate has it, and how many climates have it.

    ``share`` is of the climates of any world, ``share_in_clusters`` of those of clusters, beside that: 0 where none is
    drawn with it, and it is there for those only that need it.
    """

    draw: Drawing
    share: float = 0.0
    share_in_clusters: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class InWorld:
    """How a fault is done, and undone; ``dice`` are absent for what no seed draws."""

    strike: Striking
    heal: Healing
    dice: Dice | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class _At:
    """A fault at one machine of those that it is about."""

    world: World
    node: Node
    opened: OpenFault[Any]

    @property
    def key(self) -> int:
        """By what it is taken back."""
        return self.opened.fault_id


def _each(world: World, opened: OpenFault[Any]) -> list[_At]:
    return [_At(world=world, node=world.nodes[ReplicaId(node)], opened=opened) for node in opened.nodes]


def _on_links(do: Healing, heal: Healing, dice: Dice | None = None) -> InWorld:
    """What strikes messages: whoever the fault is about is hit."""

    def strike(world: World, opened: OpenFault[Any], random: Random) -> tuple[int, ...]:
        del random
        do(world, opened)
        return opened.nodes

    return InWorld(strike=strike, heal=heal, dice=dice)


def _on_machines(do: Callable[[_At], None], undo: Callable[[_At], None], dice: Dice | None = None) -> InWorld:
    """What strikes machines, all that it is about, one after the other."""

    def strike(world: World, opened: OpenFault[Any], random: Random) -> tuple[int, ...]:
        del random
        for at in _each(world, opened):
            do(at)
        return opened.nodes

    def heal(world: World, opened: OpenFault[Any]) -> None:
        for at in _each(world, opened):
            undo(at)

    return InWorld(strike=strike, heal=heal, dice=dice)


def _ended(end: Callable[[Node], None], dice: Dice) -> InWorld:
    """What ends a process, and holds its machine down."""

    def do(at: _At) -> None:
        at.world.hold_down(at.node.replica_id, at.key)
        end(at.node)

    return _on_machines(do, lambda at: at.world.release(at.node.replica_id, at.key), dice)


def _clock_goes_on(at: _At) -> None:
    at.node.clock.go_on(at.key, at.world.now_us)
    at.node.jump_clock(0)  # What is to come is due by the clock once more.


def _damage(world: World, opened: OpenFault[DamageDisk], random: Random) -> tuple[int, ...]:
    """Those are hit where something was changed."""
    how = opened.fault.how
    nodes = [at.node for at in _each(world, opened)]
    return tuple(node.replica_id for node in nodes if node.disk.damage(how, node.recovery_points, random) is not None)


def _nothing(world: World, opened: OpenFault[Any]) -> None:
    """There is nothing to undo, or nobody can."""
    del world, opened


def _stays(at: _At) -> None:
    """What a clock has gained stays."""
    del at


def _mend(world: World, opened: OpenFault[Any]) -> None:
    world.network.heal(opened.fault_id)


# --- dice -------------------------------------------------------------------------------------------------------------


def _partition(climate: Climate, random: Random) -> Fault:
    if random.random() < 0.1:
        return CutClients(target=random.choice((Role.LEADER, Role.ONE)))
    shape, target = _shape(climate, random)
    return Partition(shape=shape, target=target)


def _clog(climate: Climate, random: Random) -> Fault:
    shape, target = _shape(climate, random)
    return Clog(shape=shape, target=target)


def _shape(climate: Climate, random: Random) -> tuple[Shape, Target]:
    """A shape, and whom it is about. A ring of majorities and a bridge need three machines."""
    shapes = DRAWN_SHAPES if climate.voters >= 3 else (Shape.ISOLATE, Shape.ONE_WAY_MUTE, Shape.ONE_WAY_DEAF)
    shape = random.choice(shapes)
    return shape, random.choice((Role.LEADER, Role.LEADER, Role.FOLLOWER)) if shape in _ABOUT_ONE else Role.NOBODY


def _stale_metadata(climate: Climate, random: Random) -> Fault:
    """As late as may be without a follower of the metadata log giving its leader up, or well below that."""
    most_ms = climate.fetch_timeout_ms - climate.fetch_max_wait_ms
    return DelayMetadata(target=random.choice(_HEARERS), delay_ms=int(most_ms * random.choice((0.2, 0.35, 0.5, 0.85))))


def _any_of(fault: type[Fault], **options: Sequence[Any]) -> Drawing:
    """Of each field one of these, in this order."""

    def draw(climate: Climate, random: Random) -> Fault:
        del climate
        return fault(**{name: random.choice(values) for name, values in options.items()})

    return draw


# --- the table --------------------------------------------------------------------------------------------------------

_CUT = _on_links(lambda world, opened: world.network.cut(opened.fault_id, opened.aim.links), _mend)
_HINDERED = _on_machines(
    lambda at: at.node.disk.hinder(at.key, at.opened.fault.hindrance), lambda at: at.node.disk.relieve(at.key)
)

IN_WORLDS: Mapping[type[Fault], InWorld] = {
    Partition: replace(_CUT, dice=Dice(draw=_partition, share=0.6)),
    CutLink: _CUT,
    CutClients: _CUT,
    Kill: _ended(lambda node: node.kill(), Dice(draw=_any_of(Kill, target=_ANY), share=0.4)),
    Pause: _on_machines(
        lambda at: at.node.pause(at.key),
        lambda at: at.node.resume(at.key),
        Dice(draw=_any_of(Pause, target=_ANY), share=0.4),
    ),
    PowerLoss: _ended(
        lambda node: node.lose_power(Crash(cause="power")),
        Dice(draw=_any_of(PowerLoss, target=(*_ANY, Role.ALL)), share=0.5),
    ),
    Stop: _ended(lambda node: node.stop(), Dice(draw=_any_of(Stop, target=_FEW), share=0.25)),
    Clog: _on_links(
        lambda world, opened: world.network.clog(opened.fault_id, opened.aim.links),
        _mend,
        Dice(draw=_clog, share=0.3),
    ),
    JumpClock: _on_machines(
        lambda at: at.node.jump_clock(at.opened.fault.by_ms),
        _stays,
        Dice(draw=_any_of(JumpClock, target=_ANY, by_ms=(100, 1_000, 10_000)), share=0.25),
    ),
    FillDisk: replace(_HINDERED, dice=Dice(draw=_any_of(FillDisk, target=_FEW), share=0.15)),
    SlowDisk: replace(_HINDERED, dice=Dice(draw=_any_of(SlowDisk, target=_ANY, factor=(5, 30)), share=0.25)),
    FailDisk: replace(
        _HINDERED,
        dice=Dice(draw=_any_of(FailDisk, target=_FEW, call=("fsync", "pwrite", "pread", "rename")), share=0.15),
    ),
    DamageDisk: InWorld(
        strike=_damage,
        heal=_nothing,
        dice=Dice(draw=_any_of(DamageDisk, target=_ONE, how=("flip", "zero", "misdirect")), share=0.12),
    ),
    StopClock: _on_machines(
        lambda at: at.node.clock.stop(at.key, at.world.now_us),
        _clock_goes_on,
        Dice(draw=_any_of(StopClock, target=(*_ONE, *3 * (Role.LEADER,)))),
    ),
    DelayMetadata: _on_links(
        lambda world, opened: world.hear_late(opened.fault_id, map(ReplicaId, opened.nodes), opened.fault.delay_ms),
        lambda world, opened: world.hear_in_time(opened.fault_id),
        Dice(draw=_stale_metadata, share_in_clusters=0.4),
    ),
}
"""In the order in which a seed asks whether its climate has them: what came later stands later."""
WEATHER: Mapping[type[Fault], Dice] = {fault: how.dice for fault, how in IN_WORLDS.items() if how.dice is not None}
"""The faults that a climate may have."""


def drawn_anywhere() -> Iterator[tuple[type[Fault], Dice]]:
    """The faults that climates of any world have, in the order in which that is drawn."""
    return ((fault, dice) for fault, dice in WEATHER.items() if dice.share)


def drawn_in_clusters() -> Iterator[tuple[type[Fault], Dice]]:
    """The faults that only climates of clusters have, in the order in which that is drawn."""
    return ((fault, dice) for fault, dice in WEATHER.items() if dice.share_in_clusters)


def drawn(kind: type[Fault], climate: Climate, random: Random) -> Fault:
    """Any fault of this kind."""
    return WEATHER[kind].draw(climate, random)


FIRST_FAULT_MS = 1500


def draw_schedule(climate: Climate, random: Random, *, time_limit_s: float) -> Schedule:
    """Faults of the climate's weather with calm between them, sometimes several at once."""
    steps = sorted(_steps(climate, random, int(time_limit_s * 1000)), key=lambda step: step.at_s)
    return Schedule(name="simulated", time_limit_s=time_limit_s, steps=tuple(steps))


def _steps(climate: Climate, random: Random, end_ms: int) -> Iterator[Step]:
    at_ms, fault_id = FIRST_FAULT_MS, 0
    damages_left = damages_max(climate)
    while climate.weather and at_ms < end_ms:
        kind = random.choice(climate.weather)
        if kind is DamageDisk and at_ms < end_ms // 2:
            kind = random.choice(climate.weather)  # There is little to damage yet.
        until_ms = min(at_ms + random.randint(*climate.fault_ms), end_ms)
        if kind is not DamageDisk or damages_left:
            damages_left -= kind is DamageDisk
            fault = drawn(kind, climate, random)
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
