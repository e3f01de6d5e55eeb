"""Whole simulated runs of clusters: what they judge, what they count, and that they repeat."""

from __future__ import annotations

from dataclasses import replace
from random import Random
from typing import Any

import pytest

from nemesis.faults.damage import DamageDisk
from nemesis.faults.simulated import DelayMetadata
from nemesis.history import APPEND, FINAL_READ, EventType
from nemesis.schedules.schedule import Inject, Schedule
from nemesis.simulator.climate import CALM, Climate
from nemesis.simulator.cluster_climate import ClusterClimate
from nemesis.simulator.cluster_seeds import draw_cluster_climate, is_bearable
from nemesis.simulator.corpus import repeat_command, row_of
from nemesis.simulator.faults import draw_schedule
from nemesis.simulator.rare import Rare
from nemesis.simulator.record import Record
from nemesis.simulator.run import RECOVERY_S_MAX, Run, SimOptions, resolved, simulate
from nemesis.simulator.world import Observer, World
from nemesis.variants.worlds import WorldKind
from nemesis.verdict import Verdict
from replica.core.messages import InitProducerIdRequest
from replica.ids import ReplicaId
from tests.depth import seeds
from tests.simulator.worlds import Absence, Liar, Silence

CLUSTER = ClusterClimate()
NOTHING_HAPPENS = Schedule(name="simulated", time_limit_s=12, steps=())


def calm_run(*observers: Observer, **cluster: Any) -> Run:
    """A short run of a calm cluster, in which only its own part of the climate is as given."""
    climate = replace(CALM, rate=20.0, cluster=replace(CLUSTER, **cluster))
    return simulate(SimOptions(seed=1, time_limit_s=16, climate=climate, schedule=NOTHING_HAPPENS), observers)


@pytest.mark.slow
@pytest.mark.parametrize("seed", seeds(1))
def test_the_right_protocol_is_valid(seed: int) -> None:
    """Whatever a seed's cluster goes through, it keeps its promises and serves every partition to the end."""
    run = simulate(SimOptions(seed=seed, world=WorldKind.CLUSTER))
    cluster = run.options.climate.cluster if run.options.climate is not None else None
    assert cluster is not None
    assert run.outcome.verdict is Verdict.VALID, run.outcome.reasons
    assert run.counts.append_ok == run.outcome.acknowledged >= len(cluster.topic_partitions)
    assert run.counts.final_reads_whole == len(cluster.topic_partitions)
    assert {row.topic_partition for row in run.record.logs} == {str(log) for log in cluster.topic_partitions}


class LostDisk(Observer):
    """Nothing of a machine's disk is to be believed, from the beginning."""

    def on_begin(self, world: World, record: Record) -> None:
        """Take one of three brokers away, as damage does that its first start finds."""
        world.nodes[ReplicaId(3)].is_retired = True


@pytest.mark.slow
def test_a_topic_that_damage_keeps_from_being_created_proves_nothing() -> None:
    """Where fewer brokers are left than a topic has replicas, and there is no such topic yet, nobody is to blame."""
    run = calm_run(LostDisk())

    assert run.outcome.verdict is Verdict.UNKNOWN
    assert run.outcome.reasons == ("topic1-0: damage has taken brokers that it needed to be created",)


@pytest.mark.parametrize("unclean", [False, True])
def test_a_history_counts_where_no_unclean_election_gave_anything_up(unclean: bool) -> None:
    """That one was allowed excuses nothing."""
    run = calm_run(Liar(), unclean_leader_election_enable=unclean)
    assert run.outcome.violation is not None, run.outcome.reasons
    # Nobody has written anything below the place of the lie either.
    assert {"hole", "lost-write"} <= {row["anomaly"] for row in run.anomalies}


@pytest.mark.slow
def test_an_unclean_election_excuses_what_is_lost_by_it() -> None:
    """The topic has chosen that: each loss that such an election is known to have caused is told, and no violation."""
    climate = draw_cluster_climate(Random("17 climate"))
    assert climate.cluster is not None
    climate = replace(climate, cluster=replace(climate.cluster, passing_topic=False))
    outcome = simulate(SimOptions(seed=17, climate=climate)).outcome
    assert outcome.rare[Rare.UNCLEAN_ELECTION] > 0
    assert (outcome.verdict, outcome.violation) == (Verdict.VALID, None)
    assert "lost-write" in outcome.not_promised[0]


def test_a_seed_draws_what_a_cluster_can_bear() -> None:
    """No drawn climate and schedule take away what a healed cluster needs in order to recover."""
    for seed in range(300):
        climate = draw_cluster_climate(Random(seed))
        schedule = draw_schedule(climate, Random(seed), time_limit_s=45)
        faults = [step.action.fault for step in schedule.steps if isinstance(step.action, Inject)]
        assert is_bearable(climate, faults), seed


def test_seeds_differ_in_their_clusters() -> None:
    """Over many seeds there is every number of brokers and replicas, and every habit in some clusters only."""
    drawn = [draw_cluster_climate(Random(seed)) for seed in range(300)]
    clusters = [climate.cluster for climate in drawn if climate.cluster is not None]
    assert {climate.voters for climate in drawn} == {1, 2, 3, 4, 5}
    assert {cluster.replication_factor for cluster in clusters} == {1, 2, 3}
    assert {cluster.min_insync_replicas for cluster in clusters} == {1, 2}
    for habit in ("fsync", "unclean_leader_election_enable", "elr_enable", "idempotent", "weak_acks", "follower_reads"):
        assert 0 < sum(bool(getattr(cluster, habit)) for cluster in clusters) < 300, habit
    assert any(DamageDisk in climate.weather for climate in drawn)
    assert any(DelayMetadata in climate.weather for climate in drawn)
    assert 0 < sum(cluster.appointee_ambush > 0 for cluster in clusters) < 300


def test_only_what_all_replicas_acknowledge_is_recorded_as_done() -> None:
    """Writes that ask for less are of unknown outcome, whatever the leader says of them."""
    run = calm_run(weak_acks=1.0)
    hostile_ns = NOTHING_HAPPENS.time_limit_s * 1e9
    appends = [event for event in run.record.history if event.f == APPEND and event.time_ns < hostile_ns]
    assert run.outcome.verdict is Verdict.VALID, run.outcome.reasons
    assert {event.type for event in appends} == {EventType.INVOKE, EventType.INFO, EventType.FAIL}
    assert {"acks=0", "acks=1"} <= {event.error for event in appends}


def test_a_follower_serves_readers() -> None:
    """Readers that ask anyone are answered by others than those who acknowledge writes."""
    history = calm_run(follower_reads=1.0, topics=1, partitions=1).record.history
    writers = {event.node for event in history if event.f == APPEND and event.type is EventType.OK}
    readers = {event.node for event in history if event.f != APPEND and event.type is EventType.OK}
    assert len(writers) == 1
    assert readers > writers


def test_every_partition_is_read_and_dumped() -> None:
    """At the end there is one reader and one log of each replica for each partition."""
    run = calm_run()
    readers = {event.topic_partition for event in run.record.history if event.f == FINAL_READ}
    dumped = {(row.replica_id, row.topic_partition) for row in run.record.logs}
    assert readers == {str(log) for log in CLUSTER.topic_partitions}
    assert dumped == {(voter, str(log)) for voter in (1, 2, 3) for log in CLUSTER.topic_partitions}


def test_a_cluster_that_does_not_come_together_is_convicted() -> None:
    """While a broker that could run is away, a healed cluster is not whole, and that must end."""
    outcome = calm_run(Absence(11)).outcome
    assert outcome.violation is not None
    assert outcome.violation.name == "liveness"


@pytest.mark.slow
def test_a_replica_that_catches_up_for_long_is_waited_for() -> None:
    """One batch at a time, over a slow link to a slow disk, takes its time: whoever has more than ever is not stuck."""
    options = resolved(SimOptions(seed=3988, world=WorldKind.CLUSTER))
    assert options.climate is not None
    outcome = simulate(replace(options, climate=replace(options.climate, rate=90.0))).outcome

    assert outcome.verdict is Verdict.VALID, outcome.reasons
    assert outcome.simulated_ms > (60 + RECOVERY_S_MAX) * 1000


def test_whatever_is_asked_is_answered() -> None:
    """A request that nobody answers convicts, of whatever kind it is."""
    outcome = calm_run(Silence(InitProducerIdRequest(), 11)).outcome
    assert outcome.violation is not None
    assert outcome.violation.name == "never-answered"


class Leaving(Observer):
    """Stops a machine gracefully, and lets it come back."""

    def on_begin(self, world: World, record: Record) -> None:
        """See ``Observer``."""
        del record
        world.queue.at(5_000_000, world.nodes[ReplicaId(2)].stop)


@pytest.mark.slow
def test_what_is_rare_is_counted() -> None:
    """A broker that leaves moves its leaderships, shrinks what it was in sync with, and is back in it afterwards."""
    rare = calm_run(Leaving()).outcome.rare
    assert rare[Rare.CONTROLLED_SHUTDOWN] == 1
    assert {Rare.ISR_SHRINK, Rare.ISR_EXPAND, Rare.LEADER_FAILOVER} <= set(rare)


def test_a_row_tells_its_world() -> None:
    """The command of a cluster's run repeats a cluster's run."""
    run = calm_run()
    assert repeat_command(run.options) == "nemesis sim --seed 1 --world cluster --time-limit 16"
    assert (row_of(run).world, row_of(run).run_id) == ("cluster", "cluster-1")


def test_an_idempotent_producer_writes_each_value_once() -> None:
    """On a network that loses messages, producers that try again until they know leave each value once in each log."""
    climate = Climate(rate=20.0, loss=0.1, cluster=replace(CLUSTER, idempotent=1.0))
    run = simulate(SimOptions(seed=2, time_limit_s=30, climate=climate))
    assert run.outcome.verdict is Verdict.VALID, run.outcome.reasons
    assert run.outcome.rare[Rare.DUPLICATE_PRODUCE_SUPPRESSED] > 0
    unknown = [event for event in run.record.history if event.f == APPEND and event.type is EventType.INFO]
    assert len(unknown) <= climate.concurrency
