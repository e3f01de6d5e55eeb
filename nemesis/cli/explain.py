"""``nemesis explain RUN``: what happened in a stored run, in a few lines."""

from __future__ import annotations

from pathlib import Path

import click

from nemesis.cli.check import check_is_run, run_folder
from nemesis.cli.exit import VERDICT_EXITS
from replica.cli.help import example


@click.command(epilog=example("nemesis explain store/append/latest"))
@run_folder
def explain(folder: Path) -> int:
    """Tell what happened in a stored RUN: the verdict, the story, the worst anomalies, and how to repeat it.

    The exit code is that of the verdict.
    """
    from nemesis.report.data import read_run
    from nemesis.report.text import explained

    check_is_run(folder)
    run = read_run(folder)
    for line in explained(run):
        click.echo(line)
    return VERDICT_EXITS[run.judgement.verdict.value]
