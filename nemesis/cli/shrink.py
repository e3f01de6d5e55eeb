"""``nemesis shrink``: from a seed that fails to a case that a person can read, as a scenario file.

Owns the options and the words of the file and of the result. How a run is made smaller is ``simulator.shrink``'s.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from nemesis.cli.sim import world_of
from nemesis.cli.words import time_limit, variant_name
from replica.cli.help import example

if TYPE_CHECKING:
    from nemesis.simulator.run import SimOptions
    from nemesis.simulator.shrink import Failure, Shrunk

ATTEMPTS = 2000
TIME_LIMIT_S = 60.0


@click.command(epilog=example("nemesis shrink --variant vote-without-comparing-logs --seed 9"))
@click.option("--seed", type=click.IntRange(min=0), required=True, help="A seed that nemesis sim found to fail.")
@click.option(
    "--world", type=click.Choice(["quorum", "cluster", "group"]), help="What was simulated. [default: quorum]"
)
@click.option("--variant", type=variant_name, help="The wrong protocol it was found in.")
@click.option("--time-limit", type=time_limit, default=TIME_LIMIT_S, show_default=True)
@click.option("--attempts", type=click.IntRange(1), default=ATTEMPTS, show_default=True, help="Runs at most.")
@click.option("--any-violation", is_flag=True, help="Follow any failure, not only the one that the seed shows.")
@click.option("--output", type=click.Path(dir_okay=False, path_type=Path), help="The file. [default: in store/]")
def shrink(
    seed: int,
    world: str | None,
    variant: str | None,
    time_limit: float,
    attempts: int,
    any_violation: bool,
    output: Path | None,
) -> None:
    """Reduce what fails at a seed to a minimal case, and write it as a scenario file.

    The same arguments write the same file. Exits with 0 once it is written.
    """
    from nemesis.simulator.case import directive_of
    from nemesis.simulator.run import SimOptions
    from nemesis.simulator.scenario_files import render_scenario
    from nemesis.simulator.shrink import DoesNotFailError, ShrinkOptions
    from nemesis.simulator.shrink import shrink as search

    options = SimOptions(seed=seed, world=world_of(world, variant), variant=variant, time_limit_s=time_limit)
    how = ShrinkOptions(attempts=attempts, same_violation=not any_violation)
    try:
        shrunk = search(options, how, _tell_smaller)
    except DoesNotFailError as error:
        raise click.BadParameter(
            f"{error}: give one that nemesis sim found to fail, with its --world, --variant and --time-limit",
            param_hint="--seed",
        ) from None
    case = directive_of(shrunk.smallest.options, outcome=shrunk.smallest.outcome, prose=prose_of(shrunk, options))
    text = render_scenario([case])
    path = Path("store") / f"shrunk-{variant or 'right'}-{seed}.txt" if output is None else output
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
    click.echo(text)
    click.echo(f"{shrunk.attempts} runs{'' if shrunk.is_finished else ', the most allowed'}; case: {path}")


def prose_of(shrunk: Shrunk, options: SimOptions) -> str:
    """What stands above the case: what it is, from how much it was made, and the command that repeats that."""
    protocol = "the protocol as it is" if options.variant is None else f"the variant {options.variant}"
    return (
        f"{shrunk.smallest.violation_name}, by {protocol}.\n"
        f"Found by seed {options.seed} with {_described(shrunk.first)}.\n"
        f"Shrunk to {_described(shrunk.smallest)} by\n"
        f"  {_command(shrunk, options)}"
    )


def _command(shrunk: Shrunk, options: SimOptions) -> str:
    words = ["nemesis shrink", f"--seed {options.seed}"]
    words += [f"--world {options.world}"] if options.world != "quorum" else []
    words += [f"--variant {options.variant}"] if options.variant is not None else []
    words += [f"--time-limit {options.time_limit_s:g}"] if options.time_limit_s != TIME_LIMIT_S else []
    words += [f"--attempts {shrunk.how.attempts}"] if shrunk.how.attempts != ATTEMPTS else []
    words += [] if shrunk.how.same_violation else ["--any-violation"]
    return " ".join(words)


def _described(failure: Failure) -> str:
    from nemesis.simulator.reductions import extent_of

    extent = extent_of(failure.options)
    violation = failure.outcome.violation
    assert violation is not None, failure
    return ", ".join(
        (
            _counted(extent.voters, "voter"),
            _counted(extent.faults, "fault"),
            _counted(extent.rates, "rate") + " above zero",
            _counted(extent.habits, "unusual habit"),
            _counted(failure.outcome.steps, "step"),
            f"{violation.at_ms / 1000:g} s",
        )
    )


def _counted(number: int, noun: str) -> str:
    return f"{number} {noun}{'' if number == 1 else 's'}"


def _tell_smaller(failure: Failure, attempts: int) -> None:
    click.echo(f"run {attempts}: {_described(failure)}", err=True)
