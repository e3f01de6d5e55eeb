"""How far a run is, on standard error: one living line on a terminal, else a plain line every few seconds.

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
