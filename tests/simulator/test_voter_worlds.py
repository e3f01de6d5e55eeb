"""Worlds whose voters come and go, and worlds with leases: the right protocol in them, and what is counted."""

from __future__ import annotations

from dataclasses import replace
from random import Random
from typing import Any

import pytest

from nemesis.faults.damage import DamageDisk
from nemesis.faults.timekeeping import JumpClock
from nemesis.schedules.schedule import Schedule
from nemesis.simulator.climate import CALM
from nemesis.simulator.group_climate import STORE, GroupClimate
from nemesis.simulator.group_seeds import LEASE_DRIFT_PPM, draw_group_climate
from nemesis.simulator.node import Node, Step
from nemesis.simulator.rare import Rare, rares_of
from nemesis.simulator.run import Run, SimOptions, simulate
from nemesis.simulator.trace import Trace
from nemesis.simulator.world import Observer, World, base_voters, initial_voters_of
from nemesis.variants.worlds import WorldKind
from nemesis.verdict import Verdict
from replica.core import effects as fx
from replica.core.config import GroupConfig
from replica.ids import ReplicaId
from replica.voters import VoterSet

CHANGING = GroupClimate(changing_voters=True, initial_voters=3, change_pause_ms=(50, 400), handovers=0.1, wipes=0.2)
NOTHING_HAPPENS = Schedule(name="simulated", time_limit_s=15, steps=())


def calm_run(group: GroupClimate, *observers: Observer, seed: int = 1, **climate: Any) -> Run:
    """A run of calm machines in which voters change all the time."""
    options = SimOptions(
        seed=seed,
        time_limit_s=20,
        climate=replace(CALM, rate=10.0, voters=5, group=group, **climate),
        schedule=NOTHING_HAPPENS,
    )
    return simulate(options, observers)


def test_voters_come_and_go_while_clients_go_on() -> None:
    """They are added, removed, replaced and hand over, disks are lost, and every promise is kept."""
    run = calm_run(CHANGING)
    rare = run.outcome.rare

    assert run.outcome.verdict is Verdict.VALID, run.outcome.reasons
    assert run.outcome.acknowledged > 50
    for name in (
        Rare.VOTER_ADDED,
        Rare.VOTER_REMOVED,
        Rare.LEADER_REMOVED_ITSELF,
        Rare.LED_BY_NEWCOMER,
        Rare.OBSERVER_DISK_WIPED,
    ):
        assert rare.get(name, 0) > 0, name
    assert set(rare) <= set(rares_of(WorldKind.GROUP))


def test_a_run_with_changing_voters_is_a_function_of_its_options() -> None:
    """Told twice, it is the same story; who administrates voters throws dice of his own."""
    hashes, lines = [], list[str]()
    for _ in range(2):
        trace = Trace(lines.append)
        calm_run(CHANGING, trace)
        hashes.append(trace.hash)
    assert hashes[0] == hashes[1]


@pytest.mark.parametrize("count", [1, 3, 5, 9])
def test_a_world_begins_with_some_voters(count: int) -> None:
    """Machines with the lowest ids vote at first, no more than there are; the disks of the others name nobody."""
    climate = replace(CALM, voters=5, group=replace(CHANGING, initial_voters=count))
    base = base_voters(climate)

    assert base.ids == tuple(range(1, min(count, 5) + 1))
    for number in range(1, 6):
        expected = base if number <= count else VoterSet(())
        assert initial_voters_of(base, ReplicaId(number)) == expected


def test_voters_stay_where_nobody_changes_them() -> None:
    """Then all machines vote from the beginning, as every disk says, and nothing about voters is counted."""
    climate = replace(CALM, group=GroupClimate())
    run = calm_run(GroupClimate())

    assert base_voters(climate).ids == tuple(range(1, climate.voters + 1))
    assert not set(run.outcome.rare) & {rare for rare in Rare if rare.worlds == {WorldKind.CLUSTER, WorldKind.GROUP}}


class Wiping(Observer):
    """Lets a voter lose its disk, and notes who it was before, and what it stores of voters."""

    def __init__(self) -> None:
        self.keys: list[object] = []
        self.stored = 0

    def on_begin(self, world: World, record: object) -> None:
        """See ``Observer``."""
        del record
        world.queue.at(6_000_000, lambda: self._wipe(world))

    def _wipe(self, world: World) -> None:
        node = world.nodes[ReplicaId(2)]
        self.keys.append(node.key)
        world.change_disk(node)

    def on_disk_changed(self, node: Node) -> None:
        """See ``Observer``."""
        assert not node.is_up
        self.keys.append(node.key)
        assert (node.flushed_end, node.disk.files.operations > 0) == ({}, True)

    def on_step(self, node: Node, step: Step) -> None:
        """See ``Observer``."""
        del node
        self.stored += sum(isinstance(effect, fx.StoreVoters) for effect in step.effects)


def test_a_wiped_disk_is_somebody_else() -> None:
    """The machine comes back with another directory id, catches up as an observer, and the others serve meanwhile."""
    watch = Wiping()
    run = calm_run(replace(CHANGING, change_pause_ms=(60_000, 60_000)), watch)
    before, after = watch.keys

    assert run.outcome.verdict is Verdict.VALID, run.outcome.reasons
    assert before != after
    assert watch.stored > 0
    assert run.outcome.rare[Rare.VOTER_DISK_WIPED] == 1
    assert {row.replica_id for row in run.record.logs if row.topic_partition == f"{STORE}"} == {1, 2, 3, 4, 5}


def test_seeds_differ_in_who_votes_and_in_leases() -> None:
    """In some worlds voters change, and some have leases: there clocks differ by no more than is allowed."""
    drawn = [draw_group_climate(Random(seed)) for seed in range(200)]
    leases = [climate for climate in drawn if climate.group is not None and climate.group.lease_reads]
    changing = [climate for climate in drawn if climate.group is not None and climate.group.changing_voters]
    worst = (1_000_000 + LEASE_DRIFT_PPM) / (1_000_000 - LEASE_DRIFT_PPM)

    assert 30 < len(leases) < 90
    assert 50 < len(changing) < 120
    assert worst <= 1 + GroupConfig().lease_clock_drift_max_percent / 100
    assert all(climate.drift_ppm <= LEASE_DRIFT_PPM and JumpClock not in climate.weather for climate in leases)
    assert not any(DamageDisk in climate.weather for climate in changing)


def test_leaders_answer_by_lease() -> None:
    """With clocks that differ as much as may be, questions are answered at once, and none with what is old."""
    run = calm_run(GroupClimate(lease_reads=1.0, ask_anyone=0.5), drift_ppm=LEASE_DRIFT_PPM)

    assert run.outcome.verdict is Verdict.VALID, run.outcome.reasons
    assert run.outcome.rare[Rare.LEASE_READ] > 5
