"""Logs that rot in simulated clusters: what they are for, and what a judge makes of a replica that begins anew."""

from __future__ import annotations

from dataclasses import replace
from random import Random

from nemesis.checks.verdict import Verdict
from nemesis.schedule import Schedule
from nemesis.simulator.climate import CALM, Weather
from nemesis.simulator.cluster_census import ClusterRare
from nemesis.simulator.cluster_climate import ClusterClimate
from nemesis.simulator.cluster_seeds import draw_cluster_climate, with_rot
from nemesis.simulator.run import Run, SimOptions, simulate
from nemesis.variants.catalogue import BUILT


def run_of(variant: str | None = None) -> Run:
    """A short run of a calm cluster in which a log rots every three seconds."""
    cluster = ClusterClimate(partitions=1, broker_heartbeat_interval_ms=300, broker_session_timeout_ms=1500)
    climate = with_rot(replace(CALM, voters=3, cluster=cluster), a_minute=20.0)
    schedule = Schedule(name="simulated", time_limit_s=30, steps=())
    return simulate(SimOptions(seed=1, time_limit_s=40, climate=climate, schedule=schedule, variant=variant))


def test_logs_rot_and_are_fetched_anew() -> None:
    """Every promise is kept meanwhile, and in the end all copies are whole."""
    run = run_of()
    assert run.outcome.verdict is Verdict.VALID, run.outcome.reasons
    assert run.outcome.rare[ClusterRare.PARTITION_OFFLINE] >= 3
    assert run.outcome.rare[ClusterRare.DAMAGED_LOG_REPLACED] == run.outcome.rare[ClusterRare.PARTITION_OFFLINE]
    assert len(run.record.logs) > 0


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
        assert Weather.DAMAGE not in climate.weather
