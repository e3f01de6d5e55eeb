"""``nemesis soak``: many runs, one table of how they ended, one JSON document, and one exit code.

Owns the options, the rounds, and the sweep's document. All runs are looked at before the first one starts.

How each combination of a sweep fared, as lines of text.
"""

from __future__ import annotations

import signal
from collections.abc import Iterator, Sequence
from pathlib import Path
from random import Random, SystemRandom
from types import FrameType
from typing import Any

import click

from nemesis.ci.cases import undecided
from nemesis.ci.command import execute
from nemesis.ci.judged import VALID, VERDICTS, worst
from nemesis.ci.telling import tell_ci
from nemesis.cli.exit import VERDICT_EXITS
from nemesis.cli.run import SECTIONS as RUN_SECTIONS
from nemesis.cli.run import plan, run, store_option
from nemesis.cli.settings import setting_options, settings_given, words_of
from nemesis.cli.soak.document import RUNS_MAX, SEEDS_MAX, Cell, Sweep, SweepError, cells_of, count_of, read_sweep
from nemesis.cli.soak.play import COUNTED, Play, Played
from nemesis.cli.verdicts import junit_option, master_option, write_document
from replica.cli.help import Command, Sections, example

ROUNDS_MAX = 10_000
NAME = "soak"
SEEDS_DEFAULT = "1-10"
_COUNTS = ", ".join(name.replace("_", "-") for name in COUNTED)


def _must_see(context: click.Context, parameter: click.Parameter, value: str | None) -> tuple[str, ...]:
    """Read ``leader-changes,truncations``."""
    del context, parameter
    names = tuple(word.strip().replace("-", "_") for word in (value or "").split(",") if word.strip())
    if not set(names) <= COUNTED.keys():
        raise click.BadParameter(f"{value!r}: give some of {_COUNTS}, separated by commas")
    return names


SECTIONS: Sections = {
    "Runs": ("file", "seeds", "fresh", "must_see", "test_count", "until_failure", "keep_all"),
    **{heading: [name for name in names if name != "seed"] for heading, names in RUN_SECTIONS.items()},
    "Judging": (*RUN_SECTIONS["Judging"], "output"),
}


@click.command(
    cls=Command,
    sections=SECTIONS,
    epilog=example(
        "nemesis soak --seeds 1-20 --time-limit 60 --nemesis partition,kill",
        "nemesis soak nightly.toml --junit junit.xml",
    ),
)
@click.argument("file", required=False, type=click.Path(exists=True, dir_okay=False, path_type=Path))
@click.option("--seeds", metavar="LIST", help=f"Such as 1-10,17. [default: {SEEDS_DEFAULT}, or those of the file]")
@click.option("--fresh", type=click.IntRange(0, SEEDS_MAX), default=0, show_default=True, help="Draw as many more.")
@click.option("--must-see", callback=_must_see, metavar="NAMES", help=f"A run with 0 of these is unknown: {_COUNTS}.")
@click.option("--test-count", type=click.IntRange(1, ROUNDS_MAX), help="Rounds of the whole. [default: 1]")
@click.option("--until-failure", is_flag=True, help="Round after round, until a run is not valid.")
@click.option("--keep-all", is_flag=True, help="Keep valid runs whole; else without the replicas' data and the report.")
@store_option
@click.option(
    "--output",
    type=click.Path(dir_okay=False, path_type=Path),
    help=f"The result as JSON. [default: {NAME}.json, or that of the file's name, in the store]",
)
@junit_option
@click.option(
    "--engine", type=click.Choice(["local", "spark"]), default="local", show_default=True, help="What judges each run."
)
@master_option
def soak(file: Path | None, store: Path, output: Path | None, junit: Path | None, **given: Any) -> int:
    """Run every seed once, with every combination of a TOML file's matrix if there is one; see docs/ci.md.

    Takes the options of nemesis run as well, for all runs. Exits as the worst run does. A run that comes to no verdict
    counts as unknown, and the others go on.
    """
    asked = _asked(file, given)
    judge = ("--engine", given["engine"], *(["--master", given["master"]] if given["engine"] == "spark" else []))
    folder = store / asked.name
    play = Play(store=folder, execute=execute, judge=judge, keep_all=given["keep_all"], must_see=given["must_see"])
    rounds = given["test_count"] or (ROUNDS_MAX if given["until_failure"] else 1)
    played: list[Played] = []
    is_whole = False
    _check(asked)
    try:
        _play(asked, play, rounds, given["until_failure"], played)
        is_whole = True
    finally:
        verdict = _tell(asked, played, output or store / f"{asked.name}.json", junit, is_whole=is_whole)
    return VERDICT_EXITS[verdict]


soak.params += setting_options()


def _asked(file: Path | None, given: dict[str, Any]) -> Sweep:
    """What the file and the options ask for, together. Raises click.UsageError."""
    seeds = given["seeds"]
    try:
        if file is None:
            asked, seeds = Sweep(name=NAME, options={}, axes={}, seeds=()), SEEDS_DEFAULT if seeds is None else seeds
        else:
            asked = read_sweep(file)
        return asked.with_options(settings_given(given)).with_seeds(seeds, given["fresh"])
    except SweepError as error:
        raise click.UsageError(str(error)) from None


def _check(asked: Sweep) -> None:
    """Refuse what does not go together before the first run starts. Raises click.UsageError, and
    UnsupportedError for a fault that a cluster cannot do."""
    from nemesis.runner import check_supported

    count = count_of(asked)
    if count > RUNS_MAX:
        raise click.UsageError(f"{asked.name} has {count} runs: at most {RUNS_MAX}")
    for cell in cells_of(asked, Random(0)):
        with run.make_context("run", list(words_of(cell.settings))) as context:
            try:
                schedule, options = plan(dict(context.params))
                check_supported(options, schedule)
            except click.UsageError as error:
                raise click.UsageError(f"{asked.name}: {cell.combination}: {error.format_message()}") from None


def _play(asked: Sweep, play: Play, rounds: int, until_failure: bool, played: list[Played]) -> None:
    """Run all rounds, and put each run into ``played`` as soon as it has ended. Interrupted by SIGTERM as by Ctrl-C."""
    before = signal.signal(signal.SIGTERM, _interrupt)
    of_all = "" if until_failure else f"/{count_of(asked) * rounds}"
    try:
        for one in play.run(_rounds(asked, rounds), until_failure=until_failure):
            played.append(one)
            click.echo(f"[{len(played)}{of_all}] {one.told}", err=True)
    finally:
        signal.signal(signal.SIGTERM, before)


def _rounds(asked: Sweep, rounds: int) -> Iterator[Cell]:
    random = SystemRandom()
    for _ in range(rounds):
        yield from cells_of(asked, random)


def _interrupt(number: int, frame: FrameType | None) -> None:
    del number, frame
    raise KeyboardInterrupt


def _tell(asked: Sweep, played: Sequence[Played], output: Path, junit: Path | None, *, is_whole: bool) -> str:
    """Print the table, write the documents, tell whatever runs this; returns the verdict on all.

    Of a sweep that was not run to its end, nothing is known but what was found.
    """
    cases = [one.case for one in played]
    if not is_whole:
        reason = f"the sweep was interrupted after {len(played)} runs, and the others were not made"
        cases.append(undecided(group=asked.name, name="the other runs", reason=reason))
    verdict = worst([case.verdict for case in cases])
    for line in table_of(played):
        click.echo(line)
    click.echo(f"verdict: {verdict}{'' if is_whole else f': {cases[-1].message}'}")
    runs = [one.to_json() for one in played]
    write_document(output, {"name": asked.name, "verdict": verdict, "complete": is_whole, "runs": runs})
    click.echo(f"result: {output}")
    tell_ci(cases, junit=junit, name=asked.name)
    return verdict


HEADERS = ("combination", *VERDICTS, "acknowledged", "seconds")
ACKNOWLEDGED = "acked_checked"


def table_of(played: Sequence[Played]) -> Iterator[str]:
    """The table in the order in which the combinations were run, and a paragraph for each run that is not valid."""
    rows = [HEADERS, *(_row(name, played) for name in dict.fromkeys(one.cell.combination for one in played))]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for row in rows:
        cells = [row[0].ljust(widths[0]), *(cell.rjust(width) for cell, width in zip(row[1:], widths[1:], strict=True))]
        yield "  ".join(cells)
    for one in played:
        if one.case.verdict != VALID:
            yield from ("", f"{one.case.verdict}: {one.cell.name}", *_indented(one))


def _row(combination: str, played: Sequence[Played]) -> tuple[str, ...]:
    own = [one for one in played if one.cell.combination == combination]
    verdicts = [one.case.verdict for one in own]
    acknowledged = sum(one.run.stats.get(ACKNOWLEDGED, 0) for one in own if one.run is not None)
    counts = (str(verdicts.count(verdict)) for verdict in VERDICTS)
    return (combination, *counts, str(acknowledged), f"{sum(one.seconds for one in own):.0f}")


def _indented(one: Played) -> Iterator[str]:
    if one.run is None:
        yield from (f"  {line}" for line in one.error.splitlines())
        return
    yield from (f"  {reason}" for reason in (*one.run.reasons, *one.unseen))
    yield f"  again: {one.run.command}"
    yield f"  run: {one.run.folder}"
