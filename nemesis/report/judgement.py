"""The verdict, each promise and whether it was kept, and each anomaly with its evidence.

Owns the words in which a judgement is told. It never judges by itself and never says more than ``results.json`` does: a
run without results is unknown, and a promise is called what they call it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from nemesis.checks.check import Check
from nemesis.checks.high_watermarks import COMMITTED_TRUNCATED
from nemesis.checks.losses import LOST_WRITE
from nemesis.checks.objects import NONLINEARIZABLE
from nemesis.checks.promises import Kept
from nemesis.checks.registry import CHECKS
from nemesis.checks.replica_logs import DIVERGED_LOG
from nemesis.checks.schemas import Severity
from nemesis.history.events import FINAL_READ, ON_LOGS
from nemesis.report.evidence import operation_rows, shortened, tables_of, worded
from nemesis.report.final_logs import held_at
from nemesis.report.folder import RunFiles
from nemesis.report.lost_records import lost_records, unlisted
from nemesis.report.operations import Operations
from nemesis.report.timeline import parsed
from nemesis.report.values import (
    AnomalyKind,
    AnomalyView,
    Judgement,
    Moment,
    OperationRow,
    Promise,
    ReplicaLog,
)
from nemesis.verdict import Verdict

ANOMALIES_PER_KIND_MAX = 8
OPERATIONS_PER_ANOMALY_MAX = 12
OF_CLIENTS_OF_LOGS = (
    *("acknowledged", "acknowledgements", "values", "offsets", "records", "polls", "writes", "strict", "operations"),
)
"""With these words begins what only clients of logs give a check to look at."""
_INDEX = "invoke_index"
_SHOWN = frozenset(
    {"process", "f", "type", "return_index", "invoke_ns", "return_ns", "value", "offset", "node", "error"}
)
"""What the table of the operations involved has of each, beside its index."""
WORST = (LOST_WRITE.name, DIVERGED_LOG.name, COMMITTED_TRUNCATED.name, NONLINEARIZABLE.name)


def read_judgement(files: RunFiles, operations: Operations, logs: Sequence[ReplicaLog]) -> Judgement:
    """Put ``results.json`` into words; without it the verdict is unknown, and that is the reason."""
    results = files.results
    if results is None:
        return Judgement(
            verdict=Verdict.UNKNOWN,
            reasons=("The run has not been judged: there is no readable results.json.",),
            promises=_promises(None, frozenset()),
        )
    verdict = _verdict(results.get("verdict"))
    rows = [row for row in _list(results.get("anomalies")) if isinstance(row, dict)]
    shown = _shown(rows)
    found = operation_rows(operations, files.history, [index for row in shown for index in _ints(row, "op_indexes")])
    anomalies = [_anomaly(number, row, found, files.logs, logs) for number, row in enumerate(shown, 1)]
    return Judgement(
        verdict=verdict,
        reasons=_texts(results.get("reasons")),
        warnings=_texts(results.get("warnings")),
        promises=_promises(results.get("checks"), frozenset(_client_functions(files.history))),
        kinds=_kinds(rows, anomalies),
        anomalies=tuple(anomalies),
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


def _promises(checks: Any, functions: Collection[str]) -> tuple[Promise, ...]:
    """Every promise, as ``results.json`` has it; what that does not tell of was not judged."""
    told = checks if isinstance(checks, dict) else {}
    return tuple(_promise(check, told.get(check.name), functions) for check in CHECKS)


def _client_functions(history: pa.Table) -> list[str]:
    names: list[str] = history.filter(pc.greater_equal(history.column("process"), 0)).column("f").unique().to_pylist()
    return names


def _is_absent(check: Check, functions: Collection[str]) -> bool:
    """Whether a run whose clients did this, and where there was nothing for the check to look at, has no such thing."""
    if not functions or check.needs.startswith("transactions"):
        return bool(functions)
    if check.needs.startswith("objects"):
        return ON_LOGS.issuperset(functions)
    return check.needs.startswith(OF_CLIENTS_OF_LOGS) and ON_LOGS.isdisjoint(functions)


def _promise(check: Check, told: Any, functions: Collection[str]) -> Promise:
    told = told if isinstance(told, dict) else {}
    kept = Kept(told["kept"]) if told.get("kept") in tuple(Kept) else Kept.NOT_JUDGED
    looked, missed = (told.get(name) or 0 for name in ("looked", "missed"))
    of = f" of {looked + missed:,}" if missed else ""
    return Promise(
        anomaly=check.name,
        sentence=check.promise,
        count=told.get("found") or 0,
        kept=kept,
        looked=f"{looked:,}{of} {check.needs}" if looked + missed else "",
        why=_words(told.get("why")),
        is_absent=kept is Kept.NOT_JUDGED and not missed and _is_absent(check, functions),
    )


# --- anomalies --------------------------------------------------------------------------------------------------------


def _shown(rows: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """The first ``ANOMALIES_PER_KIND_MAX`` of each kind, violations before the rest, and the worst kinds first.

    A row that only counts those left out is shown where its kind has no other.
    """
    seen: Counter[str] = Counter()
    shown = []
    for row in sorted(rows, key=lambda row: (not _is_violation(row), _rank(row), _kind(row), _is_count(row))):
        if seen[_kind(row)] < (1 if _is_count(row) else ANOMALIES_PER_KIND_MAX):
            seen[_kind(row)] += 1
            shown.append(row)
    return shown


def _kinds(rows: Sequence[Mapping[str, Any]], anomalies: Sequence[AnomalyView]) -> tuple[AnomalyKind, ...]:
    """The anomalies by name, in the order in which the first of each is shown."""
    promises = {check.name: check.promise for check in CHECKS}
    own = {
        name: [row for row in rows if _kind(row) == name] for name in dict.fromkeys(one.anomaly for one in anomalies)
    }
    return tuple(
        AnomalyKind(
            name=name,
            promise=promises.get(name, ""),
            is_violation=any(map(_is_violation, found)),
            count=sum(map(_found, found)),
            listed=sum(not _is_count(row) for row in found),
        )
        for name, found in own.items()
    )


def _without_what_the_table_shows(evidence: Any) -> Any:
    """Of the operations in an evidence, which have a table of their own, what that does not say."""
    told = evidence.get("operations") if isinstance(evidence, dict) else None
    if not isinstance(told, list) or not all(isinstance(entry, dict) for entry in told):
        return evidence
    more = [{name: value for name, value in entry.items() if name not in _SHOWN} for entry in told]
    others = {name: part for name, part in evidence.items() if name != "operations"}
    return {**others, "more of the operations": more} if any(entry.keys() - {_INDEX} for entry in more) else others


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
    evidence = parsed(row.get("evidence"))
    if set(_ints(row, "op_indexes")) <= set(found):
        evidence = _without_what_the_table_shows(evidence)
    tables = tables_of(evidence)
    return AnomalyView(
        number=number,
        anomaly=_kind(row),
        severity=_words(row.get("severity")),
        topic_partition=topic_partition,
        offsets=offsets,
        replicas=_ints(row, "replicas"),
        sentence=worded(row.get("detail") or "No detail was recorded."),
        moment=_moment(operations),
        facts=_facts(evidence, {table.name for table in tables}),
        tables=tables,
        operations=tuple(operations[:OPERATIONS_PER_ANOMALY_MAX]),
        operations_left_out=max(len(operations) - OPERATIONS_PER_ANOMALY_MAX, 0),
        held=held_at(logs, known, topic_partition, offsets),
    )


def _moment(operations: Sequence[OperationRow]) -> Moment | None:
    """When they ran, and when the last one ended that is no final read: that only brings to light what was before."""
    before = [operation for operation in operations if operation.f != FINAL_READ] or operations
    starts = [operation.invoked_s for operation in operations if operation.invoked_s is not None]
    if not starts:
        return None
    return Moment(start_s=min(starts), end_s=max(map(_end_s, operations)), at_s=max(map(_end_s, before)))


def _end_s(operation: OperationRow) -> float:
    return (operation.invoked_s or 0.0) if operation.returned_s is None else operation.returned_s


def _facts(evidence: Any, in_tables: Collection[str]) -> tuple[tuple[str, str], ...]:
    """Evidence of any shape as pairs of a name and a text, but for what is in tables."""
    match evidence:
        case None | "":
            return ()
        case dict():
            named = ((key.replace("_", " "), value) for key, value in evidence.items())
            return tuple((name, shortened(worded(value))) for name, value in named if name not in in_tables)
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
