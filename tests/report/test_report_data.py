"""The view of a run counts, pairs and bounds what was recorded, and claims nothing that was not checked."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pytest

from nemesis.checks import CHECKS, Kept, Verdict
from nemesis.faults.look import KILLED, PARTITIONED, PAUSED
from nemesis.history import APPEND, FINAL_READ, HARNESS_PROCESS, NEMESIS_PROCESS, POLL, EventType, PolledRecord
from nemesis.history.reader import read_history
from nemesis.pipeline import judge_run, write_results
from nemesis.report.data import read_run
from nemesis.report.operations import BINS_MAX, bin_width_ms, drawn_positions, pair_operations
from nemesis.report.values import MarkKind, Moment, Outcome
from tests.checks.histories import append, replica_log, told
from tests.checks.simulation import Run
from tests.pipeline.recorded import record_run

if TYPE_CHECKING:
    from tests.report.conftest import RunFolder


def test_operations_are_paired_by_process(run_folder: RunFolder) -> None:
    """A completion belongs to the invocation of its own process, and what never returned is info without a time."""
    run_folder.operation(1.0, 4.0, process=0, value=10, offset=0)
    run_folder.operation(2.0, 3.0, POLL, EventType.FAIL, process=1, error="cut")
    run_folder.operation(2.5, None, process=2, value=11)
    operations = pair_operations(read_history(run_folder.write()), 0)
    assert operations.invoked_s.tolist() == [1.0, 2.0, 2.5]
    assert operations.returned_s[:2].tolist() == [4.0, 3.0]
    assert np.isnan(operations.returned_s[2])
    assert [tuple(Outcome)[code] for code in operations.outcome] == [Outcome.OK, Outcome.FAIL, Outcome.INFO]


def test_counts_and_errors(run_folder: RunFolder) -> None:
    """Operations are counted by function and outcome, errors by text, and silence has a line of its own."""
    run_folder.operation(1, 2, value=1, offset=0)
    run_folder.operation(2.1, 3, POLL, EventType.FAIL, process=1, error="cut")
    run_folder.operation(3.1, 4, POLL, EventType.FAIL, process=1, error="cut")
    run_folder.operation(4.1, None, process=2, value=2)
    run = read_run(run_folder.write())
    assert [(entry.f, *entry.counts.values()) for entry in run.counts] == [("append", 1, 0, 1), ("poll", 0, 2, 0)]
    assert [(entry.f, entry.outcome, entry.error, entry.count) for entry in run.errors] == [
        (POLL, Outcome.FAIL, "cut", 2),
        (APPEND, Outcome.INFO, "never returned", 1),
    ]


def test_throughput_loses_nothing(busy_run: Callable[[], RunFolder]) -> None:
    """Summed over its bins, throughput is the number of operations of each function and outcome."""
    run = read_run(busy_run().write())
    counts = {(entry.f, outcome): count for entry in run.counts for outcome, count in entry.counts.items() if count}
    seconds = run.throughput.bin_ms / 1000
    binned = {(rate.f, rate.outcome): round(sum(rate.per_second) * seconds) for rate in run.throughput.rates}
    assert binned == counts


def test_what_the_harness_does_is_not_drawn(run_folder: RunFolder) -> None:
    """Its operations are counted, and their errors told, but they are neither throughput nor latency."""
    run_folder.operation(1, 2, value=1, offset=0)
    run_folder.operation(3, 9, "converge", EventType.FAIL, process=HARNESS_PROCESS, error="late")
    run = read_run(run_folder.write())
    assert {rate.f for rate in run.throughput.rates} == {drawn.f for drawn in run.operations} == {APPEND}
    assert [entry.f for entry in run.counts] == [APPEND, "converge"]
    assert [entry.error for entry in run.errors] == ["late"]


@pytest.mark.parametrize("duration_s", [0.0, 1.0, 30.0, 600.0, 86_400.0])
def test_bins_are_bounded(duration_s: float) -> None:
    """Whatever its length, a run has at most so many bins."""
    assert duration_s * 1000 / bin_width_ms(duration_s) <= BINS_MAX


def test_what_is_drawn_is_bounded_and_keeps_the_extremes(busy_run: Callable[[], RunFolder]) -> None:
    """Of a long history a sample is drawn: of each function and outcome with the slowest and the fastest, and with
    whatever an anomaly names."""
    operations = pair_operations(read_history(busy_run().write()), 0)
    took = np.where(np.isnan(operations.returned_s), np.inf, operations.returned_s - operations.invoked_s)
    named = np.array([17, 1234], dtype=np.int64)
    drawn = drawn_positions(operations, named, drawn_max=200)
    assert len(drawn) <= 200 + len(named) < len(took)
    assert set(named) <= set(drawn)
    for _, _, mask in operations.groups():
        own = drawn[mask[drawn]]
        assert took[own].max() == took[mask].max()
        assert took[own].min() == took[mask].min()
    assert drawn_positions(operations, named).tolist() == list(range(len(took)))


def test_faults_last_until_they_heal(busy_run: Callable[[], RunFolder]) -> None:
    """A fault lasts from the invocation of its injection to the completion of its healing, on its replicas."""
    faults = read_run(busy_run().write()).timeline.faults
    assert [(fault.look, fault.replicas) for fault in faults] == [
        (PARTITIONED, (1,)),
        (KILLED, (2,)),
        (PAUSED, (3,)),
    ]
    assert faults[0].end_s is not None
    assert faults[0].end_s - faults[0].start_s == pytest.approx(5.02)


def test_faults_of_one_kind_that_overlap_heal_each_for_itself(run_folder: RunFolder) -> None:
    """A healing ends the fault of its number, and no other of its kind on the same replica."""
    run_folder.fault("pause", 1, fault_id=0, replicas=[1])
    run_folder.fault("pause", 2, fault_id=1, replicas=[1])
    run_folder.fault("resume", 3, fault_id=0, replicas=[1])
    run_folder.fault("resume", 4, fault_id=1, replicas=[1])
    faults = read_run(run_folder.write()).timeline.faults
    assert [round((fault.end_s or 0) - fault.start_s, 1) for fault in faults] == [2.0, 2.0]


def test_what_did_not_strike_is_told_apart(run_folder: RunFolder) -> None:
    """An injection that was refused is no fault of the timeline; it is told with its time and its reason."""
    run_folder.event(1.0, EventType.INVOKE, "damage-disk", NEMESIS_PROCESS, detail='{"fault_id": 0}')
    run_folder.event(1.1, EventType.FAIL, "damage-disk", NEMESIS_PROCESS, detail='{"fault_id": 0}', error="too many")
    timeline = read_run(run_folder.write()).timeline
    assert timeline.faults == ()
    (refusal,) = timeline.refusals
    assert (refusal.name, refusal.time_s, refusal.reason) == ("damage-disk", 0.0, "too many")


def test_unhealed_fault_stays_open(run_folder: RunFolder) -> None:
    """A fault that nothing heals, or that heals on another replica only, has no end."""
    run_folder.fault("kill", 1, replicas=[1])
    run_folder.fault("restart", 2, replicas=[2])
    (fault,) = read_run(run_folder.write()).timeline.faults
    assert fault.end_s is None


def test_reigns_may_overlap(busy_run: Callable[[], RunFolder]) -> None:
    """A leader that is cut off leads in its own eyes until it learns of the next epoch; a killed one until it dies."""
    timeline = read_run(busy_run().write()).timeline
    first, second = timeline.leaderships[:2]
    assert (first.replica_id, first.epoch, second.epoch) == (1, 1, 2)
    assert first.end_s is not None
    assert first.end_s > second.start_s
    assert second.end_s == pytest.approx(timeline.faults[1].start_s)
    assert [mark.offset for mark in timeline.marks if mark.kind is MarkKind.TRUNCATION] == [412]


@pytest.mark.parametrize("end", ["halted", "halted-by-disk", "killed-by-memory"])
def test_a_reign_ends_with_a_halt(run_folder: RunFolder, end: str) -> None:
    """Whatever the reason of it: who has halted leads no more, and is not shown to until it starts again."""
    run_folder.replica_event(1, 1, "became-leader", epoch=1)
    run_folder.replica_event(4, 1, end)
    run_folder.replica_event(9, 1, "started")
    (reign,) = read_run(run_folder.write()).timeline.leaderships
    assert reign.end_s is not None
    assert reign.end_s - reign.start_s == pytest.approx(3)


def test_anomaly_comes_with_its_evidence(run_folder: RunFolder) -> None:
    """An anomaly shows the operations it names, by invocation or completion, and what each replica holds there."""
    run_folder.operation(1, 2, value=7, offset=1)
    run_folder.operation(3, 4, POLL, process=1, records=(PolledRecord(offset=1, value=8),))
    run_folder.log(1, values=[5, 8], epochs=[1, 2])
    run_folder.log(2, values=[5], epochs=[1])
    lost = {"anomaly": "lost-write", "severity": "violation", "topic_partition": "log-0", "offsets": [1]}
    evidence = {"op_indexes": [0, 3], "replicas": [1], "detail": "gone", "evidence": '{"value":7}'}
    (anomaly,) = read_run(run_folder.write(verdict="invalid", anomalies=[lost | evidence])).judgement.anomalies
    assert [(row.index, row.f, row.value, row.invoked_s) for row in anomaly.operations] == [
        (0, "append", "7", 0.0),
        (2, "poll", "8@1", 2.0),
    ]
    assert [held.holds.split(",")[0] for held in anomaly.held] == ["value 8", "nothing: its log ends at 1"]
    assert anomaly.facts == (("value", "7"),)


def test_promises_are_kept_violated_or_undecided(busy_run: Callable[[], RunFolder]) -> None:
    """A violation breaks its promise, what could not be decided leaves it open, and rows that count are counted."""
    anomalies = [
        {"anomaly": "lost-write", "severity": "violation", "detail": "one"},
        {"anomaly": "lost-write", "severity": "violation", "detail": "41 more", "evidence": '{"more":41}'},
        {"anomaly": "unseen", "severity": "unknown", "detail": "perhaps"},
    ]
    checks = {
        "lost-write": {"kept": "violated", "found": 42, "looked": 90, "missed": 10, "why": "10 tell no offset"},
        "unseen": {"kept": "undecided", "found": 1, "looked": 1200, "missed": 0, "why": ""},
        "duplicate": {"kept": "kept", "found": 0, "looked": 1, "missed": 0, "why": ""},
    }
    judgement = read_run(busy_run().write(verdict="invalid", anomalies=anomalies, checks=checks)).judgement
    promises = {promise.anomaly: promise for promise in judgement.promises}
    assert [promise.anomaly for promise in judgement.promises] == [check.name for check in CHECKS]
    lost = promises["lost-write"]
    assert (lost.kept, lost.count, lost.looked) == (Kept.VIOLATED, 42, "90 of 100 acknowledged writes")
    assert lost.why == "10 tell no offset"
    assert (promises["unseen"].kept, promises["unseen"].looked) == (Kept.UNDECIDED, "1,200 acknowledged writes")
    assert promises["duplicate"].kept is Kept.KEPT
    assert promises["hole"].kept is Kept.NOT_JUDGED
    assert judgement.anomaly_count == 43


def test_nothing_is_kept_that_was_not_recorded(tmp_path: Path) -> None:
    """Without logs of two replicas nobody knows of divergence, without events nobody knows of leaders, and cycles are
    looked for among transactions only: results, terminal and report say so alike."""
    logs = replica_log(1, [(1, [10])])
    folder = record_run(
        tmp_path, Run(operations=[append((0, 1), 10, 0)], logs=logs, events=[told(1, "started")], gapless=False)
    )
    judgement = judge_run(folder, engine="local")
    write_results(judgement, folder)
    promises = {promise.anomaly: promise for promise in read_run(folder).judgement.promises}
    results = json.loads((folder / "results.json").read_text(encoding="utf-8"))["checks"]
    assert {name: told["kept"] for name, told in results.items()} == {name: p.kept for name, p in promises.items()}
    assert promises["duplicate"].kept is Kept.KEPT, judgement.reasons
    idle = {name: promise.why for name, promise in promises.items() if promise.kept is Kept.NOT_JUDGED}
    assert idle["diverged-log"] == "there were no logs of several replicas"
    assert idle["two-leaders"] == "there were no replicas that told that they became leader"
    assert idle["committed-truncated"] == "there were no high watermarks that replicas were asked for"
    assert idle.keys() >= {"G0", "G0-process", "G0-realtime", "G1c", "G1c-process", "G1c-realtime", "hole"}


@pytest.mark.parametrize(
    ("lengths", "verdict", "said"),
    [
        ((2, 2, 2), Verdict.VALID, "2 acknowledged writes; each was found in the final log of all 3 replicas."),
        ((2, 2, 1), Verdict.VALID, "not every replica's final log could be compared"),
        ((2, 2), Verdict.VALID, "not every replica's final log could be compared"),
        ((2, 2, 2), Verdict.UNKNOWN, "whether all were kept is not known"),
    ],
)
def test_headline_claims_only_what_was_checked(
    run_folder: RunFolder, lengths: tuple[int, ...], verdict: Verdict, said: str
) -> None:
    """Every replica is said to hold every write only when each vouches for all acknowledged offsets."""
    for number in range(2):
        run_folder.operation(number + 1, number + 1.5, value=number, offset=number)
    for replica_id, length in enumerate(lengths, 1):
        run_folder.log(replica_id, values=[0, 1][:length], epochs=[1, 1][:length])
    kept = {"lost-write": {"kept": "kept", "looked": 2}}
    assert said in read_run(run_folder.write(verdict=verdict, checks=kept)).judgement.headlines[0]


def test_unknown_verdicts_are_unknown(run_folder: RunFolder) -> None:
    """A verdict that is none of the three is not believed."""
    assert read_run(run_folder.write(verdict="fine")).judgement.verdict is Verdict.UNKNOWN


def test_an_anomaly_is_marked_where_it_happened(run_folder: RunFolder) -> None:
    """That is when its last operation ended; a final read brings to light what was before, and counts only if alone."""
    run_folder.operation(1, 2, value=7, offset=1)
    run_folder.operation(3, 4, POLL, process=1, records=(PolledRecord(offset=1, value=8),))
    run_folder.operation(50, 60, FINAL_READ, process=2, records=())
    row = {"anomaly": "lost-write", "severity": "violation"}
    shown = [[0, 2, 4], [4], []]
    run = read_run(run_folder.write(verdict="invalid", anomalies=[row | {"op_indexes": indexes} for indexes in shown]))
    moments = [anomaly.moment for anomaly in run.judgement.anomalies]
    assert moments == [
        Moment(start_s=0.0, end_s=59.0, at_s=3.0),
        Moment(start_s=49.0, end_s=59.0, at_s=59.0),
        None,
    ]
