"""An anomaly as a value, and rows of them as an Arrow table.

Owns the order of rows (it is part of the result: two engines must give the same table) and the bound on how many of one
kind are shown. Knows no rule.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa

from nemesis.checks.schemas import ANOMALY_SCHEMA, Severity

ROWS_MAX = 100
"""Rows of one anomaly shown for one topic-partition; one more row counts the others."""
LISTED_MAX = 20
"""Offsets, values or operations listed in one row."""
RECORDS_MAX = 10_000
"""Records listed in the row that counts the others."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Anomaly:
    """What one check found in one topic-partition. Lists are cut to ``LISTED_MAX``; ``evidence`` must be JSON.

    ``is_loss`` says that a record is gone, which has a cause and is listed wherever it is counted.
    """

    detail: str
    severity: Severity = Severity.VIOLATION
    offsets: Sequence[int] = ()
    op_indexes: Sequence[int] = ()
    replicas: Sequence[int] = ()
    evidence: Mapping[str, Any] = field(default_factory=dict)
    is_loss: bool = False


def bounded(anomalies: Iterable[Anomaly], rows_max: int = ROWS_MAX) -> Iterator[Anomaly]:
    """The first ``rows_max`` of each severity of what one check found, then one row for each that has more."""
    counts: Counter[Severity] = Counter()
    others: dict[Severity, _Others] = {}
    for anomaly in anomalies:
        counts[anomaly.severity] += 1
        if counts[anomaly.severity] <= rows_max:
            yield anomaly
        else:
            others.setdefault(anomaly.severity, _Others()).add(anomaly)
    for severity, rest in sorted(others.items()):
        yield Anomaly(severity=severity, detail=f"{rest.count} more of the same kind", evidence=rest.evidence)


@dataclass(slots=True)
class _Others:
    """What is told of the anomalies of a kind that get no row: how many, why, and which records are lost."""

    count: int = 0
    causes: Counter[str] = field(default_factory=Counter)
    cuts: Counter[str] = field(default_factory=Counter)
    records: list[dict[str, Any]] = field(default_factory=list)

    def add(self, anomaly: Anomaly) -> None:
        self.count += 1
        told = {name: anomaly.evidence[name] for name in ("value", "cause") if name in anomaly.evidence}
        if "cause" in told:
            self.causes[told["cause"]] += 1
        if "cut_by" in anomaly.evidence:
            self.cuts[anomaly.evidence["cut_by"]] += 1
        if anomaly.is_loss and anomaly.offsets and len(self.records) < RECORDS_MAX:
            self.records.append({"offset": anomaly.offsets[0], **told})

    @property
    def evidence(self) -> dict[str, Any]:
        told: dict[str, Any] = {"more": self.count}
        if self.causes:
            told["causes"] = dict(self.causes)
        if self.cuts:
            told["cuts"] = dict(self.cuts)
        if self.records:
            told["records"] = self.records
        return told


def anomaly_row(run_id: str, topic_partition: str, name: str, anomaly: Anomaly) -> dict[str, Any]:
    """One row of ``ANOMALY_SCHEMA``: what the check of this name found."""
    return {
        "run_id": run_id,
        "topic_partition": topic_partition,
        "anomaly": name,
        "severity": anomaly.severity.value,
        "offsets": list(anomaly.offsets[:LISTED_MAX]),
        "op_indexes": list(anomaly.op_indexes[:LISTED_MAX]),
        "replicas": list(anomaly.replicas[:LISTED_MAX]),
        "detail": anomaly.detail,
        "evidence": json.dumps(anomaly.evidence, sort_keys=True, separators=(",", ":")),
    }


def anomaly_table(rows: Iterable[dict[str, Any]]) -> pa.Table:
    """Rows in their one order: by every column from left to right."""
    return pa.Table.from_pylist(sorted(rows, key=row_order), schema=ANOMALY_SCHEMA)


def row_order(row: Mapping[str, Any]) -> tuple[Any, ...]:
    """The sort key of an anomaly row: its columns from left to right."""
    return tuple(row[name] for name in ANOMALY_SCHEMA.names)
