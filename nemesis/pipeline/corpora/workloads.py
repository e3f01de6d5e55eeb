"""Histories of Kafka workloads, judged file by file by the checks of logs: one file, or a corpus of them.

Owns what is told of a file, what its verdict is, and the two drivers of a corpus, which give equal rows: the kernel is
``judge_workload``. A file of a corpus that cannot be read is *unknown*, with the reason, and stops no other. What the
checks need and a history does not have, such as the replicas' logs, they do without.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from nemesis.checks.anomalies import anomaly_table
from nemesis.checks.promises import Kept, blind_spots, checked, not_judged
from nemesis.checks.run_checks import judge_transactions
from nemesis.checks.schemas import ANOMALY_SCHEMA, Severity
from nemesis.checks.verdict import undecided
from nemesis.formats.kafka_operations import micro_operations
from nemesis.formats.keyed import KeyPairs
from nemesis.formats.reading import ReadHistory, read_history_file
from nemesis.formats.recognise import Format
from nemesis.pipeline.corpora.engine import Session
from nemesis.pipeline.corpora.histories import File, each_judged, reason_of
from nemesis.pipeline.corpora.schemas import ANOMALIES
from nemesis.pipeline.engine import EngineName
from nemesis.verdict import Verdict

RUNS = "runs"
_ABOUT = [
    pa.field("run_id", pa.string(), nullable=False),
    pa.field("format", pa.string(), nullable=False),
    pa.field("verdict", pa.string(), nullable=False),
    pa.field("reasons", pa.list_(pa.string()), nullable=False),
    pa.field("kept", pa.list_(pa.string()), nullable=False),
    pa.field("not_judged", pa.list_(pa.string()), nullable=False),
    pa.field("events", pa.int64(), nullable=False),
    pa.field("events_of_others", pa.int64(), nullable=False),
    pa.field("topic_partitions", pa.int64(), nullable=False),
]
RUN_ROWS = pa.schema(_ABOUT)
"""One file a row. ``reasons`` has a sentence for each kind of anomaly and for what could not be looked at, ``kept`` the
names of the checks that found nothing, ``not_judged`` a sentence for each thing that checks had none of; ``format`` is
empty where nobody could tell."""
WORKLOAD_ROWS = pa.schema([*_ABOUT, pa.field("anomalies", pa.list_(pa.struct(list(ANOMALY_SCHEMA))), nullable=False)])
"""The same with its anomalies: what a task gives back of a file."""
SUFFIXES = {Severity.VIOLATION: "", Severity.UNKNOWN: " (undecided)", Severity.ALLOWED: " (allowed)"}


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkloadResults:
    """What was found in a corpus: ``runs`` (``RUN_ROWS``) in the order of the files, all ``ANOMALY_SCHEMA`` rows."""

    verdict: Verdict
    runs: pa.Table
    anomalies: pa.Table


def read_workload(path: Path, format: Format | None) -> tuple[ReadHistory, pa.Table]:
    """A history and its operations (``MICRO_OPERATION_SCHEMA``).

    Raises HistoryError for a file that is no history of a Kafka workload.
    """
    history = read_history_file(path, format=format, key_pairs=KeyPairs.NO)
    return history, micro_operations(history.events, history.path)


def judge_workload(run_id: str, history: ReadHistory, operations: pa.Table) -> dict[str, Any]:
    """One row of ``WORKLOAD_ROWS``."""
    findings = judge_transactions(operations)
    rows = [row | {"run_id": run_id} for row in findings.anomalies.to_pylist()]
    if history.doubt is not None:
        rows = [dict(undecided(row)) for row in rows]
    checks = checked(rows, findings.coverage.to_pylist(), is_whole=history.doubt is None)
    blind = [*blind_spots(checks), *filter(None, [history.doubt])]
    verdict, reasons = _decided(operations, rows, blind)
    return {
        "run_id": run_id,
        "format": history.format.value,
        "verdict": verdict.value,
        "reasons": reasons,
        "kept": [check.name for check in checks if check.kept is Kept.KEPT],
        "not_judged": list(not_judged(checks)),
        "events": len(history.events),
        "events_of_others": history.skipped,
        "topic_partitions": len(pc.unique(operations.column("topic_partition"))),
        "anomalies": rows,
    }


def _decided(operations: pa.Table, rows: Sequence[dict[str, Any]], blind: Sequence[str]) -> tuple[Verdict, list[str]]:
    """The verdict, and one sentence for each kind of anomaly and for each thing that was not looked at (``blind``)."""
    found: Counter[tuple[str, str]] = Counter()
    for row in rows:
        found[(row["severity"], row["anomaly"])] += json.loads(row["evidence"]).get("more", 1)
    reasons = [f"{name}: {found[(severity, name)]}{SUFFIXES[Severity(severity)]}" for severity, name in sorted(found)]
    reasons += blind
    severities = {severity for severity, _ in found}
    if Severity.VIOLATION in severities:
        return Verdict.INVALID, reasons
    promised = set(zip(operations.column("f").to_pylist(), operations.column("type").to_pylist(), strict=True))
    if ("append", "ok") not in promised:
        return Verdict.UNKNOWN, [*reasons, "nothing was acknowledged, so nothing was promised"]
    return (Verdict.UNKNOWN if Severity.UNKNOWN in severities or blind else Verdict.VALID), reasons


def judge_workloads(
    files: Sequence[Path],
    *,
    format: Format | None = None,
    engine: EngineName | str = EngineName.SPARK,
    master: str = "local[*]",
    spark: Session | None = None,
) -> WorkloadResults:
    """Judge all files, on Spark in one job; the runs of the results are the files. See ``judge_store``."""
    judge = partial(_judged, format=format)
    found = each_judged(files, judge, WORKLOAD_ROWS, engine=engine, master=master, spark=spark)
    return _results_of(found, [str(path) for path in files])


def _judged(file: File, format: Format | None) -> pa.Table:
    """What is told of a file of a corpus, also of one that cannot be read."""
    try:
        row = judge_workload(file[1], *read_workload(Path(file[2]), format))
    except Exception as error:  # one file's fault must not end the job; nothing is said of what is in it
        row = dict.fromkeys(("events", "events_of_others", "topic_partitions"), 0)
        row |= {"run_id": file[1], "format": "", "verdict": Verdict.UNKNOWN.value}
        row |= {"reasons": [reason_of(error)]} | {name: [] for name in ("kept", "not_judged", "anomalies")}
    return pa.Table.from_pylist([row], schema=WORKLOAD_ROWS)


def _results_of(found: pa.Table, order: Sequence[str]) -> WorkloadResults:
    places = {run_id: place for place, run_id in enumerate(order)}
    rows = sorted(found.to_pylist(), key=lambda row: places[row["run_id"]])
    verdict = Verdict.worst(row["verdict"] for row in rows)
    anomalies = anomaly_table(anomaly for row in rows for anomaly in row.pop("anomalies"))
    return WorkloadResults(verdict=verdict, runs=pa.Table.from_pylist(rows, schema=RUN_ROWS), anomalies=anomalies)


def write_workloads(results: WorkloadResults, folder: Path) -> None:
    """Write ``runs``, partitioned by verdict, and ``anomalies``, partitioned by severity. Raises FileExistsError."""
    for name, table, by in ((RUNS, results.runs, "verdict"), (ANOMALIES, results.anomalies, "severity")):
        (folder / name).mkdir(parents=True)
        pq.write_to_dataset(table, folder / name, partition_cols=[by], compression="zstd")
