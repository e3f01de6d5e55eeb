"""How a run ends: agreement, the final read, the dumps, the reports."""

from __future__ import annotations

import asyncio
import json
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from nemesis.cluster.log_lines import report_of
from nemesis.cluster.system import Dump, DumpedBatch, ReplicaState, Report
from nemesis.errors import NotDoneError
from nemesis.faults.breakable import ClusterState, PartitionState
from nemesis.history import HIGH_WATERMARK
from nemesis.history.reader import read_replica_events, read_replica_logs
from nemesis.workload.append import final_read
from nemesis.workload.ending import (
    ReportWriter,
    dump_all,
    log_rows,
    wait_converged,
    why_not_converged,
)
from tests.checks.histories import judge, names
from tests.workload.fake_system import NAMES, FakeSystem
from tests.workload.recording import Recording

NAME = "orders-0"
LEADER = ReplicaState(
    node=1, topic_partition=NAME, role="leader", epoch=3, leader_id=1, high_watermark=9, log_end_offset=9
)
SECOND, THIRD = (replace(LEADER, node=node, role="follower") for node in (2, 3))
DECIDED = PartitionState(replicas=(1, 2, 3), isr=(1, 2, 3), leader=1, leader_epoch=3)


@pytest.mark.parametrize(
    ("decided", "states", "missing"),
    [
        (DECIDED, (LEADER, SECOND, THIRD), None),
        (DECIDED, (LEADER, SECOND, THIRD, replace(THIRD, topic_partition="orders-1", log_end_offset=4)), None),
        (replace(DECIDED, replicas=(1, 2), isr=(1, 2)), (LEADER, SECOND), None),
        (replace(DECIDED, isr=(1, 3)), (LEADER, SECOND, THIRD), "out of sync"),
        (replace(DECIDED, leader=None), (LEADER, SECOND, THIRD), "no leader"),
        (DECIDED, (LEADER, SECOND), "answered for by"),
        (DECIDED, (), "answered for by"),
        (DECIDED, (LEADER, SECOND, replace(THIRD, log_end_offset=8, high_watermark=8)), "different ends"),
        (DECIDED, (LEADER, SECOND, replace(THIRD, high_watermark=8)), "different ends"),
        (DECIDED, (replace(LEADER, high_watermark=None), SECOND, THIRD), "different ends"),
        (DECIDED, (LEADER, SECOND, replace(THIRD, leader_id=2)), "another leader"),
        (DECIDED, (LEADER, SECOND, replace(THIRD, epoch=2)), "another leader"),
        (replace(DECIDED, leader_epoch=4), (LEADER, SECOND, THIRD), "another leader"),
    ],
)
def test_agreement_is_of_all_replicas_on_everything(
    decided: PartitionState, states: tuple[ReplicaState, ...], missing: str | None
) -> None:
    """A log has converged when all its replicas are in sync, follow its one leader, and have committed all of it."""
    cluster = ClusterState(controller=2, active=frozenset({1, 2, 3}), partitions={NAME: decided})
    told = why_not_converged((NAME,), cluster, states)
    assert (told is None) if missing is None else (missing in (told or ""))


@pytest.mark.parametrize(
    ("cluster", "missing"),
    [
        (None, "nobody is the controller"),
        (ClusterState(controller=None, active=frozenset(), partitions={}), "nobody is the controller"),
        (ClusterState(controller=1, active=frozenset(), partitions={}), "orders-0 is not known"),
    ],
)
def test_without_a_controller_nothing_has_converged(cluster: ClusterState | None, missing: str) -> None:
    """Somebody must control the cluster, and every log must be known."""
    assert why_not_converged((NAME,), cluster, ()) == missing


async def test_disagreement_is_recorded_and_not_waited_for(tmp_path: Path) -> None:
    """When a node stays away the wait ends in time, and the history says so."""
    system, recording = FakeSystem(), Recording(tmp_path)
    system.paused.add(3)

    assert not await wait_converged(system, recording.recorder, at_most_s=0.1)

    (_, invoked, _), (f, ended, detail) = recording.harness_rows()
    assert (invoked, f, ended) == ("invoke", "converge", "fail")
    assert len(json.loads(detail or "")["states"]) == 4
    claims = claims_of(recording)
    assert {name: (claim["isr"], claim["restored"]) for name, claim in claims.items()} == {
        name: ([1, 2], False) for name in NAMES
    }


async def test_nobody_waits_for_a_replica_that_has_ended(tmp_path: Path) -> None:
    """A replica that is down when all has healed stays down: the wait ends at once, and says which it is."""
    system, recording = FakeSystem(), Recording(tmp_path)
    system.running.discard(3)
    begin_s = asyncio.get_running_loop().time()

    assert not await wait_converged(system, recording.recorder, at_most_s=60)

    assert asyncio.get_running_loop().time() - begin_s < 30
    errors = [row["error"] for row in recording.rows() if row["type"] == "fail"]
    assert "replicas [3] have ended by themselves" in errors[0]


async def test_agreement_is_recorded_with_the_claims_of_the_isr(tmp_path: Path) -> None:
    """When all agree, each log's ISR is told with its leader, that one's high watermark and the time that it took."""
    system, recording = FakeSystem(), Recording(tmp_path)
    system.logs[NAME].extend([5, 6])

    assert await wait_converged(system, recording.recorder, at_most_s=5)

    recording.writer.flush()
    rows = [row for row in read_replica_events(tmp_path).to_pylist() if row["event"] == "final-isr"]
    told = {row["topic_partition"]: (row["replica_id"], row["epoch"], row["offset"]) for row in rows}
    assert told == {"orders-0": (1, 1, 2), "orders-1": (1, 1, 0)}
    claim = claims_of(recording)[NAME]
    assert (claim["isr"], claim["replicas"], claim["restored"]) == ([1, 2, 3], [1, 2, 3], True)
    assert 0 <= claim["after_s"] < 5


def claims_of(recording: Recording) -> dict[str, dict[str, Any]]:
    """What was recorded of each log's ISR."""
    recording.writer.flush()
    rows = read_replica_events(recording.folder).to_pylist()
    return {row["topic_partition"]: json.loads(row["detail"]) for row in rows if row["event"] == "final-isr"}


async def test_the_final_read_sees_everything(tmp_path: Path) -> None:
    """It begins at 0, returns all, and only its last poll claims to have seen the end."""
    system, recording = FakeSystem(), Recording(tmp_path)
    system.logs[NAME].extend(range(10, 35))
    system.poll_records_max = 10

    assert await final_read(system, recording.recorder, 7, NAME, at_most_s=5, claim_end=True)

    rows = recording.client_rows()
    assert [row["offset"] for row in rows if row["type"] == "invoke"] == [0, 10, 20]
    assert [row["limited"] for row in rows if row["type"] == "ok"] == [True, True, False]
    assert [record["value"] for row in rows for record in row.get("records", ())] == system.logs[NAME]
    assert {(row["process"], row["f"]) for row in rows} == {(7, "final-read")}


async def test_a_final_read_without_agreement_claims_nothing(tmp_path: Path) -> None:
    """When the replicas did not agree no poll claims to have seen the end."""
    system, recording = FakeSystem(), Recording(tmp_path)
    system.logs[NAME].extend([1, 2])

    assert await final_read(system, recording.recorder, 7, NAME, at_most_s=5, claim_end=False)

    assert [row["limited"] for row in recording.client_rows() if row["type"] == "ok"] == [True]


async def test_a_final_read_that_fails_ends_in_time(tmp_path: Path) -> None:
    """A cluster that never answers is asked again for a while, and each failure is recorded."""

    def outcome(f: str, value: int) -> None:
        raise NotDoneError("no answer")

    recording = Recording(tmp_path)
    assert not await final_read(FakeSystem(outcome), recording.recorder, 7, NAME, at_most_s=0.2, claim_end=True)
    assert {row["type"] for row in recording.client_rows()} == {"invoke", "fail"}


async def test_every_node_that_answers_is_dumped(tmp_path: Path) -> None:
    """Each empty log has its row, and a node that cannot be read is told in the history."""
    system, recording = FakeSystem(), Recording(tmp_path)
    system.running.discard(2)

    await dump_all(system, recording.recorder, recording.writer)

    recording.writer.flush()
    assert read_replica_logs(tmp_path).column("replica_id").to_pylist() == [1, 1, 3, 3]
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
    dump = Dump(
        node=2,
        topic_partition=NAME,
        batches=(replace(batch, producer_id=8, producer_epoch=0, base_sequence=3), control),
        high_watermark=6,
        log_start_offset=4,
        log_end_offset=7,
        complete=True,
    )

    first, second = log_rows(dump)

    assert (first.base_offset, first.last_offset, first.values, first.is_control) == (4, 5, (7, 8), False)
    assert (second.leader_epoch, second.crc, second.values, second.is_control) == (3, 98, None, True)
    assert (first.producer_id, first.producer_epoch, first.base_sequence) == (8, 0, 3)
    assert second.producer_id is None
    assert {(row.log_end_offset, row.topic_partition) for row in (first, second)} == {(7, NAME)}


@pytest.mark.parametrize("wall_s", [-600, 0, 600])
@pytest.mark.parametrize(("cut_s", "convicts"), [(-1, False), (1, True)])
def test_a_wall_clock_that_is_off_convicts_nobody_and_hides_nothing(
    tmp_path: Path, wall_s: int, cut_s: int, convicts: bool
) -> None:
    """A cut is before or after what the replica has told by the clock that all processes share."""
    recording = Recording(tmp_path)
    began_ns = time.monotonic_ns()
    recording.recorder.replica(1, HIGH_WATERMARK, topic_partition=NAME, epoch=1, offset=9, detail="leader")
    line = {"event": "log_truncated", "log": NAME, "from_offset": 9, "end_offset": 4}
    line["monotonic_ns"] = began_ns + cut_s * 1_000_000_000
    line["time_ns"] = time.time_ns() + (wall_s + cut_s) * 1_000_000_000
    report = report_of(line, 1)
    assert report is not None
    ReportWriter(recording.writer, recording.clock).write_new([report])
    recording.writer.flush()

    events = read_replica_events(tmp_path)
    rows = judge([], [], [{"run_id": "run", **row} for row in events.to_pylist()])
    assert names(rows) == (["committed-truncated"] if convicts else [])


def test_a_report_is_written_once(tmp_path: Path) -> None:
    """However often the nodes' logs are read, each report is one row, at its time in the run."""
    recording = Recording(tmp_path)
    reports = [Report(node=node, monotonic_ns=0, event="became-leader", epoch=4) for node in (1, 2)]
    writer = ReportWriter(recording.writer, recording.clock)

    writer.write_new(reports[:1])
    writer.write_new(reports)

    recording.writer.flush()
    rows = read_replica_events(tmp_path).to_pylist()
    assert [(row["replica_id"], row["event"], row["epoch"], row["time_ns"]) for row in rows] == [
        (1, "became-leader", 4, 0),
        (2, "became-leader", 4, 0),
    ]
