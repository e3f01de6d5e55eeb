"""A schedule is a function of its seed and options, and nothing else."""

from __future__ import annotations

import os
import subprocess
import sys
from collections import Counter
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nemesis.faults.bursts import Burst
from nemesis.faults.catalogue import KINDS, USUAL, fault_from_json
from nemesis.faults.certificates import RotateCertificates
from nemesis.faults.disks import RECOVERY_S, PowerLoss
from nemesis.faults.fault import FAULT_S
from nemesis.faults.moves import Course, Reassign
from nemesis.faults.needs import Need
from nemesis.faults.partitions import CutClients, Partition
from nemesis.faults.processes import Pause
from nemesis.faults.replaced_disks import ReplaceDisk
from nemesis.faults.rolling import ROLLING_S, RollingRestart
from nemesis.faults.targets import Role
from nemesis.faults.voters import REPLACED_S, ChangeVoters, VoterChange
from nemesis.schedules.directed import DIRECTED
from nemesis.schedules.drawn import (
    FIRST_FAULT_S,
    LEADERLESS_S,
    TIME_LIMIT_S_MIN,
    flip_flop_schedule,
    random_schedule,
)
from nemesis.schedules.schedule import Heal, Inject, Schedule, Step, schedule_from_json

seeds = st.integers(min_value=0, max_value=2**63)
kind_lists = st.lists(st.sampled_from(list(KINDS)), min_size=1, max_size=4)
limits = st.floats(min_value=TIME_LIMIT_S_MIN, max_value=120)

PROGRAM = """
from nemesis.schedules.drawn import random_schedule
from nemesis.faults.catalogue import KINDS
print(random_schedule(seed=7, kinds=list(KINDS), time_limit_s=60).to_json())
"""


@given(seed=seeds, kinds=kind_lists, time_limit_s=limits)
def test_the_same_seed_gives_the_same_schedule(seed: int, kinds: list[str], time_limit_s: float) -> None:
    """Seed and options decide every byte of the schedule; the order in which kinds are named does not matter."""
    first = random_schedule(seed=seed, kinds=kinds, time_limit_s=time_limit_s)
    again = random_schedule(seed=seed, kinds=kinds[::-1], time_limit_s=time_limit_s)

    assert first.to_json() == again.to_json()


@pytest.mark.slow
def test_the_order_of_hashes_does_not_matter() -> None:
    """Interpreters with different hash seeds make the same schedule."""
    texts = {
        subprocess.run(
            [sys.executable, "-c", PROGRAM],
            env={**os.environ, "PYTHONHASHSEED": hash_seed, "PYTHONPATH": os.pathsep.join(sys.path)},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for hash_seed in ("0", "1", "2")
    }

    assert len(texts) == 1


@given(seed=seeds, kinds=kind_lists, time_limit_s=limits)
def test_a_stored_schedule_is_read_back(seed: int, kinds: list[str], time_limit_s: float) -> None:
    """What was written is what is read."""
    schedule = random_schedule(seed=seed, kinds=kinds, time_limit_s=time_limit_s)

    assert schedule_from_json(schedule.to_json()) == schedule


@pytest.mark.parametrize("schedule", DIRECTED.values(), ids=DIRECTED)
def test_a_directed_schedule_is_read_back(schedule: Schedule) -> None:
    """Scripts are stored as schedules of seeds are, names and links included, and each has its own name."""
    assert schedule_from_json(schedule.to_json()) == schedule
    assert DIRECTED[schedule.name] is schedule


@given(seed=seeds, kinds=kind_lists, time_limit_s=limits)
def test_every_fault_is_healed_in_time(seed: int, kinds: list[str], time_limit_s: float) -> None:
    """Each fault has one healing, after it, within the time limit."""
    schedule = random_schedule(seed=seed, kinds=kinds, time_limit_s=time_limit_s)
    begins = {step.action.fault_id: step.at_s for step in schedule.steps if isinstance(step.action, Inject)}
    ends = {step.action.fault_id: step.at_s for step in schedule.steps if isinstance(step.action, Heal)}

    assert begins.keys() == ends.keys()
    assert all(begins[fault] < ends[fault] <= time_limit_s for fault in begins)
    assert Counter(type(step.action) for step in schedule.steps) == {Inject: len(begins), Heal: len(ends)}


@given(seed=seeds, kinds=kind_lists, time_limit_s=limits)
def test_the_leader_is_taken_away_first(seed: int, kinds: list[str], time_limit_s: float) -> None:
    """The first fault hits the leader, with others or alone, for long enough that another one takes its place."""
    first, *others = random_schedule(seed=seed, kinds=kinds, time_limit_s=time_limit_s).steps
    assert isinstance(first.action, Inject)
    healed_s = next(step.at_s for step in others if step.action == Heal(fault_id=0))

    assert first.at_s == FIRST_FAULT_S
    assert healed_s - first.at_s >= min(LEADERLESS_S[0], time_limit_s - first.at_s)
    fault = first.action.fault
    if isinstance(fault, Burst | RotateCertificates):
        return  # It is about nobody.
    if isinstance(fault, Reassign):
        assert fault.leader_goes
        return
    expected = Role.ALL if isinstance(fault, RollingRestart | PowerLoss) else Role.LEADER
    assert fault.targets == (expected,)


@given(seed=seeds)
def test_packages_choose_the_faults(seed: int) -> None:
    """Only faults of the named kinds occur."""
    schedule = random_schedule(seed=seed, kinds=["pause"], time_limit_s=60)

    assert {type(step.action.fault) for step in schedule.steps if isinstance(step.action, Inject)} == {Pause}


@given(seed=seeds)
def test_after_a_power_loss_there_is_time_to_recover(seed: int) -> None:
    """Where nobody is back in sync, another loss has nothing to take."""
    steps = random_schedule(seed=seed, kinds=["power-loss"], time_limit_s=60).steps
    dark: set[int] = set()
    healed_s = 0.0
    for step in steps:
        if isinstance(step.action, Heal):
            dark.remove(step.action.fault_id)
            healed_s = step.at_s
        elif isinstance(step.action, Inject):
            assert dark or step.at_s == FIRST_FAULT_S or step.at_s >= healed_s + RECOVERY_S[0]
            dark.add(step.action.fault_id)


SHORT = ("partition", "kill", "pause")


def faults_of(schedule: Schedule) -> list[str]:
    """The kinds of its faults, in order of time."""
    return [fault.kind for fault in schedule.faults]


def test_a_package_that_is_named_often_comes_often() -> None:
    """Named nine times beside one other, a kind gives nine tenths of the faults; and every seed stays a function."""
    kinds = ["kill"] * 9 + ["loss"]
    drawn = Counter(
        kind for seed in range(200) for kind in faults_of(random_schedule(seed=seed, kinds=kinds, time_limit_s=60))
    )

    assert 0.85 < drawn["kill"] / drawn.total() < 0.95
    mixed = ["loss", *kinds[:-1]]
    first, again = (random_schedule(seed=5, kinds=order, time_limit_s=60) for order in (kinds, mixed))
    assert first == again


@given(seed=seeds, kinds=kind_lists, time_limit_s=limits)
def test_a_flip_flop_is_never_healthy(seed: int, kinds: list[str], time_limit_s: float) -> None:
    """Packages take turns in order, each strikes when the one before heals, until the end; a seed fixes it all."""
    schedule = flip_flop_schedule(seed=seed, kinds=kinds, time_limit_s=time_limit_s)
    begins = [step.at_s for step in schedule.steps if isinstance(step.action, Inject)]
    ends = [step.at_s for step in schedule.steps if isinstance(step.action, Heal)]

    assert begins[0] == FIRST_FAULT_S
    assert begins[1:] == ends[:-1]
    assert ends[-1] > time_limit_s - FAULT_S[0]
    one_round = [type(KINDS[kind].drawn(Random(0))) for kind in kinds if kind != "partition"]
    found = [type(fault) for fault in schedule.faults if not isinstance(fault, Partition | CutClients)]
    assert all(kind is one_round[number % len(one_round)] for number, kind in enumerate(found))
    assert schedule == flip_flop_schedule(seed=seed, kinds=kinds, time_limit_s=time_limit_s)


def test_a_flip_flop_of_nothing_or_without_time() -> None:
    """Without kinds nothing happens, and too short a time is refused."""
    assert flip_flop_schedule(seed=1, kinds=[], time_limit_s=1).steps == ()
    with pytest.raises(ValueError, match="give 6"):
        flip_flop_schedule(seed=1, kinds=["kill"], time_limit_s=2)


def test_a_third_of_the_time_is_healthy() -> None:
    """Over many seeds, at least three tenths of a run of 60 seconds are free of faults that a healing ends at once."""
    for seed in range(200):
        steps = random_schedule(seed=seed, kinds=SHORT, time_limit_s=60).steps
        begins = {step.action.fault_id: step.at_s for step in steps if isinstance(step.action, Inject)}
        ends = {step.action.fault_id: step.at_s for step in steps if isinstance(step.action, Heal)}
        faulty = [any(begins[f] <= tenth / 10 < ends[f] for f in begins) for tenth in range(600)]
        assert faulty.count(False) >= 0.3 * len(faulty), seed
        assert len(begins) >= 6, seed
        assert max(ends[f] - begins[f] for f in begins if f) <= FAULT_S[1] + 0.001, seed


def test_a_rolling_restart_gets_its_time() -> None:
    """It goes on for longer than other faults, as far as the time limit lets it."""
    for seed in range(50):
        steps = random_schedule(seed=seed, kinds=["rolling-restart"], time_limit_s=60).steps
        begins = {step.action.fault_id: step.at_s for step in steps if isinstance(step.action, Inject)}
        ends = {step.action.fault_id: step.at_s for step in steps if isinstance(step.action, Heal)}
        later = {fault: ends[fault] - begins[fault] for fault in begins if fault and ends[fault] < 60}
        assert any(lasts_s >= ROLLING_S[0] - 0.001 for lasts_s in later.values()), seed


def test_without_packages_nothing_happens() -> None:
    """No kind, no step."""
    assert random_schedule(seed=1, kinds=[], time_limit_s=1).steps == ()


def test_too_short_a_time_is_refused() -> None:
    """Faults that could not bite and heal are refused with the least that is needed."""
    with pytest.raises(ValueError, match="give 6"):
        random_schedule(seed=1, kinds=["kill"], time_limit_s=2)


def test_steps_out_of_order_are_refused() -> None:
    """A schedule whose steps are not in order of time cannot be made."""
    with pytest.raises(ValueError, match="not in order"):
        Schedule(
            name="x",
            time_limit_s=9,
            steps=(Step(at_s=2, action=Heal(fault_id=0)), Step(at_s=1, action=Heal(fault_id=1))),
        )


@pytest.mark.parametrize("text", ["{}", "[]", '{"name": "x", "time_limit_s": 1, "steps": [{"at_s": 0}]}'])
def test_what_is_no_schedule_is_refused(text: str) -> None:
    """Reading something else than a schedule says so."""
    with pytest.raises(ValueError, match="not a schedule"):
        schedule_from_json(text)


CHANGING = ("partition", "kill", "pause", "membership")


@pytest.mark.parametrize(
    ("fault", "what"),
    [
        ({"kind": "fail-disk", "target": "all", "call": "open"}, "'open' is no call of a disk that can fail"),
        ({"kind": "damage-disk", "target": "all", "how": "melt"}, "'melt' is no damage: give one of flip"),
        ({"kind": "slow-disk", "target": "all", "factor": 0}, "factor is 0: give 1 or more"),
        ({"kind": "burst", "factor": 0}, "factor is 0: give 1 or more"),
        ({"kind": "reassign", "course": "move", "partitions": 0}, "partitions is 0: give 1 or more"),
        ({"kind": "reassign", "course": "away"}, "'away' is not a valid Course"),
        ({"kind": "memory-limit", "target": "all", "percent": 0}, "percent is 0: give 1 or more"),
        ({"kind": "clock-jump", "target": "all", "by_ms": -5}, "by_ms is -5: give 1 or more"),
        ({"kind": "clock-drift", "target": "all", "percent": -1}, "percent is -1: give 0 or more"),
        ({"kind": "clock-strobe", "target": "all", "by_ms": 5, "period_ms": 0}, "period_ms is 0: give 1 or more"),
        ({"kind": "slow-disk", "target": "all", "factor": "many"}, "slow-disk cannot be made of"),
    ],
    ids=lambda value: value["kind"] if isinstance(value, dict) else None,
)
def test_a_fault_that_would_do_nothing_is_refused(fault: dict[str, object], what: str) -> None:
    """A stored schedule with strengths that mean nothing is not run and told as if they did."""
    with pytest.raises(ValueError, match=what):
        fault_from_json(fault)


def test_every_run_with_changes_replaces_a_voter() -> None:
    """The second fault is a voter replaced, nothing strikes into it, and it gets its time; later ones are struck."""
    struck = 0
    for seed in range(200):
        schedule = random_schedule(seed=seed, kinds=CHANGING, time_limit_s=60)
        begins = {step.action.fault_id: step for step in schedule.steps if isinstance(step.action, Inject)}
        ends = {step.action.fault_id: step.at_s for step in schedule.steps if isinstance(step.action, Heal)}
        faults = {fault_id: step.action.fault for fault_id, step in begins.items() if isinstance(step.action, Inject)}
        second = faults[1]
        assert isinstance(second, ChangeVoters)
        assert second.change is VoterChange.REPLACE, seed
        assert ends[1] - begins[1].at_s >= REPLACED_S[0], seed
        assert not any(begins[1].at_s < begins[other].at_s < ends[1] for other in faults), seed
        assert Need.VOTERS in schedule.needs
        changes = [fault_id for fault_id, fault in faults.items() if isinstance(fault, ChangeVoters)]
        during = [(c, o) for c in changes for o in faults if begins[c].at_s < begins[o].at_s < ends[c]]
        assert not any(isinstance(faults[other], ChangeVoters) for _, other in during), seed
        struck += len(during)
    assert struck > 100


def test_all_changes_of_voters_are_drawn() -> None:
    """Over some seeds there is each kind of change, of the leader and of others."""
    drawn = set()
    for seed in range(50):
        steps = random_schedule(seed=seed, kinds=CHANGING, time_limit_s=60).steps
        faults = [step.action.fault for step in steps if isinstance(step.action, Inject)]
        drawn |= {(fault.change, fault.target) for fault in faults if isinstance(fault, ChangeVoters)}

    anyone = (Role.LEADER, Role.FOLLOWER, Role.CONTROLLER)
    gone = {(change, target) for change in (VoterChange.REMOVE, VoterChange.REPLACE) for target in anyone}
    assert drawn == gone | {(VoterChange.TRANSFER, Role.FOLLOWER)}


def test_voters_are_not_changed_without_being_asked_for() -> None:
    """What is usually drawn from leaves the voters alone: few clusters can change them."""
    assert not any(
        random_schedule(seed=seed, kinds=USUAL, time_limit_s=60).needs >= {Need.VOTERS} for seed in range(50)
    )


def test_disks_are_replaced_one_at_a_time() -> None:
    """No second one strikes into a first where there is anything else to draw, and each choice is drawn."""
    drawn = set()
    for seed in range(50):
        steps = random_schedule(seed=seed, kinds=("kill", "replace-disk"), time_limit_s=60).steps
        replaced = None
        for action in (step.action for step in steps):
            if isinstance(action, Inject) and isinstance(action.fault, ReplaceDisk):
                assert replaced is None, seed
                replaced = action.fault_id
                drawn.add((action.fault.target, action.fault.outage))
            elif isinstance(action, Heal) and action.fault_id == replaced:
                replaced = None

    anyone = (Role.LEADER, Role.FOLLOWER, Role.CONTROLLER, Role.ONE)
    assert drawn == {(target, outage) for target in anyone for outage in (True, False)}


MOVING = ("partition", "kill", "reassign")


def test_every_run_with_moves_moves_partitions_under_faults() -> None:
    """The second of those that come one after the other moves some; others strike into moves, and moves into others."""
    struck = moved_into = 0
    for seed in range(100):
        schedule = random_schedule(seed=seed, kinds=MOVING, time_limit_s=30)
        begins = {step.action.fault_id: step for step in schedule.steps if isinstance(step.action, Inject)}
        ends = {step.action.fault_id: step.at_s for step in schedule.steps if isinstance(step.action, Heal)}
        faults = {fault_id: step.action.fault for fault_id, step in begins.items() if isinstance(step.action, Inject)}
        after_first = min(step.at_s for step in begins.values() if step.at_s > ends[0])
        (second,) = (faults[fault_id] for fault_id, step in begins.items() if step.at_s == after_first)
        assert second == Reassign.certain(Random(0)), seed
        during = [(a, b) for a in faults for b in faults if begins[a].at_s < begins[b].at_s < ends[a]]
        struck += sum(isinstance(faults[a], Reassign) and not isinstance(faults[b], Reassign) for a, b in during)
        moved_into += sum(isinstance(faults[b], Reassign) for _, b in during)
    assert struck > 50
    assert moved_into > 50


def test_all_moves_are_drawn() -> None:
    """Over some seeds there is each course, with more and fewer replicas, of one partition and of several."""
    faults = [
        fault
        for seed in range(100)
        for fault in random_schedule(seed=seed, kinds=MOVING, time_limit_s=60).faults
        if isinstance(fault, Reassign)
    ]

    assert {fault.course for fault in faults} == set(Course)
    assert {fault.more for fault in faults} == {-1, 0, 1}
    assert {fault.partitions for fault in faults} == {1, 2, 4}
    assert {fault.leader_goes for fault in faults} == {True, False}
