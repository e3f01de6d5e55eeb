"""How far a run is, on standard error: one living line on a terminal, else a plain line every few seconds.

Owns the words. rich is used on a terminal only.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
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


def _plain() -> Callable[[Progress], None]:
    last: list[tuple[str, float]] = []

    def show(progress: Progress) -> None:
        if not last or last[-1][0] != progress.phase or progress.elapsed_s - last[-1][1] >= PLAIN_S:
            last[:] = [(progress.phase, progress.elapsed_s)]
            # Whoever watched may have left, as ``head`` does: the recording goes on.
            with suppress(BrokenPipeError):
                click.echo(described(progress), err=True)

    return show
