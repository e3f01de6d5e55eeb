"""Settings of brokers that change while a simulated cluster is used and hurt: all go by what their metadata says."""

from __future__ import annotations

import dataclasses
from random import Random

import pytest

from nemesis.simulator.cluster_seeds import draw_cluster_climate
from nemesis.simulator.node import Node, Step
from nemesis.simulator.run import Run, SimOptions, simulate
from nemesis.simulator.world import Observer
from nemesis.verdict import Verdict
from replica.core import effects as fx
from tests.simulator.test_metadata_snapshots import OFTEN, calm_run


class Told(Observer):
    """Which replicas were told which settings, and what is done to them then."""

    def __init__(self) -> None:
        self.replicas: set[int] = set()
        self.settings: set[str] = set()

    def on_step(self, node: Node, step: Step) -> None:
        """See ``Observer``."""
        for effect in step.effects:
            if isinstance(effect, fx.ApplySettings):
                self.replicas.add(node.replica_id)
                self.settings |= effect.values.keys()


class Deaf(Told):
    """A broker goes by what it was started with, whatever it is told."""

    def on_step(self, node: Node, step: Step) -> None:
        """See ``Observer``; it comes before the judges."""
        super().on_step(node, step)
        if node.core is not None and node.core.broker is not None:
            node.core.broker.config = node.core.config.broker
            for partition in node.core.broker.partitions.values():
                partition.config = node.core.broker.config


def test_settings_change_while_a_calm_cluster_is_used() -> None:
    """Every replica is told, of several settings, and what is promised otherwise holds on."""
    told = Told()
    run = calm_run(told, setting_changes=120.0)
    assert run.outcome.verdict is Verdict.VALID, run.outcome.reasons
    assert told.replicas == {1, 2, 3}
    assert len(told.settings) >= 3


def test_who_does_not_go_by_them_is_convicted() -> None:
    """The judge sees a broker that has applied a setting and acts on another."""
    violation = calm_run(Deaf(), setting_changes=120.0).outcome.violation
    assert violation is not None
    assert violation.name == "settings-in-force"


def hurt_run(seed: int) -> Run:
    """A short run of a seed's cluster, with settings that change."""
    climate = draw_cluster_climate(Random(f"{seed} climate"))
    assert climate.cluster is not None
    climate = dataclasses.replace(climate, cluster=dataclasses.replace(climate.cluster, setting_changes=60.0, **OFTEN))
    return simulate(SimOptions(seed=seed, time_limit_s=15, climate=climate))


@pytest.mark.parametrize("seed", range(1, 4))
def test_settings_change_while_a_cluster_is_hurt(seed: int) -> None:
    """The faults of these seeds, snapshots among what comes of them, and settings that change 60 times a minute."""
    run = hurt_run(seed)
    assert run.outcome.violation is None, run.outcome.violation
    assert run.outcome.verdict is not Verdict.INVALID, run.outcome.reasons
