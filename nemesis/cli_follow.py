"""A run that is judged while it goes on: ``nemesis check RUN --follow`` and ``nemesis run --stop-at-anomaly``.

Owns when a follower is asked, when a run is over for somebody who only sees its folder, and the words for what is found
on the way. Whatever goes wrong with following, neither the run nor its verdict suffers by it.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from nemesis.cli_exit import VERDICT_EXITS, UnsupportedError
from nemesis.cli_judge import tell

if TYPE_CHECKING:
    from nemesis.history.stopped import Found
    from nemesis.pipeline.streaming import Follower

LOOK_S = 1.0
"""How long a follower rests at least. It rests as long as it has worked, so that half a core is left to the run."""
PATIENCE_S_DEFAULT = 120.0
"""Longer than a run is silent: it waits for its replicas to agree, and then it reads."""

follow_option = click.option(
    "--follow", is_flag=True, help="Judge a RUN while it goes on: tell each anomaly when it appears; write nothing."
)
patience_option = click.option(
    "--patience",
    type=click.FloatRange(0),
    default=PATIENCE_S_DEFAULT,
    show_default=True,
    help="With --follow: a run is over when nothing was added to it for so many seconds.",
)


def follow_and_tell(folder: Path, *, engine: str, master: str, patience_s: float) -> int:
    """Tell the anomalies of a run as they appear; when it is over judge it, print the result; returns the exit code."""
    from nemesis.history import HistoryError
    from nemesis.pipeline import judge_run

    click.echo(f"following {folder} with {engine}", err=True)
    try:
        with followed(folder, engine=engine, master=master) as follower:
            _tell_until_over(folder, follower, patience_s)
            follower.close()
            click.echo(f"judging with {engine}", err=True)
            judgement = judge_run(folder, engine=engine, master=master)
    except HistoryError as error:
        raise click.ClickException(str(error)) from error
    tell(judgement, folder, None)
    return VERDICT_EXITS[judgement.verdict.value]


@contextmanager
def followed(folder: Path, *, engine: str, master: str) -> Iterator[Follower]:
    """A follower of the run in ``folder``. Raises UnsupportedError where the engine cannot follow."""
    from nemesis.pipeline import EngineUnavailableError
    from nemesis.pipeline.streaming import following

    try:
        with following(folder, engine=engine, master=master) as follower:
            yield follower
    except EngineUnavailableError as error:
        raise UnsupportedError(str(error)) from error


def _tell_until_over(folder: Path, follower: Follower, patience_s: float) -> None:
    from nemesis.history import is_complete

    is_followed = True
    while not is_complete(folder):
        if _silent_s(folder) > patience_s:
            click.echo(f"nothing was added to the run for {patience_s:g} s: it is judged as it is", err=True)
            break
        began_s = time.monotonic()
        is_followed = is_followed and _tell_found(follower.look)
        time.sleep(max(LOOK_S, time.monotonic() - began_s))
    if is_followed:
        _tell_found(follower.catch_up)


def _silent_s(folder: Path) -> float:
    """How long ago anything was added to the tables of a run."""
    from nemesis.history import Kind

    tables = [table for kind in Kind if (table := folder / kind).is_dir()]
    return time.time() - max(table.stat().st_mtime for table in tables)


def _tell_found(look: Callable[[], list[Mapping[str, Any]]]) -> bool:
    """Print what a follower finds; whether it can be asked again."""
    try:
        rows = look()
    except Exception as error:
        _tell_given_up(error)
        return False
    for row in rows:
        click.echo(f"anomaly: {_found(row, 0, '')}")
    return True


def _tell_given_up(error: Exception) -> None:
    click.echo(f"no longer judged while it goes on, but when it is over: {type(error).__name__}: {error}", err=True)


async def first_anomaly(follower: Follower, engine: str) -> Found | None:
    """Wait for the first anomaly and say what it is; None when the follower fails."""
    while True:
        began_s = time.monotonic()
        try:
            rows = await asyncio.to_thread(follower.look)
        except Exception as error:
            _tell_given_up(error)
            return None
        if rows:
            found = _found(rows[0], len(rows) - 1, engine)
            click.echo(f"stopping at the first anomaly, {found}", err=True)
            return found
        await asyncio.sleep(max(LOOK_S, time.monotonic() - began_s))


def _found(row: Mapping[str, Any], others: int, engine: str) -> Found:
    from nemesis.history.stopped import Found

    told = {name: row[name] for name in ("anomaly", "topic_partition", "detail")}
    return Found(**told, others=others, engine=engine)
