"""How faults are done to a simulated world: the simulator's counterpart of what families do to live systems.

Owns the one table of it. What is not there cannot be done here; nobody else lists what can.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from random import Random
from typing import Any

from nemesis.faults.damage import DamageDisk
from nemesis.faults.disks import FailDisk, FillDisk, PowerLoss, SlowDisk
from nemesis.faults.family import OpenFault
from nemesis.faults.fault import Fault
from nemesis.faults.partitions import CutClients, CutLink, Partition
from nemesis.faults.processes import Kill, Pause, Stop
from nemesis.faults.simulated import Clog, DelayMetadata
from nemesis.faults.timekeeping import JumpClock, StopClock
from nemesis.simulator.node import Crash, Node
from nemesis.simulator.world import World
from replica.ids import ReplicaId

Striking = Callable[[World, OpenFault[Any], Random], tuple[int, ...]]
"""Does a fault; returns the machines that it hit."""
Healing = Callable[[World, OpenFault[Any]], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class InWorld:
    """How a fault is done, and undone."""

    strike: Striking
    heal: Healing


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


def _on_links(do: Healing, heal: Healing) -> InWorld:
    """What strikes messages: whoever the fault is about is hit."""

    def strike(world: World, opened: OpenFault[Any], dice: Random) -> tuple[int, ...]:
        del dice
        do(world, opened)
        return opened.nodes

    return InWorld(strike=strike, heal=heal)


def _on_machines(do: Callable[[_At], None], undo: Callable[[_At], None]) -> InWorld:
    """What strikes machines, all that it is about, one after the other."""

    def strike(world: World, opened: OpenFault[Any], dice: Random) -> tuple[int, ...]:
        del dice
        for at in _each(world, opened):
            do(at)
        return opened.nodes

    def heal(world: World, opened: OpenFault[Any]) -> None:
        for at in _each(world, opened):
            undo(at)

    return InWorld(strike=strike, heal=heal)


def _ended(end: Callable[[Node], None]) -> InWorld:
    """What ends a process, and holds its machine down."""

    def do(at: _At) -> None:
        at.world.hold_down(at.node.replica_id, at.key)
        end(at.node)

    return _on_machines(do, lambda at: at.world.release(at.node.replica_id, at.key))


def _clock_goes_on(at: _At) -> None:
    at.node.clock.go_on(at.key, at.world.now_us)
    at.node.jump_clock(0)  # What is to come is due by the clock once more.


def _damage(world: World, opened: OpenFault[DamageDisk], dice: Random) -> tuple[int, ...]:
    """Those are hit where something was changed."""
    how = opened.fault.how
    nodes = [at.node for at in _each(world, opened)]
    return tuple(node.replica_id for node in nodes if node.disk.damage(how, node.recovery_points, dice) is not None)


def _nothing(world: World, opened: OpenFault[Any]) -> None:
    """There is nothing to undo, or nobody can."""
    del world, opened


def _stays(at: _At) -> None:
    """What a clock has gained stays."""
    del at


def _mend(world: World, opened: OpenFault[Any]) -> None:
    world.network.heal(opened.fault_id)


_CUT = _on_links(lambda world, opened: world.network.cut(opened.fault_id, opened.aim.links), _mend)
_HINDERED = _on_machines(
    lambda at: at.node.disk.hinder(at.key, at.opened.fault.hindrance), lambda at: at.node.disk.relieve(at.key)
)

IN_WORLDS: Mapping[type[Fault], InWorld] = {
    **dict.fromkeys((Partition, CutLink, CutClients), _CUT),
    **dict.fromkeys((FillDisk, SlowDisk, FailDisk), _HINDERED),
    Clog: _on_links(lambda world, opened: world.network.clog(opened.fault_id, opened.aim.links), _mend),
    DelayMetadata: _on_links(
        lambda world, opened: world.hear_late(opened.fault_id, map(ReplicaId, opened.nodes), opened.fault.delay_ms),
        lambda world, opened: world.hear_in_time(opened.fault_id),
    ),
    Kill: _ended(lambda node: node.kill()),
    Stop: _ended(lambda node: node.stop()),
    PowerLoss: _ended(lambda node: node.lose_power(Crash(cause="power"))),
    Pause: _on_machines(lambda at: at.node.pause(at.key), lambda at: at.node.resume(at.key)),
    JumpClock: _on_machines(lambda at: at.node.jump_clock(at.opened.fault.by_ms), _stays),
    StopClock: _on_machines(lambda at: at.node.clock.stop(at.key, at.world.now_us), _clock_goes_on),
    DamageDisk: InWorld(strike=_damage, heal=_nothing),
}
