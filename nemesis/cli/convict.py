"""``nemesis convict``: simulate every wrong protocol until it is convicted, and write how many seeds that took.

Owns the options and the exit code; the measurement and its page are ``nemesis.simulator.conviction``'s.
"""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from nemesis.cli.exit import Exit
from nemesis.cli.progress import sweep_shown
from nemesis.cli.words import time_limit, variant_name
from nemesis.variants.catalogue import BUILT
from replica.cli.help import example

if TYPE_CHECKING:
    from nemesis.simulator.conviction import Conviction

_file = click.Path(dir_okay=False, path_type=Path)


@click.command(epilog=example("nemesis convict --variant vote-not-persisted --trials 3"))
@click.option("--variant", "variants", multiple=True, type=variant_name, help="Only it.")
@click.option("--trials", type=click.IntRange(1, 1000), default=11, show_default=True, help="Convictions of each.")
@click.option(
    "--seeds-max",
    type=click.IntRange(1, 100_000),
    default=1000,
    show_default=True,
    help="In a row without a conviction.",
)
@click.option("--time-limit", type=time_limit, default=60.0, show_default=True, help="Virtual s each.")
@click.option("--jobs", type=click.IntRange(1, 512), help="Processes. [default: one a core]")
@click.option("--output", type=_file, default=Path("store/variants.json"), show_default=True)
@click.option("--table", type=_file, metavar="FILE", help="Write a page with the table of all variants, in Markdown.")
@click.option(
    "--read", type=click.Path(exists=True, dir_okay=False, path_type=Path), help="Take the result from there."
)
def convict(output: Path, table: Path | None, read: Path | None, **given: Any) -> int:
    """Simulate each wrong protocol until it was convicted several times.

    Exits with 0 if all of them were, with 2 if one was not, for then this harness proves less than it says, and with
    255 if the harness itself failed at some seed.
    """
    from nemesis.simulator.conviction import page

    measured = _measured(output, **given) if read is None else json.loads(read.read_text(encoding="utf-8"))
    if table is not None:
        table.parent.mkdir(parents=True, exist_ok=True)
        table.write_text(page(measured), encoding="utf-8")
        click.echo(f"table: {table}")
    if any(row["errors"] for row in measured["variants"]):
        return Exit.INTERNAL_ERROR
    return Exit.VALID if all(row["trials"] for row in measured["variants"]) else Exit.UNKNOWN


def _measured(
    output: Path, *, variants: Sequence[str], trials: int, seeds_max: int, time_limit: float, jobs: int | None
) -> dict[str, Any]:
    from nemesis.runner import versions
    from nemesis.simulator.conviction import convict as convict_one
    from nemesis.simulator.conviction import document
    from nemesis.simulator.sweep import Workers

    convictions = []
    with Workers(jobs or os.cpu_count() or 1) as workers:
        for name in variants or tuple(BUILT):
            with sweep_shown(None) as show:
                one = convict_one(
                    name,
                    workers,
                    trials=trials,
                    seeds_max=seeds_max,
                    time_limit_s=time_limit,
                    on_seed=partial(show, name),
                )
            convictions.append(one)
            click.echo(told(one))
    measured = document(convictions, seeds_max=seeds_max, time_limit_s=time_limit)
    output.parent.mkdir(parents=True, exist_ok=True)
    output.write_text(json.dumps({"versions": versions(), **measured}, indent=2) + "\n", encoding="utf-8")
    click.echo(f"result: {output}")
    return measured


def told(one: Conviction) -> str:
    """One variant in one line."""
    errors = f"; the harness failed at {one.errors} seeds" if one.errors else ""
    if not one.trials:
        return f"{one.variant}: not convicted in {one.seeds} seeds{errors}"
    name = next(iter(one.violations))
    return (
        f"{one.variant}: convicted {len(one.trials)} times in {one.seeds} seeds, median {one.median:g}, "
        f"most {max(one.trials)}, mostly of {name}{errors}\n  {one.command}"
    )
