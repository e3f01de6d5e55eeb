"""From a failing run to a small one that fails in the same way.

Owns the search: which reductions are tried in which order, and the budget. To change one thing changes the luck
elsewhere, so a candidate is also tried in a few other worlds: the seed is no more than a name for dice once climate
and schedule are written out. The search draws those seeds from the run's own, and is a function of its arguments.

Source: Zeller and Hildebrandt's ddmin; Hypothesis's shrinker for passes that are repeated until none of them helps.

Delta debugging: from much that together fails to little that does. Source: Zeller and Hildebrandt, "Simplifying and
Isolating Failure-Inducing Input" (IEEE TSE 2002), algorithm ddmin.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from random import Random
from typing import TypeVar

from nemesis.history import APPEND, EventType
from nemesis.simulator import reductions
from nemesis.simulator.queue import US_PER_S
from nemesis.simulator.record import Record
from nemesis.simulator.reductions import Reduction, Size, size_of
from nemesis.simulator.run import Outcome, Run, SimOptions, resolved, simulate
from nemesis.simulator.world import Observer, World

ATTEMPTS = 2000
SEEDS_PER_CANDIDATE = 3
PATIENCE = (1, 4)
"""How many times as many worlds a candidate gets: first few, so that much goes soon, in the end more."""
_OTHER_SEEDS = 1000
ROOM = 2.0
ROOM_S = 3.0
"""How much longer another world may take: so many times as long, and so many seconds on top."""


class DoesNotFailError(ValueError):
    """There is nothing to shrink: the run that was given is not convicted of anything."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Failure:
    """A run that is convicted: what it is a function of, and what came of it."""

    options: SimOptions
    outcome: Outcome

    @property
    def violation_name(self) -> str:
        """What it is convicted of."""
        assert self.outcome.violation is not None, self.outcome
        return self.outcome.violation.name

    @property
    def is_hostile(self) -> bool:
        """Whether it came to that before everything was healed."""
        assert self.outcome.violation is not None, self.outcome
        assert self.options.schedule is not None, self.options
        return self.outcome.violation.at_ms <= self.options.schedule.time_limit_s * 1000


@dataclass(frozen=True, slots=True, kw_only=True)
class ShrinkOptions:
    """How hard to search. ``attempts`` bounds the runs; ``same_violation`` keeps what the run is convicted of."""

    attempts: int = ATTEMPTS
    same_violation: bool = True
    seeds_per_candidate: int = SEEDS_PER_CANDIDATE


@dataclass(frozen=True, slots=True, kw_only=True)
class Shrunk:
    """The smallest failure that was found, the one from which the search began, and how many runs that took.

    ``how`` is how it was searched. ``is_finished`` tells that no reduction helps any more; without, the budget was used
    up first.
    """

    first: Failure
    smallest: Failure
    how: ShrinkOptions
    attempts: int
    is_finished: bool


OnSmaller = Callable[[Failure, int], None]
"""Called with each smaller failure and the number of runs so far."""


def shrink(options: SimOptions, how: ShrinkOptions | None = None, on_smaller: OnSmaller | None = None) -> Shrunk:
    """Look for the smallest run that fails as this one does. Raises ``DoesNotFailError`` when it does not fail."""
    options = resolved(options)
    run = simulate(options)
    if run.outcome.violation is None:
        raise DoesNotFailError(f"seed {options.seed} does not fail: it is {run.outcome.verdict}")
    return _Search(run, how or ShrinkOptions(), on_smaller).search()


class _Search:
    """The smallest failure so far, and what is left of the budget."""

    def __init__(self, run: Run, how: ShrinkOptions, on_smaller: OnSmaller | None) -> None:
        self._how = how
        self._on_smaller = on_smaller
        self._attempts = 1
        self._worlds_each = how.seeds_per_candidate
        self._tried: set[SimOptions] = set()
        self._dice = Random(f"{run.options.seed} shrink")
        self._first = self._best = Failure(options=run.options, outcome=run.outcome)
        self._first_run = run
        self._size: Size = size_of(run.options)

    def search(self) -> Shrunk:
        """Repeat all passes until none of them helps in a few worlds, nor in many, or the budget is used up."""
        self._calm_down()
        for patience in PATIENCE:
            self._worlds_each = patience * self._how.seeds_per_candidate
            while self._round_helps():
                pass
        return Shrunk(
            first=self._first,
            smallest=self._best,
            how=self._how,
            attempts=self._attempts,
            is_finished=not self._is_spent,
        )

    @property
    def _is_spent(self) -> bool:
        return self._attempts >= self._how.attempts

    # --- passes -----------------------------------------------------------------------------------------------------

    def _calm_down(self) -> None:
        """Try first to do without rates while there is the most time and trouble, for faults are easier to read."""
        self._worlds_each = PATIENCE[-1] * self._how.seeds_per_candidate
        if not any(self._try(candidate) for candidate in reductions.calm(self._best.options)):
            self._tighten(self._first_run)

    def _round_helps(self) -> bool:
        before = self._size
        for reduction in _BEFORE_FAULTS:
            self._exhaust(reduction)
        self._leave_faults_out()
        for reduction in _AFTER_FAULTS:
            self._exhaust(reduction)
        return self._size < before and not self._is_spent

    def _leave_faults_out(self) -> None:
        base = self._best.options
        assert base.schedule is not None, base

        def fails(units: Sequence[int]) -> bool:
            return self._try(replace(reductions.only(base, units), seed=self._best.options.seed))

        ddmin(reductions.units_of(base.schedule.steps), fails)

    def _exhaust(self, reduction: Reduction) -> None:
        """Take as much away as the reduction can."""
        while any(self._try(candidate) for candidate in reduction(self._best.options)):
            pass

    # --- one candidate ----------------------------------------------------------------------------------------------

    def _try(self, candidate: SimOptions) -> bool:
        """Whether the candidate fails in the same way and is smaller, in its own world or in another one."""
        if not reductions.is_possible(candidate):
            return False
        candidate = reductions.renumbered(candidate)
        for world in self._worlds(candidate):
            if size_of(world) < self._size and (run := self._failing_run(world)) is not None:
                self._adopt(run)
                self._tighten(run)
                return True
        return False

    def _worlds(self, candidate: SimOptions) -> Iterator[SimOptions]:
        """The candidate in its own world, then in others with more time, where time is not what is being saved."""
        yield candidate
        roomy = self._with_room(candidate)
        if size_of(roomy) >= self._size:
            roomy = candidate
        for _ in range(self._worlds_each - 1):
            yield replace(roomy, seed=self._dice.randrange(_OTHER_SEEDS))

    def _with_room(self, candidate: SimOptions) -> SimOptions:
        first, schedule = self._first.options.schedule, candidate.schedule
        assert first is not None, self._first
        assert schedule is not None, candidate
        more_s = min(ROOM * schedule.time_limit_s + ROOM_S, first.time_limit_s)
        return reductions.lasting(candidate, max(more_s, schedule.time_limit_s))

    def _failing_run(self, options: SimOptions) -> Run | None:
        if self._is_spent or options in self._tried:
            return None
        self._tried.add(options)
        self._attempts += 1
        try:
            run = simulate(options, (_UntilHealed(options),) if self._first.is_hostile else ())
        except _HealedError:
            return None
        return run if self._fails_alike(Failure(options=run.options, outcome=run.outcome)) else None

    def _fails_alike(self, failure: Failure) -> bool:
        """Whether it is convicted of the same, and in the hostile time if the first one was.

        Time and values are bounded in the hostile time only: what fails after it needs more of both than it says.
        """
        if failure.outcome.violation is None or (self._first.is_hostile and not failure.is_hostile):
            return False
        return not self._how.same_violation or failure.violation_name == self._first.violation_name

    def _adopt(self, run: Run) -> None:
        self._best = Failure(options=run.options, outcome=run.outcome)
        self._size = size_of(run.options)
        if self._on_smaller is not None:
            self._on_smaller(self._best, self._attempts)

    def _tighten(self, run: Run) -> None:
        """Cut off what comes after the violation, which cannot have brought it about."""
        tight = reductions.renumbered(_until_violation(run))
        if size_of(tight) < self._size and (tight_run := self._failing_run(tight)) is not None:
            self._adopt(tight_run)


class _HealedError(Exception):
    """The hostile time is over: what happens from now on is of no interest."""


class _UntilHealed(Observer):
    """Breaks a run off at the end of its hostile time, which saves the time for recovering and judging."""

    def __init__(self, options: SimOptions) -> None:
        assert options.schedule is not None, options
        self._end_us = int(options.schedule.time_limit_s * US_PER_S)

    def on_begin(self, world: World, record: Record) -> None:
        del record
        world.queue.at(self._end_us + 1, self._break_off)

    @staticmethod
    def _break_off() -> None:
        raise _HealedError


def _until_violation(run: Run) -> SimOptions:
    """The run with as many values and as much hostile time as it had used when it was convicted."""
    options, violation = run.options, run.outcome.violation
    assert violation is not None, run.outcome
    assert options.schedule is not None, options
    hostile_s = options.schedule.time_limit_s
    appended = sum(
        event.type is EventType.INVOKE and event.f == APPEND and event.time_ns <= hostile_s * 1e9
        for event in run.record.history
    )
    needed_s = (violation.at_ms + 1) / 1000
    rounded_s = -(-needed_s * 10 // 1) / 10
    return reductions.lasting(replace(options, values=appended), min(hostile_s, rounded_s))


_BEFORE_FAULTS: tuple[Reduction, ...] = (reductions.calm, *map(reductions.calmer, reductions.RATES))
"""While many faults are left, the rates are most likely to be not needed."""

_AFTER_FAULTS: tuple[Reduction, ...] = (
    reductions.at_the_usual_pace,
    *map(reductions.calmer, reductions.HABITS),
    *map(reductions.smaller, reductions.SIZES),
    reductions.fewer_values,
    reductions.without_healing,
    reductions.less_time,
    reductions.sooner,
    reductions.with_plain_dice,
    reductions.less_time,
)


Item = TypeVar("Item")


def ddmin(items: Sequence[Item], fails: Callable[[Sequence[Item]], bool]) -> Sequence[Item]:
    """A part of ``items``, in their order, that fails and does not without any single one of its items.

    That all of them fail is taken for granted.
    """
    if not items or fails(items[:0]):
        return items[:0]
    granularity = 2
    while len(items) > 1:
        parts = _split(items, granularity)
        if (part := _first(parts, fails)) is not None:
            items, granularity = part, 2
        elif granularity > 2 and (rest := _first(_complements(parts), fails)) is not None:
            items, granularity = rest, granularity - 1
        elif granularity < len(items):
            granularity = min(2 * granularity, len(items))
        else:
            break
    return items


def _first(parts: Sequence[Sequence[Item]], fails: Callable[[Sequence[Item]], bool]) -> Sequence[Item] | None:
    return next((part for part in parts if fails(part)), None)


def _split(items: Sequence[Item], count: int) -> list[Sequence[Item]]:
    """So many parts of nearly equal length, none of them empty."""
    ends = [len(items) * number // count for number in range(count + 1)]
    return [items[start:end] for start, end in pairwise(ends)]


def _complements(parts: Sequence[Sequence[Item]]) -> list[list[Item]]:
    """All but one of the parts, for each of them."""
    numbers = range(len(parts))
    return [[item for other in numbers if other != left_out for item in parts[other]] for left_out in numbers]
