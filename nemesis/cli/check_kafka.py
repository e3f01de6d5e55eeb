"""``nemesis check FILE... --model kafka``: histories of Kafka workloads, judged by the checks of logs.

Owns the words of the result and its JSON. One file is judged in this process; several, or a folder, are one job.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from nemesis.cli.exit import VERDICT_EXITS
from nemesis.cli.progress import judging_shown
from nemesis.cli.verdicts import junit_written

if TYPE_CHECKING:
    import pyarrow as pa

    from nemesis.pipeline.corpora.workloads import WorkloadResults

MODEL = "kafka"
ROWS_SHOWN = 20
"""Anomalies told on the terminal; the JSON has them all."""


def judged_as_kafka(path: Path, format: str | None) -> tuple[dict[str, Any], pa.Table]:
    """Judge the history in ``path``; returns the result as JSON has it, and the operations. Raises HistoryError."""
    from nemesis.formats.recognise import Format
    from nemesis.pipeline.corpora.workloads import judge_workload, read_workload

    history, operations = read_workload(path, None if format is None else Format(format))
    row = judge_workload(str(path), history, operations)
    anomalies = [_without_run(anomaly) for anomaly in row.pop("anomalies")]
    return {"file": row.pop("run_id"), "model": MODEL, **row, "anomalies": anomalies}, operations


def check_workloads(
    paths: Sequence[Path],
    format: str | None,
    output: Path | None,
    *,
    engine: str,
    master: str,
    junit: Path | None = None,
) -> int:
    """Judge the files in ``paths`` in one job, print the result, write it to the folder ``output``; the exit code."""
    from nemesis.ci.cases import at_most, plain_case
    from nemesis.ci.telling import tell_ci
    from nemesis.formats.recognise import Format
    from nemesis.pipeline.corpora.histories import files_in
    from nemesis.pipeline.corpora.store import is_store
    from nemesis.pipeline.corpora.workloads import judge_workloads, write_workloads

    store = next((path for path in paths if is_store(path)), None)
    if store is not None:
        raise click.UsageError(f"{store} is a folder of operations on objects; --model {MODEL} judges histories")
    files = files_in(paths)
    if not files:
        raise click.UsageError(f"{', '.join(map(str, paths))} holds no run and no history")
    known = None if format is None else Format(format)
    with judging_shown(engine):
        results = judge_workloads(files, format=known, engine=engine, master=master)
    _tell_all(results)
    if output is not None:
        write_workloads(results, output)
        click.echo(f"results: {output}")
    click.echo(f"verdict: {results.verdict.value}")
    with junit_written():
        rows = results.runs.select(["run_id", "verdict", "reasons"]).to_pylist()
        cases = [plain_case(name=row["run_id"], verdict=row["verdict"], said=row["reasons"]) for row in rows]
        tell_ci(at_most(cases), junit=junit)
    return VERDICT_EXITS[results.verdict.value]


def _tell_all(results: WorkloadResults) -> None:
    """A line for each file that is not valid, the first anomalies, and a summary."""
    for row in results.runs.to_pylist():
        if row["verdict"] != "valid":
            click.echo(f"{row['run_id']}: {row['verdict']}: {'; '.join(row['reasons'])}")
    for row in results.anomalies.slice(0, ROWS_SHOWN).to_pylist():
        click.echo(f"{row['run_id']}: {_told(row)}")
    _tell_more(results.anomalies.num_rows)
    verdicts = results.runs.column("verdict").to_pylist()
    events = sum(results.runs.column("events").to_pylist())
    click.echo(f"judged as {MODEL}: {events} events in {_files(len(verdicts))}")
    click.echo("files: " + ", ".join(f"{verdicts.count(verdict)} {verdict}" for verdict in VERDICT_EXITS))


def _files(count: int) -> str:
    return f"{count} file" if count == 1 else f"{count} files"


def _told(row: dict[str, Any]) -> str:
    from nemesis.pipeline.corpora.workloads import SUFFIXES

    where = row["topic_partition"] or "all logs"
    return f"{where}: {row['anomaly']}{SUFFIXES[row['severity']]}: {row['detail']}"


def _tell_more(count: int) -> None:
    if count > ROWS_SHOWN:
        click.echo(f"{count - ROWS_SHOWN} more, in the results of --output")


def tell_kafka(result: dict[str, Any]) -> None:
    """Print the result of one file: what was found, the summary, the verdict."""
    rows = result["anomalies"]
    for row in rows[:ROWS_SHOWN]:
        click.echo(_told(row))
    _tell_more(len(rows))
    others = f", {result['events_of_others']} events of others" if result["events_of_others"] else ""
    click.echo(f"history: {Path(result['file']).name} ({result['format']}), {result['events']} events{others}")
    click.echo(f"judged as {MODEL}: {result['topic_partitions']} topic-partitions")
    for reason in result["reasons"]:
        click.echo(f"  {reason}")
    click.echo(f"promises kept: {len(result['kept'])}")
    for sentence in result["not_judged"]:
        click.echo(f"  not judged: {sentence}")
    click.echo(f"verdict: {result['verdict']}")


def _without_run(row: dict[str, Any]) -> dict[str, Any]:
    kept = {name: value for name, value in row.items() if name != "run_id"}
    return kept | {"evidence": json.loads(row["evidence"])}
