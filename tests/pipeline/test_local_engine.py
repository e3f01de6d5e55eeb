"""Recorded folders are judged without a JVM: pairing, counting, verdicts and results.json."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from nemesis.checks import Verdict
from nemesis.history import METADATA_LOG, EventType, HistoryError, HistoryEvent
from nemesis.history.reader import read_history
from nemesis.history.writer import HistoryWriter
from nemesis.pipeline import judge_run, judge_runs, write_results
from nemesis.pipeline.local import pair_operations
from nemesis.pipeline.runs import open_runs
from nemesis.pipeline.session import is_local, settings
from tests.checks.histories import Row, append, became_leader, final_isr, poll, replica_log, told
from tests.checks.simulation import Run, simulate
from tests.pipeline.recorded import BITES, NOT_DONE, bitten_run, cluster_run, record_run, told_twice

OPERATIONS = [
    append((0, 1), 10, 0, leader_epoch=1, node=1),
    append((2, 3), 11, type="fail", process=1),
    append((4, 5), 12, 2, leader_epoch=2, node=2),
    append((6, None), 13, type="info", process=2),
    poll((7, 8), 0, (0, 10), (2, 12), process=3, high_watermark=3),
    poll((9, 10), 0, (0, 10), (2, 12), f="final-read", process=3),
]
LOGS = [row for replica_id in range(3) for row in replica_log(replica_id, [(1, [10]), (2, None), (2, [12])])]
TRUNCATED: Row = became_leader(0, 2) | {"event": "truncated", "offset": 3}
STARTED = told(2, "started", topic_partition=None)
GOOD = Run(
    operations=OPERATIONS,
    logs=LOGS,
    events=[became_leader(0, 1), became_leader(1, 2, 9000), TRUNCATED, final_isr(1, (0, 1, 2), 3), STARTED],
    gapless=False,
)


def test_a_good_run_is_valid(tmp_path: Path) -> None:
    """A whole run that keeps its promises is valid, and its statistics say what it did."""
    judgement = judge_run(record_run(tmp_path / "run", GOOD, faults=2), engine="local")
    assert (judgement.verdict, judgement.warnings, judgement.anomalies) == (Verdict.VALID, (), ())
    stats = judgement.stats
    assert (stats.append_ok, stats.append_fail, stats.append_info, stats.poll_ok) == (2, 1, 1, 2)
    assert (stats.events, stats.index_end, stats.faults, stats.acked_checked, stats.values_read) == (16, 16, 2, 2, 4)
    assert (stats.logs_dumped, stats.logs_dumped_completely, stats.batches_dumped) == (3, 3, 9)
    assert (stats.leader_elections, stats.truncations, stats.epochs, stats.epoch_max) == (2, 1, 2, 2)
    assert judgement.faults_bit


def test_a_run_over_many_logs_is_counted(tmp_path: Path) -> None:
    """Elections are counted by log and epoch, those of controllers apart; what asked for less is told as a warning."""
    judgement = judge_run(record_run(tmp_path / "run", cluster_run(), faults=1), engine="local")
    assert (judgement.verdict, judgement.anomalies) == (Verdict.VALID, ())
    assert judgement.warnings == ("2 writes asked for less than all replicas: that they are kept was not promised",)
    assert judgement.reasons == ("2 acknowledged writes and 3 read values keep every promise",)
    stats = judgement.stats
    assert (stats.append_ok, stats.append_weak, stats.acked_checked) == (4, 2, 2)
    assert (stats.final_reads, stats.final_reads_whole, stats.logs_dumped) == (2, 2, 7)
    assert (stats.leader_elections, stats.logs_led, stats.controller_elections) == (4, 2, 2)
    assert (stats.truncations, stats.isr_shrinks, stats.isr_expands) == (1, 1, 1)
    assert (stats.epochs, stats.topic_partitions, stats.epoch_max) == (3, 2, 2)
    assert (stats.leader_changes, stats.changes_after_faults, judgement.faults_bit) == (1, 2, True)


def test_what_two_controllers_tell_is_counted_once(tmp_path: Path) -> None:
    """An unclean election or an offline partition is one epoch of a log, however many have told of it."""
    judgement = judge_run(record_run(tmp_path / "run", told_twice()), engine="local")
    assert (judgement.stats.unclean_elections, judgement.stats.offline_partitions) == (2, 1)


def test_the_first_leaders_of_many_logs_are_no_change(tmp_path: Path) -> None:
    """That every log has a leader does not show that the faults bit; a second controller does."""
    run = cluster_run()
    kept = [row for row in run.events if row["event"] != "became-leader" or row["epoch"] in (0, 1)]
    first_only = [row for row in kept if (row["topic_partition"], row["epoch"]) != ("orders-0", 1)]
    logs = [row for row in run.logs if row["leader_epoch"] < 2]
    asked = [append((0, 1), 1, 0)]
    quiet = record_run(tmp_path / "quiet", Run(operations=asked, logs=logs, events=first_only, gapless=True), faults=1)
    again = [*first_only, became_leader(2, 2, 9000) | {"topic_partition": METADATA_LOG}]
    moved = record_run(tmp_path / "moved", Run(operations=asked, logs=logs, events=again, gapless=True), faults=1)
    assert [judge_run(folder, engine="local").faults_bit for folder in (quiet, moved)] == [False, True]


@pytest.mark.parametrize(("nemesis", "elected_ns", "says"), BITES)
def test_faults_bite_when_they_were_done_and_a_leader_changed_after_that(
    tmp_path: Path, nemesis: Sequence[str], elected_ns: Sequence[int], says: str | None
) -> None:
    """Elections before the first fault that was done, or before any operation, are no bite; without any, nothing is
    known.
    """
    judgement = judge_run(bitten_run(tmp_path / "run", nemesis, elected_ns), engine="local")
    assert judgement.verdict is (Verdict.UNKNOWN if says == NOT_DONE else Verdict.VALID)
    assert judgement.faults_bit is (says is None)
    assert [said for said in (*judgement.reasons, *judgement.warnings) if "fault" in said] == ([says] if says else [])


def test_operations_are_paired(tmp_path: Path) -> None:
    """Pairing a recorded run gives back the operations that it was made of."""
    folder = record_run(tmp_path / "run", GOOD)
    rows = pair_operations(read_history(folder), "run").sort_by("invoke_index").to_pylist()
    assert rows == OPERATIONS


def test_a_killed_run_is_unknown(tmp_path: Path) -> None:
    """A run that was killed is judged to its last whole shard and is unknown at best, or invalid."""
    folder = record_run(tmp_path / "good", GOOD, shard_rows=4, complete=False)
    torn = folder / "history" / ".part-00002.parquet.unfinished"
    torn.write_bytes(b"PAR1")
    judgement = judge_run(folder, engine="local")
    assert judgement.verdict is Verdict.UNKNOWN
    assert judgement.stats.events == 8
    assert any("has no end" in reason for reason in judgement.reasons)
    lie = Run(operations=[*OPERATIONS[:4], poll((7, 8), 0, (0, 99))], logs=[], events=[], gapless=False)
    assert judge_run(record_run(tmp_path / "bad", lie, shard_rows=1, complete=False), engine="local").verdict is (
        Verdict.INVALID
    )


def test_a_run_whose_end_was_not_seen_is_unknown(tmp_path: Path) -> None:
    """Replicas that did not agree, one log not read to its end, no final read that saw the end: none of it is valid."""
    gone = record_run(tmp_path / "disagreed", GOOD, harness_failures=2)
    logs = [row | {"complete": row["replica_id"] != 1} for row in LOGS]
    partial = record_run(tmp_path / "partial", Run(operations=OPERATIONS, logs=logs, events=GOOD.events, gapless=False))
    for name, changed in (("limited", {"limited": True}), ("failed", {"type": "fail", "records": None})):
        operations = [*OPERATIONS[:-1], OPERATIONS[-1] | changed]
        record_run(tmp_path / name, Run(operations=operations, logs=LOGS, events=GOOD.events, gapless=False))
    folders = [gone, partial, tmp_path / "limited", tmp_path / "failed"]
    judged = {run.run_id: run for run in judge_runs(folders, engine="local")}
    assert {run.verdict for run in judged.values()} == {Verdict.UNKNOWN}
    assert {name: run.reasons for name, run in judged.items()} == {
        "disagreed": (
            "2 times the replicas did not agree in time, voters or partitions were not back where they should be, "
            "a log could not be read, or damage was not noticed",
        ),
        "partial": (
            "log-0: 2 of 3 replicas' logs were read to their end: not all was looked at for diverged-log",
            "log-0: the logs of 1 of 3 members of the final ISR were not read to their end: not all was looked at for "
            "incomplete-isr",
        ),
        "limited": ("log-0: no final read saw the end of the log: not all was looked at for stale-read",),
        "failed": ("log-0: no final read saw the end of the log: not all was looked at for stale-read",),
    }


def test_results_json(tmp_path: Path) -> None:
    """results.json has the verdict, reasons, anomalies with evidence, and what judged it; the same bytes each time."""
    bad = record_run(tmp_path / "bad", simulate(5, 6))
    path = write_results(judge_run(bad, engine="local"), bad)
    document = json.loads(path.read_text())
    assert document["verdict"] == "invalid"
    assert set(document) == {
        *("anomalies", "checks", "engine", "faults_bit", "reasons", "run_id", "stats", "verdict", "warnings"),
    }
    assert isinstance(document["anomalies"][0]["evidence"], dict)
    assert document["engine"]["name"] == "local"
    assert path.read_text() == judge_run(bad, engine="local").to_json()


def test_runs_are_named_by_what_tells_them_apart(tmp_path: Path) -> None:
    """A run is called by its folder's name, with parents where two folders have the same; a folder counts once."""
    folders = [record_run(tmp_path / "a" / name, GOOD) for name in ("one", "two")]
    assert [run.run_id for run in open_runs([*folders, folders[0]])] == ["one", "two"]
    folders.append(record_run(tmp_path / "b" / "one", GOOD))
    assert [run.run_id for run in open_runs(folders)] == ["a/one", "a/two", "b/one"]
    assert [judgement.run_id for judgement in judge_runs(folders, engine="local")] == ["a/one", "a/two", "b/one"]


def test_bad_arguments(tmp_path: Path) -> None:
    """No folder, a folder without a run and an engine that does not exist are errors that say so."""
    with pytest.raises(ValueError, match="give 1 to"):
        judge_runs([], engine="local")
    with pytest.raises(HistoryError, match="is not a run folder"):
        judge_run(tmp_path, engine="local")
    with pytest.raises(ValueError, match="'flink' is not a valid EngineName"):
        judge_run(record_run(tmp_path / "run", GOOD), engine="flink")


def test_a_completion_without_invocation_is_damage(tmp_path: Path) -> None:
    """A completion that its own process did not begin makes the verdict unknown, and completes nobody else's."""
    with HistoryWriter(tmp_path) as writer:
        writer.write(HistoryEvent(index=0, time_ns=0, process=0, type=EventType.INVOKE, f="append", value=1))
        writer.write(HistoryEvent(index=1, time_ns=1, process=1, type=EventType.OK, f="append", value=1, offset=0))
    judgement = judge_run(tmp_path, engine="local")
    stats = judgement.stats
    assert (judgement.verdict, stats.orphans, stats.append_ok, stats.append_info) == (Verdict.UNKNOWN, 1, 0, 1)


@pytest.mark.slow
def test_judging_locally_needs_no_spark(tmp_path: Path) -> None:
    """The whole way of one file to its verdict imports nothing of Spark."""
    folder = record_run(tmp_path / "run", GOOD)
    program = (
        "import sys; from pathlib import Path; from nemesis.pipeline import judge_run;"
        f"print(judge_run(Path({str(folder)!r}), engine='local').verdict, 'pyspark' in sys.modules)"
    )
    answer = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert answer.stdout.split() == ["valid", "False"]


def test_only_local_masters_stay_on_the_loopback() -> None:
    """A local session binds to the loopback address; the driver of a cluster must be reachable from it."""
    assert settings("local[*]")["spark.driver.bindAddress"] == "127.0.0.1"
    assert "spark.driver.bindAddress" not in settings("spark://master:7077")
    assert "spark.sql.shuffle.partitions" not in settings("spark://master:7077")
    assert is_local("local-cluster[2,1,512]")


def test_only_a_jvm_of_this_machine_is_one_of_short_jobs() -> None:
    """What optimises later and collects memory without threads is not for the driver of a cluster."""
    assert "SerialGC" in settings("local[2]")["spark.driver.extraJavaOptions"]
    assert "spark.driver.extraJavaOptions" not in settings("spark://master:7077")
