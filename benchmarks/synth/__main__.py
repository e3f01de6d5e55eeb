"""``python -m benchmarks.synth``: histories that are made up, with anomalies planted at known places.

Owns the words of the command. What it writes, ``nemesis check`` judges; whether it finds what the manifest tells is
what such histories are for.
"""

from __future__ import annotations

from pathlib import Path

import click

from benchmarks.synth.build import build, kinds_of
from benchmarks.synth.plan import Plan, PlanError, SynthModel, counted
from replica.cli.help import example


@click.command(
    epilog=example("python -m benchmarks.synth --model register --operations 9000 --anomaly all --output planted.jsonl")
)
@click.option(
    "--model", type=click.Choice([model.value for model in SynthModel]), required=True, help="What the history is of."
)
@click.option("--operations", type=click.IntRange(1), default=10_000, show_default=True, metavar="N")
@click.option("--keys", type=click.IntRange(1), default=10, show_default=True, metavar="K", help="Objects, or logs.")
@click.option("--processes", type=click.IntRange(1), default=5, show_default=True, metavar="P")
@click.option(
    "--unknown-rate",
    type=click.FloatRange(0, 1),
    default=0.0,
    show_default=True,
    metavar="RATE",
    help="The share of operations of which nobody learns the outcome.",
)
@click.option(
    "--anomaly",
    "anomalies",
    multiple=True,
    metavar="NAME[:COUNT]",
    help="Plant so many of this kind, each on a key of its own; all: of every kind. May be repeated.",
)
@click.option("--seed", type=int, default=0, show_default=True, metavar="S", help="The same seed, the same bytes.")
@click.option(
    "--output",
    type=click.Path(path_type=Path),
    required=True,
    metavar="FILE|DIR",
    help="A file named .jsonl, .parquet or .edn; of kafka also a new folder, which is a run.",
)
def synth(
    model: str,
    operations: int,
    keys: int,
    processes: int,
    unknown_rate: float,
    anomalies: tuple[str, ...],
    seed: int,
    output: Path,
) -> None:
    """Make a history up, clean but for the anomalies that are planted, and write what was planted where."""
    kind = SynthModel(model)
    try:
        plan = Plan(
            model=kind,
            operations=operations,
            keys=keys,
            processes=processes,
            unknown_rate=unknown_rate,
            anomalies=counted(anomalies, tuple(kinds_of(kind, output))),
            seed=seed,
        )
        manifest = build(plan, output)
    except (PlanError, OSError) as error:
        raise click.UsageError(str(error)) from error
    click.echo(f"{output}: {manifest.events} events, {len(manifest.planted)} anomalies planted")


if __name__ == "__main__":
    synth()
