"""The judges of state machines notice whatever is forged: a state, a snapshot, an answer, a leadership."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator

import pytest
from msgspec.structs import replace

from nemesis.schedules.schedule import Schedule
from nemesis.simulator.climate import CALM
from nemesis.simulator.group_climate import STORE, GroupClimate
from nemesis.simulator.group_invariants import GroupInvariants
from nemesis.simulator.invariants import Invariants
from nemesis.simulator.node import Node, Step
from nemesis.simulator.run import SimOptions, simulate
from nemesis.simulator.violations import Violation
from nemesis.simulator.world import Observer, World
from replica.core import effects as fx
from replica.core import messages as m
from replica.errors import ErrorCode
from replica.ids import Epoch, Offset, SnapshotId
from replica.machines import EncodedState, StateView

BUSY = dataclasses.replace(
    CALM, rate=20.0, group=GroupClimate(snapshot_max_record_bytes_between=600, stale_reads=0.3, ask_anyone=0.5)
)
NOTHING_HAPPENS = Schedule(name="simulated", time_limit_s=9, steps=())
Forge = Callable[[fx.Effect], fx.Effect | None]


class Forger(Observer):
    """Shows the judge one effect otherwise than it was; the judge is beside those of the run."""

    def __init__(self, forge: Forge) -> None:
        self._forge = forge
        self.has_forged = False

    def on_begin(self, world: World, record: object) -> None:
        """Set up judges of its own, which are told of forged steps."""
        del record
        self._judge = GroupInvariants(world.nodes, world.logs)
        told = {log: reference.on_commit for log, reference in self._judge.references.items()}
        self._logs = Invariants(
            world.logs, world.nodes, lying_disks=False, initial_voters=world.base_voters, on_commit=told
        )
        self._judge.books = self._logs.books

    def on_boot(self, node: Node, torn_bytes: int) -> None:
        """See ``Observer``."""
        self._logs.on_boot(node, torn_bytes)
        self._judge.on_boot(node, torn_bytes)

    def on_step(self, node: Node, step: Step) -> None:
        """See ``Observer``."""
        self._logs.on_step(node, step)
        self._judge.on_step(node, replace(step, effects=tuple(self._forged(step.effects))))

    def _forged(self, effects: tuple[fx.Effect, ...]) -> Iterator[fx.Effect]:
        for effect in effects:
            forged = None if self.has_forged else self._forge(effect)
            self.has_forged |= forged is not None
            yield effect if forged is None else forged


def violation_of(*observers: Observer) -> Violation | None:
    """What a short calm run is convicted of."""
    options = SimOptions(seed=1, time_limit_s=12, climate=BUSY, schedule=NOTHING_HAPPENS)
    return simulate(options, observers).outcome.violation


def _one_byte_more(effect: fx.StoreSnapshot) -> fx.StoreSnapshot:
    return replace(effect, state=EncodedState(effect.state.encode() + b"\0"))


def another_snapshot(effect: fx.Effect) -> fx.Effect | None:
    """One byte more than the state has."""
    return _one_byte_more(effect) if isinstance(effect, fx.StoreSnapshot) else None


class Thawing:
    """A view that is not frozen: it says the right thing at first, and when it is written down another."""

    def __init__(self, state: StateView) -> None:
        self._said = [state.encode() + b"\0", state.encode()]

    def encode(self) -> bytes:
        """What there is by now."""
        return self._said.pop() if len(self._said) > 1 else self._said[0]


def a_snapshot_that_goes_on(effect: fx.Effect) -> fx.Effect | None:
    """What is applied later gets into it."""
    return replace(effect, state=Thawing(effect.state)) if isinstance(effect, fx.StoreSnapshot) else None


def another_end(effect: fx.Effect) -> fx.Effect | None:
    """One offset less than the snapshot has."""
    if not isinstance(effect, fx.StoreSnapshot):
        return None
    return replace(effect, snapshot_id=SnapshotId(Offset(effect.snapshot_id.end_offset - 1), effect.snapshot_id.epoch))


def another_epoch(effect: fx.Effect) -> fx.Effect | None:
    """An epoch that wrote none of it."""
    if not isinstance(effect, fx.StoreSnapshot):
        return None
    return replace(effect, snapshot_id=SnapshotId(effect.snapshot_id.end_offset, Epoch(effect.snapshot_id.epoch + 1)))


def another_outcome(effect: fx.Effect) -> fx.Effect | None:
    """What a command did not come to."""
    match effect:
        case fx.Reply(response=m.ApplyResponse(error=ErrorCode.NONE) as response):
            return replace(effect, response=replace(response, outcomes=(b"done",)))
        case _:
            return None


def an_outcome_too_soon(effect: fx.Effect) -> fx.Effect | None:
    """The right outcome, of an entry that is not committed yet."""
    match effect:
        case fx.Reply(response=m.ApplyResponse(error=ErrorCode.NONE, base_offset=int(base_offset)) as response):
            return replace(effect, response=replace(response, base_offset=Offset(base_offset + 1)))
        case _:
            return None


def another_answer(effect: fx.Effect) -> fx.Effect | None:
    """What the state does not say."""
    match effect:
        case fx.Reply(response=m.QueryResponse(error=ErrorCode.NONE) as response):
            *others, last = response.outcomes
            return replace(effect, response=replace(response, outcomes=(*others, last + b"\0")))
        case _:
            return None


@pytest.mark.parametrize(
    ("forge", "name"),
    [
        (another_snapshot, "snapshot-content"),
        (a_snapshot_that_goes_on, "snapshot-content"),
        (another_end, "snapshot-content"),
        (another_epoch, "snapshot-id"),
        (another_outcome, "acknowledged-is-applied"),
        (an_outcome_too_soon, "acknowledged-is-applied"),
        (another_answer, "answer-of-no-state"),
    ],
)
def test_what_is_told_or_written_down_otherwise_convicts(forge: Forge, name: str) -> None:
    """The very step in which something else is told or kept than the committed log leads to is convicted by name."""
    forger = Forger(forge)
    violation = violation_of(forger)
    assert forger.has_forged
    assert violation is not None
    assert violation.name == name


@pytest.mark.slow
def test_nothing_is_convicted_that_was_not_forged() -> None:
    """The same judges find nothing where the steps are as they were."""
    assert violation_of(Forger(lambda _: None)) is None


class Meddler(Observer):
    """Lets one machine apply what stands in no log."""

    def on_step(self, node: Node, step: Step) -> None:
        """See ``Observer``: observers see a step before it is judged."""
        if node.core is None or not step.is_whole or node.replica_id != 2:
            return
        machine = node.core.groups[STORE].machine
        machine.log_time_ms += machine.applied_offset > 20
        machine._digest = None  # As it is whenever something was applied.


def test_a_replica_in_another_state_convicts() -> None:
    """Two replicas that have applied equally much are in the same state, down to log time."""
    violation = violation_of(Meddler())
    assert violation is not None
    assert violation.name == "state-hash"


@pytest.mark.slow
def test_an_answer_that_is_too_old_is_noted() -> None:
    """A linearizable question is not answered with less than was known when it was put."""
    judge: list[GroupInvariants] = []

    class Older(Forger):
        """Shows the judge that more was known than there was."""

        def on_step(self, node: Node, step: Step) -> None:
            """See ``Observer``."""
            super().on_step(node, step)
            judge[:] = [self._judge]
            self._judge._known[STORE] = Offset(1_000_000)  # A future that somebody has been told of.

    assert violation_of(Older(lambda _: None)) is None
    assert "1000000 was known before" in (judge[0].stale_read or "")
