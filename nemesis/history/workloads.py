"""The workloads by name, and which of them a recorded run is of.

Owns the names, and the reading of ``test.json`` for what decides how a run is judged. Knows neither how
processes work nor how they are judged.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from enum import StrEnum
from pathlib import Path
from typing import Any

from nemesis.history.errors import HistoryError

TEST_NAME = "test.json"


class Workload(StrEnum):
    """What the clients of a run do: append to logs, or use objects of a replicated state machine."""

    APPEND = "append"
    REGISTER = "register"
    SET = "set"
    COUNTER = "counter"
    BANK = "bank"
    LOCK = "lock"

    @property
    def is_on_objects(self) -> bool:
        """Whether each object of it is judged for linearizability; else its logs are judged."""
        return self is not Workload.APPEND


def workload_of(folder: Path) -> Workload:
    """The workload of a run, as its ``test.json`` names it; ``append`` where that is absent or cannot be read.

    Raises HistoryError for a name that is none: nobody here knows how to judge that.
    """
    name = _document(folder).get("workload", Workload.APPEND)
    if name not in set(Workload):
        raise HistoryError(f"{folder / TEST_NAME} is of the workload {name!r}; known are {', '.join(Workload)}")
    return Workload(name)


def shows_logs(folder: Path) -> bool:
    """Whether the nodes' logs of a run should be in it: false only where its ``test.json`` says that nobody could
    read them."""
    return _document(folder).get("shows_logs") is not False


def logs_of(folder: Path) -> Mapping[str, tuple[int, ...]]:
    """The logs that a run had, by what its ``test.json`` says, each with the replicas that are known to have it.

    Nothing where that says none.
    """
    told = _document(folder).get("logs")
    named = told.items() if isinstance(told, dict) else ()
    return {name: tuple(ids) for name, ids in named if isinstance(ids, list) and all(type(id) is int for id in ids)}


def _document(folder: Path) -> Mapping[str, Any]:
    """``test.json``; nothing where it is absent or cannot be read."""
    try:
        document = json.loads((folder / TEST_NAME).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return document if isinstance(document, dict) else {}
