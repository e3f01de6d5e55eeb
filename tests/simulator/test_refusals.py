"""Evidence of the end of processes in simulated worlds: what it brings, what it may cost, and where there is none."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from random import Random

import pytest

from nemesis.schedules.schedule import Schedule
from nemesis.simulator.climate import CALM, Climate
from nemesis.simulator.climate_fields import CALM_CLIMATES
from nemesis.simulator.common_seeds import REFUSALS_SHARE
from nemesis.simulator.node import Node
from nemesis.simulator.rare import Rare
from nemesis.simulator.record import Record
from nemesis.simulator.refusals import Refusals
from nemesis.simulator.run import SimOptions, resolved, simulate
from nemesis.simulator.steps import Step
from nemesis.simulator.world import Observer, World
from nemesis.variants.worlds import WorldKind
from nemesis.verdict import Verdict
from replica.ids import TopicPartition
from tests.simulator.worlds import USED, Stage, recorded_climate

SEEDS = (4, 6, 7, 9)
"""The first whose worlds have such evidence, in all kinds of worlds."""
PATIENT = replace(USED, refusals=True, fetch_timeout_ms=30_000, restart_ms=(20_000, 20_000))
"""Who is silent is given half a minute, and a process that has ended is not back before."""
OF_REFUSALS = {Rare.LEADER_REFUSED, Rare.BROKER_REFUSED, Rare.REFUSED_FALSELY}


class Elections(Observer):
    """Notes in which epochs a quorum log had a leader, up to the fifth minute: then groups balance their leaders."""

    def __init__(self) -> None:
        self.epochs: dict[TopicPartition, set[int]] = {}
        self._now_ms: Callable[[], int] = lambda: 0

    def on_begin(self, world: World, record: Record) -> None:
        """Learn what time it is."""
        del record
        self._now_ms = lambda: world.now_ms

    def on_step(self, node: Node, step: Step) -> None:
        """Look at the leaders."""
        del step
        for name, log in {} if node.core is None or self._now_ms() > 300_000 else node.core.logs.items():
            if log.is_leader:
                self.epochs.setdefault(name, set()).add(log.leader_epoch)


def stage_of(climate: Climate) -> Stage:
    """A world that has begun, with evidence."""
    stage = Stage(climate)
    refusals = Refusals(stage.world, stage.record, Random("refused"))
    stage.world.observers.append(refusals)
    refusals.start()
    stage.run(10)
    return stage


@pytest.mark.slow
def test_promises_are_kept_whatever_evidence_there_is() -> None:
    """Right, late and wrong, it leads to elections, and to nothing that is not promised."""
    for seed in SEEDS:
        run = simulate(SimOptions(seed=seed, time_limit_s=30.0))
        assert run.outcome.violation is None, run.outcome


def test_a_share_of_all_seeds_have_evidence() -> None:
    """It is drawn with dice of its own, so that all else of a seed is what it would be without."""
    drawn = [seed for seed in range(1, 500) if Random(f"{seed} refusals").random() < REFUSALS_SHARE]
    assert drawn[: len(SEEDS)] == list(SEEDS)
    assert 120 < len(drawn) < 180
    for world in WorldKind:
        climates = [resolved(SimOptions(seed=seed, world=world)).climate for seed in range(1, 12)]
        assert [climate is not None and climate.refusals for climate in climates] == [
            seed in drawn for seed in range(1, 12)
        ]


def test_a_leader_whose_process_has_ended_is_replaced_at_once() -> None:
    """Others lead long before they would give up one that is silent."""
    stage = stage_of(PATIENT)
    first = stage.leader
    first.kill()
    stage.run(1)
    assert stage.leader is not first
    assert stage.record.rare[Rare.LEADER_REFUSED] > 0


def test_a_leader_that_is_cut_off_or_stands_still_is_given_its_whole_time() -> None:
    """Of a silent leader there is no evidence, whether its process runs or not."""
    stage = stage_of(PATIENT)
    first = stage.leader
    first.pause(0)
    stage.run(10)
    first.resume(0)
    others = frozenset((node.replica_id, first.replica_id) for node in stage.world.up() if node is not first)
    stage.world.network.cut(1, others | frozenset((there, here) for here, there in others))
    first.kill()
    stage.run(10)
    assert stage.record.rare[Rare.LEADER_REFUSED] == 0
    assert not any(
        log.is_leader for node in stage.world.up() if node.core is not None for log in node.core.logs.values()
    )


@pytest.mark.slow
def test_wrong_evidence_costs_no_more_than_elections() -> None:
    """Something refuses in the name of processes that live on, again and again: everything written is there."""
    stage = stage_of(replace(USED, refusals=True, false_refusals=60.0))
    stage.run(20)
    assert stage.record.rare[Rare.REFUSED_FALSELY] > 0
    assert stage.record.rare[Rare.LEADER_REFUSED] > 0
    stage.world.climate = replace(stage.world.climate, false_refusals=0.0)
    stage.converge()


@pytest.mark.slow
@pytest.mark.parametrize("world", WorldKind)
def test_on_a_slow_network_nobody_is_given_up(world: WorldKind) -> None:
    """With 300 ms each way, and a twentieth of all messages sent again: one election in 5 minutes, and no fencing."""
    climate = replace(
        CALM_CLIMATES[world],
        latency_ms=(300.0, 300.0),
        spike=0.05,
        spike_ms=1000.0,
        ordered=True,
        refusals=True,
        rate=2.0,
    )
    quiet = Schedule(name="quiet", time_limit_s=300.0, steps=())
    watch = Elections()
    outcome = simulate(SimOptions(seed=1, climate=climate, schedule=quiet, time_limit_s=300.0), [watch]).outcome
    assert outcome.verdict is Verdict.VALID, outcome.reasons
    assert [len(epochs) for epochs in watch.epochs.values()] == [1]
    assert not {Rare.BROKER_FENCED, *OF_REFUSALS} & outcome.rare.keys(), outcome.rare


@pytest.mark.slow
def test_a_controller_that_takes_old_evidence_for_new_is_convicted() -> None:
    """The wrong protocol fences a process for the end of the one before; the right one keeps its promises there."""
    options = resolved(SimOptions(seed=3, world=WorldKind.CLUSTER, variant="fences-by-an-old-refusal"))
    wrong, right = (simulate(replace(options, variant=variant)).outcome for variant in (options.variant, None))
    assert wrong.violation is not None, wrong.reasons
    assert wrong.violation.name == "fenced-by-an-old-refusal"
    assert right.verdict is Verdict.VALID, right.reasons


def test_without_evidence_there_is_none() -> None:
    """A calm climate has none, so that what is written down of earlier worlds is what it was."""
    assert not CALM.refusals
    run = simulate(SimOptions(seed=1, time_limit_s=20.0))
    assert not OF_REFUSALS & run.outcome.rare.keys()


@pytest.mark.slow
def test_power_that_goes_while_a_log_begins_anew_takes_nothing_that_is_there_afterwards() -> None:
    """A follower in sync is about to drop what is deleted elsewhere: what its disk has after the start still counts."""
    run = simulate(SimOptions(seed=167, climate=recorded_climate(167), time_limit_s=45.0))
    assert run.outcome.violation is None, run.outcome
