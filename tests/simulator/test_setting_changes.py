"""Settings and releases that change while a simulated cluster is used and hurt: all go by what their metadata says."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from contextlib import nullcontext
from functools import partial
from random import Random

import pytest

from nemesis.simulator.climate import Climate
from nemesis.simulator.cluster_seeds import draw_cluster_climate, with_setting_changes, with_upgrades
from nemesis.simulator.metadata_invariants import MetadataInvariants
from nemesis.simulator.node import Node, Step
from nemesis.simulator.rare import Rare
from nemesis.simulator.run import Run, SimOptions, simulate
from nemesis.simulator.seeds import climate_of
from nemesis.simulator.violations import BrokenInvariantError
from nemesis.simulator.world import Observer
from nemesis.variants.worlds import WorldKind
from nemesis.verdict import Verdict
from replica.core import effects as fx
from replica.core.config import ControllerConfig
from replica.core.metadata.encoding import metadata_batch
from replica.core.metadata.records import (
    FeatureLevelRecord,
    MetadataRecord,
    RegisterBrokerRecord,
    ResourceConfigRecord,
)
from replica.core.metadata.resources import ALL_BROKERS
from replica.ids import BrokerEpoch, Epoch, Offset, ReplicaId
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


class DeafController(Observer):
    """A controller goes by what it was started with, whatever it has decided."""

    def on_step(self, node: Node, step: Step) -> None:
        """See ``Observer``; it comes before the judges."""
        del step
        if node.core is not None and node.core.controller is not None and node.core.controller.is_active:
            state = node.core.controller.controller._active()
            state.config = node.core.config.controller or ControllerConfig()


def test_controller_that_does_not_go_by_them_is_convicted() -> None:
    """The judge sees a controller that has decided about a setting and acts on another."""
    violation = calm_run(DeafController(), setting_changes=400.0).outcome.violation
    assert violation is not None
    assert violation.name == "settings-in-force"


def test_change_that_is_acknowledged_too_early_is_convicted() -> None:
    """Also where it is committed soon: the next controller might not know it."""
    violation = calm_run(variant="decision-told-at-once", setting_changes=400.0).outcome.violation
    assert violation is not None
    assert violation.name == "acknowledged-change"


BROKER = RegisterBrokerRecord(
    broker_id=ReplicaId(1),
    broker_epoch=BrokerEpoch(0),
    incarnation_id="now",
    directory_id="disk",
    flushes=True,
    address="host:9092",
)
SETTING = ResourceConfigRecord(resource=ALL_BROKERS, name="replica_fetch_backoff_ms", value="7")


@pytest.mark.parametrize(
    ("newest_level", "decisions", "name"),
    [
        (2, [BROKER, FeatureLevelRecord(level=2), FeatureLevelRecord(level=1)], "level-fell"),
        (2, [BROKER, SETTING, FeatureLevelRecord(level=2)], "record-before-its-level"),
        (1, [BROKER, FeatureLevelRecord(level=2)], "level-unknown"),
        (2, [BROKER, FeatureLevelRecord(level=2), SETTING], None),
    ],
)
def test_what_is_committed_of_levels(newest_level: int, decisions: list[MetadataRecord], name: str | None) -> None:
    """The level rises once all brokers know it, and brings what it brings."""
    judge = MetadataInvariants({BROKER.broker_id: newest_level})
    verdict = pytest.raises(BrokenInvariantError, match=name) if name is not None else nullcontext()
    with verdict:
        for offset, record in enumerate(decisions):
            judge.on_metadata(metadata_batch([record], Offset(offset), Epoch(1)))


def test_some_seeds_have_them() -> None:
    """About a tenth has settings that change, a tenth upgrades; all seeds are else what their kind of world draws."""
    seeds = range(300)
    drawn = [draw_cluster_climate(Random(f"{seed} climate")).cluster for seed in seeds]
    found = [cluster for seed in seeds if (cluster := climate_of(seed, WorldKind.CLUSTER).cluster) is not None]
    assert 15 <= sum(not cluster.upgrades and cluster.setting_changes > 0 for cluster in found) <= 45
    assert 15 <= sum(cluster.upgrades > 0 for cluster in found) <= 45
    assert [dataclasses.replace(cluster, setting_changes=0.0, upgrades=0.0) for cluster in found] == drawn


def hurt_run(seed: int, change: Callable[[Climate], Climate]) -> Run:
    """A short run of a seed's cluster, with that beside its faults."""
    climate = change(draw_cluster_climate(Random(f"{seed} climate")))
    assert climate.cluster is not None
    climate = dataclasses.replace(climate, cluster=dataclasses.replace(climate.cluster, **OFTEN))
    return simulate(SimOptions(seed=seed, time_limit_s=15, climate=climate))


@pytest.mark.parametrize("seed", range(1, 4))
@pytest.mark.parametrize(
    ("change", "seen"),
    [
        (partial(with_setting_changes, a_minute=200.0), Rare.TOPIC_SETTING_CHANGED),
        (partial(with_upgrades, a_minute=20.0), Rare.LEVEL_RAISED),
    ],
    ids=["settings", "upgrades"],
)
def test_a_cluster_is_hurt_meanwhile(seed: int, change: Callable[[Climate], Climate], seen: Rare) -> None:
    """The faults of these seeds, snapshots among what comes of them, and settings or releases that change."""
    outcome = hurt_run(seed, change).outcome
    assert outcome.violation is None, outcome.violation
    assert outcome.verdict is not Verdict.INVALID, outcome.reasons
    assert seen in outcome.rare
