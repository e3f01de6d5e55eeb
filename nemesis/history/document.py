"""What a run's own document says of how it is to be judged: ``test.json``, which is written before it begins."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

TEST_NAME = "test.json"


def workload_named(folder: Path, usual: str) -> object:
    """What a run says that its workload is called; the usual one where it says nothing."""
    return _document(folder).get("workload", usual)


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


def logs_that_are(folder: Path, what: str) -> tuple[str, ...]:
    """The logs of a run that are ``gapless`` or ``trimmed`` (``history.events``), by what its ``test.json`` says."""
    told = _document(folder).get(what)
    return tuple(name for name in told if isinstance(name, str)) if isinstance(told, list) else ()


def _document(folder: Path) -> Mapping[str, Any]:
    """``test.json``; nothing where it is absent or cannot be read."""
    try:
        document = json.loads((folder / TEST_NAME).read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError):
        return {}
    return document if isinstance(document, dict) else {}
