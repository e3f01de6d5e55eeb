"""One simulated machine: how its process dies, and what is left of it."""

from __future__ import annotations

from dataclasses import replace

import pytest

from nemesis.faults.damage import DamageDisk
from nemesis.faults.disks import FailDisk, FillDisk, PowerLoss, SlowDisk
from nemesis.faults.fault import Fault
from nemesis.faults.partitions import Partition
from nemesis.faults.processes import Pause, Stop
from nemesis.faults.shapes import Shape
from nemesis.faults.timekeeping import JumpClock, StopClock
from nemesis.schedules.schedule import Heal, Inject, Name, Step
from nemesis.simulator.climate import Climate
from nemesis.simulator.node import Crash, Node
from nemesis.simulator.node import Step as CoreStep
from nemesis.simulator.rare import Rare
from nemesis.simulator.violations import BrokenInvariantError
from nemesis.simulator.world import LOG, Observer
from replica.core import effects as fx
from replica.core.quorum.roles import Leader, Resigned
from tests.simulator.worlds import Stage

BUSY = Climate(rate=40.0, appends=1.0)


class Deaths(Observer):
    """Remembers how processes ended, and what their last steps performed."""

    def __init__(self) -> None:
        self.crashes: list[Crash] = []
        self.performed: list[tuple[fx.Effect, ...]] = []

    def on_step(self, node: Node, step: CoreStep) -> None:
        if not step.is_whole:
            self.performed.append(step.effects)

    def on_down(self, node: Node, crash: Crash) -> None:
        self.crashes.append(crash)


def test_a_process_dies_after_any_prefix_of_its_effects() -> None:
    """Over a while processes die after none, some and all of a step's effects, and just so many were performed."""
    stage, deaths = Stage(replace(BUSY, crash_in_step=0.05, restart_ms=(5, 50))), Deaths()
    stage.world.observers.append(deaths)
    stage.run(20)
    in_step = [crash for crash in deaths.crashes if crash.cause == "crash-in-step"]
    assert {(crash.performed > 0, crash.performed < crash.effects) for crash in in_step} >= {
        (False, True),
        (True, True),
        (True, False),
    }
    cut_short = [crash.performed for crash in in_step if crash.performed < crash.effects]
    assert [len(effects) for effects in deaths.performed] == cut_short


def test_a_power_loss_takes_what_was_not_flushed_and_nothing_else() -> None:
    """What a replica had flushed is there after the power comes back; what it had not may be gone."""
    stage = Stage(replace(BUSY, flush_ms=(20.0, 60.0)))
    stage.run(5)
    node = stage.leader
    flushed, end = node.flushed_end[LOG], node.stores[LOG].log_end_offset
    assert flushed < end
    node.lose_power()
    node.start()
    assert flushed <= node.stores[LOG].log_end_offset <= end


def test_a_kill_takes_nothing_that_was_written() -> None:
    """A killed process leaves its writes in the machine's memory, flushed or not."""
    stage = Stage(replace(BUSY, flush_ms=(20.0, 60.0)))
    stage.run(5)
    node = stage.leader
    end = node.stores[LOG].log_end_offset
    node.kill()
    node.start()
    assert node.stores[LOG].log_end_offset == end


def test_a_leader_that_comes_back_has_resigned() -> None:
    """The recorded leader of an epoch does not lead it on after a restart."""
    stage = Stage(BUSY)
    stage.run(5)
    node = stage.leader
    node.kill()
    node.start()
    assert node.core is not None
    assert isinstance(node.core.logs[LOG].role, Resigned)


def inject(stage: Stage, fault: Fault, *, fault_id: int = 0) -> None:
    """Do a fault now."""
    stage.injector.do(Step(at_s=0, action=Inject(fault_id=fault_id, fault=fault)))


def heal(stage: Stage, *, fault_id: int = 0) -> None:
    """Undo it now."""
    stage.injector.do(Step(at_s=0, action=Heal(fault_id=fault_id)))


@pytest.mark.slow
def test_a_full_disk_ends_the_process_until_there_is_space() -> None:
    """A replica that cannot write stops, starts in vain while the disk is full, and catches up when it is not."""
    stage = Stage(BUSY)
    stage.run(5)
    node = stage.leader
    inject(stage, FillDisk(target="leader"))
    stage.run(8)
    assert node not in stage.world.up()
    heal(stage)
    stage.run(5)
    assert node in stage.world.up()
    stage.converge()
    assert stage.record.rare[Rare.FULL_DISK] > 0


@pytest.mark.slow
@pytest.mark.parametrize("call", ["fsync", "pwrite"])
def test_a_failing_disk_ends_the_process(call: str) -> None:
    """After a failed write or flush a replica stops and does not go on by itself."""
    stage = Stage(BUSY)
    stage.run(5)
    node = stage.leader
    inject(stage, FailDisk(target="leader", call=call))
    stage.run(1)
    assert not node.is_up or node.incarnation > 1
    assert stage.record.rare[Rare.STORAGE_FAILURE] > 0
    heal(stage)
    stage.run(5)
    stage.converge()


@pytest.mark.slow
@pytest.mark.parametrize("how", ["flip", "zero", "misdirect"])
def test_damage_is_noticed_and_the_machine_stays_down(how: str) -> None:
    """A rotten sector of flushed data is found when the log is opened again, and the replica does not start on it."""
    stage = Stage(BUSY)
    stage.run(8)
    node = stage.leader
    inject(stage, DamageDisk(target="leader", how=how))
    assert node.disk.is_damaged
    node.kill()
    stage.run(5)
    assert node.is_retired
    assert not node.is_up
    stage.converge()
    assert stage.record.rare[Rare.DAMAGE_DETECTED] == 1


def test_flushed_data_that_is_gone_without_damage_convicts() -> None:
    """Storage that loses what it had flushed is the product's fault, and ends the run."""
    stage = Stage(BUSY)
    stage.run(8)
    node = stage.follower()
    assert node.disk.damage("zero", node.recovery_points, node.dice) is not None
    node.disk.is_damaged = False  # Nobody but the storage can have done it.
    node.kill()
    with pytest.raises(BrokenInvariantError, match="flushed-data-lost"):
        stage.run(5)


@pytest.mark.slow
def test_a_paused_process_takes_what_came_meanwhile() -> None:
    """While it is paused a process does nothing; then it goes on with all that came for it."""
    stage, seen = Stage(BUSY), list[Node]()

    class Steps(Observer):
        def on_step(self, node: Node, step: CoreStep) -> None:
            seen.append(node)

    stage.run(5)
    node = stage.leader
    inject(stage, Pause(target="leader"))
    stage.world.observers.append(Steps())
    stage.run(3)
    assert node not in seen
    heal(stage)
    assert node in seen
    stage.run(3)
    assert stage.leader is not node
    stage.converge()


def test_a_clock_that_jumps_lets_timers_run_out_at_once() -> None:
    """A follower whose clock leaps past its fetch timeout gives its leader up at that instant."""
    stage = Stage(BUSY)
    stage.run(5)
    node = stage.follower()
    role = node.core.logs[LOG].role if node.core is not None else None
    node.jump_clock(60_000)
    stage.run(0.001)
    assert node.core is not None
    assert type(node.core.logs[LOG].role) is not type(role)


@pytest.mark.slow
def test_a_leader_whose_clock_stands_still_leads_on() -> None:
    """Nobody fetches from it for longer than it would lead on by a clock that runs; it finds out when that goes on."""
    stage = Stage(BUSY)
    stage.run(5)
    node = stage.leader
    stage.injector.do(Step(at_s=0, action=Name(name="it", target="leader")))
    shown_ms = node.now_ms
    inject(stage, StopClock(target="@it"), fault_id=1)
    inject(stage, Partition(shape=Shape.ISOLATE, target="@it"), fault_id=2)
    stage.run(10)
    assert node.now_ms == shown_ms
    assert node.core is not None
    assert isinstance(node.core.logs[LOG].role, Leader)
    heal(stage, fault_id=1)
    stage.run(10)
    assert not isinstance(node.core.logs[LOG].role, Leader)
    heal(stage, fault_id=2)
    stage.converge()


def test_a_graceful_stop_closes_cleanly_and_hands_over() -> None:
    """A stopped leader is followed by another soon, and its log opens again without a search."""
    stage = Stage(BUSY)
    stage.run(5)
    node = stage.leader
    inject(stage, Stop(target="leader"))
    stage.run(0.6)
    assert not node.is_up
    assert stage.leader is not node
    assert ".kafka_cleanshutdown" in "".join(node.disk.files.tree())
    heal(stage)
    stage.converge()


def test_a_machine_is_held_down_until_every_hold_is_released() -> None:
    """Two faults that keep a machine down must both be undone before it starts."""
    stage = Stage(BUSY)
    stage.run(5)
    node = stage.leader
    stage.injector.do(Step(at_s=0, action=Name(name="it", target="leader")))
    inject(stage, PowerLoss(target="@it"), fault_id=1)
    inject(stage, PowerLoss(target="@it"), fault_id=2)
    heal(stage, fault_id=1)
    stage.run(5)
    assert not node.is_up
    heal(stage, fault_id=2)
    assert node.is_up


def test_a_slow_disk_slows_acknowledgements_down() -> None:
    """The flushes of a slow disk take as many times longer as the fault says."""
    stage = Stage(BUSY)
    stage.run(5)
    before = stage.world.flush_us(stage.leader)
    inject(stage, SlowDisk(target="all", factor=1000))
    assert stage.world.flush_us(stage.leader) > 50 * before
    heal(stage)
    assert stage.world.flush_us(stage.leader) < 50 * before
    inject(stage, JumpClock(target="all", by_ms=10))
    stage.converge()
