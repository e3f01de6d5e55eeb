"""Worlds whose disks take their time, some of them for some logs only."""

from __future__ import annotations

from collections import Counter
from random import Random

import pytest

from nemesis.simulator.climate import CALM
from nemesis.simulator.common_seeds import SLOW_LANES_SHARE, with_slow_lanes
from nemesis.simulator.node import Node
from nemesis.simulator.run import SimOptions, resolved, simulate
from nemesis.simulator.steps import Crash, Step
from nemesis.simulator.world import Observer
from nemesis.variants.worlds import WorldKind
from nemesis.verdict import Verdict
from replica.core import effects as fx

SEEDS = (5, 11, 19, 28)
"""The first whose worlds have such disks, in all kinds of worlds."""


class Waiting(Observer):
    """Counts what waited for a disk, by its kind, and the processes that died while something did."""

    def __init__(self) -> None:
        self.effects: Counter[type[fx.Effect]] = Counter()
        self.deaths = 0
        self._pending: set[int] = set()

    def on_step(self, node: Node, step: Step) -> None:
        """Look at what was performed after its step."""
        if step.event is None:
            self.effects.update(map(type, step.effects))
        (self._pending.add if step.pending else self._pending.discard)(node.replica_id)

    def on_down(self, node: Node, crash: Crash) -> None:
        """Look whether anything is lost that waited."""
        self.deaths += node.replica_id in self._pending
        self._pending.discard(node.replica_id)


@pytest.mark.slow
@pytest.mark.parametrize("world", WorldKind)
def test_promises_are_kept_though_disks_take_their_time(world: WorldKind) -> None:
    """Votes, answers and requests come after what waits for the disk, processes die meanwhile, and all is well."""
    waiting = Waiting()
    for seed in SEEDS[:2]:
        run = simulate(SimOptions(seed=seed, world=world), [waiting])
        assert run.outcome.violation is None, run.outcome
    assert waiting.deaths > 0
    stored = fx.StoreEpochs if world is WorldKind.CLUSTER else fx.StoreQuorumState
    assert min(waiting.effects[kind] for kind in (stored, fx.Send, fx.Reply, fx.Append)) > 0, waiting.effects


@pytest.mark.slow
def test_a_process_that_ends_as_it_goes_on_finishes_nothing_more() -> None:
    """It stood still while its disk worked for it; the first effect that it then performs is its last."""
    outcome = simulate(SimOptions(seed=4729, world=WorldKind.GROUP)).outcome
    assert outcome.verdict is Verdict.VALID, outcome.reasons


@pytest.mark.slow
def test_a_cut_is_judged_by_what_was_committed_when_it_was_decided() -> None:
    """Seed 35436: as it waited for its disk, another replica was elected with the same records, and committed them."""
    outcome = simulate(SimOptions(seed=35436, world=WorldKind.CLUSTER)).outcome
    assert outcome.verdict is Verdict.VALID, outcome.reasons


def test_a_fifth_of_all_seeds_have_such_disks() -> None:
    """They are drawn with dice of their own, so that all else of a seed is what it would be without them."""
    slow = [seed for seed in range(500) if Random(f"{seed} lanes").random() < SLOW_LANES_SHARE]
    assert [seed for seed in slow if seed > 0][: len(SEEDS)] == list(SEEDS)
    assert 80 < len(slow) < 120
    climates = [resolved(SimOptions(seed=seed)).climate for seed in range(12)]
    assert [climate is not None and climate.slow_lanes > 0 for climate in climates] == [
        seed in slow for seed in range(12)
    ]
    assert with_slow_lanes(CALM, Random(1)).flush_ms == CALM.flush_ms
