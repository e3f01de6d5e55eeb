"""``nemesis check``, ``export`` and ``list-variants``: what needs no cluster.

Owns how a run is named on the command line: by its folder, or by a link to it such as ``store/append/latest``.
"""

from __future__ import annotations

from pathlib import Path
from typing import assert_never

import click

from nemesis.cli_judge import choose_engine, engine_option, judge_and_tell, master_option

_run_folder = click.argument(
    "folder", metavar="RUN", type=click.Path(exists=True, file_okay=False, path_type=Path, resolve_path=True)
)


@click.command()
@_run_folder
@engine_option
@master_option
def check(folder: Path, engine: str | None, master: str) -> int:
    """Judge a stored RUN again; rewrite its results.json and report.html."""
    _check_is_run(folder)
    return judge_and_tell(folder, engine=choose_engine(engine), master=master)


@click.command()
@_run_folder
@click.option(
    "--output",
    type=click.Path(file_okay=False, path_type=Path),
    help="Write the files here; without, into the run's folder.",
)
def export(folder: Path, output: Path | None) -> None:
    """Write the tables of a stored RUN as JSON Lines: history, logs, events."""
    from nemesis.history import Kind, export_jsonl

    _check_is_run(folder)
    target = folder if output is None else output
    target.mkdir(parents=True, exist_ok=True)
    for kind in Kind:
        path = target / f"{kind}.jsonl"
        click.echo(f"{path}: {export_jsonl(folder, path, kind)} rows")


@click.command("list-variants")
def list_variants() -> None:
    """List the wrong protocols: what is wrong, the invariant that breaks, and how each is run or why it is not."""
    from nemesis.variants.catalogue import ALL
    from nemesis.variants.mutant import DirectedVariant, Equivalent, Pending, Variant

    for mutant in ALL:
        click.echo(f"{mutant.id} {mutant.name} ({mutant.origin})\n  {mutant.summary}\n  breaks {mutant.breaks}")
        match mutant:
            case Variant():
                click.echo(f"  overrides {', '.join(mutant.overrides)}")
                if isinstance(mutant, DirectedVariant):
                    click.echo(f"  schedule {mutant.schedule.name}, convicted of {' or '.join(mutant.convicted_of)}")
            case Pending():
                click.echo(f"  pending: waits for {mutant.waits_for}")
            case Equivalent():
                click.echo(f"  not built, nothing would show: {mutant.reason}")
            case _:
                assert_never(mutant)


def _check_is_run(folder: Path) -> None:
    if not (folder / "history").is_dir():
        raise click.BadParameter(
            f"{folder} holds no run: give a folder with history/ in it, such as store/append/latest", param_hint="RUN"
        )
