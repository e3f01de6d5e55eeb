"""The verdict, each promise and whether it was kept, and each anomaly with its evidence.

Owns the words in which a judgement is told. It never judges by itself and never says more than ``results.json`` does: a
run without results is unknown, and a promise is called kept only under the verdict that says so.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa

from nemesis.checks.schemas import AnomalyName, Severity
from nemesis.report.evidence import operation_rows, shortened, worded
from nemesis.report.final_logs import held_at
from nemesis.report.folder import RunFiles
from nemesis.report.lost_records import lost_records, unlisted
from nemesis.report.operations import Operations
from nemesis.report.timeline import parsed
from nemesis.report.values import AnomalyView, Judgement, Kept, OperationRow, Promise, ReplicaLog
from nemesis.verdict import Verdict

ANOMALIES_PER_KIND_MAX = 8
OPERATIONS_PER_ANOMALY_MAX = 12
PROMISES: Mapping[AnomalyName, str] = {
    AnomalyName.LOST_WRITE: "A write that was acknowledged stays in the log.",
    AnomalyName.DUPLICATE: "A value that was written once stands in the log once.",
    AnomalyName.INCONSISTENT_OFFSETS: "One offset holds one value, whoever reads it and whenever.",
    AnomalyName.PHANTOM_READ: "Nobody reads a value that nobody wrote.",
    AnomalyName.ABORTED_READ: "Nobody reads a value whose write definitely failed.",
    AnomalyName.PRECOMMITTED_READ: "No transaction reads its own writes before it is committed.",
    AnomalyName.UNCOMMITTED_READ: "Nobody reads at or above the high watermark.",
    AnomalyName.NONMONOTONIC_POLL: "A consumer that polls on never goes back.",
    AnomalyName.POLL_SKIP: "A consumer that polls on skips no value.",
    AnomalyName.INT_NONMONOTONIC_POLL: "What one poll returns ascends.",
    AnomalyName.INT_POLL_SKIP: "What one poll returns passes over no value.",
    AnomalyName.NONMONOTONIC_SEND: "What a process sends later stands behind what it sent before.",
    AnomalyName.INT_NONMONOTONIC_SEND: "What a transaction sends later stands behind what it sent before.",
    AnomalyName.INT_SEND_SKIP: "What a transaction sends stands together; the log does not promise that.",
    AnomalyName.WRITE_CYCLE: "Transactions stand in one order in all logs; the log does not promise that.",
    AnomalyName.WRITE_CYCLE_PROCESS: "What a process does later stands later in all logs; not promised either.",
    AnomalyName.WRITE_CYCLE_REALTIME: "What begins later stands later in all logs; not promised either.",
    AnomalyName.CIRCULAR_INFORMATION_FLOW: "No transaction reads what follows from its own writes.",
    AnomalyName.CIRCULAR_INFORMATION_FLOW_PROCESS: "No transaction reads what its process has yet to do.",
    AnomalyName.CIRCULAR_INFORMATION_FLOW_REALTIME: "No transaction reads what begins after it is over.",
    AnomalyName.REALTIME_REORDER: "A write that begins after another was acknowledged stands behind it.",
    AnomalyName.STALE_READ: "A read that promises recency shows all that was known before it began.",
    AnomalyName.HOLE: "Every offset below the end of the log was filled by a write.",
    AnomalyName.UNSEEN: "Every acknowledged write is seen by the end.",
    AnomalyName.FENCED_ACKNOWLEDGEMENT: "Once a leader has acknowledged, none of an earlier epoch does.",
    AnomalyName.DUPLICATE_SEQUENCE: "What an idempotent producer repeats stands in the log once.",
    AnomalyName.OUT_OF_ORDER_SEQUENCE: "An idempotent producer's batches stand in the order of their numbers.",
    AnomalyName.DIVERGED_LOG: "Below the high watermark all replicas hold the same batches.",
    AnomalyName.COMMITTED_TRUNCATED: "No replica cuts off what it has said to be committed.",
    AnomalyName.HIGH_WATERMARK_REGRESSION: "A leader's high watermark never falls in its epoch.",
    AnomalyName.INCOMPLETE_ISR: "Every replica in sync has everything that is committed.",
    AnomalyName.ISR_NOT_RESTORED: "When all has healed, all replicas are in sync again.",
    AnomalyName.EPOCH_REGRESSION: "Along a log the leader epoch never falls.",
    AnomalyName.TWO_LEADERS: "One epoch has one leader.",
    AnomalyName.REPLICA_STOPPED: "A replica ends only when it is told or killed.",
    AnomalyName.NONLINEARIZABLE: "Every operation on an object takes effect at one moment between call and answer.",
    AnomalyName.WRONG_ORDER: "Operations on an object take effect in the order of their revisions.",
    AnomalyName.MISSING_EVIDENCE: "Everything that could show a violation was recorded and is there.",
    AnomalyName.MALFORMED_OPERATION: "Every operation was recorded with all that its kind needs.",
    AnomalyName.CHECK_CRASHED: "Every check ran to its end.",
}
"""What holds as long as the anomaly does not occur; the last three are promises of the harness, not of the log."""

OF_OBJECTS = frozenset({AnomalyName.NONLINEARIZABLE.value, AnomalyName.WRONG_ORDER.value})
OF_REPLICAS = frozenset(
    {
        AnomalyName.DIVERGED_LOG,
        AnomalyName.COMMITTED_TRUNCATED,
        AnomalyName.HIGH_WATERMARK_REGRESSION,
        AnomalyName.INCOMPLETE_ISR,
        AnomalyName.ISR_NOT_RESTORED,
        AnomalyName.EPOCH_REGRESSION,
        AnomalyName.TWO_LEADERS,
        AnomalyName.REPLICA_STOPPED,
        AnomalyName.MISSING_EVIDENCE,
        AnomalyName.MALFORMED_OPERATION,
        AnomalyName.CHECK_CRASHED,
    }
)
"""The kinds that are looked for whatever the clients did; the others are of operations, on objects or on logs."""
OF_LOGS = frozenset(name.value for name in AnomalyName if name not in OF_OBJECTS | OF_REPLICAS)


def read_judgement(files: RunFiles, operations: Operations, logs: Sequence[ReplicaLog]) -> Judgement:
    """Put ``results.json`` into words; without it the verdict is unknown, and that is the reason."""
    results = files.results
    if results is None:
        return Judgement(
            verdict=Verdict.UNKNOWN,
            reasons=("The run has not been judged: there is no readable results.json.",),
            promises=_promises((), Verdict.UNKNOWN, frozenset()),
        )
    verdict = _verdict(results.get("verdict"))
    rows = [row for row in _list(results.get("anomalies")) if isinstance(row, dict)]
    shown = _bounded(rows)
    found = operation_rows(operations, files.history, [index for row in shown for index in _ints(row, "op_indexes")])
    return Judgement(
        verdict=verdict,
        reasons=_texts(results.get("reasons")),
        warnings=_texts(results.get("warnings")),
        promises=_promises(rows, verdict, _blind(files, logs)),
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


def _promises(rows: Sequence[Mapping[str, Any]], verdict: Verdict, blind: frozenset[str]) -> tuple[Promise, ...]:
    counted: Counter[str] = Counter()
    violated = {_kind(row) for row in rows if _is_violation(row)}
    for row in rows:
        counted[_kind(row)] += _found(row)
    kinds = [*(name.value for name in PROMISES), *sorted(set(counted) - set(PROMISES))]
    sentences = {name.value: sentence for name, sentence in PROMISES.items()}
    return tuple(
        Promise(
            anomaly=kind,
            sentence=sentences.get(kind, "This anomaly does not occur."),
            count=counted[kind],
            kept=_kept(counted[kind], kind in violated, verdict, kind not in blind),
        )
        for kind in kinds
    )


def _blind(files: RunFiles, logs: Sequence[ReplicaLog]) -> frozenset[str]:
    """The kinds that could not have been found, because what would show them was not recorded."""
    # Control records take offsets too, so a gap in what was read proves nothing: no recorded run is judged for it.
    blind = {AnomalyName.HOLE.value} | (OF_LOGS if _is_on_objects(files) else OF_OBJECTS)
    if sum(log.is_complete for log in logs) < 2:
        blind.add(AnomalyName.DIVERGED_LOG.value)
    if not files.events.num_rows:
        blind |= {AnomalyName.TWO_LEADERS.value, AnomalyName.REPLICA_STOPPED.value}
    return frozenset(blind)


def _is_on_objects(files: RunFiles) -> bool:
    stats = files.results.get("stats") if files.results is not None else None
    return isinstance(stats, dict) and bool(stats.get("objects"))


def _kept(count: int, is_violated: bool, verdict: Verdict, is_judged: bool) -> Kept:
    if is_violated:
        return Kept.VIOLATED
    if count:
        return Kept.UNDECIDED
    return Kept.KEPT if is_judged and verdict is not Verdict.UNKNOWN else Kept.NOT_JUDGED


# --- anomalies --------------------------------------------------------------------------------------------------------


def _bounded(rows: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """The first ``ANOMALIES_PER_KIND_MAX`` of each kind, violations before the rest."""
    seen: Counter[str] = Counter()
    shown = []
    for row in sorted(rows, key=lambda row: not _is_violation(row)):
        seen[_kind(row)] += 1
        if seen[_kind(row)] <= ANOMALIES_PER_KIND_MAX:
            shown.append(row)
    return shown


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
        facts=_facts(parsed(row.get("evidence"))),
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
