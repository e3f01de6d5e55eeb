"""``nemesis check`` and ``list-variants``: what needs no cluster.

Owns how a run is named on the command line: by its folder, or by a link to it such as ``store/append/latest``. What is
no folder is a history of another system's: ``check_file`` judges one, and ``check_objects`` many.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, assert_never

import click
from click.core import ParameterSource

from nemesis.cli.check_file import FileOptions, check_file, file_options
from nemesis.cli.check_objects import check_objects, check_runs
from nemesis.cli.follow import follow_and_tell, follow_option, patience_option
from nemesis.cli.verdicts import are_small, choose_engine, engine_option, judge_and_tell, junit_option, master_option
from replica.cli.help import Command, example

run_folder = click.argument(
    "folder", metavar="RUN", type=click.Path(exists=True, file_okay=False, path_type=Path, resolve_path=True)
)


class _Place(click.Path):
    """A path that exists, or the URL of a run on a file system that Spark knows, as it is."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        return value if "://" in str(value) else super().convert(value, param, ctx)


@click.command(
    cls=Command,
    sections={
        "Of runs": ("engine", "master", "follow", "patience", "junit"),
        "Of histories": ("model", "format", "initial", "failed_cas_is_read", "key_pairs", "budget", "output", "html"),
    },
    epilog=example(
        "nemesis check store/append/latest", "nemesis check history.edn --model cas-register --html why.html"
    ),
)
@click.argument(
    "paths", metavar="RUN|FILE|FOLDER...", nargs=-1, required=True, type=_Place(exists=True, path_type=Path)
)
@engine_option
@master_option
@follow_option
@patience_option
@junit_option
@file_options
@click.pass_context
def check(
    context: click.Context,
    /,
    paths: tuple[Path | str, ...],
    engine: str | None,
    master: str,
    follow: bool,
    patience: float,
    junit: Path | None,
    **asked: Any,
) -> int:
    """Judge what was recorded.

    Of a stored RUN, rewrite its results.json and report.html; with --follow, watch one that is still going on. Of a
    FILE, the history of any system in one of the known formats, tell which objects were not linearizable, and why.
    Several RUNs, or several FILEs and FOLDERs of them, or a FOLDER of operations, are one job. A RUN may be a URL of
    any file system that Spark knows, such as hdfs://host:port/store/append/1: its results.json is rewritten there.
    """
    options = FileOptions(**asked)
    here = [path for path in paths if isinstance(path, Path)]
    if len(here) < len(paths):
        if follow or options.names or not all(map(_is_run, here)):
            raise click.UsageError("a URL is that of a run: it is judged without options for files, and with runs only")
        chosen = choose_engine(engine, is_small=are_small(paths))
        return check_runs(paths, engine=chosen, master=master, junit=junit)
    return _check_here(context, here, options, engine, master, follow=follow, patience=patience, junit=junit)


def _check_here(
    context: click.Context,
    paths: Sequence[Path],
    options: FileOptions,
    engine: str | None,
    master: str,
    *,
    follow: bool,
    patience: float,
    junit: Path | None,
) -> int:
    if follow:
        if junit is not None:
            raise click.UsageError("--junit: not with --follow, which writes nothing; check the run when it is over")
        return _follow(paths, options, engine=engine, master=master, patience_s=patience)
    if context.get_parameter_source("patience") is not ParameterSource.DEFAULT:
        raise click.UsageError("--patience: with --follow only")
    if len(paths) > 1 or (options.model is not None and paths[0].is_dir() and not _is_run(paths[0])):
        return _check_many(paths, options, engine=engine, master=master, junit=junit)
    path = paths[0]
    if path.is_dir():
        check_is_run(path)
        if options.names:
            raise click.UsageError(f"{', '.join(options.names)}: for a file; {path} is a folder, judged as a run")
        chosen = choose_engine(engine, is_small=are_small(paths))
        return judge_and_tell(path.resolve(), engine=chosen, master=master, junit=junit)
    for name in ("engine", "master"):
        if context.get_parameter_source(name) is not ParameterSource.DEFAULT:
            raise click.UsageError(f"--{name}: for a run; {path} is a file, which this process judges")
    return check_file(path, options, junit=junit)


def _follow(paths: Sequence[Path], options: FileOptions, *, engine: str | None, master: str, patience_s: float) -> int:
    if len(paths) > 1 or paths[0].is_file() or options.names:
        raise click.UsageError("--follow is for one run: give its folder, and no options for files")
    check_is_run(paths[0])
    return follow_and_tell(paths[0].resolve(), engine=choose_engine(engine), master=master, patience_s=patience_s)


def _check_many(
    paths: Sequence[Path], options: FileOptions, *, engine: str | None, master: str, junit: Path | None
) -> int:
    """Runs are judged as runs, and all else by a model; not both at once."""
    runs = [path for path in paths if _is_run(path)]
    chosen = choose_engine(engine, is_small=are_small(paths))
    if options.model is None or runs:
        for path in paths:
            if not path.is_dir():
                raise click.UsageError(f"{path} is a file: give --model to judge histories, and no runs beside them")
            check_is_run(path)
        if options.names:
            raise click.UsageError(f"{', '.join(options.names)}: for histories; these are runs")
        return check_runs(paths, engine=chosen, master=master, junit=junit)
    return check_objects(paths, options, engine=chosen, master=master, junit=junit)


@click.command("list-variants", epilog=example("nemesis list-variants"))
def list_variants() -> None:
    """List the wrong protocols: what is wrong, the invariant that breaks, and how each is run or why it is not."""
    from nemesis.variants.catalogue import ALL
    from nemesis.variants.mutant import DirectedVariant, Equivalent, Variant

    for mutant in ALL:
        click.echo(f"{mutant.id} {mutant.name} ({mutant.origin})\n  {mutant.summary}\n  breaks {mutant.breaks}")
        match mutant:
            case Variant():
                click.echo(f"  overrides {', '.join(mutant.overrides)}")
                if isinstance(mutant, DirectedVariant):
                    click.echo(f"  schedule {mutant.schedule.name}, convicted of {' and '.join(mutant.convicted_of)}")
            case Equivalent():
                click.echo(f"  not built, nothing would show: {mutant.reason}")
            case _:
                assert_never(mutant)


def _is_run(path: Path) -> bool:
    return (path / "history").is_dir()


def check_is_run(folder: Path) -> None:
    """Raise BadParameter where there is no run."""
    if not _is_run(folder):
        raise click.BadParameter(
            f"{folder} holds no run: give a folder with history/ in it, such as store/append/latest", param_hint="RUN"
        )
