"""How far a run or a sweep is, on standard error: a living line or a bar on a terminal, else plain lines now and then.

Owns the words. rich is used on a terminal only.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from threading import Event, Thread
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from nemesis.runner import Progress
    from nemesis.simulator.tally import Tally

PLAIN_S = 5.0


def described(progress: Progress) -> str:
    """The progress in one line."""
    faults = ", ".join(progress.faults) or "none"
    return (
        f"{progress.elapsed_s:5.1f} s {progress.phase}: {progress.acknowledged} acknowledged, "
        f"{progress.failed} failed, {progress.unknown} unknown, {progress.polls} polls; faults: {faults}"
    )


@contextmanager
def progress_shown() -> Iterator[Callable[[Progress], None]]:
    """Yield what to call with each progress."""
    if not sys.stderr.isatty():
        yield _plain()
        return
    from rich.console import Console
    from rich.markup import escape

    with Console(stderr=True).status("starting") as status:
        yield lambda progress: status.update(escape(described(progress)))


@contextmanager
def judging_shown(engine: str) -> Iterator[None]:
    """Say within what judges, and for how long it has: Spark is silent for half a minute, and longer."""
    if not sys.stderr.isatty():
        _say(f"judging with {engine}")
        with _every(PLAIN_S, lambda elapsed_s: _say(f"judging with {engine}: {elapsed_s:.0f} s")):
            yield
        return
    from rich.console import Console

    with (
        Console(stderr=True).status(f"judging with {engine}") as status,
        _every(1.0, lambda elapsed_s: status.update(f"judging with {engine}: {elapsed_s:.0f} s")),
    ):
        yield


@contextmanager
def _every(period_s: float, tell: Callable[[float], None]) -> Iterator[None]:
    """Within, tell again and again how long it has taken, from a thread that ends with it."""
    is_over, begun_s = Event(), time.monotonic()

    def go_on() -> None:
        while not is_over.wait(period_s):
            tell(time.monotonic() - begun_s)

    thread = Thread(target=go_on, name="progress", daemon=True)
    thread.start()
    try:
        yield
    finally:
        is_over.set()
        thread.join()


def _say(text: str) -> None:
    """Whoever watched may have left, as ``head`` does: the work goes on."""
    with suppress(OSError):
        click.echo(text, err=True)


def _plain() -> Callable[[Progress], None]:
    last: list[tuple[str, float]] = []

    def show(progress: Progress) -> None:
        if not last or last[-1][0] != progress.phase or progress.elapsed_s - last[-1][1] >= PLAIN_S:
            last[:] = [(progress.phase, progress.elapsed_s)]
            _say(described(progress))

    return show


def sweep_described(tally: Tally, elapsed_s: float) -> str:
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
        yield _plain_bar(total)
        return
    from rich.console import Console
    from rich.markup import escape
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (BarColumn(), MofNCompleteColumn(), TimeRemainingColumn(), TextColumn("{task.description}"))
    with Progress(*columns, console=Console(stderr=True)) as progress:
        bar = progress.add_task("starting", total=total)
        yield lambda line: progress.update(bar, advance=1, description=escape(line))


def _plain_bar(total: int | None) -> Callable[[str], None]:
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
