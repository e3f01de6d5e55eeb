"""What comes sorted by topic-partition is judged as a run is judged by one process, and held one at a time."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import Any

import pyarrow as pa
import pytest

from nemesis.checks.anomalies import anomaly_table
from nemesis.checks.promises import blind_spots, checked
from nemesis.checks.run_checks import CheckOptions, Findings
from nemesis.checks.verdict import RunCounts
from nemesis.history.reader import list_shards, read_table
from nemesis.history.schemas import HISTORY_SCHEMA, Kind
from nemesis.pipeline.key_by_key import FACT_SCHEMA, HEARD, Task, join_runs, judge_keys, told_of
from nemesis.pipeline.local import dumped_logs, judge_tables
from nemesis.workload.append import AppendWorkload
from nemesis.workload.register import RegisterWorkload
from tests.checks.simulation import simulate
from tests.pipeline.object_runs import used_store
from tests.pipeline.recorded import cluster_run, record_run
from tests.workload.fake_store import LostUpdates

Tables = tuple[pa.Table, pa.Table, pa.Table]


def tables_of(folder: Path) -> Tables:
    """History, logs and events of a run."""
    history, logs, events = (read_table(list_shards(folder, kind)) for kind in (Kind.HISTORY, Kind.LOGS, Kind.EVENTS))
    return history, logs, events


def facts_of(run_id: str, tables: Tables) -> pa.Table:
    """The facts of a run, in the order in which Spark gives them."""
    history, logs, events = tables
    heard = dumped_logs(history, run_id).drop_columns("run_id")
    rows: list[tuple[tuple[Any, ...], dict[str, Any]]] = []
    for name, table in ((Kind.HISTORY, history), (Kind.LOGS, logs), (Kind.EVENTS, events), (HEARD, heard)):
        for row in table.to_pylist():
            order: tuple[Any, ...] = ()
            key = row["topic_partition"] or ""
            if name is Kind.HISTORY:
                is_end = row["type"] != "invoke"
                key = key if row["process"] >= 0 else ""
                operation = row["invoked"] if is_end else row["index"]
                order = row["process"], -(2**63) if operation is None else operation, is_end, row["index"]
            rows.append(((key, order), {"run_id": run_id, "topic_partition": key, str(name): row}))
    return pa.Table.from_pylist([row for _, row in sorted(rows, key=lambda pair: pair[0])], schema=FACT_SCHEMA)


def judged(facts: list[pa.Table], task: Task, batch_rows: int) -> tuple[Findings, dict[str, RunCounts]]:
    """What is told of runs whose facts come in batches of so many rows."""
    batches = pa.concat_tables(facts).combine_chunks().to_batches(max_chunksize=batch_rows)
    told = list(join_runs(judge_keys(batches, task)))
    return told_of(pa.Table.from_batches(told))


@pytest.fixture
def folders(tmp_path: Path) -> list[Path]:
    """Runs on logs, right and wrong, and one on objects."""
    runs = [record_run(tmp_path / f"sim-{seed}", simulate(seed, seed % 4), faults=1) for seed in range(4)]
    runs.append(record_run(tmp_path / "cluster", cluster_run()))
    return [*runs, used_store(tmp_path / "objects", RegisterWorkload, LostUpdates(Random(3)), events=200)]


@pytest.mark.parametrize("batch_rows", [3, 10_000])
def test_keys_come_to_what_the_run_is(folders: list[Path], batch_rows: int) -> None:
    """Whatever the batches, the rows, the coverage and the counts of each run are those of the run as a whole."""
    tables = {folder.name: tables_of(folder) for folder in folders}
    task = Task(options=CheckOptions(incomplete_runs=frozenset({"objects"})), workloads={"objects": RegisterWorkload})
    found, counts = judged([facts_of(name, own) for name, own in sorted(tables.items())], task, batch_rows)
    anomalies = 0
    for name, own in tables.items():
        workload = task.workloads.get(name, AppendWorkload)
        whole_counts, whole = judge_tables(name, *own, whole=True, workload=workload)
        rows = [row for row in found.anomalies.to_pylist() if row["run_id"] == name]
        covered = [row for row in found.coverage.to_pylist() if row["run_id"] == name]
        assert anomaly_table(rows).equals(whole.anomalies)
        assert checked(rows, covered, is_whole=True) == checked(rows, whole.coverage.to_pylist(), is_whole=True)
        assert counts[name] == whole_counts
        anomalies += len(rows)
    assert anomalies > 5


def test_too_much_of_one_log_is_unknown_and_counted(folders: list[Path]) -> None:
    """A topic-partition that weighs too much is not looked at, which is said with the numbers; others are judged."""
    cluster, large = tables_of(folders[4]), tables_of(folders[0])
    task = Task(options=CheckOptions(), weight_max=40)
    found, counts = judged([facts_of("cluster", cluster), facts_of("large", large)], task, 10)
    blind = [row for row in found.coverage.to_pylist() if row["missed"]]
    assert {row["run_id"] for row in blind} == {"large"}
    assert all("rows and records are more than are judged at once, 40" in row["why"] for row in blind)
    assert counts["large"] == judge_tables("large", *large, whole=True)[0]
    checks = checked([], [row for row in found.coverage.to_pylist() if row["run_id"] == "large"], is_whole=True)
    assert len(list(blind_spots(checks))) == 1


def endless(operations: int, log: str) -> Iterator[pa.RecordBatch]:
    """The facts of a log with so many appends by one process, in batches of a thousand."""
    for first in range(0, operations, 1_000):
        rows = range(first, min(first + 1_000, operations))
        events: list[dict[str, Any]] = []
        for k in rows:
            about = {"process": 0, "f": "append", "topic_partition": log, "value": k, "time_ns": k}
            events.append(about | {"index": 2 * k, "type": "invoke"})
            events.append(about | {"index": 2 * k + 1, "type": "ok", "invoked": 2 * k, "offset": k})
        history = pa.Table.from_pylist(events, schema=HISTORY_SCHEMA).to_pylist()
        facts = [{"run_id": "run", "topic_partition": log, "history": event} for event in history]
        yield from pa.Table.from_pylist(facts, schema=FACT_SCHEMA).to_batches()


def test_memory_is_that_of_what_is_judged_at_once() -> None:
    """Of a log that is too large nothing is kept: ten times as many operations take no more memory."""
    peaks = []
    for operations in (3_000, 30_000):
        batches, most = endless(operations, "log-0"), 0

        def watched(batches: Iterator[pa.RecordBatch] = batches) -> Iterator[pa.RecordBatch]:
            nonlocal most
            for batch in batches:
                yield batch
                most = max(most, pa.total_allocated_bytes())

        before = pa.total_allocated_bytes()
        told = list(join_runs(judge_keys(watched(), Task(options=CheckOptions(), weight_max=2_000))))
        counts = told_of(pa.Table.from_batches(told))[1]["run"]
        assert (counts.append_ok, counts.repeated, counts.orphans) == (operations, 0, 0)
        peaks.append(most - before)
    assert peaks[1] < 1.5 * peaks[0]
