"""``nemesis check PATH...`` of many histories or folders of operations: one job, on Spark or in this process.

Owns which of the three a path is, the words of the result, and where it is written. A corpus of runs is judged as runs,
everything else object by object against a model.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from nemesis.cli_check_file import FileOptions, check_kafka_options, model_named
from nemesis.cli_check_kafka import MODEL as KAFKA
from nemesis.cli_check_kafka import check_workloads
from nemesis.cli_exit import VERDICT_EXITS

if TYPE_CHECKING:
    from nemesis.pipeline.objects.results import Results

ANOMALIES_TOLD_MAX = 20
"""How many objects are told of on the terminal; all of them are in the results that are written."""


def check_objects(paths: Sequence[Path], options: FileOptions, *, engine: str, master: str) -> int:
    """Judge everything in ``paths`` by a model, print the result; returns the exit code."""
    from nemesis.formats.errors import HistoryError
    from nemesis.linearizability.model import ModelError
    from nemesis.pipeline.objects.results import write_results

    if options.model == KAFKA:
        check_kafka_options(options)
    if options.output is not None:
        _check_is_free(options.output)
    click.echo(f"judging with {engine}", err=True)
    try:
        if options.model == KAFKA:
            return check_workloads(paths, options.format, options.output, engine=engine, master=master)
        results = _judged(paths, options, engine=engine, master=master)
    except (HistoryError, ModelError) as error:
        raise click.UsageError(str(error)) from error
    _tell(results, str(options.model))
    if options.output is not None:
        write_results(results, options.output)
        click.echo(f"results: {options.output}")
    click.echo(f"verdict: {results.verdict.value}")
    return VERDICT_EXITS[results.verdict.value]


def check_runs(folders: Sequence[Path], *, engine: str, master: str) -> int:
    """Judge stored runs in one job, write the results of each, print a line for each; returns the worst exit code."""
    from nemesis.history import HistoryError
    from nemesis.pipeline import judge_runs, write_results

    click.echo(f"judging with {engine}", err=True)
    try:
        judgements = judge_runs([folder.resolve() for folder in folders], engine=engine, master=master)
    except HistoryError as error:
        raise click.ClickException(str(error)) from error
    found = {judgement.verdict.value for judgement in judgements}
    for folder, judgement in zip(folders, judgements, strict=True):
        write_results(judgement, folder)
        reasons = f": {'; '.join(judgement.reasons)}" if judgement.reasons else ""
        click.echo(f"{folder}: {judgement.verdict.value}{reasons}")
    verdict = next((worse for worse in ("invalid", "unknown") if worse in found), "valid")
    click.echo(f"verdict: {verdict}")
    return VERDICT_EXITS[verdict]


def _judged(paths: Sequence[Path], options: FileOptions, *, engine: str, master: str) -> Results:
    from nemesis.formats.keyed import KeyPairs
    from nemesis.formats.recognise import Format
    from nemesis.linearizability.judgement import Budget
    from nemesis.pipeline.objects.bucket import Task
    from nemesis.pipeline.objects.engine import judge_store
    from nemesis.pipeline.objects.histories import Reading, files_in, judge_histories
    from nemesis.pipeline.objects.store import is_store

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


def _check_is_free(folder: Path) -> None:
    """Refuse a folder that cannot take the results, before the work is done."""
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise click.BadParameter(f"{folder} exists already: give a new folder", param_hint="--output")
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise click.BadParameter(str(error), param_hint="--output") from error
