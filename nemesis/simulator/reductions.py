"""What can be taken away from a failing run: each reduction makes a run into smaller ones that may fail as well.

Owns the order of runs by size and the candidates, the boldest first; tries none of them. A candidate keeps to what a
seed can bring about: no more damage than a cluster can lose, no shape that needs more replicas than there are.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from nemesis.faults.damage import DamageDisk
from nemesis.faults.partitions import Partition
from nemesis.faults.shapes import Shape
from nemesis.faults.simulated import Clog
from nemesis.schedules.schedule import Heal, Inject, Name, Schedule, Step
from nemesis.simulator.case import directive_of
from nemesis.simulator.climate import CALM, Climate
from nemesis.simulator.climate_fields import (
    CALM_CLIMATES,
    FIELDS,
    calm_field,
    field_of,
    fitted,
    with_calm_fields,
    with_fields,
)
from nemesis.simulator.cluster_seeds import is_bearable
from nemesis.simulator.faults import damages_max
from nemesis.simulator.run import SimOptions
from nemesis.variants.worlds import WorldKind

Reduction = Callable[[SimOptions], Iterator[SimOptions]]
"""The candidates that take something from a run; none when it has nothing left to take."""

_USUAL = {name: field_of(calm, name) for world, calm in CALM_CLIMATES.items() for name in FIELDS[world]}
RATES = tuple(name for name, usual in _USUAL.items() if usual == 0 and not isinstance(usual, bool))
"""The fields of a climate that hurt by chance: in a calm one they are zero."""
SIZES = ("voters", "concurrency", "topics", "partitions", "keys")
HABITS = tuple(name for name in _USUAL if name not in (*RATES, *SIZES))
_PACE = (
    "election_timeout_ms",
    "fetch_timeout_ms",
    "fetch_max_wait_ms",
    *(name for name in FIELDS[WorldKind.CLUSTER] if name.startswith(("replica_", "broker_", "controller_"))),
)
_FOR_ANY_TWO = (Shape.ISOLATE, Shape.ONE_WAY_MUTE, Shape.ONE_WAY_DEAF)
_GRAIN_MS = 100
"""Times that differ by less are of one size; the shorter text decides then."""

Size = tuple[float, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Extent:
    """How much there is in a run that could matter."""

    faults: int
    rates: int
    habits: int
    voters: int


def extent_of(options: SimOptions) -> Extent:
    """Count its faults, its rates above zero, and what else is not as in a calm climate."""
    climate, schedule = _written(options)
    return Extent(
        faults=len(units_of(schedule.steps)),
        rates=sum(bool(field_of(climate, name)) for name in _present(climate, RATES)),
        habits=sum(field_of(climate, name) != calm_field(climate, name) for name in _present(climate, HABITS)),
        voters=climate.voters,
    )


def size_of(options: SimOptions) -> Size:
    """How much there is to understand: the smaller tuple is the smaller run.

    Faults and rates above zero count first, together, and of those rather faults: a fault can be read, what a rate
    will do is up to dice. Then habits that are not the usual ones, replicas, clients, values, steps, time, and last how
    much there is to read.
    """
    extent, (climate, schedule) = extent_of(options), _written(options)
    directive = directive_of(options)
    return (
        extent.faults + extent.rates,
        extent.rates,
        extent.habits,
        extent.voters,
        climate.concurrency,
        math.inf if options.values is None else options.values,
        len(schedule.steps),
        math.ceil(options.time_limit_s * 1000 / _GRAIN_MS),
        math.ceil(sum(step.at_s for step in schedule.steps) * 1000 / _GRAIN_MS),
        sum(map(len, (directive.text, *directive.lines))),
    )


def is_possible(options: SimOptions) -> bool:
    """Whether a right protocol must bear it."""
    climate, schedule = _written(options)
    faults = [step.action.fault for step in schedule.steps if isinstance(step.action, Inject)]
    damaged = sum(isinstance(fault, DamageDisk) for fault in faults)
    shapes = [fault.shape for fault in faults if isinstance(fault, Partition | Clog)]
    if climate.cluster is not None and not is_bearable(climate, faults):
        return False
    return damaged <= damages_max(climate) and (climate.voters > 2 or all(shape in _FOR_ANY_TWO for shape in shapes))


# --- faults ---------------------------------------------------------------------------------------------------------


def units_of(steps: Sequence[Step]) -> list[int]:
    """What can be left out by itself, by the place of its first step: a fault goes with its healing."""
    return [place for place, step in enumerate(steps) if not isinstance(step.action, Heal)]


def only(options: SimOptions, units: Collection[int]) -> SimOptions:
    """The run with these units of its schedule and no others."""
    _, schedule = _written(options)
    kept = {step.action.fault_id for place, step in _faults(schedule.steps) if place in units}
    return _with_steps(
        options,
        [
            step
            for place, step in enumerate(schedule.steps)
            if (step.action.fault_id in kept if isinstance(step.action, Heal) else place in units)
        ],
    )


def renumbered(options: SimOptions) -> SimOptions:
    """The same run with its faults numbered from 0."""
    _, schedule = _written(options)
    ids = {step.action.fault_id: number for number, (_, step) in enumerate(_faults(schedule.steps))}
    steps = []
    for step in schedule.steps:
        match step.action:
            case Inject(fault_id=fault_id) | Heal(fault_id=fault_id) if fault_id in ids:
                steps.append(replace(step, action=replace(step.action, fault_id=ids[fault_id])))
            case Heal():
                continue
            case _:
                steps.append(step)
    return _with_steps(options, steps)


def without_healing(options: SimOptions) -> Iterator[SimOptions]:
    """Each fault lasting until all are healed."""
    _, schedule = _written(options)
    for place, step in enumerate(schedule.steps):
        if isinstance(step.action, Heal):
            yield _with_steps(options, [*schedule.steps[:place], *schedule.steps[place + 1 :]])


def with_plain_dice(options: SimOptions) -> Iterator[SimOptions]:
    """Each step without dice of its own."""
    _, schedule = _written(options)
    for place, step in enumerate(schedule.steps):
        match step.action:
            case Inject(draw=draw) | Name(draw=draw) if draw:
                plain = replace(step, action=replace(step.action, draw=0))
                yield _with_steps(options, [*schedule.steps[:place], plain, *schedule.steps[place + 1 :]])
            case _:
                continue


# --- climate --------------------------------------------------------------------------------------------------------


def calm(options: SimOptions) -> Iterator[SimOptions]:
    """A calm climate, all at once."""
    climate, _ = _written(options)
    for names in ((*RATES, *HABITS), RATES, HABITS):
        yield replace(options, climate=with_calm_fields(climate, names))


def calmer(name: str) -> Reduction:
    """One field as in a calm climate, or else a rounder rate."""

    def candidates(options: SimOptions) -> Iterator[SimOptions]:
        climate, _ = _written(options)
        if name not in FIELDS[climate.world]:
            return
        value, usual = field_of(climate, name), calm_field(climate, name)
        if value == usual:
            return
        yield _with_field(options, name, usual)
        if isinstance(value, float) and name in RATES:
            yield _with_field(options, name, float(f"{value:.1g}"))

    return candidates


def at_the_usual_pace(options: SimOptions) -> Iterator[SimOptions]:
    """Replicas as patient as in a calm climate, and everything as much slower."""
    climate, schedule = _written(options)
    slower = CALM.election_timeout_ms / climate.election_timeout_ms
    if slower <= 1:
        return
    steps = tuple(replace(step, at_s=round(step.at_s * slower, 3)) for step in schedule.steps)
    hostile_s = round(schedule.time_limit_s * slower, 3)
    slow = replace(schedule, time_limit_s=hostile_s, steps=steps)
    limit_s = max(hostile_s, round(options.time_limit_s * slower, 3))
    yield replace(options, time_limit_s=limit_s, schedule=slow, climate=with_calm_fields(climate, _PACE))


def smaller(name: str) -> Reduction:
    """Fewer replicas, or fewer clients."""

    def candidates(options: SimOptions) -> Iterator[SimOptions]:
        climate, _ = _written(options)
        if name in FIELDS[climate.world]:
            smaller_ones = (with_fields(climate, {name: number}) for number in range(1, field_of(climate, name)))
            yield from (replace(options, climate=fitted(smaller_one)) for smaller_one in smaller_ones)

    return candidates


# --- values and time ------------------------------------------------------------------------------------------------


def fewer_values(options: SimOptions) -> Iterator[SimOptions]:
    """No appends, half of them, or one less."""
    if options.values is not None:
        yield from (replace(options, values=values) for values in _lower(options.values))


def less_time(options: SimOptions) -> Iterator[SimOptions]:
    """An end of the hostile time nearer to the last step, and no more time after it than recovering takes."""
    _, schedule = _written(options)
    last_ms = round(schedule.steps[-1].at_s * 1000) if schedule.steps else 0
    spare_ms = math.ceil(schedule.time_limit_s * 1000 - last_ms)
    yield lasting(options, schedule.time_limit_s)
    for spare in _lower(spare_ms):
        yield lasting(options, _round_up_s(last_ms + max(spare, 1)))


def sooner(options: SimOptions) -> Iterator[SimOptions]:
    """Each step, with all that follows and the end, as soon as possible after the step before it, or half way."""
    _, schedule = _written(options)
    for place, step in enumerate(schedule.steps):
        before_ms = round(schedule.steps[place - 1].at_s * 1000) if place else 0
        for gap_ms in _lower(round(step.at_s * 1000) - before_ms):
            at_ms = round(round((before_ms + gap_ms) / _GRAIN_MS) * _GRAIN_MS)
            yield _moved(options, place, max(at_ms, before_ms) / 1000 - step.at_s)


def lasting(options: SimOptions, seconds: float) -> SimOptions:
    """The run with so much hostile time, and nothing but recovering after it. Later steps go."""
    _, schedule = _written(options)
    steps = tuple(step for step in schedule.steps if step.at_s <= seconds)
    return replace(options, time_limit_s=seconds, schedule=replace(schedule, time_limit_s=seconds, steps=steps))


def _moved(options: SimOptions, place: int, by_s: float) -> SimOptions:
    _, schedule = _written(options)
    steps = [
        replace(step, at_s=round(step.at_s + by_s, 3)) if number >= place else step
        for number, step in enumerate(schedule.steps)
    ]
    hostile_s = max(round(schedule.time_limit_s + by_s, 3), steps[-1].at_s, 0.001)
    moved = replace(schedule, time_limit_s=hostile_s, steps=tuple(steps))
    return replace(options, time_limit_s=max(round(options.time_limit_s + by_s, 3), hostile_s), schedule=moved)


def _round_up_s(milliseconds: int) -> float:
    return math.ceil(milliseconds / _GRAIN_MS) * _GRAIN_MS / 1000


def _lower(number: int) -> Iterator[int]:
    """Some numbers below, the boldest first."""
    candidates = (0, number // 4, number // 2, number * 3 // 4, number - 1)
    yield from (lower for lower in dict.fromkeys(candidates) if 0 <= lower < number)


# --- the parts of a run ---------------------------------------------------------------------------------------------


def _written(options: SimOptions) -> tuple[Climate, Schedule]:
    assert options.climate is not None, options
    assert options.schedule is not None, options
    return options.climate, options.schedule


def _faults(steps: Sequence[Step]) -> Iterator[tuple[int, Any]]:
    return ((place, step) for place, step in enumerate(steps) if isinstance(step.action, Inject))


def _with_steps(options: SimOptions, steps: Sequence[Step]) -> SimOptions:
    _, schedule = _written(options)
    return replace(options, schedule=replace(schedule, steps=tuple(steps)))


def _with_field(options: SimOptions, name: str, value: Any) -> SimOptions:
    climate, _ = _written(options)
    return replace(options, climate=with_fields(climate, {name: value}))


def _present(climate: Climate, names: Sequence[str]) -> list[str]:
    present = FIELDS[climate.world]
    return [name for name in names if name in present]
