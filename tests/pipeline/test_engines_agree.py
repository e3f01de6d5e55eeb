"""Spark and the single process give the same judgements of the same folders."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, Any

import pytest

from nemesis.checks import Verdict
from nemesis.history import EventType, HistoryEvent
from nemesis.history.schemas import Kind
from nemesis.history.writer import HistoryWriter
from nemesis.pipeline import Judgement, judge_run, judge_runs
from nemesis.pipeline.session import LISTING_TASKS_MAX
from nemesis.workload.register import RegisterWorkload
from tests.checks.histories import append, poll, replica_log
from tests.checks.simulation import Run, simulate
from tests.corruption.test_damaged_runs import DAMAGES
from tests.pipeline.object_runs import used_store
from tests.pipeline.recorded import BITES, METADATA, bitten_run, cluster_run, record_run, told_twice
from tests.workload.fake_store import LostUpdates

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from nemesis.pipeline import EngineName

DAMAGED = (
    "the invoke of a append is gone",
    "the ok of a poll is gone",
    "the ok of a append is there twice",
    "the ok of a poll is of another process",
    "a time goes back within an operation",
    "an index is below zero",
    "an acknowledgement does not tell its offset",
    "the final reads of one log were never done",
    "what the history tells of a dump cannot be read",
    "what the history tells of a dump is something else",
    "a dump was of nobody",
    "a dump has no count",
    "a log is cut short with its ends",
    "... and no dump tells a high watermark",
    "all events are gone",
    "one replica told nothing",
    "the lines are in another order",
    "logs: shards are swapped",
    "a write is gone",
)
"""At least one for each thing that the engines count or read each in its own way."""

RUNS = LISTING_TASKS_MAX + 2
"""More than there are tasks that look for files."""

pytestmark = [pytest.mark.spark, pytest.mark.timeout(300)]


def without_engine(judgements: tuple[Judgement, ...]) -> list[Judgement]:
    """Judgements as if the same engine had made them."""
    return [replace(judgement, engine={}) for judgement in judgements]


def test_many_runs_in_one_job(spark: SparkSession, tmp_path: Path) -> None:
    """Random runs, clean and with lies, whole and cut off, in many shards: every judgement is equal, row by row."""
    folders = []
    for seed in range(24):
        run = simulate(seed, seed % 4)
        folder = tmp_path / ("a [run] {x}*", "a run + %20")[seed % 2] / (str(seed), f"{seed}:00:00")[seed % 2]
        folders.append(
            record_run(
                folder,
                run,
                faults=seed % 2,
                harness_failures=seed % 3,
                shard_rows=(7, 10_000)[seed % 2],
                complete=seed % 5 != 4,
            )
        )
    folders.append(record_run(tmp_path / "told twice", told_twice()))
    later = Run(
        operations=[append((0, 1), 10, 0)], logs=replica_log(1, [(1, [10]), (1, [99])]), events=[], gapless=True
    )
    folders.append(record_run(tmp_path / "written after the cut", later, shard_rows=1, complete=False))
    folders += [bitten_run(tmp_path / f"bite {i}", *case[:2]) for i, case in enumerate(BITES)]
    folders.append(record_run(tmp_path / "a cluster", cluster_run()))
    on_spark, local = (judge_runs(folders, engine=engine, spark=spark) for engine in ("spark", "local"))
    assert without_engine(on_spark) == without_engine(local)
    assert sum(len(judgement.anomalies) for judgement in local) > 20
    assert {judgement.verdict for judgement in local} == set(Verdict)
    assert [judgement.anomalies for judgement in local[-2:]] == [(), ()]
    assert {(run.stats.leader_changes, run.stats.changes_after_faults) for run in on_spark} >= {(0, 0), (1, 0), (1, 1)}
    assert local[-1].stats.controller_elections == 2
    assert on_spark[0].engine.keys() == {"name", "spark", "java", "numpy", "pyarrow"}


def test_damaged_runs(spark: SparkSession, tmp_path: Path) -> None:
    """Of damaged runs both engines say the same, and none of it is valid that lacks something."""
    chosen = [DAMAGES[name] for name in DAMAGED]
    folders = [damage(make()).write(tmp_path / str(number)) for number, (make, damage) in enumerate(chosen)]
    on_spark, local = (judge_runs(folders, engine=engine, spark=spark) for engine in ("spark", "local"))
    assert without_engine(on_spark) == without_engine(local)
    assert all(judged.verdict in damage.allowed for judged, (_, damage) in zip(on_spark, chosen, strict=True))


def test_a_hole_is_found_where_it_is_declared_that_there_is_none(spark: SparkSession, tmp_path: Path) -> None:
    """Both engines convict a log of a hole if its run says that every offset holds a client's record, and only then.

    A quorum log, which has a control record for each epoch, is not convicted beside it: nothing is declared of that.
    """
    operations, logs = [], []
    for begin, log in ((0, {}), (10, METADATA)):
        polled = poll((begin + 4, begin + 5), 0, (0, 10), (2, 11), f="final-read")
        asked = (append((begin, begin + 1), 10, 0), append((begin + 2, begin + 3), 11, 2), polled)
        operations += [row | log for row in asked]
        logs += [row | log for row in replica_log(1, [(1, [10]), (2, None), (2, [11])])]
    folders = [
        record_run(tmp_path / f"{gapless}", Run(operations=operations, logs=logs, events=[], gapless=gapless))
        for gapless in (True, False)
    ]
    for engine in ("spark", "local"):
        declared, silent = judge_runs(folders, engine=engine, spark=spark)
        found = [[row for row in run.anomalies if row["severity"] == "violation"] for run in (declared, silent)]
        assert [(row["anomaly"], row["topic_partition"]) for row in found[0]] == [("hole", "log-0")]
        assert found[1] == []


def test_too_much_of_one_log(spark: SparkSession, tmp_path: Path) -> None:
    """What is too much for one engine is so for the other, of logs and of objects, and both say the same of it."""
    folders = [record_run(tmp_path / str(seed), simulate(seed, 2), shard_rows=7) for seed in range(3)]
    folders.append(record_run(tmp_path / "a cluster", cluster_run()))
    folders.append(used_store(tmp_path / "objects", RegisterWorkload, LostUpdates(Random(3)), events=200))
    on_spark, local = (judge_runs(folders, engine=name, spark=spark, weight_max=27) for name in ("spark", "local"))
    assert without_engine(on_spark) == without_engine(local)
    assert all(any("at once, 27" in reason for reason in judgement.reasons) for judgement in local)
    assert any(check.looked for judgement in local for check in judgement.checks)


def test_odd_history(spark: SparkSession, tmp_path: Path) -> None:
    """Events that no operation should have, absent tables and two topic-partitions are read alike."""
    rows: list[dict[str, Any]] = [
        {"process": 0, "type": EventType.OK, "f": "append", "topic_partition": "log-0", "value": 1, "offset": 0},
        {"process": 0, "type": EventType.INVOKE, "f": "append", "topic_partition": "log-0", "value": 2},
        {"process": 0, "type": EventType.INVOKE, "f": "append", "topic_partition": "log-1", "value": 3},
        {"process": 0, "type": EventType.OK, "f": "append", "topic_partition": "log-1", "value": 3, "offset": 0},
        {"process": 1, "type": EventType.INVOKE, "f": "poll", "topic_partition": None, "offset": 0, "limited": True},
        {"process": 1, "type": EventType.OK, "f": "poll", "topic_partition": None, "offset": 0},
        {"process": 2, "type": EventType.INVOKE, "f": "poll", "topic_partition": "log-0", "offset": 0},
        {"process": 2, "type": EventType.OK, "f": "poll", "topic_partition": "log-0", "offset": 3},
        {"process": 2, "type": EventType.INVOKE, "f": "append", "topic_partition": "log-0", "value": 4},
        {"process": 2, "type": EventType.OK, "f": "append", "topic_partition": "log-1", "value": 4, "offset": 9},
    ]
    with HistoryWriter(tmp_path) as writer:
        for index, row in enumerate(rows):
            writer.write(HistoryEvent(index=index, time_ns=index, **row))
    on_spark, local = (judge_run(tmp_path, engine=engine, spark=spark) for engine in ("spark", "local"))
    assert without_engine((on_spark,)) == without_engine((local,))
    assert local.stats.orphans == 3
    assert {row["anomaly"] for row in local.anomalies} == {"malformed-operation", "missing-evidence", "unseen"}


def test_a_bucket_of_many_batches(spark: SparkSession, tmp_path: Path) -> None:
    """A topic-partition that reaches its bucket in many Arrow batches is judged as one."""
    appends = [append((2 * i, 2 * i + 1), i, i) for i in range(200)]
    lost = poll((400, 401), 0, *((i, i) for i in range(200) if i != 77), f="final-read")
    folder = record_run(
        tmp_path / "run", Run(operations=[*appends, lost], logs=replica_log(1, [(1, [0])]), events=[], gapless=True)
    )
    before = spark.conf.get("spark.sql.execution.arrow.maxRecordsPerBatch")
    spark.conf.set("spark.sql.execution.arrow.maxRecordsPerBatch", 10)
    try:
        judgement = judge_run(folder, spark=spark)
    finally:
        spark.conf.set("spark.sql.execution.arrow.maxRecordsPerBatch", before or "10000")
    assert without_engine((judgement,)) == without_engine((judge_run(folder, engine="local"),))
    assert {row["anomaly"]: row["offsets"] for row in judgement.anomalies}["int-poll-skip"] == [77]


def test_each_event_is_moved_once(spark: SparkSession, tmp_path: Path) -> None:
    """Who has paired operations judges and counts them: beside the events only findings are moved."""
    appends = [append((2 * i, 2 * i + 1), i, i) for i in range(400)]
    run = Run(operations=appends, logs=replica_log(1, [(1, [0])]), events=[], gapless=True)
    folder = record_run(tmp_path / "run", run)
    before = moved_records(spark)
    judge_run(folder, spark=spark)
    assert 800 <= moved_records(spark) - before < 1000, "800 events, and what was found"


def moved_records(spark: SparkSession) -> int:
    """How many records all stages so far have read from shuffles."""
    return sum(int(stage.shuffleReadRecords()) for stage in stages_of(spark))


def stages_of(spark: SparkSession) -> list[Any]:
    """All stages so far, as Java knows them."""
    context, java = spark.sparkContext, spark._jvm
    assert java is not None
    assert context._gateway is not None
    none, quantiles = java.java.util.ArrayList(), context._gateway.new_array(java.double, 0)
    stages = context._jsc.sc().statusStore().stageList(none, False, False, quantiles, none)
    return [stages.apply(place) for place in range(stages.size())]


def test_a_corpus_takes_no_task_for_each_run(spark: SparkSession, tmp_path: Path) -> None:
    """Files are looked for in so many tasks at most, however many runs there are, once for each table."""
    first = record_run(tmp_path / "0", cluster_run())
    folders = [first, *(shutil.copytree(first, tmp_path / str(number)) for number in range(1, RUNS))]
    before = len(stages_of(spark))
    judgements = judge_runs(folders, spark=spark)
    stages = sorted(stages_of(spark), key=lambda stage: int(stage.stageId()))[before:]
    assert [judgement.stats.acked_checked for judgement in judgements] == [judgements[0].stats.acked_checked] * RUNS
    tasks = [int(stage.numTasks()) for stage in stages if stage.name().startswith("parquet")]
    assert len(tasks) == len(Kind), "one job looks for the files of a table"
    assert max(tasks) <= LISTING_TASKS_MAX


def test_the_bytes_are_the_same_again(spark: SparkSession, tmp_path: Path) -> None:
    """Judging the same run twice gives the same results.json."""
    folder = record_run(tmp_path / "run", simulate(3, 4))
    assert judge_run(folder, spark=spark).to_json() == judge_run(folder, spark=spark).to_json()


@pytest.mark.parametrize(("engine", "words"), [("spark", "page integrity, CRC checksum"), ("local", "is damaged")])
def test_a_changed_bit_gets_no_verdict(spark: SparkSession, tmp_path: Path, engine: EngineName, words: str) -> None:
    """A shard in which a bit has changed on the disk is read by neither engine."""
    run = record_run(tmp_path / "run", simulate(3, 0))
    path = run / "history/part-00000.parquet"
    data = bytearray(path.read_bytes())
    data[60] ^= 1
    path.write_bytes(data)
    with pytest.raises(Exception, match=words):
        judge_run(run, engine=engine, spark=spark)
