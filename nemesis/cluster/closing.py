"""How what was opened is closed: every part of it, whatever goes wrong with another, and all of that is told.

Owns which error is raised: the first one, which is the reason of what follows. Those that come after it are its notes.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from inspect import isawaitable


@asynccontextmanager
async def closed_by(*steps: Callable[[], object]) -> AsyncIterator[None]:
    """Take all these steps afterwards, in their order, even when one of them, or what is within, goes wrong.

    Raises the first error of all, with a note for each later one.
    """
    errors: list[BaseException] = []
    try:
        yield
    except BaseException as error:
        errors.append(error)
    for step in steps:
        try:
            done = step()
            if isawaitable(done):
                await done
        except BaseException as error:
            errors.append(error)
    if errors:
        first, *others = errors
        for other in others:
            first.add_note(f"then: {told(other)}")
        raise first


def told(error: BaseException) -> str:
    """An error in one line, with what went wrong after it."""
    return "; ".join((str(error) or type(error).__name__, *notes_of(error)))


def notes_of(error: BaseException) -> tuple[str, ...]:
    """What went wrong after an error, or after the cancellation that an interrupt has made of it."""
    came_from = error.__context__ if isinstance(error, KeyboardInterrupt) else None
    return (*getattr(error, "__notes__", ()), *(() if came_from is None else notes_of(came_from)))
