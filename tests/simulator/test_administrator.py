"""The administrator of a simulated cluster: which records it has deleted, where, and what the judges say of that."""

from __future__ import annotations

from dataclasses import replace
from random import Random

import pytest

from nemesis.schedules.schedule import Schedule
from nemesis.simulator.climate import CALM, Climate
from nemesis.simulator.cluster_climate import ClusterClimate
from nemesis.simulator.cluster_seeds import KEPT_BYTES, draw_cluster_climate, with_forgetting, with_retention
from nemesis.simulator.node import Node, Step
from nemesis.simulator.run import Run, SimOptions, simulate
from nemesis.simulator.world import Observer
from nemesis.verdict import Verdict
from replica.core import effects as fx
from replica.core import messages as m
from tests.depth import times
from tests.simulator.worlds import Liar

NEVER_BY_SIZE = 1 << 40
"""A size that no log reaches: only what is asked for is deleted."""


class Watch(Observer):
    """Notes where logs begin, and what the administrator was told."""

    def __init__(self) -> None:
        self.log_starts: list[tuple[int, str, int]] = []
        self.answers: set[str] = set()

    def on_step(self, node: Node, step: Step) -> None:
        """See ``Observer``."""
        for effect in step.effects:
            match effect:
                case fx.RaiseLogStart(topic_partition=name, log_start_offset=offset):
                    self.log_starts.append((node.replica_id, str(name), offset))
                case fx.Reply(response=m.DeleteRecordsResponse(error=error)):
                    self.answers.add(error)


def run_of(climate: Climate, *, seed: int = 1, schedule: Schedule | None = None) -> tuple[Run, Watch]:
    watch = Watch()
    return simulate(SimOptions(seed=seed, time_limit_s=24, climate=climate, schedule=schedule), [watch]), watch


def calm(retention_bytes: int) -> tuple[Run, Watch]:
    climate = replace(CALM, rate=20.0, cluster=ClusterClimate(retention_bytes=retention_bytes))
    return run_of(climate, schedule=Schedule(name="simulated", time_limit_s=18, steps=()))


@pytest.mark.slow
def test_records_are_deleted_where_some_may_be_lost() -> None:
    """All replicas of every partition follow, what is not committed stays, and it is the same every time.

    The cluster recovers, and of what was acknowledged only what is gone from the beginning of a log was not seen again:
    that was not promised.
    """
    run, watch = calm(NEVER_BY_SIZE)
    assert (run.outcome.verdict, run.outcome.violation) == (Verdict.VALID, None)
    assert {(row["anomaly"], row["severity"]) for row in run.anomalies} == {("unseen", "allowed")}
    assert [sentence.startswith("records were deleted") for sentence in run.outcome.not_promised] == [True]
    assert run.counts.final_reads_whole == len(ClusterClimate().topic_partitions)
    assert {(node, name) for node, name, _ in watch.log_starts} == {
        (node, str(log)) for node in (1, 2, 3) for log in ClusterClimate().topic_partitions
    }
    assert watch.answers >= {"NONE", "NOT_LEADER_OR_FOLLOWER", "OFFSET_OUT_OF_RANGE"}
    assert calm(NEVER_BY_SIZE)[1].log_starts == watch.log_starts


@pytest.mark.slow
def test_a_write_that_is_nowhere_convicts_also_where_records_are_deleted() -> None:
    """It would stand above the beginning of every log, where nothing was deleted."""
    climate = replace(CALM, rate=20.0, cluster=ClusterClimate(retention_bytes=NEVER_BY_SIZE))
    schedule = Schedule(name="simulated", time_limit_s=18, steps=())
    run = simulate(SimOptions(seed=1, time_limit_s=24, climate=climate, schedule=schedule), [Liar()])
    assert run.outcome.verdict is Verdict.INVALID, run.outcome.reasons
    assert "lost-write" in {row["anomaly"] for row in run.anomalies if row["severity"] == "violation"}


def test_seeds_draw_what_takes_records() -> None:
    """Some delete records, and some lose their power without having flushed; most do neither."""
    climates = [draw_cluster_climate(Random(f"{seed} climate")) for seed in range(1, 601)]
    retaining = [one.cluster.retention_bytes for one in climates if one.cluster is not None]
    assert 20 <= sum(kept >= 0 for kept in retaining) <= 60
    assert {kept for kept in retaining if kept >= 0} == set(KEPT_BYTES)
    assert 10 <= sum(climate.may_forget for climate in climates) <= 60


@pytest.mark.slow
def test_a_log_of_which_only_the_start_was_flushed_is_no_phantom() -> None:
    """It began inside a batch when the power took all that it held: it ends there, where no batch did."""
    climate = draw_cluster_climate(Random("55 climate"))
    assert climate.cluster is not None
    climate = replace(climate, batch_records=4, cluster=replace(climate.cluster, passing_topic=False))
    run = simulate(SimOptions(seed=55, climate=with_forgetting(with_retention(climate, kept_bytes=4000))))
    assert run.outcome.violation is None, run.outcome.violation


@pytest.mark.slow
def test_nothing_is_deleted_where_all_is_to_be_read_in_the_end() -> None:
    """A world that keeps everything is judged by its last reads, from which nothing is missing."""
    run, watch = calm(-1)
    assert (run.outcome.verdict, watch.log_starts, watch.answers) == (Verdict.VALID, [], set())


@pytest.mark.parametrize("seed", [1, 3, 5, 6, 8, 10, 11, 13][: times(3)])
def test_the_right_protocol_deletes_what_it_was_told_to(seed: int) -> None:
    """Whatever a seed's cluster goes through meanwhile, no step breaks a promise. Those in which it hardly serves are
    left out."""
    climate = draw_cluster_climate(Random(f"{seed} climate"))
    assert climate.cluster is not None
    run, watch = run_of(replace(climate, cluster=replace(climate.cluster, retention_bytes=NEVER_BY_SIZE)), seed=seed)
    assert run.outcome.violation is None, run.outcome.violation
    assert "NONE" in watch.answers
