"""Metadata that reaches brokers late."""

from __future__ import annotations

from dataclasses import replace

import pytest

from nemesis.faults.simulated import DelayMetadata
from nemesis.faults.targets import Role
from nemesis.schedules.schedule import Heal, Inject, Schedule, Step
from nemesis.simulator.climate import CALM
from nemesis.simulator.cluster_climate import ClusterClimate
from nemesis.simulator.node import Node
from nemesis.simulator.node import Step as NodeStep
from nemesis.simulator.rare import Rare
from nemesis.simulator.record import Record
from nemesis.simulator.run import Run, SimOptions, simulate
from nemesis.simulator.world import Observer, World

DELAY_MS = 1200


class Lag(Observer):
    """How long after the first replica each one applied what is committed."""

    def __init__(self) -> None:
        self.most_ms = 0
        self._first_ms: dict[int, int] = {}
        self._applied: dict[int, int] = {}

    def on_begin(self, world: World, record: Record) -> None:
        """See ``Observer``."""
        del record
        self._world = world

    def on_step(self, node: Node, step: NodeStep) -> None:
        """See ``Observer``."""
        if node.core is None or not step.is_whole:
            return
        applied = node.core.metadata.applied_offset
        if applied <= self._applied.get(node.replica_id, 0):
            return
        self._applied[node.replica_id] = applied
        first_ms = self._first_ms.setdefault(applied, self._world.now_ms)
        self.most_ms = max(self.most_ms, self._world.now_ms - first_ms)


def run_with(*steps: Step, watched: tuple[Observer, ...] = ()) -> Run:
    """A short run of a calm cluster in which only these steps happen."""
    climate = replace(CALM, rate=20.0, cluster=ClusterClimate())
    schedule = Schedule(name="simulated", time_limit_s=15, steps=steps)
    return simulate(SimOptions(seed=1, time_limit_s=20, climate=climate, schedule=schedule), watched)


@pytest.mark.slow
def test_metadata_comes_late_to_whom_it_is_held_up_for_and_all_else_in_time() -> None:
    """No broker is fenced for it and no controller given up: only what is decided is heard of later."""
    late, in_time = Lag(), Lag()
    fault = DelayMetadata(target=Role.ALL, delay_ms=DELAY_MS)
    steps = (
        Step(at_s=0.5, action=Inject(fault_id=0, fault=fault, draw=1)),
        Step(at_s=10, action=Heal(fault_id=0)),
    )

    run = run_with(*steps, watched=(late,))
    run_with(watched=(in_time,))

    assert run.outcome.violation is None
    assert Rare.BROKER_FENCED not in run.outcome.rare
    assert Rare.CONTROLLER_FAILOVER not in run.outcome.rare
    assert late.most_ms >= DELAY_MS > in_time.most_ms
