"""The kernel as a whole: many topic-partitions in one call, checks that crash, and verdicts."""

from __future__ import annotations

from dataclasses import replace
from itertools import chain
from typing import Any

import pyarrow as pa
import pytest

from nemesis.checks import (
    ANOMALY_SCHEMA,
    COVERAGE_SCHEMA,
    LOG_BATCH_SCHEMA,
    LOG_CHECKS,
    OPERATION_SCHEMA,
    RUN_EVENT_SCHEMA,
    CheckOptions,
    Coverage,
    Decision,
    Found,
    Kept,
    LogCheck,
    RunCounts,
    Verdict,
    decide,
    faults_bit,
    judge_partitions,
)
from nemesis.checks.partition import Partition
from tests.checks.histories import Row, append, findings, judge, names, poll, replica_log
from tests.checks.simulation import simulate

EMPTY = tuple(schema.empty_table() for schema in (OPERATION_SCHEMA, LOG_BATCH_SCHEMA, RUN_EVENT_SCHEMA))
WHOLE = RunCounts(
    events=4, index_end=4, append_ok=2, acked_checked=2, values_read=2, logs_dumped=3, logs_dumped_completely=3
)
COVERED = ({"check": "lost-write", "looked": 2, "missed": 0, "why": ""},)


def test_nothing_is_nothing() -> None:
    """Empty tables give an empty table with the declared columns."""
    findings = judge_partitions(*EMPTY)
    assert (findings.anomalies.schema, findings.coverage.schema) == (ANOMALY_SCHEMA, COVERAGE_SCHEMA)
    assert findings.anomalies.num_rows == findings.coverage.num_rows == 0


def test_partitions_are_judged_apart() -> None:
    """One call over many runs and topic-partitions gives what a call for each of them gives."""
    runs = [simulate(seed, 3) for seed in range(12)]
    rows, apart = [], []
    for number, run in enumerate(runs):
        own = {"run_id": f"run-{number // 4}", "topic_partition": f"log-{number % 4}"}
        operations = [row | own for row in run.operations]
        logs, events = [row | own for row in run.logs], [row | own for row in run.events]
        rows.append((operations, logs, events))
        apart += judge(operations, logs, events)
    together = judge(*(list(chain.from_iterable(row[i] for row in rows)) for i in range(3)))
    key = ANOMALY_SCHEMA.names
    assert together == sorted(apart, key=lambda row: tuple(row[name] for name in key))
    assert len({(row["run_id"], row["topic_partition"]) for row in together}) > 6


def test_sparse_offsets_cost_nothing() -> None:
    """Offsets near the end of what 64 bits can hold are judged like small ones."""
    far = 2**62
    operations = [append((0, 1), 1, 0), append((2, 3), 2, far), poll((4, 5), 0, (0, 1), (far, 2), strict=True)]
    assert judge(operations) == []
    contradiction = poll((6, 7), far, (far, 3), process=1)
    assert names(judge([*operations, contradiction])) == ["inconsistent-offsets", "phantom-read"]


def test_what_is_unknown_of_the_end_is_no_phantom() -> None:
    """In a history that was cut off, a value in a replica's log may have been written after the cut."""
    operations, logs = [append((0, 1), 10, 0)], replica_log(1, [(1, [10]), (1, [99])])
    assert names(judge(operations, logs)) == ["phantom-read"]
    assert judge(operations, logs, incomplete_runs=frozenset({"run"})) == []
    assert names(judge([*operations, poll((2, 3), 0, (0, 77))], incomplete_runs=frozenset({"run"}))) == [
        "inconsistent-offsets",
        "lost-write",
        "phantom-read",
    ]


def crash(partition: Partition) -> Found:
    """A check that breaks down over one topic-partition."""
    if partition.topic_partition == "log-1":
        raise RuntimeError("out of ideas")
    yield from ()
    return Coverage(looked=2)


CRASHING = LogCheck(name="stale-read", promise="It never breaks down.", needs="ideas", run=crash)


def test_a_check_that_crashes_has_not_looked() -> None:
    """It says so of that topic-partition alone, nothing is called kept, and the other checks still convict."""
    lie = [append((0, 1), 10, 0), poll((2, 3), 0, (0, 10), (1, 99))]
    twice = lie + [row | {"topic_partition": "log-1"} for row in lie]
    operations = pa.Table.from_pylist(twice, schema=OPERATION_SCHEMA)
    checks = (CRASHING, *(check for check in LOG_CHECKS if check.name != "stale-read"))
    found = judge_partitions(operations, EMPTY[1], EMPTY[2], CheckOptions(), checks)
    [crashed] = [row for row in found.coverage.to_pylist() if row["missed"]]
    assert (crashed["check"], crashed["looked"], crashed["missed"]) == ("stale-read", 2, 1)
    assert crashed["why"] == "log-1: stale-read raised RuntimeError: out of ideas"
    rows = found.anomalies.to_pylist()
    assert [row["topic_partition"] for row in rows if row["anomaly"] == "phantom-read"] == ["log-0", "log-1"]
    decision = decide(counts=WHOLE, anomalies=(), coverage=[crashed], complete=True, problems=())
    assert decision.verdict is Verdict.UNKNOWN
    assert kept_of(decision)["stale-read"] is Kept.UNDECIDED


def test_columns_that_cannot_be_read_say_unknown() -> None:
    """Where no array can be made of a row, no check has looked at its topic-partition; the others are judged."""
    rows = [poll((0, 1), 0, records=[{"offset": None, "value": 1}]), append((2, 3), 1, 0, topic_partition="log-1")]
    found = findings(rows)
    assert [(row["topic_partition"], row["anomaly"]) for row in found.anomalies.to_pylist()] == [("log-1", "unseen")]
    coverage = found.coverage.to_pylist()
    assert {row["check"] for row in coverage if row["missed"] == 1} == {check.name for check in LOG_CHECKS}
    decision = decide(counts=WHOLE, anomalies=(), coverage=coverage, complete=True, problems=())
    assert decision.verdict is Verdict.UNKNOWN
    [reason] = decision.reasons
    assert reason.startswith("log-0: reading the columns raised ")
    assert reason.endswith(f" and {len(LOG_CHECKS) - 5} others")


def kept_of(decision: Decision) -> dict[str, Kept]:
    """What became of each promise."""
    return {check.name: check.kept for check in decision.checks}


def verdict(*anomalies: Row, complete: bool = True, problems: tuple[str, ...] = (), **counts: int) -> Verdict:
    """The verdict of a run that is whole but for what is said."""
    changed = {name: getattr(WHOLE, name) for name in RunCounts.__slots__} | counts
    decision = decide(
        counts=RunCounts(**changed), anomalies=anomalies, coverage=COVERED, complete=complete, problems=problems
    )
    return decision.verdict


VIOLATION = {"anomaly": "lost-write", "severity": "violation", "evidence": "{}"}
UNDECIDED = {"anomaly": "unseen", "severity": "unknown", "evidence": "{}"}


def test_valid_needs_everything() -> None:
    """A whole run without anomalies is valid, and says on how much that rests."""
    decision = decide(counts=WHOLE, anomalies=(), coverage=COVERED, complete=True, problems=())
    assert (decision.verdict, decision.warnings) == (Verdict.VALID, ())
    assert "2 acknowledged writes" in decision.reasons[0]


@pytest.mark.parametrize(
    "missing",
    [
        {"complete": False},
        {"problems": ("history/part-00001.parquet is missing",)},
        {"index_end": 5},
        {"orphans": 1},
        {"events": 5, "repeated": 1},
        {"backwards": 1},
        {"logs_dumped_completely": 0},
        {"harness_failures": 1},
        {"append_ok": 0},
    ],
    ids=lambda missing: next(iter(missing)),
)
def test_unknown_when_something_is_missing(missing: dict[str, Any]) -> None:
    """Each thing that was not there to be looked at makes the verdict unknown, and none of them excuses a violation."""
    assert verdict(**missing) is Verdict.UNKNOWN
    assert verdict(VIOLATION, **missing) is Verdict.INVALID


def test_severities_decide() -> None:
    """A violation convicts, an undecided anomaly makes unknown, and both together convict."""
    assert verdict(VIOLATION) is Verdict.INVALID
    assert verdict(UNDECIDED) is Verdict.UNKNOWN
    assert verdict(UNDECIDED, VIOLATION) is Verdict.INVALID


def test_reasons_count_what_is_not_listed() -> None:
    """The row that stands for the anomalies that were too many to list counts as all of them."""
    rows = (VIOLATION, VIOLATION, VIOLATION | {"evidence": '{"more": 47}'})
    decision = decide(counts=WHOLE, anomalies=rows, coverage=COVERED, complete=True, problems=())
    assert decision.reasons == ("lost-write: 49",)


def test_faults_that_did_not_bite_are_a_warning() -> None:
    """Faults without a change of leader after them are told and change no verdict."""
    counts = replace(WHOLE, faults=2, faults_tried=2, leader_changes=3, leader_elections=4, epochs=2)
    tame = decide(counts=counts, anomalies=(), coverage=COVERED, complete=True, problems=())
    assert tame.verdict is Verdict.VALID
    assert "did not bite" in tame.warnings[0]
    assert not faults_bit(counts)
    assert faults_bit(RunCounts(faults=2, changes_after_faults=1))


def test_a_run_in_which_no_fault_struck_is_unknown() -> None:
    """Where all faults were refused or found nobody, nothing was tested; that one of them struck is enough."""
    counts = replace(WHOLE, faults=0, faults_tried=3, leader_changes=3)
    untested = decide(counts=counts, anomalies=(), coverage=COVERED, complete=True, problems=())
    assert untested.verdict is Verdict.UNKNOWN
    assert untested.reasons == ("no fault struck: all that were tried were refused, or came to nothing",)
    struck = decide(counts=replace(counts, faults=1), anomalies=(), coverage=COVERED, complete=True, problems=())
    assert struck.verdict is Verdict.VALID
