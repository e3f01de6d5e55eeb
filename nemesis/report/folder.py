"""Read a run folder into tables and JSON documents, and say what is missing.

Owns the names of the documents and the tolerance towards what is absent: a run that was killed early has no results,
perhaps a torn shard, and still deserves a report. Does not know what the rows mean.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa

from nemesis.history.errors import HistoryError
from nemesis.history.reader import is_complete, list_shards, read_table
from nemesis.history.schemas import SCHEMAS, Kind

Json = Mapping[str, Any]

CONSEQUENCES: Mapping[Kind, str] = {
    Kind.HISTORY: "no operation can be shown",
    Kind.LOGS: "what each replica held at the end is not known",
    Kind.EVENTS: "elections and truncations cannot be shown",
}
LOG_FILES_MAX = 50


@dataclass(frozen=True, slots=True, kw_only=True)
class RunFiles:
    """What a run folder holds. ``results`` is ``None`` for a run that was not judged; ``missing`` has the sentences."""

    folder: Path
    test: Json
    results: Json | None
    history: pa.Table
    logs: pa.Table
    events: pa.Table
    log_files: tuple[Path, ...]
    missing: tuple[str, ...]


def read_run_files(folder: Path) -> RunFiles:
    """Read all of a run folder that can be read.

    Raises ``NotADirectoryError`` when there is no such folder: then there is nothing to report on.
    """
    if not folder.is_dir():
        raise NotADirectoryError(f"{folder} is not a run folder: give the folder that holds test.json and history/")
    missing: list[str] = []
    test = _read_json(folder / "test.json", missing, "what ran and with which seed is not known")
    results = _read_json(folder / "results.json", missing, "the run was not judged")
    tables = {kind: _read_table(folder, kind, missing) for kind in Kind}
    if tables[Kind.HISTORY].num_rows and not is_complete(folder):
        missing.append("The history was not closed: the run was cut off, and what came after is not known.")
    return RunFiles(
        folder=folder,
        test=test or {},
        results=results,
        history=tables[Kind.HISTORY],
        logs=tables[Kind.LOGS],
        events=tables[Kind.EVENTS],
        log_files=tuple(sorted(path for path in folder.glob("nodes/*/*.log") if path.is_file())[:LOG_FILES_MAX]),
        missing=tuple(missing),
    )


def _read_json(path: Path, missing: list[str], consequence: str) -> Json | None:
    try:
        document = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        missing.append(f"{path.name} is missing: {consequence}.")
        return None
    except (OSError, ValueError, RecursionError) as error:
        missing.append(f"{path.name} cannot be read ({error}): {consequence}.")
        return None
    if isinstance(document, dict):
        return document
    missing.append(f"{path.name} is not a JSON object: {consequence}.")
    return None


def _read_table(folder: Path, kind: Kind, missing: list[str]) -> pa.Table:
    """All usable rows of one table; an empty table, and a sentence that says why, when there is none."""
    try:
        listing = list_shards(folder, kind)
        table = read_table(listing)
    except (HistoryError, OSError, pa.ArrowException) as error:
        missing.append(f"{kind}/ cannot be read ({error}): {CONSEQUENCES[kind]}.")
        return SCHEMAS[kind].empty_table()
    missing.extend(f"{problem}." for problem in listing.problems)
    if not table.num_rows:
        missing.append(f"{kind}/ holds no rows: {CONSEQUENCES[kind]}.")
    return table
