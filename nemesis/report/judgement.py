"""The verdict, each promise and whether it was kept, and each anomaly with its evidence.

Owns the words in which a judgement is told. It never judges by itself and never says more than ``results.json`` does: a
run without results is unknown, and a promise is called what they call it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa

from nemesis.checks.check import Check
from nemesis.checks.high_watermarks import COMMITTED_TRUNCATED
from nemesis.checks.losses import LOST_WRITE
from nemesis.checks.objects import NONLINEARIZABLE
from nemesis.checks.promises import Kept
from nemesis.checks.registry import CHECKS
from nemesis.checks.replica_logs import DIVERGED_LOG
from nemesis.checks.schemas import Severity
from nemesis.report.evidence import operation_rows, shortened, worded
from nemesis.report.final_logs import held_at
from nemesis.report.folder import RunFiles
from nemesis.report.lost_records import lost_records, unlisted
from nemesis.report.operations import Operations
from nemesis.report.timeline import parsed
from nemesis.report.values import AnomalyView, Judgement, OperationRow, Promise, ReplicaLog
from nemesis.verdict import Verdict

ANOMALIES_PER_KIND_MAX = 8
OPERATIONS_PER_ANOMALY_MAX = 12
WORST = (LOST_WRITE.name, DIVERGED_LOG.name, COMMITTED_TRUNCATED.name, NONLINEARIZABLE.name)


def read_judgement(files: RunFiles, operations: Operations, logs: Sequence[ReplicaLog]) -> Judgement:
    """Put ``results.json`` into words; without it the verdict is unknown, and that is the reason."""
    results = files.results
    if results is None:
        return Judgement(
            verdict=Verdict.UNKNOWN,
            reasons=("The run has not been judged: there is no readable results.json.",),
            promises=_promises(None),
        )
    verdict = _verdict(results.get("verdict"))
    rows = [row for row in _list(results.get("anomalies")) if isinstance(row, dict)]
    shown = _bounded(rows)
    found = operation_rows(operations, files.history, [index for row in shown for index in _ints(row, "op_indexes")])
    return Judgement(
        verdict=verdict,
        reasons=_texts(results.get("reasons")),
        warnings=_texts(results.get("warnings")),
        promises=_promises(results.get("checks")),
        anomalies=tuple(_anomaly(number, row, found, files.logs, logs) for number, row in enumerate(shown, 1)),
        anomaly_count=sum(_found(row) for row in rows),
        lost=lost_records(rows),
        lost_unlisted=unlisted(rows),
        stats=_stats(results.get("stats")),
        engine=_engine(results.get("engine")),
    )


def _verdict(text: Any) -> Verdict:
    return Verdict(text) if text in tuple(Verdict) else Verdict.UNKNOWN


def _kind(row: Mapping[str, Any]) -> str:
    return str(row.get("anomaly", "unnamed"))


def _is_violation(row: Mapping[str, Any]) -> bool:
    return bool(row.get("severity", Severity.VIOLATION) == Severity.VIOLATION)


def _is_count(row: Mapping[str, Any]) -> bool:
    """Whether the row only counts those that are left out."""
    return not row.get("op_indexes") and not row.get("offsets") and _found(row) > 1


def _found(row: Mapping[str, Any]) -> int:
    """How many anomalies a row stands for: one, or as many as it says when it only counts those left out."""
    evidence = parsed(row.get("evidence"))
    more = evidence.get("more") if isinstance(evidence, dict) else None
    return more if isinstance(more, int) else 1


def _list(value: Any) -> Sequence[Any]:
    return value if isinstance(value, list) else []


def _ints(row: Mapping[str, Any], key: str) -> tuple[int, ...]:
    return tuple(entry for entry in _list(row.get(key)) if isinstance(entry, int))


def _words(value: Any) -> str:
    return "" if value is None else worded(value)


def _engine(engine: Any) -> str:
    """The engine by its name, then what it ran on: ``spark (java 17.0.15, spark 4.3.0)``."""
    if not isinstance(engine, dict):
        return _words(engine)
    versions = ", ".join(f"{name} {worded(version)}" for name, version in engine.items() if name != "name")
    return f"{worded(engine.get('name', 'unnamed'))} ({versions})" if versions else worded(engine.get("name"))


def _texts(value: Any) -> tuple[str, ...]:
    return (value,) if isinstance(value, str) else tuple(worded(entry) for entry in _list(value))


# --- promises ---------------------------------------------------------------------------------------------------------


def _promises(checks: Any) -> tuple[Promise, ...]:
    """Every promise, as ``results.json`` has it; what that does not tell of was not judged."""
    told = checks if isinstance(checks, dict) else {}
    return tuple(_promise(check, told.get(check.name)) for check in CHECKS)


def _promise(check: Check, told: Any) -> Promise:
    told = told if isinstance(told, dict) else {}
    looked, missed = (told.get(name) or 0 for name in ("looked", "missed"))
    of = f" of {looked + missed:,}" if missed else ""
    return Promise(
        anomaly=check.name,
        sentence=check.promise,
        count=told.get("found") or 0,
        kept=Kept(told["kept"]) if told.get("kept") in tuple(Kept) else Kept.NOT_JUDGED,
        looked=f"{looked:,}{of} {check.needs}" if looked + missed else "",
        why=_words(told.get("why")),
    )


# --- anomalies --------------------------------------------------------------------------------------------------------


def _bounded(rows: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """The first ``ANOMALIES_PER_KIND_MAX`` of each kind, violations before the rest, and the worst kinds first."""
    seen: Counter[str] = Counter()
    shown = []
    for row in sorted(rows, key=lambda row: (not _is_violation(row), _rank(row), _is_count(row))):
        seen[_kind(row)] += 1
        if seen[_kind(row)] <= ANOMALIES_PER_KIND_MAX:
            shown.append(row)
    return shown


def _rank(row: Mapping[str, Any]) -> int:
    """What is lost or diverged comes before what is out of order, and that before the rest."""
    kinds = [*WORST, *(check.name for check in CHECKS)]
    return kinds.index(_kind(row)) if _kind(row) in kinds else len(kinds)


def _anomaly(
    number: int,
    row: Mapping[str, Any],
    found: Mapping[int, OperationRow],
    logs: pa.Table,
    known: Sequence[ReplicaLog],
) -> AnomalyView:
    named = {found[index].index: found[index] for index in _ints(row, "op_indexes") if index in found}
    operations = sorted(named.values(), key=lambda operation: operation.index)
    offsets, topic_partition = _ints(row, "offsets"), str(row.get("topic_partition") or "")
    return AnomalyView(
        number=number,
        anomaly=_kind(row),
        severity=_words(row.get("severity")),
        topic_partition=topic_partition,
        offsets=offsets,
        replicas=_ints(row, "replicas"),
        sentence=worded(row.get("detail") or "No detail was recorded."),
        facts=tuple(fact for fact in _facts(parsed(row.get("evidence"))) if not named or fact[0] != "operations"),
        operations=tuple(operations[:OPERATIONS_PER_ANOMALY_MAX]),
        operations_left_out=max(len(operations) - OPERATIONS_PER_ANOMALY_MAX, 0),
        held=held_at(logs, known, topic_partition, offsets),
    )


def _facts(evidence: Any) -> tuple[tuple[str, str], ...]:
    """Evidence of any shape as pairs of a name and a text."""
    match evidence:
        case None | "":
            return ()
        case dict():
            return tuple((key.replace("_", " "), shortened(worded(value))) for key, value in evidence.items())
        case list():
            return tuple((str(number), shortened(worded(value))) for number, value in enumerate(evidence, 1))
        case _:
            return (("evidence", shortened(worded(evidence))),)


def _stats(stats: Any) -> tuple[tuple[str, str], ...]:
    if not isinstance(stats, dict):
        return ()
    return tuple((key.replace("_", " "), _figure(value)) for key, value in stats.items())


def _figure(value: Any) -> str:
    return f"{value:,}" if isinstance(value, int) and not isinstance(value, bool) else shortened(worded(value))
