"""One change that a system is asked for, and what became of it.

Owns the outcomes, and how an attempt is told in the history: only what was certainly refused has failed.
"""

from __future__ import annotations

from collections.abc import Awaitable, Mapping
from enum import StrEnum
from typing import TYPE_CHECKING, Any

from nemesis.errors import NotDoneError, UnknownOutcomeError

if TYPE_CHECKING:
    from nemesis.history.recorder import Recorder


class ChangeOutcome(StrEnum):
    """What became of one step."""

    DONE = "done"
    REFUSED = "refused"
    UNKNOWN = "unknown"
    NOT_TRIED = "not-tried"


async def attempt(recorder: Recorder, f: str, detail: Mapping[str, Any], call: Awaitable[None]) -> ChangeOutcome:
    """Make one change, and record what became of it."""
    recorder.began(f, detail)
    error: str | None = None
    try:
        await call
        outcome = ChangeOutcome.DONE
    except NotDoneError as refused:
        outcome, error = ChangeOutcome.REFUSED, str(refused)
    except UnknownOutcomeError as unknown:
        outcome, error = ChangeOutcome.UNKNOWN, str(unknown)
    is_known = outcome is not ChangeOutcome.UNKNOWN
    recorder.ended(f, {**detail, "outcome": outcome}, error=error, is_known=is_known)
    return outcome
