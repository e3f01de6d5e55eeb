"""Logs that rot in simulated clusters: what they are for, and what a judge makes of a replica that begins anew."""

from __future__ import annotations

from dataclasses import replace
from random import Random

import pytest

from nemesis.disks.simulated_files import PowerLossError
from nemesis.faults.damage import DamageDisk
from nemesis.schedules.schedule import Schedule
from nemesis.simulator.climate import CALM
from nemesis.simulator.cluster_climate import ClusterClimate
from nemesis.simulator.cluster_seeds import draw_cluster_climate, with_rot
from nemesis.simulator.node import Node
from nemesis.simulator.rare import Rare
from nemesis.simulator.run import Run, SimOptions, simulate
from nemesis.simulator.steps import Step
from nemesis.simulator.world import Observer
from nemesis.variants.catalogue import BUILT
from nemesis.verdict import Verdict
from replica.core import effects as fx
from replica.core import events as ev
from replica.core.lanes import Lane
from replica.ids import ReplicaId, TopicPartition
from replica.storage import Answer, StorageEffect, StorageReport
from replica.storage.log_table import LogTable


class Foretold(Observer):
    """Of every damage that a process is told of, whether the step before said that its log is not to be looked at."""

    def __init__(self) -> None:
        self.found: list[bool] = []
        self._pending: dict[ReplicaId, frozenset[Lane]] = {}

    def on_step(self, node: Node, step: Step) -> None:
        """Compare with the step before."""
        if isinstance(step.event, ev.LogDamaged):
            self.found.append(step.event.topic_partition in self._pending[node.replica_id])
        self._pending[node.replica_id] = step.pending


def run_of(variant: str | None = None, *observers: Observer) -> Run:
    """A short run of a calm cluster in which a log rots every three seconds."""
    cluster = ClusterClimate(partitions=1, broker_heartbeat_interval_ms=300, broker_session_timeout_ms=1500)
    climate = with_rot(replace(CALM, voters=3, cluster=cluster), a_minute=20.0)
    schedule = Schedule(name="simulated", time_limit_s=30, steps=())
    return simulate(SimOptions(seed=1, time_limit_s=40, climate=climate, schedule=schedule, variant=variant), observers)


@pytest.mark.slow
def test_logs_rot_and_are_fetched_anew() -> None:
    """Every promise is kept meanwhile, and in the end all copies are whole."""
    run = run_of()
    assert run.outcome.verdict is Verdict.VALID, run.outcome.reasons
    assert run.outcome.rare[Rare.PARTITION_OFFLINE] >= 3
    assert run.outcome.rare[Rare.DAMAGED_LOG_REPLACED] == run.outcome.rare[Rare.PARTITION_OFFLINE]
    assert len(run.record.logs) > 0


@pytest.mark.slow
def test_a_log_whose_damage_has_yet_to_be_told_is_not_looked_at() -> None:
    """What the process believes of it, another read has found to be wrong: as in cluster seed 7904."""
    foretold = Foretold()
    run_of(None, foretold)
    assert len(foretold.found) >= 3
    assert all(foretold.found)


@pytest.mark.slow
def test_a_log_is_rotten_still_where_the_power_goes_as_it_is_replaced(monkeypatch: pytest.MonkeyPatch) -> None:
    """The next start finds the damage again, and that is not the replica's fault: as in cluster seed 2109."""
    perform, cut_short = LogTable.perform, list[TopicPartition]()

    def perform_but_once(table: LogTable, effect: StorageEffect) -> StorageReport | Answer | None:
        if isinstance(effect, fx.ReplaceLog) and not cut_short:
            cut_short.append(effect.topic_partition)
            raise PowerLossError
        return perform(table, effect)

    monkeypatch.setattr(LogTable, "perform", perform_but_once)
    run = run_of()
    assert cut_short
    assert run.outcome.violation is None, run.outcome.reasons


def test_replica_that_begins_anew_while_it_counts_is_convicted() -> None:
    """It may be elected, and has nothing."""
    run = run_of("damaged-log-emptied-in-sync")
    assert run.outcome.violation is not None
    assert run.outcome.violation.name == "leader-candidate-completeness"
    assert "damaged-log-emptied-in-sync" in BUILT


def test_seeds_have_logs_that_rot() -> None:
    """In a share of the worlds, and in none in which anything else takes what the others hold."""
    climates = [draw_cluster_climate(Random(seed)) for seed in range(400)]
    clusters = [(climate, climate.cluster) for climate in climates if climate.cluster is not None]
    rotting = [(climate, cluster) for climate, cluster in clusters if cluster.rot]
    assert 8 <= len(rotting) <= 60
    for climate, cluster in rotting:
        assert cluster.fsync
        assert cluster.replication_factor > 1
        assert not cluster.unclean_leader_election_enable
        assert not cluster.disk_losses
        assert DamageDisk not in climate.weather
