"""A run that is judged while it goes on: ``nemesis check RUN --follow`` and ``nemesis run --stop-at-anomaly``.

Owns when a follower is asked, when a run is over for somebody who only sees its folder, and the words for what is found
on the way. Whatever goes wrong with following, neither the run nor its verdict suffers by it.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from nemesis.cli.exit import VERDICT_EXITS, refusal_of
from nemesis.cli.verdicts import LOCAL, SPARK, tell

if TYPE_CHECKING:
    from nemesis.history.stopped import Found
    from nemesis.pipeline import Judgement
    from nemesis.pipeline.streaming import Follower

LOOK_S = 1.0
"""How long a follower rests at least. It rests as long as it has worked, so that half a core is left to the run."""
PATIENCE_S_DEFAULT = 120.0
"""Longer than a run is silent: it waits for its replicas to agree, and then it reads."""


def _patience(context: click.Context, parameter: click.Parameter, value: float) -> float:
    del context, parameter
    if math.isnan(value):
        raise click.BadParameter("nan is no number of seconds")
    return value


follow_option = click.option(
    "--follow", is_flag=True, help="Judge a RUN while it goes on: tell each anomaly when it appears; write nothing."
)
patience_option = click.option(
    "--patience",
    type=click.FloatRange(0),
    callback=_patience,
    default=PATIENCE_S_DEFAULT,
    show_default=True,
    help="With --follow: a run is over when nothing was added to it for so many seconds.",
)


class Watch:
    """A follower that may fail, what of it was told, and the engine that judges the run when it is over.

    A follower that has failed is not asked again. The engine that it ran on may be gone with it, so that this process
    judges the run, unless it was only too long to be followed.
    """

    def __init__(self, follower: Follower, engine: str) -> None:
        self.follower = follower
        self.engine = engine
        self.told: list[Mapping[str, Any]] = []
        self.has_failed = False

    def ask(self, look: Callable[[], list[Mapping[str, Any]]]) -> list[Mapping[str, Any]]:
        """What the follower finds; nothing once it has failed, which is said."""
        if self.has_failed:
            return []
        try:
            return look()
        except Exception as error:
            self._give_up(error)
            return []

    def _give_up(self, error: Exception) -> None:
        from nemesis.pipeline.streaming import TooLongError

        self.has_failed = True
        by = ""
        if self.engine == SPARK and not isinstance(error, TooLongError):
            self.engine = LOCAL
            by = ", by this process"
        _say(f"no longer judged while it goes on, but when it is over{by}: {type(error).__name__}: {error}")

    def close(self) -> None:
        """Look no more. A follower that has died since it was asked last is found out here."""
        if self.engine == SPARK:
            self.ask(self.follower.look)
        with suppress(Exception):
            self.follower.close()


def _say(text: str) -> None:
    """Tell it on standard error. Whoever listened may have left, as ``head`` does: the run goes on."""
    with suppress(OSError):
        click.echo(text, err=True)


def follow_and_tell(folder: Path, *, engine: str, master: str, patience_s: float) -> int:
    """Tell the anomalies of a run as they appear; when it is over judge it, print the result; returns the exit code."""
    from nemesis.history import HistoryError

    click.echo(f"following {folder} with {engine}", err=True)
    try:
        with followed(folder, engine=engine, master=master) as watch:
            _tell_until_over(folder, watch, patience_s)
            judgement = judged_at_the_end(folder, watch, master)
    except HistoryError as error:
        raise click.ClickException(str(error)) from error
    tell(judgement, folder)
    return VERDICT_EXITS[judgement.verdict.value]


@contextmanager
def followed(folder: Path, *, engine: str, master: str) -> Iterator[Watch]:
    """Watch the run in ``folder``. Raises UnsupportedError where the engine cannot follow."""
    from nemesis.pipeline import EngineUnavailableError
    from nemesis.pipeline.streaming import following

    try:
        with following(folder, engine=engine, master=master) as follower:
            yield Watch(follower, engine)
    except EngineUnavailableError as error:
        raise refusal_of(error) from error


def check_can_follow(engine: str, master: str) -> None:
    """Raise UnsupportedError where the engine cannot follow."""
    from nemesis.pipeline import EngineUnavailableError, streaming

    try:
        streaming.check_can_follow(engine, master)
    except EngineUnavailableError as error:
        raise refusal_of(error) from error


def judged_at_the_end(folder: Path, watch: Watch, master: str) -> Judgement:
    """The judgement of the whole. What was told and does not stand in it is said, and makes a run that is valid
    otherwise *unknown*: one of the two is wrong."""
    from nemesis.checks import Verdict
    from nemesis.checks.registry import is_shown
    from nemesis.pipeline import judge_run

    watch.close()
    click.echo(f"judging with {watch.engine}", err=True)
    judgement = judge_run(folder, engine=watch.engine, master=master)
    missing = [row for row in watch.told if not is_shown(row["anomaly"], row["topic_partition"], judgement.anomalies)]
    if not missing:
        return judgement
    kinds = ", ".join(sorted({f"{row['anomaly']} of {row['topic_partition']}" for row in missing}))
    reason = f"told while it went on, and not shown by the whole: {kinds}; one of the two is wrong"
    if judgement.verdict is Verdict.VALID:
        return replace(judgement, verdict=Verdict.UNKNOWN, reasons=(reason,))
    return replace(judgement, reasons=(*judgement.reasons, reason))


def _tell_until_over(folder: Path, watch: Watch, patience_s: float) -> None:
    from nemesis.history.reader import is_complete

    while not is_complete(folder):
        if _silent_s(folder) > patience_s:
            _say(f"nothing was added to the run for {patience_s:g} s: it is judged as it is")
            break
        began_s = time.monotonic()
        _tell_found(watch, watch.follower.look)
        time.sleep(max(LOOK_S, time.monotonic() - began_s))
    _tell_found(watch, watch.follower.catch_up)


def _silent_s(folder: Path) -> float:
    """How long ago anything was added to the tables of a run."""
    from nemesis.history.schemas import Kind

    try:
        return time.time() - max((folder / kind).stat().st_mtime for kind in Kind if (folder / kind).is_dir())
    except (FileNotFoundError, ValueError):
        raise click.ClickException(f"{folder} is gone: what it held can no longer be judged") from None


def _tell_found(watch: Watch, look: Callable[[], list[Mapping[str, Any]]]) -> None:
    for row in watch.ask(look):
        watch.told.append(row)
        click.echo(f"anomaly: {_found(row, 0, '')}")


async def first_anomaly(watch: Watch) -> Found | None:
    """Wait for the first anomaly and say what it is; None when the follower fails."""
    import asyncio  # Most commands have no loop.

    while True:
        began_s = time.monotonic()
        rows = await asyncio.to_thread(watch.ask, watch.follower.look)
        if watch.has_failed:
            return None
        if rows:
            found = _found(rows[0], len(rows) - 1, watch.engine)
            _say(f"stopping at the first anomaly, {found}")
            return found
        await asyncio.sleep(max(LOOK_S, time.monotonic() - began_s))


def _found(row: Mapping[str, Any], others: int, engine: str) -> Found:
    from nemesis.history.stopped import Found

    told = {name: row[name] for name in ("anomaly", "topic_partition", "detail")}
    return Found(**told, others=others, engine=engine)
