"""Shrinking: what is left fails in the same way, is smaller, and nothing of it can be left out."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from random import Random

import pytest

from nemesis.cli.__main__ import main
from nemesis.cli.exit import Exit
from nemesis.faults.damage import DamageDisk
from nemesis.faults.fault import Fault
from nemesis.faults.partitions import Partition
from nemesis.faults.processes import Kill
from nemesis.faults.shapes import Shape
from nemesis.faults.simulated import Clog
from nemesis.faults.targets import Role
from nemesis.schedules.schedule import Heal, Inject, Name, Schedule, Step
from nemesis.simulator.case import directive_of, options_of, run_case
from nemesis.simulator.climate import CALM, Climate
from nemesis.simulator.reductions import (
    calm,
    extent_of,
    fewer_values,
    is_possible,
    lasting,
    less_time,
    only,
    renumbered,
    size_of,
    sooner,
    units_of,
    without_healing,
)
from nemesis.simulator.run import SimOptions, resolved, simulate
from nemesis.simulator.scenario_files import parse_scenario
from nemesis.simulator.shrink import DoesNotFailError, Failure, ShrinkOptions, Shrunk, ddmin, shrink
from tests.depth import seeds

VARIANT = "vote-without-comparing-logs"
VIOLATION = "leader-completeness"
SEEDS_MAX = 60


def first_failing(variant: str, violation: str, *, time_limit_s: float, faults: int) -> SimOptions:
    """The first seed at which the variant is convicted of this while there are faults, and at least so many of them."""
    for seed in range(SEEDS_MAX):
        options = resolved(SimOptions(seed=seed, time_limit_s=time_limit_s, variant=variant))
        if extent_of(options).faults < faults:
            continue
        failure = Failure(options=options, outcome=simulate(options).outcome)
        if failure.outcome.violation is not None and failure.is_hostile and failure.violation_name == violation:
            return SimOptions(seed=seed, time_limit_s=time_limit_s, variant=variant)
    raise AssertionError(f"{variant} is not convicted of {violation} by any of {SEEDS_MAX} seeds")


@pytest.fixture(scope="module")
def shrunk() -> Shrunk:
    """A failure of a variant that needs faults to fail, shrunk."""
    options = first_failing(VARIANT, VIOLATION, time_limit_s=8, faults=4)
    return shrink(options, ShrinkOptions(attempts=160))


# --- the whole ------------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_a_shrunk_case_fails_in_the_same_way_from_its_text(shrunk: Shrunk) -> None:
    """The case as text, run again, is convicted of what the seed was convicted of, in the same words each time."""
    case = directive_of(shrunk.smallest.options, outcome=shrunk.smallest.outcome)

    assert run_case(case) == case.output
    assert case.output.splitlines()[1].startswith(f"{VIOLATION}: ")


def test_a_shrunk_case_is_much_smaller(shrunk: Shrunk) -> None:
    """Most of the faults are gone, of rates and habits none came in, and the values are counted."""
    before, after = extent_of(shrunk.first.options), extent_of(shrunk.smallest.options)

    assert size_of(shrunk.smallest.options) < size_of(shrunk.first.options)
    assert after.faults <= before.faults / 2
    assert after.faults + after.rates < before.faults + before.rates
    assert after.habits <= before.habits
    assert shrunk.smallest.options.values is not None


def test_the_right_protocol_bears_what_is_left(shrunk: Shrunk) -> None:
    """The case shows the wrong rule: without it, nothing goes wrong there."""
    assert simulate(replace(shrunk.smallest.options, variant=None)).outcome.verdict == "valid"


@pytest.mark.slow
def test_shrinking_again_does_not_grow(shrunk: Shrunk) -> None:
    """What is small stays as it is or becomes smaller."""
    again = shrink(shrunk.smallest.options, ShrinkOptions(attempts=50))

    assert size_of(again.smallest.options) <= size_of(shrunk.smallest.options)
    assert again.smallest.violation_name == VIOLATION


@pytest.mark.slow
def test_the_budget_is_kept(shrunk: Shrunk) -> None:
    """No more runs than allowed are made, and the result says that it is not the end."""
    few = shrink(shrunk.first.options, ShrinkOptions(attempts=8))

    assert few.attempts == 8
    assert not few.is_finished


def test_a_run_that_does_not_fail_is_refused() -> None:
    """There is nothing to shrink where nothing is wrong, and the error says so."""
    with pytest.raises(DoesNotFailError, match="seed 2 does not fail: it is valid"):
        shrink(SimOptions(seed=2, time_limit_s=5))


@pytest.mark.slow
def test_another_violation_is_followed_only_when_asked() -> None:
    """Every step of a search is convicted as the first run was, unless any failure will do."""
    options = first_failing("append-without-reconciling", "log-matching", time_limit_s=6, faults=0)
    names = {
        same: set(_names_on_the_way(options, ShrinkOptions(attempts=50, same_violation=same))) for same in (True, False)
    }

    assert names[True] == {"log-matching"}
    assert len(names[False]) > 1


def _names_on_the_way(options: SimOptions, how: ShrinkOptions) -> list[str]:
    names: list[str] = []
    shrink(options, how, lambda failure, _: names.append(failure.violation_name))
    return names


# --- ddmin ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", seeds(15))
def test_ddmin_finds_exactly_what_is_needed(seed: int) -> None:
    """Where some items together are what fails, those are left, in their order, whatever stands between them."""
    dice = Random(seed)
    items = range(dice.randint(1, 40))
    needed = sorted(dice.sample(items, dice.randint(0, min(5, len(items)))))

    assert list(ddmin(items, lambda part: set(needed) <= set(part))) == needed


@pytest.mark.parametrize("seed", seeds(15))
def test_ddmin_leaves_nothing_that_can_be_left_out(seed: int) -> None:
    """However failures depend on items, the part that is found fails, and none that lacks one item of it does."""
    dice = Random(seed)
    items = tuple(range(9))
    failing = {frozenset(dice.sample(items, dice.randint(1, 8))) for _ in range(40)} | {frozenset(items)}

    def fails(part: Sequence[int]) -> bool:
        return frozenset(part) in failing

    found = ddmin(items, fails)

    assert fails(found)
    assert not any(fails([item for item in found if item != left_out]) for left_out in found)


# --- reductions -----------------------------------------------------------------------------------------------------


def with_faults(*faults: Fault, climate: Climate = CALM) -> SimOptions:
    """A run with one fault a second, each healed half a second later."""
    steps = [
        step
        for number, fault in enumerate(faults)
        for step in (
            Step(at_s=number + 1, action=Inject(fault_id=number, fault=fault, draw=9)),
            Step(at_s=number + 1.5, action=Heal(fault_id=number)),
        )
    ]
    schedule = Schedule(name="simulated", time_limit_s=len(faults) + 2, steps=tuple(steps))
    return SimOptions(seed=1, time_limit_s=len(faults) + 4, climate=climate, schedule=schedule, values=8)


def lines(options: SimOptions) -> tuple[str, ...]:
    """The schedule as it is written."""
    return directive_of(options).lines


def test_a_fault_goes_with_its_healing() -> None:
    """What is left of a schedule has the healing of its faults and of no others, and the numbers begin at 0."""
    options = with_faults(Kill(target=Role.ONE), Kill(target=Role.ALL), Kill(target=Role.LEADER))
    assert options.schedule is not None

    assert units_of(options.schedule.steps) == [0, 2, 4]
    assert lines(renumbered(only(options, [2]))) == ("2 inject 0 kill all draw=9", "2.5 heal 0")
    assert lines(only(options, [])) == ()


def test_a_name_is_left_out_by_itself() -> None:
    """Steps that are no faults are units too, and keep no numbers."""
    options = with_faults(Kill(target="@a"))
    assert options.schedule is not None
    named = Step(at_s=0, action=Name(name="a", target=Role.LEADER))
    options = replace(options, schedule=replace(options.schedule, steps=(named, *options.schedule.steps)))

    assert lines(only(options, [0])) == ("0 name a leader",)
    assert lines(only(options, [1])) == ("1 inject 0 kill @a draw=9", "1.5 heal 0")


@pytest.mark.parametrize(
    ("voters", "fault", "possible"),
    [
        (3, DamageDisk(target=Role.ONE, how="flip"), True),
        (2, DamageDisk(target=Role.ONE, how="flip"), False),
        (3, Partition(shape=Shape.MAJORITIES_RING), True),
        (2, Partition(shape=Shape.MAJORITIES_RING), False),
        (2, Clog(shape=Shape.BRIDGE, target=Role.ONE), False),
        (1, Clog(shape=Shape.ISOLATE, target=Role.ONE), True),
    ],
)
def test_only_what_a_right_protocol_must_bear_is_possible(voters: int, fault: Fault, possible: bool) -> None:
    """Fewer replicas bear less damage and have no shapes of three: else a sound protocol would be convicted."""
    assert is_possible(with_faults(fault, climate=replace(CALM, voters=voters))) is possible


def test_time_is_taken_between_steps_and_at_the_end() -> None:
    """Steps move up to the step before them with all that follows, and the end to the last step."""
    options = with_faults(Kill(target=Role.ONE))

    assert lines(next(sooner(options))) == ("0 inject 0 kill one draw=9", "0.5 heal 0")
    assert lines(next(without_healing(options))) == ("1 inject 0 kill one draw=9",)
    assert lines(lasting(options, 1.2)) == ("1 inject 0 kill one draw=9",)
    assert min(candidate.time_limit_s for candidate in less_time(options)) == 1.6


@pytest.mark.parametrize("seed", seeds(2))
def test_every_candidate_can_be_written_and_read(seed: int) -> None:
    """Whatever is taken away, the rest is a run that its text gives back, with its steps in order of time."""
    options = replace(resolved(SimOptions(seed=seed, time_limit_s=8)), values=9)

    for reduction in (calm, sooner, less_time, without_healing, fewer_values):
        for candidate in reduction(options):
            assert options_of(directive_of(candidate)) == candidate


# --- the command ----------------------------------------------------------------------------------------------------


def code_of(*arguments: object) -> object:
    """The exit code of ``nemesis`` with these arguments."""
    with pytest.raises(SystemExit) as ended:
        main([str(argument) for argument in arguments])
    return ended.value.code


@pytest.mark.slow
def test_the_command_writes_a_case_that_runs(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The file holds the case, what it is, and the command that repeats it; the same arguments write the same."""
    options = first_failing("ack-before-replication", "acknowledged-is-committed", time_limit_s=10, faults=1)
    arguments = f"--seed {options.seed} --variant ack-before-replication --time-limit 10 --attempts 60"
    texts = []
    for name in ("first.txt", "second.txt"):
        assert code_of("shrink", *arguments.split(), "--output", tmp_path / "new" / name) == Exit.VALID
        texts.append((tmp_path / "new" / name).read_text(encoding="utf-8"))

    (case,) = parse_scenario(texts[0])
    assert texts[0] == texts[1]
    assert f"nemesis shrink {arguments}" in case.prose
    assert run_case(case) == case.output
    assert texts[0] in capsys.readouterr().out


def test_the_command_refuses_a_seed_that_does_not_fail(capsys: pytest.CaptureFixture[str]) -> None:
    """A seed at which nothing fails is a wrong argument, and the error says where failing ones come from."""
    assert code_of("shrink", "--seed", 2, "--time-limit", 5) == Exit.BAD_ARGUMENTS
    assert "seed 2 does not fail: it is valid: give one that nemesis sim found" in capsys.readouterr().err
