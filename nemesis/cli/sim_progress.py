"""How far a sweep is, on standard error: a bar on a terminal, else a plain line every few seconds.

Owns the words. rich is used on a terminal only.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING

import click

from nemesis.cli.progress import PLAIN_S

if TYPE_CHECKING:
    from nemesis.simulator.tally import Tally


def described(tally: Tally, elapsed_s: float) -> str:
    """Speed, virtual time and violations so far, in one line."""
    per_minute = 60 * tally.runs / elapsed_s if elapsed_s > 0 else 0.0
    return (
        f"{per_minute:.0f} seeds a minute, {tally.simulated_ms / 3.6e6:.2f} simulated hours, "
        f"{tally.endings['invalid']} violations"
    )


@contextmanager
def sweep_shown(total: int | None) -> Iterator[Callable[[str], None]]:
    """Yield what to call with a line about the sweep after each seed; ``total`` seeds are expected."""
    if not sys.stderr.isatty():
        yield _plain(total)
        return
    from rich.console import Console
    from rich.markup import escape
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (BarColumn(), MofNCompleteColumn(), TimeRemainingColumn(), TextColumn("{task.description}"))
    with Progress(*columns, console=Console(stderr=True)) as progress:
        bar = progress.add_task("starting", total=total)
        yield lambda line: progress.update(bar, advance=1, description=escape(line))


def _plain(total: int | None) -> Callable[[str], None]:
    seeds, next_s = 0, time.monotonic() + PLAIN_S

    def show(line: str) -> None:
        nonlocal seeds, next_s
        seeds += 1
        if time.monotonic() >= next_s:
            next_s = time.monotonic() + PLAIN_S
            of = "" if total is None else f" of {total}"
            # Whoever watched may have left, as ``head`` does: the sweep goes on.
            with suppress(BrokenPipeError):
                click.echo(f"{seeds}{of} seeds: {line}", err=True)

    return show
