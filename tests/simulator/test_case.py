"""Simulated runs as scenarios: nothing is lost in the text, and wrong text is refused with what would be right."""

from __future__ import annotations

from dataclasses import replace

import pytest

from nemesis.disks.damage import DiskPart
from nemesis.faults.damage import DamageDisk
from nemesis.faults.disks import FailDisk, FillDisk, PowerLoss, SlowDisk
from nemesis.faults.fault import Fault
from nemesis.faults.links import LinkMode
from nemesis.faults.partitions import CutClients, CutLink, Partition
from nemesis.faults.processes import Kill, Pause, Stop
from nemesis.faults.shapes import Shape
from nemesis.faults.simulated import Clog, DelayMetadata
from nemesis.faults.targets import Role
from nemesis.faults.timekeeping import JumpClock, StopClock
from nemesis.schedules.schedule import AwaitLeader, Heal, Inject, Name, Schedule, Step
from nemesis.simulator.case import directive_of, options_of, run_case, verdict_text
from nemesis.simulator.climate import CALM
from nemesis.simulator.faults import IN_WORLDS
from nemesis.simulator.run import Outcome, SimOptions, resolved, simulate
from nemesis.simulator.scenario_files import Directive, ScenarioError, parse_scenario, render_scenario
from nemesis.simulator.schedule_lines import line_of, step_of
from nemesis.variants.catalogue import BUILT
from nemesis.variants.worlds import WorldKind
from nemesis.verdict import Verdict
from tests.depth import seeds

FAULTS: tuple[Fault, ...] = (
    Partition(shape=Shape.ISOLATE, target=Role.LEADER, mode=LinkMode.RESET),
    Partition(shape=Shape.HALVES),
    CutLink(source="@a", destination=Role.LEADER, mode=LinkMode.RESET),
    CutClients(target=Role.ONE),
    Kill(target=Role.ALL),
    Pause(target=Role.MAJORITY),
    PowerLoss(target=Role.MINORITY),
    Stop(target=Role.FOLLOWER),
    Clog(shape=Shape.BRIDGE, target="@a"),
    Clog(shape=Shape.MAJORITIES_RING),
    JumpClock(target=Role.LEADER, by_ms=10_000),
    StopClock(target=Role.LEADER),
    FillDisk(target=Role.LEADER),
    SlowDisk(target=Role.ALL, factor=30),
    DelayMetadata(target=Role.ONE, delay_ms=700),
    FailDisk(target=Role.LEADER, call="fsync"),
    DamageDisk(target=Role.ONE, how="misdirect"),
    DamageDisk(target=Role.ONE, how="cut", part=DiskPart.STATE),
)


def read_again(options: SimOptions) -> SimOptions:
    """What is read from the file that is written of a run."""
    (directive,) = parse_scenario(render_scenario([directive_of(options)]))
    return options_of(directive)


@pytest.mark.parametrize("seed", seeds(25))
def test_what_a_seed_brings_survives_the_text(seed: int) -> None:
    """Climate, schedule and options of any seed are read from the text as they were written."""
    variant = (None, *sorted(BUILT))[seed % (len(BUILT) + 1)]
    world = WorldKind.QUORUM if variant is None else BUILT[variant].world
    drawn = SimOptions(
        seed=seed, world=world, time_limit_s=10 + seed % 50 / 7, variant=variant, values=seed % 50 or None
    )
    options = resolved(drawn)

    assert read_again(options) == options


def test_a_schedule_of_its_own_survives_the_text() -> None:
    """Names, steps that wait, a schedule's own name and length are read as they were written."""
    steps = (
        Step(at_s=0, action=Name(name="a", target=Role.LEADER, draw=7)),
        Step(at_s=0.125, action=AwaitLeader(target="@a", at_most_s=2.5)),
        Step(at_s=3, action=Inject(fault_id=4, fault=Kill(target="@a"), draw=1 << 31)),
        Step(at_s=3, action=Heal(fault_id=4)),
    )
    schedule = Schedule(name="by-hand", time_limit_s=3.5, steps=steps)
    options = SimOptions(seed=0, time_limit_s=4, climate=CALM, schedule=schedule)

    assert read_again(options) == options


@pytest.mark.parametrize(
    "fault", FAULTS, ids=lambda fault: line_of(Step(at_s=0, action=Inject(fault_id=0, fault=fault)))
)
@pytest.mark.parametrize("draw", [0, 123])
def test_every_fault_survives_its_line(fault: Fault, draw: int) -> None:
    """A fault of any kind, with any of its fields set, is read from its line as it was written."""
    step = Step(at_s=1.5, action=Inject(fault_id=3, fault=fault, draw=draw))

    assert step_of(line_of(step)) == step


def test_every_kind_of_fault_is_among_them() -> None:
    """The table has all that the simulator can do, and what is not there cannot be done."""
    assert {type(fault) for fault in FAULTS} == set(IN_WORLDS)


def test_what_is_usual_is_not_written() -> None:
    """A line has what a reader needs: no field at its usual value, no dice that are not used."""
    step = Step(at_s=2, action=Inject(fault_id=0, fault=Partition(shape=Shape.ISOLATE, target=Role.LEADER)))
    schedule = Schedule(name="simulated", time_limit_s=7.5, steps=(step,))
    directive = directive_of(SimOptions(seed=3, time_limit_s=10, climate=replace(CALM, voters=5), schedule=schedule))

    assert directive.text == "simulate seed=3 time_limit_s=10 voters=5"
    assert directive.lines == ("2 inject 0 partition leader shape=isolate",)


@pytest.mark.parametrize(("variant", "verdict"), [(None, Verdict.VALID), ("ack-before-replication", Verdict.INVALID)])
def test_a_case_runs_as_its_seed_did(variant: str | None, verdict: Verdict) -> None:
    """A case prints the verdict of the run that it was made of, whether that kept its promises or not."""
    options = SimOptions(seed=2, time_limit_s=8, variant=variant)
    outcome = simulate(options).outcome
    (directive,) = parse_scenario(render_scenario([directive_of(options, outcome=outcome)]))

    assert run_case(directive) == directive.output == verdict_text(outcome)
    assert directive.output.split()[0] == verdict


def test_an_unknown_verdict_says_why() -> None:
    """Where nothing convicts and not all was seen, the text names what was not, each on a line of its own."""
    outcome = Outcome(
        seed=1,
        verdict=Verdict.UNKNOWN,
        violation=None,
        reasons=("nothing was\nacknowledged", "a log is missing"),
        rare={},
        simulated_ms=1,
        steps=1,
        acknowledged=0,
    )

    assert verdict_text(outcome) == "unknown\nnothing was acknowledged\na log is missing"


REFUSED = [
    ("simulate time_limit_s=9", "line 3: there is no seed=: a run needs both"),
    ("simulate seed=1", "line 3: there is no time_limit_s="),
    ("simulate seed=x time_limit_s=9", "line 3: 'x' is not a seed: give a whole number"),
    ("simulate seed=1 time_limit_s=0", "line 3: '0' is no time: give seconds above 0"),
    ("simulate seed=1 time_limit_s=9 quickly", "line 3: 'quickly' does not belong here: give everything as key=value"),
    ("simulate seed=1 time_limit_s=9 lost=1", "line 3: lost= is not known: give some of seed"),
    ("simulate seed=1 time_limit_s=9 variant=wrong", "line 3: 'wrong' is no variant: give one of"),
    ("simulate seed=1 time_limit_s=9 values=-1", "line 3: values=-1 is too small: give 0 or more"),
    ("simulate seed=1 time_limit_s=9 voters=0", "line 3: voters=0 is too small: give 1 or more"),
    ("simulate seed=1 time_limit_s=9 rate=0", "line 3: rate=0 would wait for ever: give operations a second"),
    ("simulate seed=1 time_limit_s=9 loss=much", "line 3: loss=much is no number that fits: give one from 0"),
    ("simulate seed=1 time_limit_s=9 ordered=maybe", "line 3: ordered=maybe is neither yes nor no"),
    ("simulate seed=1 time_limit_s=9 latency_ms=3", "line 3: latency_ms=3 is no range: give two ends"),
    ("simulate seed=1 time_limit_s=9 latency_ms=3..1", "line 3: latency_ms=3..1 ends before it begins"),
    ("simulate seed=1 time_limit_s=9 weather=kill,rain", "line 3: 'rain' is no weather: give some of partition,kill"),
    ("simulate seed=1 time_limit_s=9\n1 heal 0\n2 explode", "line 5: '2 explode' is no step: write such as"),
    ("simulate seed=1 time_limit_s=9\nsoon heal 0", "line 4: 'soon' is no time: give seconds"),
    ("simulate seed=1 time_limit_s=9\n1 heal it", "line 4: 'it' is not the number of a fault"),
    ("simulate seed=1 time_limit_s=9\n1 inject 0 murder one", "line 4: 'murder' is no fault: give one of partition"),
    ("simulate seed=1 time_limit_s=9\n1 inject 0 kill you", "line 4: 'you' is no target: give leader"),
    ("simulate seed=1 time_limit_s=9\n1 inject 0 kill", "line 4: kill lacks its target: write such as 'kill leader'"),
    ("simulate seed=1 time_limit_s=9\n1 inject 0 kill one two", "line 4: 'two' is one word too many for kill"),
    ("simulate seed=1 time_limit_s=9\n1 inject 0 kill one how=zero", "line 4: 'how=zero' does not belong here"),
    (
        "simulate seed=1 time_limit_s=9\n1 inject 0 partition shape=odd",
        "line 4: 'odd' is no shape: give one of isolate",
    ),
    (
        "simulate seed=1 time_limit_s=9\n1 inject 0 clock-jump one",
        "line 4: clock-jump lacks its by_ms: write such as 'clock-jump leader by_ms=10'",
    ),
    ("simulate seed=1 time_limit_s=9\n1 inject 0 fail-disk one call=read", "line 4: 'read' is no call: give one of"),
    ("simulate seed=1 time_limit_s=9\n1 inject 0 slow-disk one factor=big", "line 4: 'big' is not a factor"),
    (
        "simulate seed=1 time_limit_s=9\n2 heal 0\n1 heal 1",
        "line 4: the steps of schedule 'simulated' are not in order",
    ),
    ("simulate seed=1 time_limit_s=9\n8 heal 0", "line 4: the steps of schedule 'simulated' are not within 0 to 6.75"),
]


@pytest.mark.parametrize(("text", "complaint"), REFUSED)
def test_wrong_text_is_refused_by_line(text: str, complaint: str) -> None:
    """Whatever is wrong is told with the number of its line and with what would be right, before anything runs."""
    (directive,) = parse_scenario(f"# Two lines\n# of prose.\n{text}\n----\n")

    with pytest.raises(ScenarioError) as refused:
        run_case(directive)

    assert str(refused.value).startswith(complaint)


@pytest.mark.parametrize(
    "fault", FAULTS, ids=lambda fault: line_of(Step(at_s=0, action=Inject(fault_id=0, fault=fault)))
)
def test_the_example_of_a_complaint_is_right(fault: Fault) -> None:
    """For every kind of fault, what a complaint says to write can be read."""
    with pytest.raises(ValueError, match="write such as") as refused:
        step_of(f"1 inject 0 {fault.kind}")
    example = str(refused.value).split("'")[1]

    assert isinstance(step_of(f"1 inject 0 {example}").action, Inject)


def test_a_directive_that_was_made_by_hand_has_its_usual_values() -> None:
    """Seed and time are enough: the rest is a calm climate without faults for three quarters of the time."""
    options = options_of(Directive(command="simulate", arguments={"seed": "1", "time_limit_s": "20"}))

    assert options.climate == CALM
    assert options.schedule == Schedule(name="simulated", time_limit_s=15, steps=())
