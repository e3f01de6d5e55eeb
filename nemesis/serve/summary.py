"""One run in one row: what was run, where, with what outcome.

Owns what of ``test.json``, ``results.json`` and the history's last shard makes the row, and the words for a run that
has no verdict. A run is read once, and again when one of these files has changed. Whatever the documents hold, there is
a row: what cannot be read is absent.
"""

from __future__ import annotations

import os
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from enum import StrEnum
from pathlib import Path
from typing import Any

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq

from nemesis.checks.promises import Kept
from nemesis.history.document import TEST_NAME
from nemesis.history.schemas import Kind
from nemesis.serve.store import NotInStoreError, Stamp, Store, has_ended, open_plain, shards, stamp_of

RESULTS_NAME = "results.json"
DOCUMENT_BYTES_MAX = 256 * 1024**2
SILENT_S_MAX = 120.0
"""A run without an end to which nothing was added for so long is over. It is silent while its replicas agree."""
NS_PER_S = 1_000_000_000


class Standing(StrEnum):
    """How a run stands: its verdict, or why it has none."""

    VALID = "valid"
    INVALID = "invalid"
    UNKNOWN = "unknown"
    RUNNING = "running"
    NOT_JUDGED = "not judged"


SIGNS = {
    Standing.VALID: "✔",
    Standing.INVALID: "✘",
    Standing.UNKNOWN: "?",
    Standing.RUNNING: "…",
    Standing.NOT_JUDGED: "-",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Summary:
    """A run as the list shows it. ``started_at`` is UTC, ISO 8601; empty texts and None are what is not known.

    ``faults`` are the kinds that were drawn from, or the name of the directed schedule. ``found`` counts the
    anomalies that convict, by kind. ``duration_s`` is the time of the last event of the history.
    """

    name: str
    standing: Standing
    workload: str = ""
    system: str = ""
    variant: str = ""
    schedule: str = ""
    faults: tuple[str, ...] = ()
    seed: int | None = None
    started_at: str = ""
    duration_s: float | None = None
    planned_s: float | None = None
    commit: str = ""
    command: tuple[str, ...] = ()
    reasons: tuple[str, ...] = ()
    found: Mapping[str, int] | None = None

    @property
    def started(self) -> datetime | None:
        """When it began, with a time zone, if that is known."""
        try:
            told = datetime.fromisoformat(self.started_at)
        except ValueError:
            return None
        return told if told.tzinfo is not None else None

    @property
    def combination(self) -> str:
        """What it shares with the same run of other seeds."""
        parts = (self.system, self.workload, " + ".join(self.faults) or self.schedule, self.variant)
        return ", ".join(part for part in parts if part) or "not known"


class _Check(msgspec.Struct):
    kept: str = ""
    found: int = 0


class _Results(msgspec.Struct):
    """Of ``results.json`` only that: the rest, which may be large, is skipped and not built."""

    verdict: str
    reasons: list[str] = []
    checks: dict[str, _Check] = {}


@dataclass(frozen=True, slots=True, kw_only=True)
class _Seen:
    stamps: tuple[Stamp | None, ...]
    summary: Summary
    ended: bool


class Summaries:
    """The summaries of a store's runs, each of which is read again only when its files have changed."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._seen: dict[str, _Seen] = {}

    def all(self) -> list[Summary]:
        """Every run of the store, the newest first."""
        names = list(self._store.names())
        found = [self._of(name, self._store.root / name) for name in names]
        for gone in self._seen.keys() - set(names):
            self._seen.pop(gone, None)
        return sorted(found, key=lambda run: (run.started_at, run.name), reverse=True)

    def one(self, name: str) -> Summary:
        """One run. Raises NotInStoreError where there is no such run."""
        return self._of(name, self._store.folder(name))

    def _of(self, name: str, folder: Path) -> Summary:
        watched = (folder / TEST_NAME, folder / RESULTS_NAME, folder / Kind.HISTORY)
        stamps = tuple(map(stamp_of, watched))
        seen = self._seen.get(name)
        if seen is None or seen.stamps != stamps:
            seen = _Seen(stamps=stamps, summary=_read(name, folder), ended=has_ended(folder))
            self._seen[name] = seen
        if seen.summary.standing is Standing.NOT_JUDGED and not seen.ended and _is_fresh(stamps[-1]):
            return replace(seen.summary, standing=Standing.RUNNING)
        return seen.summary


def _is_fresh(history: Stamp | None) -> bool:
    return history is not None and time.time() - history.changed_ns / NS_PER_S < SILENT_S_MAX


def read_json(path: Path) -> Mapping[str, Any]:
    """A JSON object; an empty one for whatever is absent, a link, too large or no object."""
    try:
        document = msgspec.json.decode(_content(path))
    except (NotInStoreError, msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return {}
    return document if isinstance(document, dict) else {}


def _content(path: Path) -> bytes:
    with open_plain(path) as file:
        # As much as is there: to ask for all that may be makes room for it.
        content = file.read(min(os.fstat(file.fileno()).st_size, DOCUMENT_BYTES_MAX) + 1)
    if len(content) > DOCUMENT_BYTES_MAX:
        raise NotInStoreError(f"{path.name} is larger than {DOCUMENT_BYTES_MAX} bytes")
    return content


def _read(name: str, folder: Path) -> Summary:
    test = read_json(folder / TEST_NAME)
    options, versions = (part if isinstance(part := test.get(key), dict) else {} for key in ("options", "versions"))
    schedule = text_of(options.get("schedule"))
    seed = test.get("seed")
    unjudged = Summary(
        name=name,
        standing=Standing.NOT_JUDGED,
        workload=text_of(test.get("workload")),
        system=text_of(options.get("system")),
        variant=text_of(options.get("variant")),
        schedule=schedule,
        faults=texts_of(options.get("nemesis")) or ((schedule,) if schedule else ()),
        seed=seed if isinstance(seed, int) else None,
        started_at=text_of(test.get("started_at")),
        duration_s=_duration_s(folder),
        planned_s=number_of(options.get("time_limit")),
        commit=text_of(versions.get("commit")),
        command=texts_of(test.get("argv")),
    )
    return _judged(unjudged, folder)


def _judged(summary: Summary, folder: Path) -> Summary:
    try:
        results = msgspec.json.decode(_content(folder / RESULTS_NAME), type=_Results)
    except (NotInStoreError, msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return summary
    verdicts = (Standing.VALID, Standing.INVALID, Standing.UNKNOWN)
    if results.verdict not in verdicts:
        return summary
    found = {name: check.found for name, check in results.checks.items() if check.kept == Kept.VIOLATED}
    return replace(summary, standing=Standing(results.verdict), reasons=tuple(results.reasons), found=found)


def _duration_s(folder: Path) -> float | None:
    """The time of the last event, as the footer of the last shard of the history tells it."""
    whole = shards(folder, Kind.HISTORY)
    if not whole:
        return None
    try:
        with open_plain(whole[-1]) as file:
            told = pq.read_metadata(file)
        groups = [told.row_group(number) for number in range(told.num_row_groups)]
        at = told.schema.names.index("time_ns")
        return float(max(group.column(at).statistics.max for group in groups) / NS_PER_S)
    except (NotInStoreError, pa.ArrowException, OSError, ValueError, AttributeError, TypeError):
        return None


def text_of(value: Any) -> str:
    """A value of a document as text; none for nothing."""
    if value is None or value == "":
        return ""
    return value if isinstance(value, str) else msgspec.json.encode(value).decode()


def texts_of(value: Any) -> tuple[str, ...]:
    """A list of a document as texts; none for what is no list."""
    return tuple(map(text_of, value)) if isinstance(value, Sequence) and not isinstance(value, str) else ()


def number_of(value: Any) -> float | None:
    """A number of a document; None for what is none."""
    return float(value) if isinstance(value, float) or (type(value) is int and abs(value) < 2**63) else None
