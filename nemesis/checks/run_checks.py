"""Run every check over every topic-partition of a call: the kernel that each engine calls.

Owns the rule that a check that raises has looked at nothing of its topic-partition and stops nothing else, and the rule
that what only explains an anomaly never takes its place. Columns in, rows and coverage out: no engine, no files, no
state.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar

import pyarrow as pa

from nemesis.checks.anomalies import Anomaly, anomaly_row, anomaly_table, bounded
from nemesis.checks.check import Check, Coverage, LogCheck
from nemesis.checks.cycles import CYCLES, cycles
from nemesis.checks.evidence import as_dumped
from nemesis.checks.partition import (
    Partition,
    operations_of,
    partition_keys,
    replica_logs_of,
    row_groups,
)
from nemesis.checks.registry import LOG_CHECKS
from nemesis.checks.replica_events import replica_events_of
from nemesis.checks.schemas import COVERAGE_SCHEMA, LOG_BATCH_SCHEMA, OPERATION_SCHEMA, RUN_EVENT_SCHEMA
from nemesis.checks.transactions import with_committed
from nemesis.checks.unclean_elections import Cuts

Groups = Mapping[tuple[str, str], pa.Table]
T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckOptions:
    """What the columns do not say: which runs do not tell all that happened to their logs, and which must hold evidence
    of all that they tell."""

    incomplete_runs: frozenset[str] = frozenset()
    evident_runs: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True, kw_only=True)
class Findings:
    """What was found (``ANOMALY_SCHEMA`` in its one order), and what was looked at for it (``COVERAGE_SCHEMA``)."""

    anomalies: pa.Table
    coverage: pa.Table

    def __add__(self, others: Findings) -> Findings:
        anomalies = pa.concat_tables([self.anomalies, others.anomalies])
        return Findings(
            anomalies=anomaly_table(anomalies.to_pylist()), coverage=pa.concat_tables([self.coverage, others.coverage])
        )


@dataclass(slots=True)
class Gathering:
    """What comes together in one call: rows of anomalies, and the coverage of each check of each run."""

    rows: list[dict[str, Any]] = field(default_factory=list)
    coverage: dict[tuple[str, str], Coverage] = field(default_factory=dict)

    def cover(self, run_id: str, topic_partition: str, check: Check, coverage: Coverage) -> None:
        """Add what a check has looked at somewhere; why it has not looked at all there was is said with the place."""
        if coverage == Coverage():
            return
        why = f"{topic_partition}: {coverage.why}" if coverage.why and topic_partition else coverage.why
        placed = Coverage(looked=coverage.looked, missed=coverage.missed, why=why)
        self.coverage[run_id, check.name] = self.coverage.get((run_id, check.name), Coverage()) + placed

    @property
    def findings(self) -> Findings:
        """All of it as tables."""
        covered = [
            {"run_id": run_id, "check": name, "looked": one.looked, "missed": one.missed, "why": one.why}
            for (run_id, name), one in sorted(self.coverage.items())
        ]
        return Findings(
            anomalies=anomaly_table(self.rows), coverage=pa.Table.from_pylist(covered, schema=COVERAGE_SCHEMA)
        )


def judge_partitions(
    operations: pa.Table,
    logs: pa.Table,
    events: pa.Table,
    options: CheckOptions = CheckOptions(),
    checks: Sequence[LogCheck] = LOG_CHECKS,
) -> Findings:
    """Judge each (run_id, topic_partition) of the three tables on its own.

    The tables are ``OPERATION_SCHEMA``, ``LOG_BATCH_SCHEMA`` and ``RUN_EVENT_SCHEMA``, rows in any order, and hold all
    rows of every (run_id, topic_partition) that they hold one of. At most some 2 million operations a call.
    """
    gathering = Gathering()
    groups = tuple(row_groups(table) for table in (operations, logs, events))
    for key in partition_keys(*groups):
        _judge_partition(gathering, key, [group.get(key) for group in groups], options, checks)
    return gathering.findings


def not_judged(key: tuple[str, str], why: str, checks: Sequence[Check] = LOG_CHECKS) -> Findings:
    """What is told of a (run_id, topic_partition) that no check looks at."""
    gathering = Gathering()
    for check in checks:
        gathering.cover(*key, check, Coverage(missed=1, why=why))
    return gathering.findings


def judge_transactions(operations: pa.Table, options: CheckOptions = CheckOptions()) -> Findings:
    """Judge operations that may touch several topic-partitions: each of these on its own, and then all of a run.

    ``operations`` is ``MICRO_OPERATION_SCHEMA``, rows in any order, and has all topic-partitions of each of its runs.
    """
    gathering = Gathering()
    groups = row_groups(with_committed(operations))
    for key in sorted(groups):
        _judge_partition(gathering, key, [groups[key], None, None], options, LOG_CHECKS)
    for run_id in sorted({run_id for run_id, _ in groups}):
        _judge_cycles(gathering, run_id, {key: rows for key, rows in groups.items() if key[0] == run_id}, options)
    return gathering.findings


def _judge_cycles(gathering: Gathering, run_id: str, groups: Groups, options: CheckOptions) -> None:
    """The circles of one run; the row that counts those left out is of no topic-partition."""
    try:
        partitions = [partition_of(key, [groups[key], None, None], options) for key in sorted(groups)]
        search = _Looking(cycles(partitions))
        found = list(search)
        coverage = search.coverage
    except Exception as error:
        found, coverage = [], _crashed("the search for cycles", error)
    for check in CYCLES:
        own = [(anomaly, where) for of, where, anomaly in found if of is check]
        places = {id(anomaly): where for anomaly, where in own}
        gathering.cover(run_id, "", check, coverage)
        gathering.rows += [
            anomaly_row(run_id, places.get(id(anomaly), ""), check.name, anomaly)
            for anomaly in bounded(anomaly for anomaly, _ in own)
        ]


def _judge_partition(
    gathering: Gathering,
    key: tuple[str, str],
    tables: Sequence[pa.Table | None],
    options: CheckOptions,
    checks: Sequence[LogCheck],
) -> None:
    try:
        partition = partition_of(key, tables, options)
    except Exception as error:
        for check in checks:
            gathering.cover(*key, check, _crashed("reading the columns", error))
        return
    explained = _explainer(partition)
    for check in checks:
        rows, coverage = _run(check, partition, explained)
        gathering.cover(*key, check, coverage)
        gathering.rows += [anomaly_row(*key, check.name, anomaly) for anomaly in rows]


class _Looking(Generic[T]):
    """A generator as something to iterate over, which keeps what it returned."""

    def __init__(self, generator: Generator[T, None, Coverage]) -> None:
        self._generator = generator
        self.coverage = Coverage()

    def __iter__(self) -> Iterator[T]:
        self.coverage = yield from self._generator


def _run(
    check: LogCheck, partition: Partition, explained: Callable[[Anomaly], Anomaly]
) -> tuple[list[Anomaly], Coverage]:
    try:
        looking = _Looking(check.run(partition))
        rows = list(bounded(map(explained, looking)))
    except Exception as error:
        return [], _crashed(check.name, error)
    return rows, looking.coverage


def _explainer(partition: Partition) -> Callable[[Anomaly], Anomaly]:
    """Adds to an anomaly why it is there, where that is known; what goes wrong in finding out leaves it as it is."""
    try:
        cuts = Cuts(partition)
    except Exception:
        return lambda anomaly: anomaly

    def explained(anomaly: Anomaly) -> Anomaly:
        try:
            return cuts.explained(anomaly)
        except Exception:
            return anomaly

    return explained


def partition_of(key: tuple[str, str], tables: Sequence[pa.Table | None], options: CheckOptions) -> Partition:
    """One topic-partition from its operations, replica logs and replica events, any of them absent."""
    schemas = (OPERATION_SCHEMA, LOG_BATCH_SCHEMA, RUN_EVENT_SCHEMA)
    operations, logs, events = (
        schema.empty_table() if table is None else table for table, schema in zip(tables, schemas, strict=True)
    )
    own, told = operations_of(operations), replica_events_of(events)
    evidence_due = key[0] in options.evident_runs
    return Partition(
        run_id=key[0],
        topic_partition=key[1],
        operations=own,
        logs=as_dumped(replica_logs_of(logs), own, told, evidence_due=evidence_due),
        events=told,
        history_complete=key[0] not in options.incomplete_runs,
        evidence_due=evidence_due,
    )


def _crashed(what: str, error: Exception) -> Coverage:
    return Coverage(missed=1, why=f"{what} raised {type(error).__name__}: {error}")
