"""How what was opened is closed, and what goes on together ended: every part of it, whatever goes wrong with another.

Owns which error is raised: the first one, which is the reason of what follows. Those that come after it are its notes.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import asynccontextmanager
from inspect import isawaitable

from nemesis.errors import UnsupportedError


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
        raise _with_notes(errors)


@asynccontextmanager
async def side_by_side() -> AsyncIterator[asyncio.TaskGroup]:
    """Let tasks go on together: the first that goes wrong ends the others.

    Raises its error, with a note for each of the others, and no group of them: who wants to tell what is wrong with a
    node looks for that error. A refusal stands behind what is more than that.
    """
    errors: list[BaseException] = []
    try:
        async with asyncio.TaskGroup() as tasks:
            yield tasks
    except BaseExceptionGroup as group:
        errors = sorted(_members(group), key=lambda error: isinstance(error, UnsupportedError))
    if errors:  # Out here, so that none loses what it came from to the group.
        raise _with_notes(errors)


def _members(error: BaseException) -> Iterator[BaseException]:
    """Those of a group, and of the groups in it; else the error itself."""
    if isinstance(error, BaseExceptionGroup):
        for member in error.exceptions:
            yield from _members(member)
    else:
        yield error


def _with_notes(errors: Sequence[BaseException]) -> BaseException:
    first, *others = errors
    for other in others:
        first.add_note(f"then: {told(other)}")
    return first


def told(error: BaseException) -> str:
    """An error in one line, with what went wrong after it."""
    return "; ".join((str(error) or type(error).__name__, *notes_of(error)))


def notes_of(error: BaseException) -> tuple[str, ...]:
    """What went wrong after an error, or after the cancellation that an interrupt has made of it."""
    came_from = error.__context__ if isinstance(error, KeyboardInterrupt) else None
    return (*getattr(error, "__notes__", ()), *(() if came_from is None else notes_of(came_from)))
