"""Whole simulated runs of state machines: what they judge, what they count, and that they repeat."""

from __future__ import annotations

from dataclasses import replace
from random import Random
from typing import Any

import pytest
from msgspec import structs

from nemesis.history import READ, EventType
from nemesis.schedules.schedule import Schedule
from nemesis.simulator.climate import CALM, Climate
from nemesis.simulator.corpus import repeat_command, row_of
from nemesis.simulator.group_climate import COUNTER, STORE, GroupClimate
from nemesis.simulator.group_seeds import draw_group_climate
from nemesis.simulator.judges import judge_record
from nemesis.simulator.rare import Rare, rares_of
from nemesis.simulator.run import Run, SimOptions, simulate
from nemesis.simulator.world import Observer
from nemesis.variants.worlds import WorldKind
from nemesis.verdict import Verdict
from nemesis.workload.counter import INCREMENT
from replica.core.messages import Consistency, QueryRequest
from tests.depth import seeds
from tests.simulator.worlds import Absence, Silence

GROUP = GroupClimate()
NOTHING_HAPPENS = Schedule(name="simulated", time_limit_s=9, steps=())


def calm_run(*observers: Observer, **group: Any) -> Run:
    """A short run of calm state machines, in which only their own part of the climate is as given."""
    climate = replace(CALM, rate=20.0, group=replace(GROUP, **group))
    return simulate(SimOptions(seed=1, time_limit_s=12, climate=climate, schedule=NOTHING_HAPPENS), observers)


@pytest.mark.slow
@pytest.mark.parametrize("seed", seeds(1))
def test_the_right_protocol_is_valid(seed: int) -> None:
    """Whatever a seed's machines go through, they keep their promises and serve every object to the end."""
    run = simulate(SimOptions(seed=seed, world=WorldKind.GROUP))
    group = run.options.climate.group if run.options.climate is not None else None
    assert group is not None
    assert run.outcome.verdict is Verdict.VALID, run.outcome.reasons
    assert run.outcome.acknowledged >= len(group.logs)
    assert run.counts.objects == len(group.registers) + group.counter
    assert {row.topic_partition for row in run.record.logs} == {f"{log}" for log in group.logs}


def test_seeds_differ_in_their_state_machines() -> None:
    """Over many seeds there is every number of voters, and every habit in some worlds only."""
    drawn = [draw_group_climate(Random(seed)) for seed in range(300)]
    groups = [climate.group for climate in drawn if climate.group is not None]
    assert {climate.voters for climate in drawn} == {1, 2, 3, 4, 5}
    assert {climate.world for climate in drawn} == {WorldKind.GROUP}
    for habit in ("counter", "sessions", "ask_anyone", "stale_reads"):
        assert 0 < sum(bool(getattr(group, habit)) for group in groups) < 300, habit


def test_a_row_tells_its_world() -> None:
    """The command of such a run repeats such a run, and its rare events are those that a sweep lists."""
    run = calm_run()
    assert repeat_command(run.options) == "nemesis sim --seed 1 --world group --time-limit 12"
    assert (row_of(run).world, row_of(run).run_id) == ("group", "group-1")
    assert set(run.outcome.rare) <= set(rares_of(WorldKind.GROUP))


def test_a_command_of_a_session_is_sent_again_until_it_is_known() -> None:
    """On a network that loses messages, clients with sessions learn what became of nearly all their commands."""
    climate = Climate(rate=20.0, loss=0.2, group=replace(GROUP, sessions=1.0, counter=True))
    run = simulate(SimOptions(seed=3, time_limit_s=30, climate=climate))
    assert run.outcome.verdict is Verdict.VALID, run.outcome.reasons
    assert run.outcome.rare[Rare.REPEATED_COMMAND] >= 1
    unknown = [event for event in run.record.history if event.type is EventType.INFO and event.process >= 0]
    assert len(unknown) <= climate.concurrency


def test_a_command_without_a_session_may_remain_unknown() -> None:
    """Clients without sessions send each command once, and then often do not know."""
    climate = Climate(rate=20.0, loss=0.2, group=replace(GROUP, sessions=0.0))
    run = simulate(SimOptions(seed=2, time_limit_s=30, climate=climate))
    assert run.outcome.verdict is Verdict.VALID, run.outcome.reasons
    assert Rare.REPEATED_COMMAND not in run.outcome.rare
    assert sum(event.type is EventType.INFO for event in run.record.history if event.process >= 0) > 3


@pytest.mark.slow
def test_any_replica_answers_linearizable_questions() -> None:
    """Readers that ask anyone are answered by all of them, and the history is linearizable all the same."""
    run = calm_run(ask_anyone=1.0)
    readers = {event.node for event in run.record.history if event.f == READ and event.type is EventType.OK}
    assert run.outcome.verdict is Verdict.VALID, run.outcome.reasons
    assert readers == {1, 2, 3}
    assert run.outcome.rare[Rare.FOLLOWER_READ] > 10


def test_who_was_left_behind_loads_a_snapshot() -> None:
    """A replica that lacks what is gone from the logs is in the same state as the others in the end."""
    run = calm_run(Absence(2, until_s=7), snapshot_max_record_bytes_between=600)
    assert run.outcome.verdict is Verdict.VALID, run.outcome.reasons
    assert run.outcome.rare[Rare.SNAPSHOT_INSTALLED] >= 1
    assert min(row.log_start_offset for row in run.record.logs) > 0


@pytest.mark.slow
def test_state_machines_that_do_not_come_together_are_convicted() -> None:
    """While a replica that could run is away, not all have applied the same, and that must end."""
    outcome = calm_run(Absence(8)).outcome
    assert outcome.violation is not None
    assert (outcome.violation.name, "replicas [1, 3] are up" in outcome.violation.detail) == ("liveness", True)


def test_whatever_is_asked_is_answered() -> None:
    """A question that nobody answers convicts."""
    asked = QueryRequest(topic_partition=STORE, requests=(b"",), consistency=Consistency.STALE, timeout_ms=1)
    outcome = calm_run(Silence(asked, 8)).outcome
    assert outcome.violation is not None
    assert outcome.violation.name == "never-answered"


@pytest.mark.slow
@pytest.mark.parametrize("name", ["x1", f"{COUNTER}"])
def test_each_object_is_judged_by_its_own_model(name: str) -> None:
    """A read of what was never there convicts, of a register as of the counter, and nothing else is in doubt."""
    run = calm_run(counter=True)
    climate = run.options.climate
    assert climate is not None
    read = next(
        event
        for event in run.record.history
        if (event.f, event.type, event.topic_partition) == (READ, EventType.OK, name) and event.value is not None
    )
    assert run.outcome.verdict is Verdict.VALID, run.outcome.reasons
    assert any(event.f == INCREMENT and event.type is EventType.OK for event in run.record.history)
    run.record.history[read.index] = structs.replace(read, value=1_000_000)
    _, findings = judge_record("forged", run.record, climate)
    assert {(row["anomaly"], row["topic_partition"]) for row in findings.anomalies.to_pylist()} == {
        ("nonlinearizable", name)
    }
