"""``nemesis check PATH...`` of many histories or folders of operations: one job, on Spark or in this process.

Owns which of the three a path is, the words of the result, and where it is written. A corpus of runs is judged as runs,
everything else object by object against a model.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from nemesis.cli.check_file import FileOptions, check_kafka_options, model_named
from nemesis.cli.check_kafka import MODEL as KAFKA
from nemesis.cli.check_kafka import check_workloads
from nemesis.cli.exit import VERDICT_EXITS
from nemesis.cli.progress import judging_shown
from nemesis.cli.verdicts import SPARK, junit_written
from nemesis.verdict import Verdict

if TYPE_CHECKING:
    from nemesis.ci.cases import Case
    from nemesis.pipeline.corpora.results import Results
    from nemesis.pipeline.judgement import Judgement

ANOMALIES_TOLD_MAX = 20
"""How many objects are told of on the terminal; all of them are in the results that are written."""


def check_objects(
    paths: Sequence[Path], options: FileOptions, *, engine: str, master: str, junit: Path | None = None
) -> int:
    """Judge everything in ``paths`` by a model, print the result; returns the exit code."""
    from nemesis.ci.cases import at_most
    from nemesis.ci.telling import tell_ci
    from nemesis.formats.errors import HistoryError
    from nemesis.linearizability.model import ModelError

    if options.html is not None:
        raise click.UsageError("--html: for one history; give its file alone")
    if options.model == KAFKA:
        check_kafka_options(options)
    if options.output is not None:
        _check_is_free(options.output)
    try:
        if options.model == KAFKA:
            return check_workloads(paths, options.format, options.output, engine=engine, master=master, junit=junit)
        with judging_shown(engine):
            results = _judged(paths, options, engine=engine, master=master)
    except (HistoryError, ModelError) as error:
        raise click.UsageError(str(error)) from error
    _tell(results, str(options.model))
    click.echo(f"verdict: {results.verdict.value}")
    if options.output is not None:
        _write(results, options.output)
    with junit_written():
        tell_ci(at_most(_cases(results, str(paths[0]))), junit=junit)
    return VERDICT_EXITS[results.verdict.value]


def check_runs(folders: Sequence[Path | str], *, engine: str, master: str, junit: Path | None = None) -> int:
    """Judge stored runs in one job, write the results of each, print a line for each; returns the worst exit code.

    A run that is given twice, say by the link to a store's latest, is judged once, by the name that was given first.
    """
    from nemesis.ci.telling import tell_ci_of_runs
    from nemesis.history import HistoryError
    from nemesis.pipeline.hadoop import is_url

    if junit is not None and any(map(is_url, folders)):
        raise click.UsageError("--junit: of runs in folders, which it reads; these have URLs")

    named: dict[Path | str, Path | str] = {}
    for folder in folders:
        named.setdefault(folder if isinstance(folder, str) else folder.resolve(), folder)
    try:
        with judging_shown(engine):
            judgements, unwritten = _judged_and_written(
                tuple(named), tuple(named.values()), engine=engine, master=master
            )
    except HistoryError as error:
        raise click.ClickException(str(error)) from error
    for folder, judgement in zip(named.values(), judgements, strict=True):
        reasons = f": {'; '.join(judgement.reasons)}" if judgement.reasons else ""
        click.echo(f"{folder}: {judgement.verdict.value}{reasons}")
    verdict = Verdict.worst(judgement.verdict for judgement in judgements)
    click.echo(f"verdict: {verdict}")
    with junit_written():
        tell_ci_of_runs([folder for folder in named.values() if isinstance(folder, Path)], junit=junit)
    if unwritten:
        raise click.ClickException("; ".join(unwritten))
    return VERDICT_EXITS[verdict]


def _judged_and_written(
    folders: Sequence[Path | str], names: Sequence[Path | str], *, engine: str, master: str
) -> tuple[Sequence[Judgement], list[str]]:
    """The judgements of runs, each in the folder of its run, and why some are not there.

    For a URL that needs the session that has judged it.
    """
    from nemesis.pipeline import judge_runs, write_results
    from nemesis.pipeline.hadoop import is_url, place_of
    from nemesis.pipeline.session import spark_session

    is_remote = any(map(is_url, folders)) and engine == SPARK
    with spark_session(master) if is_remote else nullcontext() as session:
        judgements = judge_runs(folders, engine=engine, master=master, spark=session)
        unwritten: list[str] = []
        for name, judgement in zip(names, judgements, strict=True):
            try:
                write_results(judgement, place_of(session, name))
            except OSError as error:
                unwritten.append(f"{name}: results.json was not written: {error}")
    return judgements, unwritten


def _judged(paths: Sequence[Path], options: FileOptions, *, engine: str, master: str) -> Results:
    from nemesis.formats.keyed import KeyPairs
    from nemesis.formats.recognise import Format
    from nemesis.linearizability.judgement import Budget
    from nemesis.pipeline.corpora.bucket import Task
    from nemesis.pipeline.corpora.engine import judge_store
    from nemesis.pipeline.corpora.histories import Reading, files_in, judge_histories
    from nemesis.pipeline.corpora.store import is_store

    model = model_named(options)
    budget = Budget() if options.budget is None else Budget(configurations=options.budget)
    if any(is_store(path) for path in paths):
        if len(paths) > 1 or options.format is not None or options.key_pairs is not None:
            raise click.UsageError("a folder of operations is judged by itself, without --format and --key-pairs")
        return judge_store(paths[0], model, budget=budget, engine=engine, master=master)
    files = files_in(paths)
    if not files:
        raise click.UsageError(f"{', '.join(map(str, paths))} holds no run and no history")
    reading = Reading(
        task=Task(model=model, budget=budget),
        format=None if options.format is None else Format(options.format),
        key_pairs=KeyPairs(options.key_pairs or KeyPairs.AUTO),
    )
    return judge_histories(files, reading, engine=engine, master=master)


def _cases(results: Results, store: str) -> list[Case]:
    """One case for each history, or for all of a folder of operations, with the first of what was found in it."""
    from nemesis.ci.cases import plain_case
    from nemesis.ci.judged import worst

    verdicts: dict[str, set[str]] = {}
    for run_id, verdict in zip(*(results.keys.column(name).to_pylist() for name in ("run_id", "verdict")), strict=True):
        verdicts.setdefault(run_id, set()).add(verdict)
    said: dict[str, list[str]] = {}
    for row in results.anomalies.select(["run_id", "key", "verdict", "reason"]).to_pylist():
        lines = said.setdefault(row["run_id"], [])
        if len(lines) < ANOMALIES_TOLD_MAX:
            key = f"key {row['key']}: " if row["key"] else ""
            lines.append(f"{key}{row['verdict']}: {row['reason']}")
    return [
        plain_case(name=run_id or store, verdict=worst(sorted(found)), said=said.get(run_id, ()))
        for run_id, found in verdicts.items()
    ]


def _tell(results: Results, model: str) -> None:
    for row in results.anomalies.slice(0, ANOMALIES_TOLD_MAX).to_pylist():
        _tell_anomaly(row)
    left = results.anomalies.num_rows - ANOMALIES_TOLD_MAX
    if left > 0:
        click.echo(f"and {left} more that are not valid")
    operations, unknown = (sum(results.keys.column(name).to_pylist()) for name in ("operations", "unknown_outcomes"))
    objects = results.keys.num_rows
    click.echo(f"judged as {model}: {operations} operations on {objects} objects, {unknown} of unknown outcome")
    counts = results.counts
    click.echo(f"objects: {counts['valid']} valid, {counts['invalid']} invalid, {counts['unknown']} unknown")


def _tell_anomaly(row: dict[str, Any]) -> None:
    """One line for an object, and the operations that show it."""
    name = " ".join(word for word in (row["run_id"], row["key"] and f"key {row['key']}") if word)
    kernel = f" ({row['kernel']})" if row["kernel"] else ""
    click.echo(f"{name}: {row['verdict']}{kernel}: {row['reason']}")
    for operation in row["conflict"] or ():
        argument = "" if operation["argument"] == "nil" else f" {operation['argument']}"
        came_back = {"info": "unknown", "fail": "failed"}.get(operation["outcome"], operation["result"])
        click.echo(
            f"  line {operation['line']}: process {operation['process']} {operation['f']}{argument} -> {came_back}"
        )


def _write(results: Results, folder: Path) -> None:
    from nemesis.pipeline.corpora.results import write_results

    try:
        write_results(results, folder)
    except OSError as error:
        raise click.ClickException(f"the results cannot be written: {error}") from error
    click.echo(f"results: {folder}")


def _check_is_free(folder: Path) -> None:
    """Refuse a folder that cannot take the results, before the work is done."""
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise click.BadParameter(f"{folder} exists already: give a new folder", param_hint="--output")
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise click.BadParameter(str(error), param_hint="--output") from error
