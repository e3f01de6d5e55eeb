"""How much memory judging runs on Spark takes: one log of many operations, and a corpus of many runs.

Owns the histories and the limits: two executors of one core, each a JVM and a Python worker of 1 GiB at most, which
is 2 GiB for each. The Python workers have it as a limit on their address space (``spark.executor.pyspark.memory``), so
that more of it is an error and no figure. The log has twice as many events as operations, appends and polls by turns;
the runs are copies of some small ones. Told are the verdicts, how long it took, CPU time of all processes and the peak
of the one Python process that took most, which may be the session's own. Writes ``store/bench-pipeline-memory.json``.
"""

from __future__ import annotations

import json
import os
import shutil
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import click
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from benchmarks.result import write_result
from benchmarks.watch import Watch
from nemesis.history.schemas import COMPLETE_MARKER, HISTORY_SCHEMA, REPLICA_EVENT_SCHEMA, REPLICA_LOG_SCHEMA, Kind
from nemesis.history.writer import shard_name
from nemesis.pipeline import judge_runs

MIB = 1024 * 1024
EXECUTORS = "local-cluster[2,1,1024]"
PYTHON_MEMORY = "1g"
PART_OPERATIONS = 500_000
BATCH_VALUES = 1_000
LOG = "log-0"
PROCESSES = 8
SOME_RUNS = 50
OUTPUT = Path("store/bench-pipeline-memory.json")


def history_part(first: int, count: int) -> pa.Table:
    """The events of operations from ``first`` on: an append, and then a poll of what it put there."""
    k = np.repeat(np.arange(first, first + count), 2)
    is_end = np.tile([False, True], count)
    is_poll, value = k % 2 == 1, k // 2
    index = 2 * k + is_end
    has_records = is_end & is_poll
    lists = pa.ListArray.from_arrays(
        pa.array(np.concatenate(([0], np.cumsum(has_records))), pa.int32()),
        pa.StructArray.from_arrays([pa.array(value[has_records])] * 2, ["offset", "value"]),
        mask=pa.array(~has_records),
    )
    columns: dict[str, Any] = {
        "index": index,
        "time_ns": index * 1_000,
        "process": np.where(is_poll, PROCESSES, value % PROCESSES),
        "type": np.where(is_end, "ok", "invoke"),
        "f": np.where(is_poll, "poll", "append"),
        "invoked": pa.array(index - 1, mask=~is_end),
        "topic_partition": pa.array([LOG] * len(k)),
        "value": pa.array(value, mask=is_poll),
        "offset": pa.array(value, mask=~is_end & ~is_poll),
        "records": lists,
    }
    nulls = {field.name: pa.nulls(len(k), field.type) for field in HISTORY_SCHEMA}
    return pa.table(nulls | columns).cast(HISTORY_SCHEMA)


def logs_of(operations: int) -> pa.Table:
    """What one replica has in the end."""
    ends = range(0, (operations + 1) // 2, BATCH_VALUES)
    rows = [
        {
            "replica_id": 1,
            "topic_partition": LOG,
            "base_offset": base,
            "last_offset": min(base + BATCH_VALUES, (operations + 1) // 2) - 1,
            "leader_epoch": 1,
            "crc": base,
            "is_control": False,
            "values": list(range(base, min(base + BATCH_VALUES, (operations + 1) // 2))),
            "high_watermark": (operations + 1) // 2,
            "log_start_offset": 0,
            "log_end_offset": (operations + 1) // 2,
            "complete": True,
        }
        for base in ends
    ]
    return pa.Table.from_pylist(rows, schema=REPLICA_LOG_SCHEMA)


def write_log(folder: Path, operations: int) -> Path:
    """A run of one log with so many operations."""
    for kind in Kind:
        (folder / kind).mkdir(parents=True)
    for number, first in enumerate(range(0, operations, PART_OPERATIONS)):
        part = history_part(first, min(PART_OPERATIONS, operations - first))
        pq.write_table(part, folder / Kind.HISTORY / shard_name(number), compression="zstd")
    logs = logs_of(operations)
    pq.write_table(logs, folder / Kind.LOGS / shard_name(0), compression="zstd")
    pq.write_table(REPLICA_EVENT_SCHEMA.empty_table(), folder / Kind.EVENTS / shard_name(0))
    marker = {"history": 2 * operations, "logs": logs.num_rows, "events": 0}
    (folder / Kind.HISTORY / COMPLETE_MARKER).write_text(json.dumps(marker))
    return folder


def write_corpus(folder: Path, runs: int) -> list[Path]:
    """So many runs of two hundred operations and more, which are links to some."""
    some = [write_log(folder / "some" / str(number), 200 + number) for number in range(min(runs, SOME_RUNS))]
    for number in range(runs):
        shutil.copytree(some[number % len(some)], folder / "runs" / str(number), copy_function=os.link)
    return [folder / "runs" / str(number) for number in range(runs)]


@contextmanager
def limited_session(scratch: Path) -> Iterator[Any]:
    """A session whose workers have the limits, and put aside what they must in ``scratch``."""
    from nemesis.pipeline.session import spark_session

    os.environ["SPARK_LOCAL_DIRS"] = str(scratch)
    os.environ["PYSPARK_SUBMIT_ARGS"] = (
        f"--conf spark.executor.memory=1g --conf spark.executor.pyspark.memory={PYTHON_MEMORY} pyspark-shell"
    )
    with spark_session(EXECUTORS) as session:
        yield session


def measured(name: str, folders: Sequence[Path], scratch: Path) -> dict[str, Any]:
    """Judge runs within the limits: what became of them, and what it took."""
    with limited_session(scratch) as session:
        watch = Watch(scratch)
        watch.look()
        cpu_before, begun = watch.cpu, time.perf_counter()
        with watch.running():
            judgements = judge_runs(folders, spark=session)
        row = {
            "what": name,
            "runs": len(judgements),
            "operations": sum(one.stats.append_ok + one.stats.poll_ok for one in judgements),
            "verdicts": dict(Counter(one.verdict.value for one in judgements)),
            "anomalies": sum(len(one.anomalies) for one in judgements),
            "reasons": list(judgements[0].reasons),
            "seconds": round(time.perf_counter() - begun, 1),
            "cpu_seconds": round(watch.cpu - cpu_before, 1),
            "peak_python_mib": watch.peak_python // MIB,
            "peak_scratch_mib": watch.peak_disk // MIB,
        }
    return row


@click.command()
@click.option("--operations", type=click.IntRange(1), multiple=True, help="Of a log.  [default: none]")
@click.option("--runs", type=click.IntRange(0), default=10_000, show_default=True, help="Of the corpus; 0 for none.")
@click.option(
    "--output", type=click.Path(dir_okay=False, path_type=Path), default=Path("store/bench-pipeline-memory.json")
)
def main(operations: tuple[int, ...], runs: int, output: Path) -> None:
    """Judge within 2 GiB for each worker, print what it took and write it as JSON."""
    rows: list[dict[str, Any]] = []
    with tempfile.TemporaryDirectory(prefix="bench-memory-") as scratch:
        aside = Path(scratch, "aside")
        aside.mkdir()
        cases = [(f"a log of {size} operations", [write_log(Path(scratch, str(size)), size)]) for size in operations]
        cases += [(f"{runs} runs", write_corpus(Path(scratch), runs))] if runs else []
        for name, folders in cases:
            rows.append(measured(name, folders, aside))
            click.echo(json.dumps(rows[-1]))
            write_result(output, rows=rows)


if __name__ == "__main__":
    main()
