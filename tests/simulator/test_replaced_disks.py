"""Disks that are replaced in simulated clusters: whose, when, what it costs, and what convicts."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from random import Random
from typing import Any

import pytest

from nemesis.faults.damage import DamageDisk
from nemesis.schedules.schedule import Schedule
from nemesis.simulator.climate import CALM
from nemesis.simulator.cluster_climate import ClusterClimate
from nemesis.simulator.cluster_seeds import draw_cluster_climate
from nemesis.simulator.node import Node
from nemesis.simulator.rare import Rare
from nemesis.simulator.run import Run, SimOptions, simulate
from nemesis.simulator.world import Observer, World
from nemesis.variants.worlds import WorldKind
from nemesis.verdict import Verdict
from replica.ids import ReplicaId

LOSING: dict[str, Any] = {
    "topics": 1,
    "observers": 1,
    "disk_losses": 60.0,
    "broker_heartbeat_interval_ms": 300,
    "broker_session_timeout_ms": 1500,
    "controller_request_timeout_ms": 400,
    "metadata_log_max_record_bytes_between_snapshots": 1,
    "metadata_log_max_snapshot_interval_ms": 1000,
}
"""Four brokers, three of them voters, whose disks are replaced again and again."""


def run_of(*observers: Observer, seed: int = 1, variant: str | None = None, **cluster: Any) -> Run:
    """A run of a calm cluster in which disks are replaced."""
    climate = replace(CALM, rate=10.0, cluster=replace(ClusterClimate(**LOSING), **cluster))
    schedule = Schedule(name="simulated", time_limit_s=40, steps=())
    options = SimOptions(seed=seed, time_limit_s=50, climate=climate, schedule=schedule, variant=variant)
    return simulate(options, observers)


class Replaced(Observer):
    """Whose disks were replaced."""

    def __init__(self) -> None:
        self.losers: set[ReplicaId] = set()

    def on_disk_changed(self, node: Node) -> None:
        """See ``Observer``."""
        self.losers.add(node.replica_id)


@pytest.mark.slow
def test_whoever_is_counted_on_loses_its_disk_like_anybody_else() -> None:
    """Voters and others, those in sync and eligible: nothing is lost by it, and every broker comes back.

    Also with a disk that it had before, and with what it knew then.
    """
    replaced, rare = Replaced(), Counter[str]()
    for seed in (1, 7):
        outcome = run_of(replaced, seed=seed).outcome
        assert outcome.verdict is Verdict.VALID, outcome.reasons
        rare += Counter(outcome.rare)
    assert replaced.losers == {1, 2, 3, 4}
    assert rare[Rare.COUNTED_ON_DISK_REPLACED] > 0
    assert rare[Rare.EARLIER_DISK_PUT_BACK] > 0
    assert rare[Rare.VOTER_DISK_WIPED] > 0
    assert rare[Rare.VOTER_REPLACED] > 0
    assert rare[Rare.METADATA_SNAPSHOT_ON_NEW_DISK] > 0


@pytest.mark.slow
def test_who_knows_brokers_by_their_ids_alone_is_convicted() -> None:
    """An empty disk is elected for what the one before it held."""
    convicted = [run_of(seed=seed, variant="brokers-by-id-alone").outcome.violation for seed in range(1, 5)]
    assert "leader-candidate-completeness" in {violation.name for violation in convicted if violation is not None}


def test_a_snapshot_that_names_no_voters_convicts() -> None:
    """Voters change where disks are replaced, and whoever begins with a snapshot must learn of it."""
    violation = run_of(variant="snapshot-without-voters").outcome.violation
    assert violation is not None
    assert violation.name == "snapshot-voters"


WAITING: dict[str, Any] = {"min_insync_replicas": 1, "replication_factor": 2, "partitions": 3, "elr_enable": False}


@pytest.mark.slow
@pytest.mark.parametrize("elr_enable", [False, True])
def test_an_operator_saves_what_nobody_may_lead_with(elr_enable: bool) -> None:
    """The last in sync loses its disk, and another holds all: the partition waits, and nothing is lost in the end."""
    waited = 0
    for seed in (4, 5):
        run = run_of(seed=seed, **{**WAITING, "elr_enable": elr_enable})
        assert run.outcome.verdict is Verdict.VALID, (seed, run.outcome.reasons)
        waited += run.outcome.rare.get(Rare.PARTITION_WAITED_FOR_OPERATOR, 0)
    assert waited > 0


def test_an_operator_leaves_out_a_log_that_ends_before_another_begins() -> None:
    """Seed 30786: retention had left an empty log of the one that had all, which ends in no epoch."""
    outcome = simulate(SimOptions(seed=30786, world=WorldKind.CLUSTER)).outcome
    assert outcome.verdict is Verdict.VALID, outcome.reasons
    assert outcome.rare[Rare.PARTITION_WAITED_FOR_OPERATOR] > 0


def test_an_operator_has_a_log_read_again_before_he_elects_another_one() -> None:
    """Seed 1545: the only copy could not be read for a second, and a replica that was being added was elected."""
    outcome = simulate(SimOptions(seed=1545, world=WorldKind.CLUSTER)).outcome
    assert outcome.verdict is Verdict.VALID, outcome.reasons


def test_seeds_differ_in_their_disks() -> None:
    """In many worlds disks are replaced, and none of these has another cause that takes records from disks for ever."""
    drawn = [draw_cluster_climate(Random(seed)) for seed in range(300)]
    losing = [climate for climate in drawn if climate.cluster is not None and climate.cluster.disk_losses]
    assert 80 < len(losing) < 160
    assert not any(DamageDisk in climate.weather for climate in losing)
    factors = {climate.cluster.replication_factor for climate in losing if climate.cluster is not None}
    assert factors == {1, 2, 3}


def test_whoever_puts_in_an_empty_disk_names_all_machines() -> None:
    """Nobody of those that had a vote at first may have one any more: seed 10861 asked itself who leads, for ever."""
    world = World(seed=1, climate=replace(CALM, voters=1, cluster=ClusterClimate(observers=1)))
    node = world.nodes[ReplicaId(1)]
    for named in ((1,), (1, 2)):
        node.start()
        assert node.core is not None
        assert node.core.config.voters == named
        world.change_disk(node)
