"""``nemesis run`` and ``nemesis demo``: record a run and judge it.

Owns the options, and what follows from which: a variant brings its directed schedule, unless a schedule or kinds are
asked for.
"""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Mapping
from contextlib import nullcontext
from dataclasses import replace
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from random import SystemRandom
from typing import TYPE_CHECKING, Any

import click

from nemesis.cli.cluster import NAMES, cluster_options, enter_network, replica_options
from nemesis.cli.exit import Exit
from nemesis.cli.faults import drawn_schedule, flip_flop_option, interval_option, nemesis_option
from nemesis.cli.follow import check_can_follow, first_anomaly, followed
from nemesis.cli.progress import progress_shown
from nemesis.cli.verdicts import (
    SMALL_OPERATIONS_MAX,
    choose_engine,
    engine_option,
    judge_and_tell,
    junit_option,
    master_option,
)
from nemesis.cli.words import time_limit, variant_name
from nemesis.cli.workload import cluster_for, fetch_system, workload_asked, workload_options
from nemesis.cluster.kinds import ClusterKind
from nemesis.faults.catalogue import USUAL, needed_by
from nemesis.schedules.directed import DEMO, DIRECTED, SHAPES
from nemesis.schedules.drawn import TIME_LIMIT_S_MIN
from nemesis.schedules.schedule import Schedule, schedule_from_json
from nemesis.variants.catalogue import DIRECTED_VARIANTS
from nemesis.workload.catalogue import ON_OBJECTS
from nemesis.workload.workload import KEYS_DEFAULT
from replica.cli.help import Command, Sections, example, meant

if TYPE_CHECKING:
    from nemesis.runner import FirstAnomaly, RunOptions

TIME_LIMIT_S_DEFAULT = 30.0
CONCURRENCY_DEFAULT = 10
RATE_DEFAULT = 200.0
DEMO_SEED = 7

store_option = click.option(
    "--store", type=click.Path(file_okay=False, path_type=Path), default=Path("store"), show_default=True
)


def _schedule(context: click.Context, parameter: click.Parameter, value: str | None) -> Schedule | None:
    """Read the name of a directed schedule, or the path of a ``schedule.json``."""
    del context, parameter
    if value is None or value in DIRECTED:
        return None if value is None else DIRECTED[value]
    path = Path(value)
    if not path.is_file():
        likely = meant(value, DIRECTED)
        raise click.BadParameter(f"{value!r} is neither a file nor one of {', '.join(DIRECTED)}{likely}")
    try:
        return schedule_from_json(path.read_text(encoding="utf-8"))
    except ValueError as error:
        raise click.BadParameter(f"{value}: {error}") from None


SECTIONS: Sections = {
    "Workload": ("system", "workload", "keys", "reads", "strict_acks", "concurrency", "rate", "time_limit"),
    "Faults": ("nemesis", "nemesis_interval", "flip_flop", "schedule", "variant", "seed"),
    "Cluster": NAMES,
    "Judging": ("stop_at_anomaly", "engine", "master", "store", "junit"),
}


@click.command(
    cls=Command,
    sections=SECTIONS,
    epilog=example(
        "nemesis run --nemesis partition,kill,pause --time-limit 30 --seed 7",
        "nemesis run --workload register --nemesis kill --nodes 5",
    ),
)
@workload_options
@nemesis_option
@interval_option
@flip_flop_option
@click.option("--schedule", callback=_schedule, metavar="NAME", help="A directed schedule, or a stored schedule.json.")
@click.option("--variant", type=variant_name, help="Run a wrong protocol, such as ack-before-replication.")
@click.option(
    "--time-limit",
    type=time_limit,
    help=f"Seconds of workload; {TIME_LIMIT_S_MIN:g} or more where faults are drawn. [default: 30]",
)
@click.option("--seed", type=click.IntRange(min=0), help="Decides the schedule. [default: drawn and shown]")
@click.option("--concurrency", type=click.IntRange(1, 1000), help="Processes. [default: 10]")
@click.option("--rate", type=click.FloatRange(0.1, 100_000), help="Operations a second. [default: 200]")
@click.option("--stop-at-anomaly", is_flag=True, help="Judge while it goes on, and stop when something is wrong.")
@cluster_options
@store_option
@engine_option
@master_option
@junit_option
def run(
    store: Path,
    engine: str | None,
    master: str,
    junit: Path | None,
    stop_at_anomaly: bool,
    **given: Any,
) -> int:
    """Run a workload under faults, judge what was recorded, and report.

    A variant runs under its own directed schedule unless --schedule or --nemesis is given.
    """
    fetch_system(given)
    enter_network(given, master=master)
    schedule, options = plan(given)
    if stop_at_anomaly and options.workload.name in ON_OBJECTS:
        name = options.workload.name
        raise click.UsageError(f"--stop-at-anomaly: the workload {name} is judged when the run is over")
    operations = schedule.time_limit_s * options.rate
    chosen = choose_engine(engine, is_small=operations <= SMALL_OPERATIONS_MAX)
    return record_and_judge(
        options, schedule, store=store, engine=chosen, master=master, junit=junit, stop_at_anomaly=stop_at_anomaly
    )


@click.command(epilog=example("nemesis demo"))
@click.option("--seed", type=click.IntRange(min=0), default=DEMO_SEED, show_default=True)
@store_option
@engine_option
@master_option
def demo(seed: int, store: Path, engine: str | None, master: str) -> int:
    """Isolate a leader, kill the next, pause a controller, restart all, and show that nothing acknowledged is lost."""
    from nemesis.runner import RunOptions

    return record_and_judge(RunOptions(seed=seed), DEMO, store=store, engine=choose_engine(engine), master=master)


def plan(given: dict[str, Any]) -> tuple[Schedule, RunOptions]:
    """What the options of ``run`` ask for. Raises click.UsageError for what does not go together."""
    from nemesis.runner import RunOptions, in_hand, variant_server

    seed = SystemRandom().getrandbits(32) if given["seed"] is None else given["seed"]
    workload = workload_asked(given)
    schedule, kinds = _plan_schedule(given, seed)
    given = given | _shaped_for(schedule, given)
    needs = schedule.needs | needed_by(kinds)
    cluster = cluster_for(workload, replica_options(given), given, needs)
    if given["variant"] is not None:
        cluster = replace(cluster, server=variant_server(given["variant"]))
    cluster = in_hand(cluster, needs)
    options = RunOptions(
        seed=seed,
        nemesis=tuple(kinds),
        variant=given["variant"],
        system=given["system"],
        workload=workload,
        strict_acks=given["strict_acks"],
        keys=given["keys"] or KEYS_DEFAULT,
        concurrency=given["concurrency"] or CONCURRENCY_DEFAULT,
        rate=given["rate"] or RATE_DEFAULT,
        final_time_limit=given["final_time_limit"],
        kind=ClusterKind(given["cluster"]),
        cluster=cluster,
    )
    return schedule, options


def _shaped_for(schedule: Schedule, given: dict[str, Any]) -> dict[str, Any]:
    """The topics and the load that a directed schedule is written for, where nothing else was asked for."""
    shape = SHAPES.get(schedule.name, {})
    return {name: value for name, value in shape.items() if given[name] is None}


def _plan_schedule(given: dict[str, Any], seed: int) -> tuple[Schedule, tuple[str, ...]]:
    """The schedule that was asked for, and the kinds that it was made of, if any."""
    asked: Schedule | None = given["schedule"]
    kinds: tuple[str, ...] | None = given["nemesis"]
    if asked is not None and kinds is not None:
        raise click.UsageError("--schedule and --nemesis exclude each other: a schedule says which faults there are")
    for name in ("flip_flop", "nemesis_interval") if asked is not None else ():
        if given[name]:
            option = name.replace("_", "-")
            raise click.UsageError(f"--schedule and --{option} exclude each other: a schedule says what comes when")
    if asked is None and kinds is None and given["variant"] is not None:
        asked = directed_schedule(given)
    time_limit_s: float | None = given["time_limit"]
    if asked is not None:
        return asked if time_limit_s is None else _lasting(asked, time_limit_s), ()
    chosen = USUAL if kinds is None else kinds
    try:
        limit_s = TIME_LIMIT_S_DEFAULT if time_limit_s is None else time_limit_s
        how = {"flip_flop": given["flip_flop"], "interval_s": given["nemesis_interval"]}
        return drawn_schedule(seed=seed, kinds=chosen, time_limit_s=limit_s, **how), chosen
    except ValueError as error:
        raise click.UsageError(str(error)) from None


def directed_schedule(given: Mapping[str, Any]) -> Schedule:
    """The schedule that was asked for, else the variant's own; click.UsageError if none is known to bring it about."""
    if given["schedule"] is not None:
        asked: Schedule = given["schedule"]
        return asked
    variant = given["variant"]
    if variant not in DIRECTED_VARIANTS:
        raise click.UsageError(
            f"no directed schedule brings {variant} about: simulate it with nemesis sim --variant {variant}, or give "
            f"--schedule or --nemesis. Variants with a schedule of their own: {', '.join(sorted(DIRECTED_VARIANTS))}"
        )
    return DIRECTED_VARIANTS[variant].schedule


def _lasting(schedule: Schedule, time_limit_s: float) -> Schedule:
    try:
        return replace(schedule, time_limit_s=time_limit_s)
    except ValueError as error:
        raise click.UsageError(f"--time-limit is too short for this schedule: {error}") from None


def record_and_judge(
    options: RunOptions,
    schedule: Schedule,
    *,
    store: Path,
    engine: str,
    master: str,
    junit: Path | None = None,
    stop_at_anomaly: bool = False,
) -> int:
    """Record a run in a new folder of ``store``, judge it, report; returns the exit code.

    With ``stop_at_anomaly`` it is judged while it goes on as well, and ended at the first anomaly. Raises
    UnsupportedError, before anything is made, for a fault that the cluster cannot do.
    """
    from nemesis.runner import check_supported, new_folder, write_documents

    check_supported(options, schedule)
    if stop_at_anomaly:
        check_can_follow(engine, master)
    now = datetime.now(UTC)
    try:
        folder = new_folder(store, now, options.workload)
    except OSError as error:
        raise click.BadParameter(f"no folder for the run can be made: {error}", param_hint="--store") from None
    words: list[str] = click.get_current_context().find_object(list) or ["nemesis"]
    write_documents(folder, options, schedule, words, now)
    following = followed(folder, engine=engine, master=master) if stop_at_anomaly else nullcontext()
    # The session is there before the cluster is: its start would take the replicas' time.
    with following as watch:
        click.echo(f"recording {folder}: schedule {schedule.name}, seed {options.seed}", err=True)
        wait = None if watch is None else partial(first_anomaly, watch)
        if not _recorded(folder, options, schedule, wait):
            return Exit.INTERRUPTED
        if watch is not None:
            watch.close()
            engine = watch.engine
        return judge_and_tell(folder, engine=engine, master=master, junit=junit)


def _recorded(folder: Path, options: RunOptions, schedule: Schedule, wait: FirstAnomaly | None) -> bool:
    """Record; whether nobody interrupted it."""
    from nemesis.cluster.closing import notes_of, told
    from nemesis.errors import NodeFailedError

    try:
        asyncio.run(_record(folder, options, schedule, wait))
    except (KeyboardInterrupt, asyncio.CancelledError) as error:
        for note in notes_of(error):
            click.echo(note, err=True)
        click.echo(f"interrupted; what was recorded is kept: nemesis check {folder}", err=True)
        return False
    except NodeFailedError as error:
        raise click.ClickException(told(error)) from error
    return True


async def _record(folder: Path, options: RunOptions, schedule: Schedule, wait: FirstAnomaly | None) -> None:
    """Record; SIGTERM ends it as Ctrl-C does."""
    from nemesis.runner import record_run

    task = asyncio.current_task()
    assert task is not None
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, task.cancel)
    with progress_shown() as show:
        await record_run(folder, options, schedule, show, wait)
