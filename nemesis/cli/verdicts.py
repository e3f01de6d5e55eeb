"""From a recorded run to what the user sees: verdict, results, report, exit code.

Owns the choice of the engine when none was asked for, and the words of the result on standard output.
"""

from __future__ import annotations

import json
import os
import re
import traceback
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from click.core import ParameterSource

from nemesis.cli.exit import VERDICT_EXITS, UnsupportedError, refusal_of
from nemesis.cli.progress import judging_shown

if TYPE_CHECKING:
    from nemesis.pipeline import Judgement

SPARK = "spark"
LOCAL = "local"
SMALL_OPERATIONS_MAX = 200_000
SMALL_BYTES_MAX = 1 << 20
"""So many operations of a run, or so many bytes of histories as Parquet, are judged by this process where nobody says
by what."""
TEXT_RATIO = 32
"""How much longer histories are as text."""

engine_option = click.option(
    "--engine",
    type=click.Choice([SPARK, LOCAL]),
    help="What judges: Spark, or this process. Without: this process what is small, the rest Spark where it can run.",
)
_MASTERS = re.compile(r"local(\[(\*|[1-9]\d*)(,\d+)?\])?|local-cluster\[[\d, ]+\]|yarn|(spark|sc|k8s)://.+")
"""What Spark takes for a master; it says so only when a JVM has been started, and ends that."""


def _master(context: click.Context, parameter: click.Parameter, value: str) -> str:
    del context, parameter
    if not _MASTERS.fullmatch(value):
        raise click.BadParameter(
            f"{value!r} is no Spark master: give local[*], local[4], spark://host:7077, yarn, k8s://host or, for Spark "
            "Connect, sc://host:15002; without Spark, this process judges with --engine local"
        )
    return value


master_option = click.option(
    "--master",
    default="local[*]",
    show_default=True,
    callback=_master,
    metavar="URL",
    help="The Spark master that judges.",
)


junit_option = click.option(
    "--junit",
    type=click.Path(dir_okay=False, path_type=Path),
    metavar="FILE",
    help="Write the result as JUnit XML as well.",
)


def choose_engine(asked: str | None, *, is_small: bool = False) -> str:
    """The engine to judge with: for what ``is_small`` this process, since Spark takes half a minute to begin.

    Whoever names a master wants Spark. Raises UnsupportedError when Spark was asked for and cannot run here.
    """
    from nemesis.pipeline import java_available

    if asked == LOCAL or (asked is None and is_small and not _names_master()):
        return LOCAL
    available, reason = java_available()
    if available:
        return SPARK
    if asked == SPARK:
        raise UnsupportedError(f"Spark cannot run here: {reason}; or judge in this process with --engine local")
    click.echo(f"Spark cannot run here, so this process judges: {reason}", err=True)
    return LOCAL


def _names_master() -> bool:
    source = click.get_current_context().get_parameter_source("master")
    return source not in (None, ParameterSource.DEFAULT)


def are_small(paths: Iterable[Path | str]) -> bool:
    """Whether all that is in these files and folders is judged faster here than Spark begins. No URL is."""
    total = 0
    for path in paths:
        if isinstance(path, str):
            return False
        recorded = path / "history" if (path / "history").is_dir() else path
        for file in recorded.rglob("*") if recorded.is_dir() else (recorded,):
            with suppress(OSError):  # It went meanwhile; whoever reads it says so.
                total += file.stat().st_size // (1 if file.suffix == ".parquet" else TEXT_RATIO)
        if total > SMALL_BYTES_MAX:
            return False
    return True


def judge_and_tell(folder: Path, *, engine: str, master: str, junit: Path | None = None) -> int:
    """Judge the run in ``folder``, write ``results.json`` and the report, print the result; returns the exit code.

    Raises what ``refusal_of`` makes of an engine that cannot be had: the run stays as it is.
    """
    from nemesis.ci.telling import tell_ci_of_runs
    from nemesis.history import HistoryError
    from nemesis.pipeline import EngineUnavailableError, judge_run, write_results

    try:
        with judging_shown(engine):
            judgement = judge_run(folder, engine=engine, master=master)
    except HistoryError as error:
        raise click.ClickException(str(error)) from error
    except EngineUnavailableError as error:
        raise refusal_of(error, kept=folder) from error
    unwritten: OSError | None = None
    try:
        write_results(judgement, folder)
    except OSError as error:
        unwritten = error
    tell(judgement, folder)
    if unwritten is not None:
        why = f"the verdict stands, but its results.json cannot be written: {unwritten}"
        raise click.ClickException(why) from unwritten
    page = write_page(folder)
    if page is not None:
        click.echo(f"report: {_shown(page)}")
    with junit_written():
        tell_ci_of_runs([folder], junit=junit)
    return VERDICT_EXITS[judgement.verdict.value]


@contextmanager
def junit_written() -> Iterator[None]:
    """Within, a file for CI is written last: where it cannot be, the verdict is told already."""
    try:
        yield
    except OSError as error:
        raise click.BadParameter(f"what CI reads cannot be written: {error}", param_hint="--junit") from error


def write_document(path: Path, document: Mapping[str, Any]) -> None:
    """Write what was told as JSON; raises ClickException where that cannot be done."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(document, indent=2) + "\n", encoding="utf-8")
    except OSError as error:
        raise click.ClickException(f"the result cannot be written: {error}") from error


def write_page(folder: Path) -> Path | None:
    """Write the report of a run; absent, and said on standard error, if there can be none: the verdict stands."""
    try:
        from nemesis.report import write_report

        return write_report(folder)
    except ImportError as error:
        click.echo(f"no report: {error.name} is not installed: pip install 'highwater-log[report]'", err=True)
    except Exception as error:
        traceback.print_exc()
        click.echo(f"no report: {error}", err=True)
    return None


def tell(judgement: Judgement, folder: Path) -> None:
    """Print the result."""
    stats = judgement.stats
    click.echo(f"verdict: {judgement.verdict.value}")
    for reason in judgement.reasons:
        click.echo(f"  {reason}")
    for warning in judgement.warnings:
        click.echo(f"  warning: {warning}")
    _tell_checks(judgement)
    click.echo(f"acknowledged {'operations' if stats.objects else 'writes'} checked: {stats.acked_checked}")
    click.echo(f"leader elections: {stats.leader_elections}")
    click.echo(f"leader changes: {stats.leader_changes}")
    click.echo(f"controller elections: {stats.controller_elections}")
    click.echo(f"truncations: {stats.truncations}")
    if stats.objects:
        click.echo(f"snapshots installed: {stats.snapshots_installed}")
        click.echo(f"membership changes: {stats.membership_changes}")
    else:
        click.echo(f"ISR shrinks and expands: {stats.isr_shrinks}, {stats.isr_expands}")
        click.echo(f"partitions moved: {stats.partitions_moved}")
        click.echo(f"unclean elections: {stats.unclean_elections}")
        click.echo(f"partitions that were offline: {stats.offline_partitions}")
    click.echo(f"run: {_shown(folder)}")


def _tell_checks(judgement: Judgement) -> None:
    """How many promises were kept and were not, and which nobody could look at."""
    from nemesis.checks.promises import Kept, not_judged

    numbers = {kept: sum(check.kept is kept for check in judgement.checks) for kept in Kept}
    click.echo("promises: " + ", ".join(f"{number} {kept}" for kept, number in numbers.items() if number))
    for sentence in not_judged(judgement.checks):
        click.echo(f"  not judged: {sentence}")


def _shown(path: Path) -> str:
    """The path as short as it can be followed from here."""
    absolute = path.resolve()
    return os.path.relpath(absolute) if absolute.is_relative_to(Path.cwd()) else str(absolute)
