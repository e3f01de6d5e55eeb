"""Faults of one kind that overlap: each lasts until it is healed itself, as the history says."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from nemesis.faults.disks import FailDisk, FillDisk, SlowDisk
from nemesis.faults.fault import Fault
from nemesis.faults.processes import Pause
from nemesis.faults.timekeeping import StopClock
from nemesis.schedules.schedule import Heal, Inject, Step
from nemesis.simulator.node import Node
from tests.simulator.worlds import Stage

CASES: dict[str, tuple[Fault, Callable[[Node], bool]]] = {
    "pause": (Pause(target="all"), lambda node: node.is_paused),
    "clock-stop": (StopClock(target="all"), lambda node: node.clock.now_ms(10**9) == node.clock.now_ms(10**10)),
    "fill-disk": (FillDisk(target="all"), lambda node: node.disk.files.is_full),
    "slow-disk": (SlowDisk(target="all", factor=30), lambda node: node.disk.slow_factor == 30),
    "fail-disk": (FailDisk(target="all", call="unlink"), lambda node: node.disk.files.fault is not None),
}


@pytest.mark.parametrize(("fault", "holds"), CASES.values(), ids=CASES)
def test_the_first_healing_does_not_end_the_second_fault(fault: Fault, holds: Callable[[Node], bool]) -> None:
    """Two faults of one kind strike a machine: it suffers until both are healed, whichever is healed first."""
    stage = Stage()
    stage.run(1)
    for first in (1, 2):
        for fault_id in (1, 2):
            stage.injector.do(Step(at_s=0, action=Inject(fault_id=fault_id, fault=fault)))
        stage.injector.do(Step(at_s=0, action=Heal(fault_id=first)))
        assert holds(stage.node(1))
        stage.injector.do(Step(at_s=0, action=Heal(fault_id=3 - first)))
        assert not holds(stage.node(1))
