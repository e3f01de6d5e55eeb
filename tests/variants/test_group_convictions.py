"""Worlds of state machines convict each wrong protocol by name, and at night acquit the right one in all of them."""

from __future__ import annotations

import functools
from dataclasses import replace

import pytest

from nemesis.faults.timekeeping import StopClock
from nemesis.schedules.schedule import Inject
from nemesis.simulator.run import Outcome, SimOptions, resolved, simulate
from nemesis.variants.catalogue import BUILT
from nemesis.variants.worlds import WorldKind
from nemesis.verdict import Verdict
from tests.depth import is_night

CONVICTED = [
    ("leads-before-applying", 1, "machine-leads"),
    ("leads-after-resigning", 1, "machine-leads"),
    ("snapshot-one-off", 2, "snapshot-content"),
    ("sessions-not-in-snapshot", 1, "snapshot-content"),
    ("log-begins-after-its-snapshot", 1, "core-assertion"),
    ("read-without-read-index", 1, "nonlinearizable"),
    ("read-before-applying", 19, "stale-read"),
    ("read-index-of-an-old-fetch", 1, "stale-read"),
    ("voters-count-when-committed", 2, "committed-is-durable"),
    ("change-upon-change", 9, "leader-completeness"),
    ("change-before-own-epoch", 29, "leader-completeness"),
    ("any-disk-votes", 1, "committed-is-durable"),
    ("removed-leader-counts-itself", 2, "committed-is-durable"),
    ("join-without-catching-up", 3, "newcomer-has-caught-up"),
    ("voters-outlive-their-record", 4, "voters-of-the-log"),
    ("snapshot-without-voters", 1, "snapshot-voters"),
    ("only-voters-campaign", 6, "liveness"),
    ("lease-without-a-clock-bound", 6, "nonlinearizable"),
    ("lease-read-under-a-paused-clock", 20, "stale-read"),
    ("lease-ended-by-a-refusal", 1, "nonlinearizable"),
]
RIGHT = {"leads-before-applying", "read-before-applying", "change-upon-change", "lease-read-under-a-paused-clock"}
"""One for what leads, what is read, who votes, and leases."""


@functools.cache
def outcome_of(options: SimOptions) -> Outcome:
    """How a run ends; the right protocol in one world is run once for all that are wrong there."""
    return simulate(options).outcome


@pytest.mark.slow
@pytest.mark.parametrize(("name", "seed", "violation"), CONVICTED, ids=[name for name, _, _ in CONVICTED])
def test_a_seed_convicts_a_wrong_protocol_and_not_the_right_one(name: str, seed: int, violation: str) -> None:
    """The wrong protocol breaks a promise in the world of this seed, and the right one keeps them all there.

    That takes a whole run of each world, and so is done at night, or where ``RIGHT`` names the variant.
    """
    options = resolved(SimOptions(seed=seed, world=WorldKind.GROUP, variant=name))
    wrong = outcome_of(options)

    assert wrong.violation is not None, wrong.reasons
    assert wrong.violation.name == violation
    if is_night() or name in RIGHT:
        right = outcome_of(replace(options, variant=None))
        assert right.verdict is Verdict.VALID, right.reasons


@pytest.mark.slow
def test_a_lease_for_every_question_is_convicted_of_clocks_that_stand_still_and_of_nothing_else() -> None:
    """With the same partitions at the same times, and clocks that run, its answers are never old."""
    options = resolved(SimOptions(seed=2, world=WorldKind.GROUP, variant="lease-read-under-a-paused-clock"))
    assert options.schedule is not None
    steps = [
        step
        for step in options.schedule.steps
        if not (isinstance(step.action, Inject) and isinstance(step.action.fault, StopClock))
    ]
    assert len(steps) < len(options.schedule.steps)
    running = replace(options, schedule=replace(options.schedule, steps=tuple(steps)))

    assert outcome_of(options).verdict is Verdict.INVALID
    assert outcome_of(running).verdict is Verdict.VALID


def test_every_wrong_protocol_of_state_machines_has_a_seed() -> None:
    """None is left out."""
    assert {name for name, _, _ in CONVICTED} == {
        name for name, variant in BUILT.items() if variant.world is WorldKind.GROUP
    }
