"""A topic of simulated clusters that comes and goes: what it is for, and that its logs are judged."""

from __future__ import annotations

from dataclasses import replace
from random import Random

import pytest

from nemesis.schedules.schedule import Schedule
from nemesis.simulator.climate import CALM
from nemesis.simulator.cluster_climate import ClusterClimate
from nemesis.simulator.cluster_seeds import draw_cluster_climate
from nemesis.simulator.node import Node, Step
from nemesis.simulator.passing_topic import NAME
from nemesis.simulator.rare import Rare
from nemesis.simulator.run import Run, SimOptions, simulate
from nemesis.simulator.world import Observer
from nemesis.verdict import Verdict
from replica.ids import TopicPartition


def run_of(*observers: Observer, passing_topic: bool) -> Run:
    """A short run of a calm cluster."""
    climate = replace(CALM, rate=5.0, cluster=ClusterClimate(passing_topic=passing_topic))
    schedule = Schedule(name="simulated", time_limit_s=20, steps=())
    return simulate(SimOptions(seed=1, time_limit_s=25, climate=climate, schedule=schedule), observers)


def test_a_topic_comes_and_goes() -> None:
    """All replicas delete its logs, more than once, and nothing that is promised of other topics changes."""
    run = run_of(passing_topic=True)
    assert run.outcome.verdict is Verdict.VALID, run.outcome.reasons
    assert run.outcome.rare[Rare.LOG_DELETED] >= 6
    assert {row.topic_partition for row in run.record.logs} == {str(log) for log in ClusterClimate().topic_partitions}


class Unflushed(Observer):
    """No disk has anything of the passing topic."""

    def on_step(self, node: Node, step: Step) -> None:
        """Forget that it was flushed, before that is judged."""
        node.flushed_end.pop(TopicPartition(NAME, 0), None)


@pytest.mark.parametrize("passing_topic", [False, True])
def test_its_logs_are_judged_like_any_others(passing_topic: bool) -> None:
    """What nobody has flushed must not be committed, though no history tells of it."""
    violation = run_of(Unflushed(), passing_topic=passing_topic).outcome.violation
    assert (None if violation is None else violation.name) == ("committed-is-durable" if passing_topic else None)


def test_some_seeds_have_one() -> None:
    """Most have none."""
    climates = [draw_cluster_climate(Random(f"{seed} climate")) for seed in range(1, 201)]
    assert 15 <= sum(one.cluster is not None and one.cluster.passing_topic for one in climates) <= 50
