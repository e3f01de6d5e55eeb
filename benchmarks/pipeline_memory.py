"""How much memory judging on Spark takes: one log of many operations, as a run and as an object, and a corpus of runs.

Owns the limits and what must be found: two executors of one core, each a JVM of 1 GiB of heap and a Python worker of
1 GiB, which is 2 GiB for each. The Python workers have it as a limit on their address space
(``spark.executor.pyspark.memory``), so that more of it is an error and no figure. Exactly the runs that were spoiled
must be invalid, and all others valid; only the run of a log with more than is judged at once is unknown, and says so.
Told are the verdicts, how long it took, CPU time of all processes and the peaks of the one Python process and the one
JVM that took most, which may be the session's own. Writes ``store/bench-pipeline-memory.json``.
"""

from __future__ import annotations

import json
import os
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import click

from benchmarks.logs import SOME_RUNS, SPOILED_RUNS, write_corpus, write_operations, write_run
from benchmarks.result import write_result
from benchmarks.watch import Watch
from nemesis.linearizability.models.log import Log
from nemesis.pipeline import judge_runs
from nemesis.pipeline.corpora.engine import judge_store

MIB = 1024 * 1024
EXECUTORS = "local-cluster[2,1,1024]"
PYTHON_MEMORY = "1g"
OUTPUT = Path("store/bench-pipeline-memory.json")
Judging = Callable[[Any], dict[str, Any]]
"""From a session to what is told of the judgement."""


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


def judge_log(folder: Path) -> Judging:
    """A run of one log: it is valid, or unknown because there is too much of it."""

    def judge(session: Any) -> dict[str, Any]:
        (judgement,) = judge_runs([folder], spark=session)
        is_too_much = any("more than are judged at once" in reason for reason in judgement.reasons)
        verdict = judgement.verdict.value
        assert (verdict, is_too_much) in {("valid", False), ("unknown", True)}, f"{verdict}: {judgement.reasons}"
        operations = judgement.stats.append_ok + judgement.stats.poll_ok
        return {"operations": operations, "verdicts": {verdict: 1}, "reasons": list(judgement.reasons)}

    return judge


def judge_object(folder: Path) -> Judging:
    """The same log as an object: it is valid, window after window."""

    def judge(session: Any) -> dict[str, Any]:
        results = judge_store(folder, Log(), spark=session)
        (row,) = results.keys.to_pylist()
        assert row["verdict"] == "valid", f"{results.anomalies.to_pylist()}"
        return {"operations": row["operations"], "verdicts": dict(results.counts), "windows": row["windows"]}

    return judge


def judge_corpus(folders: Sequence[Path]) -> Judging:
    """A corpus of runs: exactly those that were spoiled are invalid, and the others are valid."""

    def judge(session: Any) -> dict[str, Any]:
        judgements = judge_runs(folders, spark=session)
        spoiled = {str(number) for number in range(len(folders)) if number % SOME_RUNS < SPOILED_RUNS}
        invalid = {Path(one.run_id).name for one in judgements if one.verdict == "invalid"}
        verdicts = Counter(one.verdict.value for one in judgements)
        assert invalid == spoiled, f"{sorted(invalid ^ spoiled)} are judged wrongly"
        assert not verdicts["unknown"], f"{verdicts}"
        operations = sum(one.stats.append_ok + one.stats.poll_ok for one in judgements)
        return {"runs": len(judgements), "operations": operations, "verdicts": dict(verdicts)}

    return judge


def measured(name: str, judge: Judging, scratch: Path) -> dict[str, Any]:
    """Judge within the limits: what became of it, and what it took."""
    with limited_session(scratch) as session:
        watch = Watch(scratch)
        watch.look()
        cpu_before, begun = watch.cpu, time.perf_counter()
        with watch.running():
            found = judge(session)
        return {
            "what": name,
            **found,
            "seconds": round(time.perf_counter() - begun, 1),
            "cpu_seconds": round(watch.cpu - cpu_before, 1),
            "peak_python_mib": watch.peak_python // MIB,
            "peak_java_mib": watch.peak_java // MIB,
            "peak_scratch_mib": watch.peak_disk // MIB,
        }


def cases(operations: Sequence[int], runs: int, scratch: Path) -> Iterator[tuple[str, Judging]]:
    """What is judged; each is made when it is asked for."""
    for size in operations:
        yield f"a run of one log, {size} operations", judge_log(write_run(scratch / f"run-{size}", size))
        yield f"a log, {size} operations", judge_object(write_operations(scratch / f"object-{size}", size))
    if runs:
        yield f"{runs} runs", judge_corpus(write_corpus(scratch, runs))


@click.command()
@click.option("--operations", type=click.IntRange(1), multiple=True, help="Of a log.  [default: none]")
@click.option("--runs", type=click.IntRange(0), default=10_000, show_default=True, help="Of the corpus; 0 for none.")
@click.option(
    "--scratch", type=click.Path(file_okay=False, path_type=Path), help="For histories and what is put aside."
)
@click.option("--output", type=click.Path(dir_okay=False, path_type=Path), default=OUTPUT)
def main(operations: tuple[int, ...], runs: int, scratch: Path | None, output: Path) -> None:
    """Judge within 2 GiB for each worker, print what it took and write it as JSON."""
    rows: list[dict[str, Any]] = []
    with tempfile.TemporaryDirectory(prefix="bench-memory-", dir=scratch) as folder:
        aside = Path(folder, "aside")
        aside.mkdir()
        for name, judge in cases(operations, runs, Path(folder)):
            rows.append(measured(name, judge, aside))
            click.echo(json.dumps(rows[-1]))
            write_result(output, rows=rows)


if __name__ == "__main__":
    main()
