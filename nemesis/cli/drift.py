"""``nemesis drift RUN``: whether the replicas of a long run took more and more.

Owns the command's options and the words of the result.
"""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path

import click

from nemesis.cli.check import check_is_run, run_folder
from nemesis.cli.exit import Exit
from nemesis.cli.verdicts import write_document
from replica.cli.help import example


@click.command(epilog=example("nemesis drift store/append/latest --chart drift.svg"))
@run_folder
@click.option("--output", type=click.Path(dir_okay=False, path_type=Path), metavar="FILE", help="The result as JSON.")
@click.option("--chart", type=click.Path(dir_okay=False, path_type=Path), metavar="FILE", help="The figures as SVG.")
def drift(folder: Path, output: Path | None, chart: Path | None) -> int:
    """Tell whether memory, descriptors, threads, processor, disk or latency of a stored RUN went on rising.

    A run of 10 minutes or more of replicas that are processes of this machine (--cluster local or netns). Exits with 0
    for no drift, 1 for drift, 2 for unknown. Whether the run is valid says nemesis check.
    """
    from nemesis.drift.chart import chart_of
    from nemesis.drift.judgement import Drift, judge, verdict_of
    from nemesis.drift.series import TooShortError, read_series
    from nemesis.history import HistoryError

    check_is_run(folder)
    try:
        run = read_series(folder)
    except TooShortError as error:
        click.echo(f"verdict: {Drift.UNKNOWN}\n  {error}")
        return Exit.UNKNOWN
    except (HistoryError, OSError, ValueError, LookupError, TypeError) as error:
        raise click.ClickException(f"{folder}: {error}") from error
    judged = judge(run.series, run.window_s)
    verdict = verdict_of(judged)
    click.echo(f"verdict: {verdict}")
    for one in judged:
        click.echo(f"  {one.told}")
    if output is not None:
        figures = [asdict(one) for one in judged]
        write_document(output, {"run": str(folder), "verdict": verdict, "window_s": run.window_s, "judged": figures})
    if chart is not None:
        try:
            chart.write_text(chart_of(run.series, run.limit_s), encoding="utf-8")
        except OSError as error:
            raise click.BadParameter(f"the chart cannot be written: {error}", param_hint="--chart") from error
    return {Drift.NONE: Exit.VALID, Drift.FOUND: Exit.INVALID, Drift.UNKNOWN: Exit.UNKNOWN}[verdict]
