"""A simulated run as a scenario that a person reads: one line for the world, one for each step, then the verdict.

Owns the directive ``simulate`` of scenario files: what a run is a function of, written out whole, so that a seed's run
stays what it was when the drawing of climates and schedules changes. Of the climate only what differs from a calm one
is written. Source: github.com/cockroachdb/datadriven.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from nemesis.faults.fault import Fault
from nemesis.schedules.schedule import Schedule
from nemesis.simulator.climate import Climate
from nemesis.simulator.climate_fields import CALM_CLIMATES, FIELDS, calm_field, field_of, with_fields
from nemesis.simulator.faults import WEATHER
from nemesis.simulator.run import HOSTILE_SHARE, Outcome, SimOptions, resolved, simulate
from nemesis.simulator.scenario_files import Directive, ScenarioError
from nemesis.simulator.schedule_lines import line_of, number_text, step_of, whole_number
from nemesis.variants.catalogue import BUILT
from nemesis.variants.worlds import WorldKind
from nemesis.verdict import Verdict

COMMAND = "simulate"
SCHEDULE = "simulated"
"""The name of a schedule that need not be written."""
RANGE_SIGN = ".."
_COUNTED = (
    "voters",
    "concurrency",
    "batch_records",
    "topics",
    "partitions",
    "replication_factor",
    "min_insync_replicas",
    "keys",
    "initial_voters",
)
_OPTIONS = ("seed", "world", "variant", "time_limit_s", "hostile_s", "schedule", "values")


# --- writing --------------------------------------------------------------------------------------------------------


def directive_of(options: SimOptions, *, outcome: Outcome | None = None, prose: str = "") -> Directive:
    """The run as a directive, with its climate and schedule written out; with ``outcome``, what it is to print."""
    options = resolved(options)
    assert options.climate is not None, options
    assert options.schedule is not None, options
    return Directive(
        prose=prose,
        command=COMMAND,
        arguments=dict([*_option_texts(options, options.schedule), *_climate_texts(options.climate)]),
        lines=tuple(line_of(step) for step in options.schedule.steps),
        output="" if outcome is None else verdict_text(outcome),
    )


def verdict_text(outcome: Outcome) -> str:
    """What a case prints: the verdict, and one line for what convicted it, or for each thing that is unknown."""
    if outcome.violation is not None:
        told = f"{outcome.violation.name}: {outcome.violation.detail}"
        return f"{outcome.verdict} at {outcome.violation.at_ms} ms\n{_one_line(told)}"
    reasons = () if outcome.verdict is Verdict.VALID else outcome.reasons
    return "\n".join([outcome.verdict, *map(_one_line, reasons)])


def _one_line(text: str) -> str:
    return " ".join(text.split())


def _option_texts(options: SimOptions, schedule: Schedule) -> Iterator[tuple[str, str]]:
    yield "seed", f"{options.seed}"
    if options.world is not WorldKind.QUORUM:
        yield "world", options.world
    if options.variant is not None:
        yield "variant", options.variant
    yield "time_limit_s", number_text(options.time_limit_s)
    if schedule.time_limit_s != options.time_limit_s * HOSTILE_SHARE:
        yield "hostile_s", number_text(schedule.time_limit_s)
    if schedule.name != SCHEDULE:
        yield "schedule", schedule.name
    if options.values is not None:
        yield "values", f"{options.values}"


def _climate_texts(climate: Climate) -> Iterator[tuple[str, str]]:
    for name in FIELDS[climate.world]:
        value = field_of(climate, name)
        if value != calm_field(climate, name):
            yield name, _value_text(value)


def _value_text(value: Any) -> str:
    match value:
        case bool():
            return "yes" if value else "no"
        case (type(), *_):
            return ",".join(fault.kind for fault in value)
        case tuple():
            return RANGE_SIGN.join(number_text(end) for end in value)
        case _:
            return number_text(value)


# --- reading --------------------------------------------------------------------------------------------------------


def options_of(directive: Directive) -> SimOptions:
    """The run that a directive describes. Raises ``ScenarioError`` with the number of the line and what to do."""
    try:
        options = _options(directive)
    except ValueError as error:
        raise ScenarioError(f"line {directive.line_number}: {error}") from None
    assert options.schedule is not None, options
    steps = []
    for number, line in enumerate(directive.lines, start=directive.line_number + 1):
        try:
            steps.append(step_of(line))
        except ValueError as error:
            raise ScenarioError(f"line {number}: {error}") from None
    try:
        schedule = dataclasses.replace(options.schedule, steps=tuple(steps))
    except ValueError as error:
        raise ScenarioError(f"line {directive.line_number + 1}: {error}") from None
    return dataclasses.replace(options, schedule=schedule)


def run_case(directive: Directive) -> str:
    """Perform the directive ``simulate``: run the case and say its verdict."""
    return verdict_text(simulate(options_of(directive)).outcome)


def _options(directive: Directive) -> SimOptions:
    """All but the steps."""
    given = directive.arguments
    if directive.words:
        raise ValueError(f"{directive.words[0]!r} does not belong here: give everything as key=value")
    world = _world(given.get("world", WorldKind.QUORUM))
    names = (*_OPTIONS, *FIELDS[world])
    unknown = [name for name in given if name not in names]
    if unknown:
        raise ValueError(f"{unknown[0]}= is not known: give some of {', '.join(names)}")
    for needed in ("seed", "time_limit_s"):
        if needed not in given:
            raise ValueError(f"there is no {needed}=: a run needs both, such as seed=17 time_limit_s=20")
    time_limit_s = _seconds(given["time_limit_s"])
    hostile_s = _seconds(given["hostile_s"]) if "hostile_s" in given else time_limit_s * HOSTILE_SHARE
    return SimOptions(
        seed=whole_number(given["seed"], "a seed"),
        world=world,
        time_limit_s=time_limit_s,
        variant=_variant(given.get("variant")),
        climate=_climate(world, given),
        schedule=Schedule(name=given.get("schedule", SCHEDULE), time_limit_s=hostile_s, steps=()),
        values=_count(given["values"], "values", least=0) if "values" in given else None,
    )


def _world(text: str) -> WorldKind:
    if text not in tuple(WorldKind):
        raise ValueError(f"{text!r} is no world: give one of {', '.join(WorldKind)}")
    return WorldKind(text)


def _climate(world: WorldKind, given: Mapping[str, str]) -> Climate:
    calm = CALM_CLIMATES[world]
    fields = {name: _value(name, text, calm) for name, text in given.items() if name in FIELDS[world]}
    for name in _COUNTED:
        _count(given.get(name, "1"), name, least=1)
    if fields.get("rate", calm.rate) <= 0:
        raise ValueError("rate=0 would wait for ever: give operations a second, such as 5")
    climate = with_fields(calm, fields)
    if climate.cluster is not None and climate.cluster.replication_factor > climate.voters:
        replicas = climate.cluster.replication_factor
        raise ValueError(f"replication_factor={replicas} needs as many brokers: give it from 1 to {climate.voters}")
    return climate


def _value(name: str, text: str, calm_climate: Climate) -> Any:
    """Read a field of the climate; what kind of thing it is, the calm climate's value says."""
    match calm := field_of(calm_climate, name):
        case bool():
            if text not in ("yes", "no"):
                raise ValueError(f"{name}={text} is neither yes nor no: give one of them")
            return text == "yes"
        case int():
            return _count(text, name, least=0)
        case float():
            return _number(text, name, calm)
        case (float(), float()):
            return _range(text, name, calm, lambda end, name: _number(end, name, calm[0]))
        case (int(), int()):
            return _range(text, name, calm, lambda end, name: _count(end, name, least=0))
        case _:
            return _weather(text)


def _weather(text: str) -> tuple[type[Fault], ...]:
    known = {fault.kind: fault for fault in WEATHER}
    unknown = [kind for kind in text.split(",") if kind not in known]
    if unknown:
        raise ValueError(f"{unknown[0]!r} is no weather: give some of {','.join(known)}")
    return tuple(known[kind] for kind in text.split(","))


def _range(text: str, name: str, calm: tuple[float, float], end_of: Callable[[str, str], float]) -> tuple[float, float]:
    low, sign, high = text.partition(RANGE_SIGN)
    if not sign:
        raise ValueError(f"{name}={text} is no range: give two ends, such as {_value_text(calm)}")
    ends = end_of(low, name), end_of(high, name)
    if ends[0] > ends[1]:
        raise ValueError(f"{name}={text} ends before it begins: give the lower end first")
    return ends


def _count(text: str, name: str, *, least: int) -> int:
    number = whole_number(text, f"a number for {name}=")
    if number < least:
        raise ValueError(f"{name}={text} is too small: give {least} or more")
    return number


def _number(text: str, name: str, calm: float) -> float:
    try:
        number = float(text)
    except ValueError:
        number = math.nan
    if not 0 <= number < math.inf:
        raise ValueError(f"{name}={text} is no number that fits: give one from 0, such as {_value_text(calm)}")
    return number


def _seconds(text: str) -> float:
    try:
        seconds = float(text)
    except ValueError:
        seconds = math.nan
    if not 0 < seconds < math.inf:
        raise ValueError(f"{text!r} is no time: give seconds above 0, such as 12.5")
    return seconds


def _variant(name: str | None) -> str | None:
    if name is not None and name not in BUILT:
        raise ValueError(f"{name!r} is no variant: give one of {', '.join(sorted(BUILT))}")
    return name
