"""``nemesis soak``: one run per seed, all judged in one job, and one JSON document that says how each ended.

Owns the sweep and its document. Every seed is run once and counted, however it ends: a sweep that could pick its runs
would prove nothing.
"""

from __future__ import annotations

import asyncio
import json
import traceback
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from random import SystemRandom
from typing import TYPE_CHECKING, Any

import click

from nemesis.cli.cluster import cluster_options, enter_network, replica_options, words_of
from nemesis.cli.exit import VERDICT_EXITS, Exit
from nemesis.cli.faults import NO_FAULTS, drawn_schedule, flip_flop_option, nemesis_option
from nemesis.cli.judge import choose_engine, engine_option, master_option, write_page
from nemesis.cli.progress import progress_shown
from nemesis.cli.workload import (
    ON_LOGS,
    cluster_for,
    fetch_system,
    words_of_workload,
    workload_asked,
    workload_options,
)
from nemesis.cluster.kinds import ClusterKind
from nemesis.faults.catalogue import USUAL, needed_by
from nemesis.schedule import Schedule
from nemesis.systems.catalogue import HIGHWATER
from nemesis.workload.workload import KEYS_DEFAULT

if TYPE_CHECKING:
    from nemesis.pipeline import Judgement
    from nemesis.runner import RunOptions

SEEDS_MAX = 10_000
COUNTED = {
    "leader_elections": "leader elections",
    "controller_elections": "controller elections",
    "truncations": "truncations",
    "isr_shrinks": "ISR shrinks",
    "isr_expands": "ISR expands",
    "leader_changes": "leader changes",
    "snapshots_installed": "snapshots installed",
    "membership_changes": "membership changes",
    "partitions_moved": "partitions moved",
}
"""What befell the replicas of a run, by the names of the counts, in words."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Recorded:
    """One run of the sweep: its seed, its folder, and what kept it from being recorded to the end, if anything did."""

    seed: int
    folder: Path
    error: str | None


def _seeds(context: click.Context, parameter: click.Parameter, value: str) -> tuple[int, ...]:
    """Read ``1-10,17``."""
    del context, parameter
    seeds: list[int] = []
    try:
        for part in filter(None, value.split(",")):
            first, _, last = part.partition("-")
            seeds += range(int(first), int(last or first) + 1)
    except ValueError:
        raise click.BadParameter(f"{value!r}: give seeds and ranges of seeds, such as 1-10,17") from None
    if len(seeds) > SEEDS_MAX:
        raise click.BadParameter(f"{len(seeds)} seeds: at most {SEEDS_MAX}")
    return tuple(seeds)


def _must_see(context: click.Context, parameter: click.Parameter, value: str | None) -> tuple[str, ...]:
    """Read ``leader-changes,truncations``."""
    del context, parameter
    names = tuple(word.strip().replace("-", "_") for word in (value or "").split(",") if word.strip())
    if not set(names) <= COUNTED.keys():
        known = ", ".join(name.replace("_", "-") for name in COUNTED)
        raise click.BadParameter(f"{value!r}: give some of {known}, separated by commas")
    return names


@click.command()
@click.option("--seeds", callback=_seeds, default="1-10", show_default=True, metavar="LIST", help="Such as 1-10,17.")
@click.option(
    "--must-see",
    callback=_must_see,
    metavar="NAMES",
    help=f"Fail if one of these is 0 in any run: {', '.join(name.replace('_', '-') for name in COUNTED)}.",
)
@click.option("--fresh", type=click.IntRange(0, SEEDS_MAX), default=0, show_default=True, help="Draw as many more.")
@workload_options
@nemesis_option
@flip_flop_option
@click.option("--time-limit", type=click.FloatRange(6, 86_400), default=30.0, show_default=True, help="Seconds each.")
@click.option("--concurrency", type=click.IntRange(1, 1000), default=10, show_default=True)
@click.option("--rate", type=click.FloatRange(0.1, 100_000), default=200.0, show_default=True, help="Operations a s.")
@cluster_options
@click.option("--store", type=click.Path(file_okay=False, path_type=Path), default=Path("store"), show_default=True)
@click.option(
    "--output",
    type=click.Path(dir_okay=False, path_type=Path),
    default=Path("store/soak.json"),
    show_default=True,
    help="Where the result is written.",
)
@engine_option
@master_option
def soak(
    seeds: tuple[int, ...],
    fresh: int,
    must_see: tuple[str, ...],
    output: Path,
    engine: str | None,
    master: str,
    **given: Any,
) -> int:
    """Run every seed once under faults, judge all runs, and write how each of them ended.

    Exits as the worst run does; a valid one that shows nothing of what must be seen counts as unknown.
    """
    fetch_system(given)
    enter_network(given, master=master)
    from nemesis.runner import check_supported, options_to_json

    drawn = tuple(SystemRandom().getrandbits(32) for _ in range(fresh))
    if not seeds + drawn:
        raise click.UsageError("there is no seed to run: give --seeds or --fresh")
    chosen = choose_engine(engine)
    options = _options(given)
    schedules = {seed: _schedule(seed, given) for seed in seeds + drawn}
    for schedule in schedules.values():
        check_supported(options, schedule)
    runs = [_record(replace(options, seed=seed), schedules[seed], given) for seed in seeds + drawn]
    rows = _judge(runs, chosen, master)
    output.parent.mkdir(parents=True, exist_ok=True)
    settings = {"time_limit": given["time_limit"], **options_to_json(options)}
    document = {"engine": chosen, "settings": settings, "runs": rows}
    output.write_text(json.dumps(document, indent=2) + "\n", encoding="utf-8")
    for row in rows:
        click.echo(_told(row))
    missing = unseen(rows, must_see)
    for sentence in missing:
        click.echo(sentence)
    click.echo(f"result: {output}")
    for run in runs:
        write_page(run.folder)
    return worst([*(row["verdict"] for row in rows), *(["unknown"] if missing else [])])


def unseen(rows: Sequence[Mapping[str, Any]], must_see: Sequence[str]) -> list[str]:
    """A sentence for each run and each count of ``must_see`` that is 0 in it."""
    return [
        f"seed {row['seed']} proves less than it should: {COUNTED[name]}: 0"
        for row in rows
        for name in must_see
        if not row[name]
    ]


def worst(verdicts: Iterable[str]) -> Exit:
    """The exit code of the whole: a violation outweighs what is unknown, and that outweighs what is valid."""
    return max((VERDICT_EXITS[verdict] for verdict in verdicts), key=[Exit.VALID, Exit.UNKNOWN, Exit.INVALID].index)


def _options(given: Mapping[str, Any]) -> RunOptions:
    """What all runs of the sweep have in common; each has its own seed. Raises click.UsageError."""
    from nemesis.runner import RunOptions, in_hand

    workload, packages = workload_asked(given), _packages(given)
    cluster = cluster_for(workload, replica_options(given), given, needed_by(packages))
    return RunOptions(
        seed=0,
        nemesis=packages,
        system=given["system"],
        workload=workload,
        strict_acks=given["strict_acks"],
        keys=given["keys"] or KEYS_DEFAULT,
        concurrency=given["concurrency"],
        rate=given["rate"],
        final_time_limit=given["final_time_limit"],
        kind=ClusterKind(given["cluster"]),
        cluster=in_hand(cluster, needed_by(packages)),
    )


def _packages(given: Mapping[str, Any]) -> tuple[str, ...]:
    return USUAL if given["nemesis"] is None else given["nemesis"]


def _schedule(seed: int, given: Mapping[str, Any]) -> Schedule:
    try:
        packages, flip_flop = _packages(given), given["flip_flop"]
        return drawn_schedule(seed=seed, packages=packages, time_limit_s=given["time_limit"], flip_flop=flip_flop)
    except ValueError as error:
        raise click.UsageError(str(error)) from None


def command_of(seed: int, given: Mapping[str, Any]) -> list[str]:
    """The words that repeat one run of the sweep."""
    settings = [word for name in ("time_limit", "concurrency", "rate") for word in (_option(name), str(given[name]))]
    nemesis = ",".join(_packages(given)) or NO_FAULTS
    return [
        "nemesis",
        "run",
        "--nemesis",
        nemesis,
        *(["--flip-flop"] if given["flip_flop"] else []),
        *settings,
        *_workload_words(given),
        *words_of(given),
        "--seed",
        str(seed),
    ]


def _workload_words(given: Mapping[str, Any]) -> list[str]:
    """Nothing for the workload that is there without being asked for."""
    usual = (given["workload"], given["system"], given["strict_acks"]) == (ON_LOGS, HIGHWATER, False)
    return [] if usual else words_of_workload(given)


def _option(name: str) -> str:
    return f"--{name.replace('_', '-')}"


def _record(options: RunOptions, schedule: Schedule, given: Mapping[str, Any]) -> Recorded:
    from nemesis.cluster.closing import told
    from nemesis.cluster.system import NodeFailedError
    from nemesis.runner import new_folder, record_run, write_documents

    now = datetime.now(UTC)
    folder = new_folder(given["store"], now, options.workload)
    write_documents(folder, options, schedule, command_of(options.seed, given), now)
    click.echo(f"recording {folder}: seed {options.seed}", err=True)
    try:
        with progress_shown() as show:
            asyncio.run(record_run(folder, options, schedule, show))
    except NodeFailedError as error:
        return Recorded(seed=options.seed, folder=folder, error=told(error))
    except Exception as error:
        # One run that the harness has failed in is no reason to throw away what the others show.
        traceback.print_exc()
        return Recorded(seed=options.seed, folder=folder, error=f"the harness has failed: {error!r}")
    return Recorded(seed=options.seed, folder=folder, error=None)


def _judge(runs: Sequence[Recorded], engine: str, master: str) -> list[dict[str, Any]]:
    from nemesis.pipeline import judge_runs, write_results

    click.echo(f"judging {len(runs)} runs with {engine}", err=True)
    judgements = judge_runs([run.folder for run in runs], engine=engine, master=master)
    rows = []
    for run, judgement in zip(runs, judgements, strict=True):
        write_results(judgement, run.folder)
        rows.append(_row(run, judgement))
    return rows


def _row(run: Recorded, judgement: Judgement) -> dict[str, Any]:
    """How one run ended. A run that could not be recorded to its end is unknown at best."""
    stats = judgement.stats
    verdict = judgement.verdict.value
    return {
        "seed": run.seed,
        "verdict": "unknown" if run.error is not None and verdict == "valid" else verdict,
        "reasons": [*judgement.reasons, *([] if run.error is None else [run.error])],
        "warnings": list(judgement.warnings),
        "acknowledged": stats.acked_checked,
        "of": "operations" if stats.objects else "writes",
        **{name: getattr(stats, name) for name in COUNTED},
        "faults_bit": judgement.faults_bit,
        "run": str(run.folder),
    }


def _told(row: dict[str, Any]) -> str:
    return (
        f"seed {row['seed']}: {row['verdict']}, {row['acknowledged']} acknowledged {row['of']}, "
        f"{', '.join(f'{row[name]} {words}' for name, words in COUNTED.items())}"
        + ("" if row["faults_bit"] else "; the faults did not bite")
        + ("" if row["verdict"] == "valid" else f"; {'; '.join(row['reasons'])}")
    )
