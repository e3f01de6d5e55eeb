"""All that a run's own page says: its facts, its reasons, its promises, its anomalies by kind, and its story.

Owns the bounds of what a page reads. The story is the report's, made from the whole history: only of runs in which
something is wrong, which are not too large, and once as long as the run stays as it is.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from nemesis.checks.promises import Kept
from nemesis.checks.registry import BY_NAME
from nemesis.checks.schemas import Severity
from nemesis.history.document import TEST_NAME
from nemesis.history.errors import HistoryError
from nemesis.history.schemas import Kind
from nemesis.serve.store import NotInStoreError, Stamp, has_links, open_plain, shards, stamp_of
from nemesis.serve.summary import RESULTS_NAME, Summary, read_json, text_of, texts_of

REPORT_NAME = "report.html"
DOCUMENTS = (TEST_NAME, "schedule.json", RESULTS_NAME, "stopped.json")
STORY_EVENTS_MAX = 300_000
STORIES_REMEMBERED = 256
SHOWN_PER_KIND = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class Anomaly:
    """One row of ``results.json``: where, and its sentence."""

    where: str
    sentence: str


@dataclass(frozen=True, slots=True, kw_only=True)
class KindOfAnomaly:
    """All rows of one kind and severity, of which the first are shown."""

    name: str
    severity: str
    count: int
    shown: Sequence[Anomaly]


@dataclass(frozen=True, slots=True, kw_only=True)
class Promise:
    """A check by its name: whether its promise was kept, how many were found, and why it was not judged."""

    name: str
    sentence: str
    kept: str
    found: str
    why: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Detail:
    """A run's page. ``promises`` are by what became of them.

    ``story_left_out`` says why there is no story where one could be.
    """

    run: Summary
    warnings: Sequence[str]
    kinds: Sequence[KindOfAnomaly]
    promises: Sequence[tuple[str, Sequence[Promise]]]
    settings: Sequence[tuple[str, str]]
    versions: Sequence[tuple[str, str]]
    documents: Sequence[str]
    has_report: bool
    story: Sequence[str]
    story_left_out: str


def detail_of(run: Summary, folder: Path) -> Detail:
    """The detail of one run."""
    test, results = read_json(folder / TEST_NAME), read_json(folder / RESULTS_NAME)
    kinds = _kinds(results)
    story, why = _story(folder) if kinds else ((), "")
    return Detail(
        run=run,
        warnings=texts_of(results.get("warnings")),
        kinds=kinds,
        promises=_promises(results),
        settings=_pairs(test.get("options")),
        versions=_pairs(test.get("versions")),
        documents=[name for name in DOCUMENTS if stamp_of(folder / name) is not None],
        has_report=stamp_of(folder / REPORT_NAME) is not None,
        story=story,
        story_left_out=why,
    )


def _kinds(results: Mapping[str, Any]) -> Sequence[KindOfAnomaly]:
    """What convicts before the rest, and kinds in the order of the reasons."""
    listed = results.get("anomalies")
    rows = [row for row in listed if isinstance(row, dict)] if isinstance(listed, list) else []
    groups: dict[tuple[str, str], list[Mapping[str, Any]]] = {}
    for row in rows:
        groups.setdefault((text_of(row.get("anomaly")), text_of(row.get("severity"))), []).append(row)
    order = [reason.partition(":")[0] for reason in texts_of(results.get("reasons"))]
    ranked = sorted(
        groups.items(),
        key=lambda group: (
            group[0][1] != Severity.VIOLATION,
            order.index(group[0][0]) if group[0][0] in order else len(order),
        ),
    )
    return [_kind(name, severity, found) for (name, severity), found in ranked]


def _kind(name: str, severity: str, rows: Sequence[Mapping[str, Any]]) -> KindOfAnomaly:
    listed = [row for row in rows if _stands_for(row) == 1][:SHOWN_PER_KIND]
    shown = [_anomaly(row) for row in listed]
    return KindOfAnomaly(name=name, severity=severity, count=sum(map(_stands_for, rows)), shown=shown)


def _stands_for(row: Mapping[str, Any]) -> int:
    """How many anomalies a row stands for: the last of a kind that has too many counts the others."""
    evidence = row.get("evidence")
    more = evidence.get("more") if isinstance(evidence, dict) else None
    return more if isinstance(more, int) and not isinstance(more, bool) else 1


def _anomaly(row: Mapping[str, Any]) -> Anomaly:
    offsets = texts_of(row.get("offsets"))
    at = f" at offset {', '.join(offsets[:5])}{' and more' if len(offsets) > 5 else ''}" if offsets else ""
    return Anomaly(where=f"{text_of(row.get('topic_partition'))}{at}", sentence=text_of(row.get("detail")))


def _promises(results: Mapping[str, Any]) -> Sequence[tuple[str, Sequence[Promise]]]:
    """By what became of them: what was not kept first, what was not judged last."""
    told = results.get("checks")
    checks = told.items() if isinstance(told, dict) else ()
    promises = [_promise(name, check) for name, check in checks if isinstance(check, dict)]
    order = (Kept.VIOLATED.value, Kept.UNDECIDED.value, Kept.ALLOWED.value, Kept.KEPT.value)
    promises.sort(key=lambda one: order.index(one.kept) if one.kept in order else len(order))
    return [(kept, tuple(group)) for kept, group in itertools.groupby(promises, key=lambda one: one.kept)]


def _promise(name: str, check: Mapping[str, Any]) -> Promise:
    kept, found, why = (text_of(check.get(key)) for key in ("kept", "found", "why"))
    sentence = BY_NAME[name].promise if name in BY_NAME else name
    return Promise(name=name, sentence=sentence, kept=kept, found=found, why=why)


def _pairs(part: Any) -> Sequence[tuple[str, str]]:
    if not isinstance(part, dict):
        return ()
    pairs = ((name.replace("_", " "), ", ".join(texts_of(value)) or text_of(value)) for name, value in part.items())
    return [(name, value) for name, value in pairs if value not in ("", "[]", "{}")]


def _story(folder: Path) -> tuple[Sequence[str], str]:
    """The story, or nothing and the reason why it is not told here."""
    if has_links(folder):
        return (), "The story is not told: there are links in the run's folder."
    stamp = stamp_of(folder / RESULTS_NAME)
    return ((), "") if stamp is None else _told(folder, stamp)


@lru_cache(maxsize=STORIES_REMEMBERED)
def _told(folder: Path, stamp: Stamp) -> tuple[Sequence[str], str]:
    from nemesis.report.data import read_run

    del stamp
    try:
        if _events(folder) > STORY_EVENTS_MAX:
            return (), f"The history has more than {STORY_EVENTS_MAX:,} events: nemesis explain tells its story."
        return read_run(folder).judgement.narrative, ""
    except (HistoryError, NotInStoreError, OSError, pa.ArrowException, ValueError, KeyError, TypeError) as error:
        return (), f"The story cannot be told: {error}"


def _events(folder: Path) -> int:
    total = 0
    for path in shards(folder, Kind.HISTORY):
        with open_plain(path) as file:
            total += int(pq.read_metadata(file).num_rows)
    return total
