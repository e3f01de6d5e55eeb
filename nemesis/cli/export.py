"""``nemesis export RUN``: a stored run for other tools.

Owns the formats there are and the names of the files.
"""

from __future__ import annotations

from pathlib import Path

import click

from nemesis.cli.check import check_is_run, run_folder
from replica.cli.help import example

EXPORTED_EDN = "history.edn"
EXPORTED_TRACE = "trace.json"


@click.command(epilog=example("nemesis export store/append/latest --format perfetto"))
@run_folder
@click.option(
    "--output",
    type=click.Path(file_okay=False, path_type=Path),
    help="Write the files here; without, into the run's folder.",
)
@click.option(
    "--format",
    "form",
    type=click.Choice(["jsonl", "edn", "perfetto"]),
    default="jsonl",
    show_default=True,
    help="jsonl: three tables as JSON Lines. edn: the history, for Jepsen's checker of Kafka workloads."
    " perfetto: a trace of clients, faults and replicas, for ui.perfetto.dev.",
)
def export(folder: Path, output: Path | None, form: str) -> None:
    """Write a stored RUN for other tools: its history, logs and events."""
    check_is_run(folder)
    target = folder if output is None else output
    if form == "edn":
        _check_is_on_logs(folder)
    target.mkdir(parents=True, exist_ok=True)
    match form:
        case "edn":
            from nemesis.formats.kafka_edn import export_kafka_edn

            path = target / EXPORTED_EDN
            click.echo(f"{path}: {export_kafka_edn(folder, path)} events")
        case "perfetto":
            from nemesis.report.perfetto import export_trace

            path = target / EXPORTED_TRACE
            click.echo(f"{path}: {export_trace(folder, path)} events")
        case _:
            _export_tables(folder, target)


def _check_is_on_logs(folder: Path) -> None:
    from nemesis.workload.catalogue import workload_of
    from nemesis.workload.objects import ObjectWorkload

    if issubclass(workload := workload_of(folder), ObjectWorkload):
        said = f"edn is for runs on logs, and {folder} is of the workload {workload.name}: its tables go as jsonl"
        raise click.BadParameter(said, param_hint="--format")


def _export_tables(folder: Path, target: Path) -> None:
    from nemesis.history.schemas import Kind
    from nemesis.history.tables import export_jsonl

    for kind in Kind:
        path = target / f"{kind}.jsonl"
        click.echo(f"{path}: {export_jsonl(folder, path, kind)} rows")
