"""What a replica wrote to its log, as reports of the run."""

from __future__ import annotations

import json
from contextlib import nullcontext
from pathlib import Path

import pytest

from nemesis.cluster.log_lines import ReportLog, check_clock, log_lines, report_of
from nemesis.cluster.system import Report
from nemesis.errors import NodeFailedError
from nemesis.history import (
    BECAME_LEADER,
    LAST_KNOWN_LEADER_ELECTED,
    METADATA_LOG,
    OFFLINE,
    UNCLEAN_ELECTION,
    VOTERS_CHANGED,
    VOTERS_LEARNED,
)
from nemesis.report.timeline import TRUNCATED

LED = {"event": "role_changed", "log": "orders-0", "role": "leader", "epoch": 3, "leader_id": 2, "monotonic_ns": 5}
CUT = {
    **{"event": "log_truncated", "log": "orders-0", "from_offset": 9, "end_offset": 4, "monotonic_ns": 6},
    **{"epoch": 3, "leader_id": 2},
}


@pytest.mark.parametrize(("monotonic_ns", "is_ours"), [(5, True), (9, True), (4, False), (10, False), (None, False)])
def test_a_replica_with_a_clock_of_its_own_is_refused(monotonic_ns: int | None, is_ours: bool) -> None:
    """What it does could not be put before or after what is seen of it."""
    with nullcontext() if is_ours else pytest.raises(NodeFailedError, match="in one time namespace"):
        check_clock(1, {"event": "started", "monotonic_ns": monotonic_ns}, since_ns=5, now_ns=9)


def test_a_new_role_is_told_by_its_name() -> None:
    """A role is reported with its epoch, in the word that judges and report know, and of a partition with its ISR."""
    report = report_of(LED | {"isr": [2, 3]}, 2)

    assert report is not None
    assert (report.node, report.monotonic_ns, report.event, report.epoch) == (2, 5, BECAME_LEADER, 3)
    assert json.loads(report.detail or "") == {"leader_id": 2, "isr": [2, 3]}


def test_a_truncation_is_told_with_its_new_end() -> None:
    """A truncation is reported with the new end of the log, and whom the replica followed in which epoch."""
    report = report_of(CUT, 1)

    assert report is not None
    assert (report.event, report.offset, report.topic_partition, report.epoch) == (TRUNCATED, 4, "orders-0", 3)
    assert json.loads(report.detail or "") == {"from_offset": 9, "end_offset": 4, "leader_id": 2}


def test_a_controller_is_the_leader_of_the_metadata() -> None:
    """What happens in the metadata log is told by the name of that log."""
    report = report_of(LED | {"log": METADATA_LOG}, 2)

    assert report is not None
    assert (report.event, report.topic_partition) == (BECAME_LEADER, METADATA_LOG)


@pytest.mark.parametrize(("role", "event"), [("leader", VOTERS_CHANGED), ("follower", VOTERS_LEARNED)])
def test_other_voters_are_told_by_all_and_made_by_the_leader(role: str, event: str) -> None:
    """Every replica tells who votes and from which record on; that of the leader is the change itself."""
    line = {"event": "voters_changed", "log": "kv-0", "offset": 8, "epoch": 3, "role": role, "voters": [1, 3]}
    report = report_of(line | {"monotonic_ns": 9}, 1)

    assert report is not None
    assert (report.event, report.offset, report.epoch, report.topic_partition) == (event, 8, 3, "kv-0")
    assert json.loads(report.detail or "") == {"voters": [1, 3]}


@pytest.mark.parametrize("event", ["isr_shrunk", "isr_expanded"])
def test_a_change_of_an_isr_is_told(event: str) -> None:
    """Who leaves and who joins is reported by the leader, with its epoch."""
    report = report_of({"event": event, "log": "orders-0", "epoch": 3, "isr": [1], "left": [2], "monotonic_ns": 7}, 1)

    assert report is not None
    assert (report.event, report.epoch, report.topic_partition) == (event.replace("_", "-"), 3, "orders-0")
    assert json.loads(report.detail or "") == {"isr": [1], "left": [2]}


@pytest.mark.parametrize(
    ("event", "expected"),
    [
        ("partition_offline", OFFLINE),
        ("unclean_election", UNCLEAN_ELECTION),
        ("last_known_leader_elected", LAST_KNOWN_LEADER_ELECTED),
    ],
)
def test_what_a_lost_leader_costs_is_told(event: str, expected: str) -> None:
    """The controller's words on a partition without its leader are reported with who had everything."""
    line = {"event": event, "log": "orders-0", "epoch": 3, "leader_id": 2, "isr": [], "elr": [1], "monotonic_ns": 8}
    report = report_of(line | {"last_known_leader": None, "partition_epoch": 5}, 3)

    assert report is not None
    assert (report.node, report.event, report.epoch, report.topic_partition) == (3, expected, 3, "orders-0")
    assert json.loads(report.detail or "") == {"leader_id": 2, "isr": [], "elr": [1]}


@pytest.mark.parametrize("event", ["snapshot_installed", "snapshot_stored"])
def test_a_snapshot_is_told_with_its_end(event: str) -> None:
    """What a replica loaded, or kept, of a state machine: all below the offset."""
    line = {"monotonic_ns": 5, "event": event, "log": "kv-0", "end_offset": 9, "epoch": 2, "size_bytes": 70}
    assert report_of(line, 3) == Report(
        node=3,
        monotonic_ns=5,
        event=event.replace("_", "-"),
        offset=9,
        topic_partition="kv-0",
        detail='{"end_offset": 9, "epoch": 2, "size_bytes": 70}',
    )


@pytest.mark.parametrize(
    ("event", "expected"),
    [("started", "started"), ("stopping", "stopped"), ("halted", "halted"), ("start_refused", "halted")],
)
def test_life_and_death_are_told(event: str, expected: str) -> None:
    """Beginning and end of a replica are reported."""
    assert report_of({"event": event, "monotonic_ns": 1}, 1) == Report(node=1, monotonic_ns=1, event=expected)


@pytest.mark.parametrize(
    "line",
    [
        {},
        {"event": "peer_unreachable", "monotonic_ns": 1},
        {"event": "started"},
        {"event": "broker_fenced", "broker_id": 2, "monotonic_ns": 1},
    ],
)
def test_other_lines_are_passed_over(line: dict[str, object]) -> None:
    """What does not matter to a run, or does not say when, is no report."""
    assert report_of(line, 1) is None


def test_a_file_may_hold_anything(tmp_path: Path) -> None:
    """Words that are no JSON, other documents, damaged text and a torn last line do not hide the reports."""
    path = tmp_path / "replica.log"
    path.write_bytes(
        b"Traceback (most recent call last):\n[1]\n\xff\xfe\n" + json.dumps(LED).encode() + b"\n"
        b'replica: cannot start\n{"event": "role_ch'
    )

    assert [report.event for report in ReportLog(path, 2).reports()] == [BECAME_LEADER]
    assert list(ReportLog(tmp_path / "absent.log", 2).reports()) == []


def test_a_log_is_read_on_from_where_reading_ended(tmp_path: Path) -> None:
    """Asked again, no line is read twice, none is told twice, and one that was torn is read when it is whole."""
    path = tmp_path / "replica.log"
    log = ReportLog(path, 2)
    assert list(log.reports()) == []
    first, second = (json.dumps(line).encode() + b"\n" for line in (LED, CUT))
    path.write_bytes(first + second[:9])
    assert [report.event for report in log.reports()] == [BECAME_LEADER]

    # Whoever reads it again finds something else there.
    path.write_bytes(bytes(len(first)) + second)
    assert [report.event for report in log.reports()] == [BECAME_LEADER, "truncated"]
    assert len(log.reports()) == 2


def test_lines_of_an_earlier_life_are_skipped(tmp_path: Path) -> None:
    """Reading from where the file ended before shows what was written since."""
    path = tmp_path / "replica.log"
    path.write_text(json.dumps(LED) + "\n")
    seen = path.stat().st_size
    with path.open("a") as more:
        more.write(json.dumps(CUT) + "\n")

    assert list(log_lines(path, skip_bytes=seen)) == [CUT]
