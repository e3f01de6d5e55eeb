"""``nemesis suite``: the runs of a file's matrix, one table of how they ended, and one exit code.

Owns the options, the rounds, and the suite's document. All runs are looked at before the first one starts.
"""

from __future__ import annotations

import json
import signal
from collections.abc import Iterator, Sequence
from pathlib import Path
from random import Random, SystemRandom
from types import FrameType
from typing import TYPE_CHECKING, Any

import click

from nemesis.cli.exit import VERDICT_EXITS

if TYPE_CHECKING:
    from nemesis.cli.suite.document import Suite
    from nemesis.cli.suite.matrix import Cell
    from nemesis.cli.suite.play import Play, Played

ROUNDS_MAX = 10_000
_file = click.Path(dir_okay=False, path_type=Path)


@click.command()
@click.argument("file", type=click.Path(exists=True, dir_okay=False, path_type=Path))
@click.option("--test-count", type=click.IntRange(1, ROUNDS_MAX), help="Rounds of the whole matrix. [default: 1]")
@click.option("--until-failure", is_flag=True, help="Round after round, until a run is not valid.")
@click.option("--store", type=click.Path(file_okay=False, path_type=Path), default=Path("store"), show_default=True)
@click.option(
    "--output", type=_file, help="The result as JSON. [default: suite.json in the store's folder of the name]"
)
@click.option("--junit", type=_file, metavar="FILE", help="Write the result as JUnit XML as well.")
@click.option(
    "--engine", type=click.Choice(["local", "spark"]), default="local", show_default=True, help="What judges."
)
@click.option("--keep-all", is_flag=True, help="Keep valid runs whole; else without the replicas' data and the report.")
def suite(
    file: Path, test_count: int | None, until_failure: bool, store: Path, output: Path | None, **given: Any
) -> int:
    """Run every combination of a TOML file's matrix with every seed.

    Exits as the worst run does. A run that comes to no verdict counts as unknown, and the others go on.
    """
    from nemesis.ci.command import execute
    from nemesis.cli.suite.document import SuiteError, read_suite
    from nemesis.cli.suite.play import Play

    try:
        asked = read_suite(file)
    except SuiteError as error:
        raise click.UsageError(str(error)) from None
    folder = store / asked.name
    play = Play(store=folder, execute=execute, engine=given["engine"], keep_all=given["keep_all"])
    rounds = test_count or (ROUNDS_MAX if until_failure else 1)
    played: list[Played] = []
    is_whole = False
    _check(asked)
    try:
        _play(asked, play, rounds, until_failure, played)
        is_whole = True
    finally:
        verdict = _tell(asked, played, output or folder / "suite.json", given["junit"], is_whole=is_whole)
    return VERDICT_EXITS[verdict]


def _check(asked: Suite) -> None:
    """Refuse what does not go together before the first run starts. Raises click.UsageError, and
    UnsupportedError for a fault that a cluster cannot do."""
    from nemesis.cli.run import plan, run
    from nemesis.cli.settings import words_of
    from nemesis.cli.suite.matrix import RUNS_MAX, cells_of, count_of
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


def _play(asked: Suite, play: Play, rounds: int, until_failure: bool, played: list[Played]) -> None:
    """Run all rounds, and put each run into ``played`` as soon as it has ended. Interrupted by SIGTERM as by Ctrl-C."""
    from nemesis.cli.suite.matrix import count_of

    before = signal.signal(signal.SIGTERM, _interrupt)
    of_all = "" if until_failure else f"/{count_of(asked) * rounds}"
    try:
        for one in play.run(_rounds(asked, rounds), until_failure=until_failure):
            played.append(one)
            said = f"[{len(played)}{of_all}] {one.cell.name}: {one.case.verdict} ({one.seconds:.0f} s)"
            click.echo(said, err=True)
    finally:
        signal.signal(signal.SIGTERM, before)


def _rounds(asked: Suite, rounds: int) -> Iterator[Cell]:
    from nemesis.cli.suite.matrix import cells_of

    random = SystemRandom()
    for _ in range(rounds):
        yield from cells_of(asked, random)


def _interrupt(number: int, frame: FrameType | None) -> None:
    del number, frame
    raise KeyboardInterrupt


def _tell(asked: Suite, played: Sequence[Played], output: Path, junit: Path | None, *, is_whole: bool) -> str:
    """Print the table, write the documents, tell whatever runs this; returns the verdict on all.

    Of a suite that was not run to its end, nothing is known but what was found.
    """
    from nemesis.ci.cases import undecided
    from nemesis.ci.judged import worst
    from nemesis.ci.telling import tell_ci
    from nemesis.cli.suite.table import table_of

    cases = [one.case for one in played]
    if not is_whole:
        reason = f"the suite was interrupted after {len(played)} runs, and the others were not made"
        cases.append(undecided(group=asked.name, name="the other runs", reason=reason))
    verdict = worst([case.verdict for case in cases])
    for line in table_of(played):
        click.echo(line)
    output.parent.mkdir(parents=True, exist_ok=True)
    runs = [one.to_json() for one in played]
    document = {"name": asked.name, "verdict": verdict, "complete": is_whole, "runs": runs}
    output.write_text(json.dumps(document, indent=2) + "\n", encoding="utf-8")
    click.echo(f"verdict: {verdict}{'' if is_whole else f': {cases[-1].message}'}")
    click.echo(f"result: {output}")
    tell_ci(cases, junit=junit, name=asked.name)
    return verdict
