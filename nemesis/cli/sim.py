"""``nemesis sim``: clusters simulated from seeds, one or a hundred thousand, here or on Spark.

Owns the options, and the words of a result on standard output. A run is a function of seed, options and commit, so that
whatever fails here is told with the one command that repeats it.
"""

from __future__ import annotations

import os
import time
from collections.abc import Generator, Iterable, Iterator, Sequence
from contextlib import ExitStack, closing
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from nemesis.cli.exit import VERDICT_EXITS, Exit, UnsupportedError
from nemesis.cli.progress import sweep_described, sweep_shown
from nemesis.cli.verdicts import write_document
from nemesis.cli.words import time_limit, variant_name
from nemesis.variants.catalogue import BUILT
from replica.cli.help import example

if TYPE_CHECKING:
    from nemesis.simulator.corpus import RunRow
    from nemesis.simulator.run import SimOptions
    from nemesis.simulator.tally import Tally
    from nemesis.variants.worlds import WorldKind

SEEDS_MAX = 1_000_000
ROWS_SHOWN_MAX = 50
"""How many failing seeds are shown; all of them are in the file of ``--output`` and in the corpus."""
STDOUT = "-"


@dataclass(frozen=True, slots=True, kw_only=True)
class Sweep:
    """What was asked for. ``options`` has any seed; ``stop_after`` violations end the sweep, absent: nothing does."""

    options: SimOptions
    seeds: Sequence[int]
    jobs: int
    stop_after: int | None
    corpus: str | None
    master: str | None


def _seeds(context: click.Context, parameter: click.Parameter, value: str | None) -> Sequence[int] | None:
    """Read ``10000`` as the seeds from 1 to that, and ``1-10,17`` as it stands."""
    del context, parameter
    if value is None:
        return None
    try:
        spans = [range(1, int(value) + 1)] if value.strip().isdecimal() else list(_spans(value))
    except ValueError:
        raise click.BadParameter(f"{value!r}: give how many, or seeds and ranges such as 1-10,17") from None
    if not 1 <= sum(map(len, spans)) <= SEEDS_MAX:
        raise click.BadParameter(f"{value!r}: give 1 to {SEEDS_MAX} seeds")
    return list(dict.fromkeys(seed for span in spans for seed in span))


def _spans(value: str) -> Iterator[range]:
    for part in filter(None, value.split(",")):
        first, _, last = part.partition("-")
        yield range(int(first), int(last or first) + 1)


def _list_variants(context: click.Context, parameter: click.Parameter, value: bool) -> None:
    del parameter
    if value:
        click.echo("\n".join(BUILT))
        context.exit()


@click.command(epilog=example("nemesis sim --seeds 500", "nemesis sim --seed 17 --trace story.txt"))
@click.option("--seed", type=click.IntRange(min=0), help="Simulate this one and tell all about it.")
@click.option("--seeds", callback=_seeds, metavar="N|LIST", help="100 for 1 to 100, or 1-10,17. [default: 100]")
@click.option("--jobs", type=click.IntRange(1, 512), help="Processes. [default: one a core]")
@click.option("--world", type=click.Choice(["quorum", "cluster", "group"]), help="What is simulated. [default: quorum]")
@click.option("--variant", type=variant_name, help="A wrong protocol instead.")
@click.option("--time-limit", type=time_limit, default=60.0, show_default=True, help="Virtual s each.")
@click.option("--trace", is_flag=False, flag_value=STDOUT, metavar="[FILE]", help="Tell the story of --seed.")
@click.option("--corpus", metavar="DIR", help="Write histories and verdicts of all runs there, as Parquet.")
@click.option("--master", metavar="URL", help="Spread the seeds over this Spark cluster.")
@click.option("--output", type=click.Path(dir_okay=False, path_type=Path), help="Write the result as JSON.")
@click.option("--stop-after", type=click.IntRange(1), metavar="N", help="End with the Nth violation. [default: go on]")
@click.option(
    "--list-variants",
    is_flag=True,
    is_eager=True,
    expose_value=False,
    callback=_list_variants,
    help="List what --variant takes, one name a line.",
)
@click.pass_obj
def sim(words: list[str] | None, /, seed: int | None, trace: str | None, output: Path | None, **given: Any) -> int:
    """Simulate whole clusters from seeds: the same core and storage on virtual time, under every kind of fault.

    Exits with 1 when any run is invalid, which is what convicts a --variant.
    """
    sweep = _sweep(seed, **given)
    if trace is not None and (len(sweep.seeds) > 1 or sweep.master is not None):
        raise click.UsageError("--trace tells the story of one --seed, simulated here")
    begun_s = time.monotonic()
    tally, interrupted = _traced(sweep, trace) if trace is not None else _swept(sweep, is_told=seed is not None)
    wall_s = time.monotonic() - begun_s
    if interrupted:
        click.echo(f"interrupted after {tally.runs} of {len(sweep.seeds)} seeds", err=True)
    if seed is None:
        tell_sweep(tally, wall_s)
    if output is not None:
        write_document(output, {**_header(sweep, words), "interrupted": interrupted, **tally.document(wall_s)})
    return Exit.INTERRUPTED if interrupted else exit_of(tally.endings)


def _sweep(seed: int | None, **given: Any) -> Sweep:
    from nemesis.simulator.run import SimOptions

    if seed is not None and given["seeds"] is not None:
        raise click.UsageError("--seed and --seeds exclude each other")
    seeds = [seed] if seed is not None else given["seeds"] or range(1, 101)
    sweep = Sweep(
        options=SimOptions(
            seed=seeds[0],
            world=world_of(given["world"], given["variant"]),
            time_limit_s=given["time_limit"],
            variant=given["variant"],
        ),
        seeds=seeds,
        jobs=min(given["jobs"] or os.cpu_count() or 1, len(seeds)),
        stop_after=given["stop_after"],
        corpus=given["corpus"],
        master=given["master"],
    )
    if sweep.master is not None and sweep.stop_after is not None:
        raise click.UsageError("--stop-after cannot end a sweep on Spark")
    _check_corpus(sweep.corpus)
    return sweep


def world_of(name: str | None, variant: str | None) -> WorldKind:
    """The kind of world that was asked for, else the one in which a variant is tried."""
    from nemesis.variants.worlds import WorldKind

    if name is not None:
        return WorldKind(name)
    return WorldKind.QUORUM if variant is None else BUILT[variant].world


def _check_corpus(corpus: str | None) -> None:
    """Refuse to write over what is there; click.BadParameter says so."""
    from nemesis.simulator.corpus import check_is_free

    try:
        if corpus is not None and "://" not in corpus:
            check_is_free(Path(corpus))
    except FileExistsError as error:
        raise click.BadParameter(str(error), param_hint="--corpus") from None


# --- doing ------------------------------------------------------------------------------------------------------------


def _traced(sweep: Sweep, trace: str) -> tuple[Tally, bool]:
    """Simulate the one seed and tell its story."""
    from nemesis.simulator.corpus import CorpusWriter, run_seed
    from nemesis.simulator.tally import Tally
    from nemesis.simulator.trace import Trace

    with ExitStack() as stack:
        file = None if trace == STDOUT else stack.enter_context(Path(trace).open("w", encoding="utf-8"))
        story = Trace(lambda line: click.echo(line, file=file))
        result = run_seed(sweep.options, sweep.corpus is not None, sweep.seeds[0], [story])
        story.finish(f"{result.row.verdict}: {'; '.join(result.row.reasons)}")
        if sweep.corpus is not None:
            stack.enter_context(CorpusWriter(Path(sweep.corpus))).add(result.tables)
    _tell_seed(result.row)
    click.echo(f"trace: {story.lines} lines, sha256 {story.hash}")
    return Tally([result.row], world=sweep.options.world), False


def _swept(sweep: Sweep, *, is_told: bool) -> tuple[Tally, bool]:
    """Simulate all seeds; what came of them, in their order, and whether somebody had enough before the end."""
    from nemesis.simulator.tally import Tally

    tally, begun_s = Tally(world=sweep.options.world), time.monotonic()
    try:
        with closing(_here(sweep) if sweep.master is None else _on_spark(sweep)) as rows, ExitStack() as stack:
            show = stack.enter_context(sweep_shown(len(sweep.seeds)))
            for row in rows:
                tally.add(row)
                if is_told:
                    _tell_seed(row)
                show(sweep_described(tally, time.monotonic() - begun_s))
                if tally.endings["invalid"] == sweep.stop_after:
                    break
    except KeyboardInterrupt:
        return tally, True
    return tally, False


def _here(sweep: Sweep) -> Generator[RunRow, None, None]:
    """The rows of all seeds, from processes of this machine; the corpus is written beside."""
    from nemesis.simulator.corpus import CorpusWriter, lost_result, run_seed
    from nemesis.simulator.sweep import Lost, Workers

    with ExitStack() as stack:
        writer = None if sweep.corpus is None else stack.enter_context(CorpusWriter(Path(sweep.corpus)))
        workers = stack.enter_context(Workers(sweep.jobs))
        for seed, found in workers.in_order(partial(run_seed, sweep.options, writer is not None), sweep.seeds):
            result = lost_result(sweep.options, seed, found) if isinstance(found, Lost) else found
            if writer is not None:
                writer.add(result.tables)
            yield result.row


def _on_spark(sweep: Sweep) -> Generator[RunRow, None, None]:
    """The rows of all seeds, from a cluster, once all are there."""
    from nemesis.pipeline import EngineUnavailableError
    from nemesis.pipeline.session import MasterError
    from nemesis.simulator.on_spark import simulate_on_spark

    assert sweep.master is not None, sweep
    click.echo(f"simulating {len(sweep.seeds)} seeds on {sweep.master}", err=True)
    try:
        yield from simulate_on_spark(sweep.options, sweep.seeds, corpus=sweep.corpus, master=sweep.master)
    except MasterError as error:
        instead = "give a master that can be reached, or none, to simulate in processes of this machine"
        raise click.BadParameter(f"{error}; {instead}", param_hint="--master") from error
    except EngineUnavailableError as error:
        raise UnsupportedError(str(error)) from error


# --- telling ----------------------------------------------------------------------------------------------------------


def exit_of(endings: Iterable[str]) -> Exit:
    """The exit code of a sweep: a violation outweighs an error of the harness, and that what is unknown."""
    exits = {**VERDICT_EXITS, "error": Exit.INTERNAL_ERROR}
    order = [Exit.VALID, Exit.UNKNOWN, Exit.INTERNAL_ERROR, Exit.INVALID]
    return max((exits[ending] for ending in endings), key=order.index, default=Exit.VALID)


def _header(sweep: Sweep, words: list[str] | None) -> dict[str, Any]:
    from nemesis.runner import versions

    return {
        "command": words or ["nemesis", "sim"],
        "versions": versions(),
        "world": sweep.options.world,
        "variant": sweep.options.variant,
        "time_limit": sweep.options.time_limit_s,
        "seeds": len(sweep.seeds),
        "seed_first": sweep.seeds[0],
        "seed_last": sweep.seeds[-1],
        "jobs": sweep.jobs if sweep.master is None else None,
        "master": sweep.master,
        "corpus": sweep.corpus,
    }


def _tell_seed(row: RunRow) -> None:
    """All about one run; a failure ends with the command that repeats it."""
    click.echo(f"seed {row.seed}: {row.verdict or 'no verdict, the harness failed'}")
    for reason in row.reasons:
        click.echo(f"  {reason}")
    for sentence in row.not_promised:
        click.echo(f"  not promised here: {sentence}")
    if row.error is not None:
        click.echo(row.error.rstrip(), err=True)
    if row.at_ms is not None:
        click.echo(f"  {row.at_ms / 1000:.3f} s after the beginning")
    rare = ", ".join(f"{name} {times}" for name, times in sorted(row.rare.items()))
    click.echo(f"rare events: {rare or 'none'}")
    click.echo(f"simulated: {row.simulated_ms / 1000:.1f} s, {row.steps} steps, {row.acknowledged} acknowledged writes")
    if row.verdict != "valid":
        click.echo(f"repeat: {row.command}")


def tell_sweep(tally: Tally, wall_s: float) -> None:
    """Verdicts, the rare, the speed, and the seeds that failed."""
    from nemesis.simulator.tally import speed

    counts = (f"{tally.endings[ending]} {ending}" for ending in ("valid", "invalid", "unknown", "error"))
    click.echo(f"verdicts: {', '.join(counts)}")
    if tally.runs:
        click.echo(f"{'rare event':24}{'share of runs':>14}{'runs':>9}{'times':>9}")
        for name, told in tally.rare().items():
            click.echo(f"{name:24}{told['share']:14.2%}{told['runs']:9}{told['times']:9}")
        figures = speed(tally.runs, tally.simulated_ms, wall_s)
        click.echo(
            f"speed: {figures['seeds_per_minute']:.0f} seeds a minute, {figures['simulated_s_per_wall_s']:.0f} "
            f"simulated seconds a second; {tally.simulated_ms / 3.6e6:.2f} simulated hours in {wall_s:.0f} s"
        )
    if tally.never and not tally.endings["invalid"]:
        click.echo(f"never happened: {', '.join(tally.never)}")
    for reason, runs in sorted(tally.not_promised.items()):
        click.echo(f"not promised, and so no violation, in {runs} of the runs: {reason}")
    for row in tally.failures[:ROWS_SHOWN_MAX]:
        click.echo(_failure(row))
    if len(tally.failures) > ROWS_SHOWN_MAX:
        click.echo(f"and {len(tally.failures) - ROWS_SHOWN_MAX} seeds more that are not valid: see --output")


def _failure(row: RunRow) -> str:
    why = row.reasons[0] if row.reasons else (row.error or "").strip().rpartition("\n")[2]
    return f"seed {row.seed}: {row.verdict or 'error'}, {why}\n  repeat: {row.command}"
