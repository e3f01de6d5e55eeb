"""Whole simulated runs: what they judge, what they count, and that they repeat."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from random import Random

import pytest

from nemesis.faults.damage import DamageDisk
from nemesis.history import APPEND, FINAL_READ, NEMESIS_PROCESS, EventType
from nemesis.schedules.schedule import Inject
from nemesis.simulator.common_seeds import draw_climate, with_lying_disks
from nemesis.simulator.faults import draw_schedule, drawn_anywhere
from nemesis.simulator.rare import Rare
from nemesis.simulator.run import HOSTILE_SHARE, TIME_LIMIT_S, SimOptions, resolved, simulate
from nemesis.variants.worlds import WorldKind
from nemesis.verdict import Verdict
from tests.depth import seeds, times


@pytest.mark.parametrize("seed", seeds(4))
def test_the_right_protocol_is_valid(seed: int) -> None:
    """Whatever a seed's world does, the protocol keeps its promises, recovers, and serves clients to the end."""
    run = simulate(SimOptions(seed=seed))
    assert run.outcome.verdict is Verdict.VALID, run.outcome.reasons
    assert run.counts.append_ok == run.outcome.acknowledged > 0
    assert run.counts.final_reads_whole == 1
    assert run.counts.logs_dumped_completely >= len({row.replica_id for row in run.record.logs}) > 0


@pytest.mark.slow
@pytest.mark.parametrize("world", WorldKind)
def test_a_run_is_a_function_of_its_options(world: WorldKind) -> None:
    """The same options give the same history, whether the climate was drawn or given; another seed gives another."""
    options = [SimOptions(seed=seed, world=world, time_limit_s=20) for seed in (5, 5, 6)]
    first, again, other = (simulate(one).record for one in options)
    given = simulate(resolved(options[0])).record
    assert (first.history, first.events, first.logs) == (again.history, again.events, again.logs)
    assert (first.history, first.events, first.logs) == (given.history, given.events, given.logs)
    assert first.history != other.history


def test_seeds_differ_in_their_climate() -> None:
    """Over many seeds every kind of trouble is there in some and absent from others, and so is every mood."""
    climates = [draw_climate(Random(f"{seed} climate")) for seed in range(300)]
    for kind, _ in drawn_anywhere():
        assert 0 < sum(kind in climate.weather for climate in climates) < 300
    for rate in ("loss", "spike", "duplication", "crash_in_step", "power_in_step", "ambush"):
        assert 0 < sum(getattr(climate, rate) > 0 for climate in climates) < 300
    assert {climate.voters for climate in climates} == {1, 2, 3, 4, 5}
    assert not any(climate.lying for climate in climates)


def test_damage_never_hits_a_majority() -> None:
    """A schedule damages at most as many machines as the cluster can do without."""
    for seed in range(300):
        climate = replace(draw_climate(Random(seed)), weather=(DamageDisk,))
        schedule = draw_schedule(climate, Random(seed), time_limit_s=45)
        damages = [
            step
            for step in schedule.steps
            if isinstance(step.action, Inject) and isinstance(step.action.fault, DamageDisk)
        ]
        assert len(damages) <= (climate.voters - 1) // 2


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_what_is_rare_happens() -> None:
    """Every rare event happens in one of two hundred seeds, so that a sweep means something."""
    seen: Counter[str] = Counter()
    wanted = {rare for rare in Rare if rare.worlds == set(WorldKind)} | {Rare.SEVERAL_RECORDS}
    # The first three show them all. Where worlds are drawn otherwise, others do.
    for seed in (124, 9, 149, *range(1, 200)):
        seen.update(simulate(SimOptions(seed=seed)).outcome.rare.keys())
        if wanted <= set(seen):
            return
    pytest.fail(f"never seen: {sorted(wanted - set(seen))}")


def test_the_history_is_one_of_a_live_run() -> None:
    """Operations, faults and the final read stand in the history in the words of a live run."""
    record = simulate(SimOptions(seed=2)).record
    words = {(event.f, event.type) for event in record.history}
    assert {(APPEND, EventType.INVOKE), (APPEND, EventType.OK), (FINAL_READ, EventType.OK)} <= words
    assert [event.index for event in record.history] == list(range(len(record.history)))
    assert any(event.process == NEMESIS_PROCESS for event in record.history)


def test_clients_stop_appending_when_their_values_are_used_up() -> None:
    """A bound on the values bounds the appends of the hostile time; that the cluster recovered takes some more."""
    run = simulate(SimOptions(seed=3, values=4))
    appended = [event for event in run.record.history if event.f == APPEND and event.type is EventType.INVOKE]
    hostile_ns = int(TIME_LIMIT_S * HOSTILE_SHARE * 1e9)
    assert len([event for event in appended if event.time_ns < hostile_ns]) == 4 < len(appended)


@pytest.mark.slow
def test_on_lying_disks_the_right_protocol_is_not_convicted_and_not_acquitted() -> None:
    """Where disks lie nothing is promised, so the verdict is unknown; yet nobody drops what it knew to be committed."""
    for seed in range(1, 1 + times(5)):
        climate = with_lying_disks(draw_climate(Random(f"{seed} climate")))
        assert simulate(SimOptions(seed=seed, climate=climate)).outcome.verdict is Verdict.UNKNOWN


def test_a_leader_that_learns_late_that_it_won_need_not_have_what_came_after() -> None:
    """Seed 1529: the last vote of epoch 19 reaches a paused replica when epoch 20 has committed more already.

    Leader completeness speaks of what was committed in earlier epochs, not of what was written in them.
    """
    assert simulate(SimOptions(seed=1529)).outcome.verdict is Verdict.VALID


@pytest.mark.slow
@pytest.mark.parametrize("seed", [444, 9396])
def test_the_last_read_comes_after_the_last_acknowledgement(seed: int) -> None:
    """Seeds in which a write was on its way when clients stopped: it is waited for, and then everything is read."""
    assert simulate(SimOptions(seed=seed)).outcome.verdict is Verdict.VALID
