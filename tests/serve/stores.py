"""Stores made by hand: runs with their documents, a short history and, where asked for, a verdict."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from nemesis.history import APPEND, NEMESIS_PROCESS, EventType, HistoryEvent, ReplicaEvent
from nemesis.history.writer import HistoryWriter

SECOND = 1_000_000_000
HOSTILE = "<script>document.title='taken'</script><img src=x onerror=\"document.title='taken'\">"
"""A text that takes the page over where it is not escaped."""


def write_run(
    folder: Path,
    *,
    verdict: str | None = "valid",
    operations: int = 3,
    shard_rows: int = 10_000,
    is_over: bool = True,
    words: str = "as it should be",
    results: Mapping[str, Any] | None = None,
    **test: Any,
) -> Path:
    """A run folder; ``test`` are fields of test.json beside the usual ones, ``words`` stand in every free text."""
    folder.mkdir(parents=True)
    (folder / "test.json").write_text(json.dumps(_test(folder, words) | test), encoding="utf-8")
    writer = HistoryWriter(folder, shard_rows=shard_rows)
    for event in _events(operations, words):
        writer.write(event)
    writer.write(ReplicaEvent(time_ns=SECOND, replica_id=1, event="became-leader", epoch=1, topic_partition="log-0"))
    writer.close() if is_over else writer.flush()
    if verdict is not None:
        document = _results(folder, verdict, words) | dict(results or {})
        (folder / "results.json").write_text(json.dumps(document, sort_keys=True), encoding="utf-8")
    return folder


def _test(folder: Path, words: str) -> dict[str, Any]:
    return {
        "workload": "append",
        "seed": 7,
        "started_at": "2026-01-02T03:04:05+00:00",
        "options": {
            "schedule": "drawn",
            "nemesis": ["partition", "kill"],
            "time_limit": 30.0,
            "system": "highwater",
            "variant": None,
            "note": words,
        },
        "versions": {"highwater-log": "0.1.0", "commit": "abc123def456"},
        "argv": ["nemesis", "run", "--nemesis", "partition,kill", "--store", folder.parent.name, words],
    }


def _events(operations: int, words: str) -> Iterable[HistoryEvent]:
    index = 0
    for number in range(operations):
        at = number * SECOND // 10
        for type_, time_ns in ((EventType.INVOKE, at), (EventType.OK, at + SECOND // 20)):
            yield HistoryEvent(
                index=index,
                time_ns=time_ns,
                process=0,
                type=type_,
                f=APPEND,
                topic_partition="log-0",
                value=number,
                error=words if type_ is EventType.OK else None,
            )
            index += 1
    for type_ in (EventType.INVOKE, EventType.INFO):
        yield HistoryEvent(
            index=index,
            time_ns=operations * SECOND // 10,
            process=NEMESIS_PROCESS,
            type=type_,
            f="kill",
            detail=json.dumps({"words": words}),
        )
        index += 1


def _results(folder: Path, verdict: str, words: str) -> dict[str, Any]:
    row = {
        "anomaly": "lost-write",
        "severity": "violation",
        "topic_partition": "log-0",
        "offsets": [2],
        "replicas": [],
        "op_indexes": [0, 1],
        "detail": f"value 2 is gone: {words}",
        "evidence": {"words": words},
    }
    return {
        "run_id": folder.name,
        "verdict": verdict,
        "reasons": ["lost-write: 1" if verdict == "invalid" else f"3 acknowledged writes: {words}"],
        "warnings": [words],
        "checks": {"lost-write": {"kept": "violated" if verdict == "invalid" else "kept", "found": 1, "why": words}},
        "anomalies": [row] if verdict == "invalid" else [],
        "stats": {"append_ok": 3, "events": 8},
        "faults_bit": True,
        "engine": {"name": "local"},
    }
