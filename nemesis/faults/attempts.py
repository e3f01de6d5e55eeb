"""One change that a system is asked for, and what became of it.

Owns the outcomes, and how an attempt is told in the history: only what was certainly refused has failed.
"""

from __future__ import annotations

from collections.abc import Awaitable, Mapping
from enum import StrEnum
from typing import Any

from nemesis.cluster.system import NotDoneError, UnknownOutcomeError
from nemesis.history import EventType
from nemesis.workload.recorder import Recorder


class ChangeOutcome(StrEnum):
    """What became of one step."""

    DONE = "done"
    REFUSED = "refused"
    UNKNOWN = "unknown"
    NOT_TRIED = "not-tried"


async def attempt(recorder: Recorder, f: str, detail: Mapping[str, Any], call: Awaitable[None]) -> ChangeOutcome:
    """Make one change, and record what became of it."""
    recorder.nemesis(EventType.INVOKE, f, detail)
    error: str | None = None
    try:
        await call
        outcome = ChangeOutcome.DONE
    except NotDoneError as refused:
        outcome, error = ChangeOutcome.REFUSED, str(refused)
    except UnknownOutcomeError as unknown:
        outcome, error = ChangeOutcome.UNKNOWN, str(unknown)
    kind = EventType.FAIL if outcome is ChangeOutcome.REFUSED else EventType.INFO
    recorder.nemesis(kind, f, {**detail, "outcome": outcome}, error=error)
    return outcome
