"""How a run ends: agreement, the final read, the dumps, the reports."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from nemesis.cluster.system import Dump, DumpedBatch, NodeState, NotDoneError, Report
from nemesis.history import read_replica_events, read_replica_logs
from nemesis.workload.ending import (
    ReportWriter,
    dump_all,
    final_read,
    has_converged,
    log_rows,
    wait_converged,
)
from tests.workload.fake_system import FakeSystem
from tests.workload.recording import Recording

LEADER = NodeState(node=1, role="leader", epoch=3, leader_id=1, high_watermark=9, log_end_offset=9)
FOLLOWERS = tuple(replace(LEADER, node=node, role="follower") for node in (2, 3))


@pytest.mark.parametrize(
    ("states", "expected"),
    [
        ((LEADER, *FOLLOWERS), True),
        ((LEADER, FOLLOWERS[0]), False),
        (FOLLOWERS, False),
        ((LEADER, FOLLOWERS[0], replace(FOLLOWERS[1], log_end_offset=8, high_watermark=8)), False),
        ((LEADER, FOLLOWERS[0], replace(FOLLOWERS[1], high_watermark=8)), False),
        ((replace(LEADER, high_watermark=None), *FOLLOWERS), False),
        ((LEADER, FOLLOWERS[0], replace(FOLLOWERS[1], leader_id=2)), False),
        ((LEADER, FOLLOWERS[0], replace(FOLLOWERS[1], epoch=2)), False),
        ((), False),
    ],
)
def test_agreement_is_of_all_nodes_on_everything(states: tuple[NodeState, ...], expected: bool) -> None:
    """Nodes agree when all answer, follow one leader in one epoch, and have committed all of one log."""
    assert has_converged(states, 3) is expected


async def test_disagreement_is_recorded_and_not_waited_for(tmp_path: Path) -> None:
    """When a node stays away the wait ends in time, and the history says so."""
    system, recording = FakeSystem(), Recording(tmp_path)
    system.running.discard(3)

    assert not await wait_converged(system, recording.recorder, at_most_s=0.1)

    (_, invoked, _), (f, ended, detail) = recording.harness_rows()
    assert (invoked, f, ended) == ("invoke", "converge", "fail")
    assert len(json.loads(detail or "")["states"]) == 2


async def test_the_final_read_sees_everything(tmp_path: Path) -> None:
    """It begins at 0, returns all, and only its last poll claims to have seen the end."""
    system, recording = FakeSystem(), Recording(tmp_path)
    system.log, system.poll_records_max = list(range(10, 35)), 10

    assert await final_read(system, recording.recorder, 7, at_most_s=5, claim_end=True)

    rows = recording.client_rows()
    assert [row["offset"] for row in rows if row["type"] == "invoke"] == [0, 10, 20]
    assert [row["limited"] for row in rows if row["type"] == "ok"] == [True, True, False]
    assert [record["value"] for row in rows for record in row.get("records", ())] == system.log
    assert {(row["process"], row["f"]) for row in rows} == {(7, "final-read")}


async def test_a_final_read_without_agreement_claims_nothing(tmp_path: Path) -> None:
    """When the replicas did not agree no poll claims to have seen the end."""
    system, recording = FakeSystem(), Recording(tmp_path)
    system.log = [1, 2]

    assert await final_read(system, recording.recorder, 7, at_most_s=5, claim_end=False)

    assert [row["limited"] for row in recording.client_rows() if row["type"] == "ok"] == [True]


async def test_a_final_read_that_fails_ends_in_time(tmp_path: Path) -> None:
    """A cluster that never answers is asked again for a while, and each failure is recorded."""

    def outcome(f: str, value: int) -> None:
        raise NotDoneError("no answer")

    recording = Recording(tmp_path)
    assert not await final_read(FakeSystem(outcome), recording.recorder, 7, at_most_s=0.2, claim_end=True)
    assert {row["type"] for row in recording.client_rows()} == {"invoke", "fail"}


async def test_every_node_that_answers_is_dumped(tmp_path: Path) -> None:
    """An empty log has its row, and a node that cannot be read is told in the history."""
    system, recording = FakeSystem(), Recording(tmp_path)
    system.running.discard(2)

    await dump_all(system, recording.recorder, recording.writer)

    recording.writer.flush()
    assert read_replica_logs(tmp_path).column("replica_id").to_pylist() == [1, 3]
    assert [(kind, json.loads(detail or "")["replicas"]) for f, kind, detail in recording.harness_rows()] == [
        ("invoke", [1]),
        ("info", [1]),
        ("invoke", [2]),
        ("fail", [2]),
        ("invoke", [3]),
        ("info", [3]),
    ]


def test_a_dump_becomes_one_row_for_each_batch() -> None:
    """Batches keep their columns, and each row has what belongs to the replica."""
    batch = DumpedBatch(base_offset=4, last_offset=5, leader_epoch=2, crc=99, is_control=False, values=(7, 8))
    control = DumpedBatch(base_offset=6, last_offset=6, leader_epoch=3, crc=98, is_control=True, values=None)
    dump = Dump(node=2, batches=(batch, control), high_watermark=6, log_start_offset=4, log_end_offset=7, complete=True)

    first, second = log_rows(dump, "log-0")

    assert (first.base_offset, first.last_offset, first.values, first.is_control) == (4, 5, (7, 8), False)
    assert (second.leader_epoch, second.crc, second.values, second.is_control) == (3, 98, None, True)
    assert {row.log_end_offset for row in (first, second)} == {7}


def test_a_report_is_written_once(tmp_path: Path) -> None:
    """However often the nodes' logs are read, each report is one row, at its time in the run."""
    recording = Recording(tmp_path)
    reports = [Report(node=node, wall_ns=0, event="became-leader", epoch=4) for node in (1, 2)]
    writer = ReportWriter(recording.writer, recording.clock)

    writer.write_new(reports[:1])
    writer.write_new(reports)

    recording.writer.flush()
    rows = read_replica_events(tmp_path).to_pylist()
    assert [(row["replica_id"], row["event"], row["epoch"], row["time_ns"]) for row in rows] == [
        (1, "became-leader", 4, 0),
        (2, "became-leader", 4, 0),
    ]
