"""Each anomaly in a small history that shows it, and in one that only looks like it."""

from __future__ import annotations

import json
from typing import Any

import pytest

from nemesis.checks import RunCounts, Verdict, decide
from tests.checks.histories import Row, append, became_leader, judge, names, poll, replica_log, told

SEEN = poll((90, 91), 0, (0, 10), (1, 11), (2, 12), process=9)
SEEN_TWO = poll((90, 91), 0, (0, 10), (1, 11), process=9)
THREE = [append((0, 1), 10, 0), append((2, 3), 11, 1), append((4, 5), 12, 2)]

CONVICTED: dict[str, tuple[list[Row], list[Row], list[str]]] = {
    "lost-write: passed over": (
        [*THREE, poll((6, 7), 0, (0, 10), (2, 12))],
        [],
        ["int-poll-skip", "lost-write"],
    ),
    "lost-write: overwritten": (
        [*THREE, append((6, None), 13, type="info"), poll((8, 9), 0, (0, 10), (1, 13), (2, 12))],
        [],
        ["inconsistent-offsets", "lost-write", "nonmonotonic-send", "realtime-reorder"],
    ),
    "lost-write: final read is shorter": (
        [*THREE, poll((6, 7), 0, (0, 10), (1, 11), f="final-read")],
        [],
        ["lost-write", "stale-read"],
    ),
    "lost-write: no offset, and the final read has not got it": (
        [append((0, 1), 10, 0), append((2, 3), 11), poll((6, 7), 0, (0, 10), f="final-read")],
        [],
        ["lost-write"],
    ),
    "lost-write: a replica vouches for something else": (
        THREE,
        replica_log(1, [(1, [10, 11]), (2, None)]),
        ["lost-write"],
    ),
    "lost-write: in no log of a majority": (
        THREE,
        replica_log(1, [(1, [10]), (1, [11])])
        + replica_log(2, [(1, [10]), (1, [11])])
        + replica_log(3, [(1, [10])], complete=False),
        ["lost-write"],
    ),
    "lost-write: a majority of the logs ends before it": (
        [*THREE, SEEN],
        replica_log(1, [(1, [10, 11]), (1, [12])]) + replica_log(2, [(1, [10, 11])]) + replica_log(3, [(1, [10, 11])]),
        ["lost-write"],
    ),
    "lost-write: a majority of the logs, one not decoded": (
        [*THREE, SEEN],
        replica_log(1, [(1, [10, 11, 12])], high_watermark=0)
        + replica_log(2, [(1, [10, 11])], high_watermark=0)
        + [row | {"values": None} for row in replica_log(3, [(1, [10, 11])], high_watermark=0)],
        ["lost-write?"],
    ),
    "duplicate": (
        [*THREE, poll((6, 7), 0, (0, 10), (1, 11), (2, 12), (3, 11))],
        [],
        ["duplicate"],
    ),
    "duplicate: below a replica's high watermark": (
        [*THREE, SEEN],
        replica_log(1, [(1, [10, 11, 12, 10])]),
        ["duplicate"],
    ),
    "inconsistent-offsets: two readers": (
        [
            append((0, None), 10, type="info"),
            append((1, None), 11, type="info", process=1),
            poll((2, 3), 0, (0, 10), process=2),
            poll((4, 5), 0, (0, 11), process=3),
        ],
        [],
        ["inconsistent-offsets"],
    ),
    "phantom-read": ([append((0, 1), 10, 0), poll((2, 3), 0, (0, 10), (1, 99))], [], ["phantom-read"]),
    "phantom-read: in a replica's log": (
        [append((0, 1), 10, 0)],
        replica_log(1, [(1, [10, 99])]),
        ["phantom-read"],
    ),
    "aborted-read": (
        [append((0, 1), 10, 0), append((2, 3), 11, type="fail"), poll((4, 5), 0, (0, 10), (1, 11))],
        [],
        ["aborted-read"],
    ),
    "uncommitted-read": (
        [*THREE, poll((6, 7), 0, (0, 10), (1, 11), (2, 12), high_watermark=2)],
        [],
        ["uncommitted-read"],
    ),
    "nonmonotonic-poll: goes back": (
        [*THREE, poll((6, 7), 0, (0, 10), (1, 11), (2, 12)), poll((8, 9), 1, (1, 11), (2, 12))],
        [],
        ["nonmonotonic-poll"],
    ),
    "nonmonotonic-poll: below the position asked for": (
        [*THREE, poll((6, 7), 2, (1, 11), (2, 12)), SEEN],
        [],
        ["nonmonotonic-poll"],
    ),
    "int-nonmonotonic-poll": (
        [*THREE, poll((6, 7), 0, (0, 10), (2, 12), (1, 11))],
        [],
        ["int-nonmonotonic-poll"],
    ),
    "int-nonmonotonic-poll: one record twice": (
        [*THREE, poll((6, 7), 0, (0, 10), (1, 11), (1, 11), (2, 12))],
        [],
        ["int-nonmonotonic-poll"],
    ),
    "int-poll-skip": ([*THREE, SEEN, poll((6, 7), 0, (0, 10), (2, 12))], [], ["int-poll-skip"]),
    "nonmonotonic-send": (
        [append((0, 1), 11, 1), append((2, 3), 10, 0), SEEN_TWO],
        [],
        ["nonmonotonic-send", "realtime-reorder"],
    ),
    "poll-skip: from one poll to the next": (
        [*THREE, SEEN, poll((6, 7), 0, (0, 10)), poll((8, 9), 2, (2, 12))],
        [],
        ["poll-skip"],
    ),
    "poll-skip: after a seek": ([*THREE, SEEN, poll((6, 7), 0, (1, 11), (2, 12), seek=True)], [], ["poll-skip"]),
    "poll-skip: after a seek that failed": (
        [
            *THREE,
            SEEN,
            poll((6, 7), 0, (0, 10), (1, 11), (2, 12)),
            poll((8, 9), 0, seek=True, type="fail", records=None),
            poll((10, 11), 0, (1, 11), (2, 12)),
        ],
        [],
        ["poll-skip"],
    ),
    "realtime-reorder: two appends": (
        [append((0, 1), 10, 1), append((2, 3), 11, 0, process=1), poll((4, 5), 0, (0, 11), (1, 10))],
        [],
        ["realtime-reorder"],
    ),
    "realtime-reorder: read before it was sent": (
        [poll((0, 1), 0, (0, 10)), append((2, 3), 10, 0)],
        [],
        ["future-read", "realtime-reorder"],
    ),
    "realtime-reorder: below a high watermark that was told": (
        [poll((0, 1), 0, high_watermark=3), append((2, 3), 10, 2), poll((4, 5), 0, (2, 10))],
        [],
        ["realtime-reorder"],
    ),
    "realtime-reorder: of unknown outcome, placed by a read": (
        [append((0, 1), 10, 1), append((2, None), 11, type="info"), poll((4, 5), 0, (0, 11), (1, 10), process=1)],
        [],
        ["nonmonotonic-send", "realtime-reorder"],
    ),
    "stale-read": ([*THREE, poll((6, 7), 0, (0, 10), strict=True), SEEN], [], ["stale-read"]),
    "unseen": ([*THREE, poll((6, 7), 0, (0, 10), (1, 11))], [], ["unseen?"]),
    "diverged-log: both vouch for it": (
        [append((0, 1), 10, 0), append((2, None), 11, type="info"), append((3, None), 12, type="info", process=1)],
        replica_log(1, [(1, [10]), (2, [11])]) + replica_log(2, [(1, [10]), (1, [12])]),
        ["diverged-log", "inconsistent-offsets"],
    ),
    "diverged-log: the same value in another epoch": (
        [append((0, 1), 10, 0)],
        replica_log(1, [(1, [10])]) + replica_log(2, [(2, [10])]),
        ["diverged-log"],
    ),
    "diverged-log: equal again above": (
        THREE,
        replica_log(1, [(1, [10, 11]), (2, [12])])
        + replica_log(2, [(1, [10, 11]), (2, [12])])
        + replica_log(3, [(1, [10]), (1, [99]), (2, [12])], high_watermark=None),
        ["diverged-log"],
    ),
    "diverged-log: not converged": (
        [append((0, 1), 10, 0), append((2, 3), 11, 1)],
        replica_log(1, [(1, [10]), (2, [11])]) + replica_log(2, [(1, [10]), (1, [99])], high_watermark=1),
        ["diverged-log?"],
    ),
    "diverged-log: batches are missing from a whole log": (
        [append((0, 1), 10, 0)],
        replica_log(1, [(1, [10]), (1, [11]), (1, [12])])[::2],
        ["diverged-log?"],
    ),
    "epoch-regression: in a log": (
        [append((0, 1), 10, 0), append((2, 3), 11, 1)],
        replica_log(1, [(2, [10]), (1, [11])]),
        ["epoch-regression"],
    ),
    "epoch-regression: in acknowledgements": (
        [
            append((0, 2), 10, 0, leader_epoch=2),
            append((1, 3), 11, 1, leader_epoch=1, process=1),
            poll((4, 5), 0, (0, 10), (1, 11)),
        ],
        [],
        ["epoch-regression"],
    ),
    "fenced-acknowledgement": (
        [
            append((0, 1), 10, 0, leader_epoch=2),
            append((2, 3), 11, 1, leader_epoch=1),
            poll((4, 5), 0, (0, 10), (1, 11)),
        ],
        [],
        ["epoch-regression", "fenced-acknowledgement"],
    ),
    "duplicate: placed where it was seen first": (
        [
            append((0, 1), 10, 0),
            append((2, 3), 11, 3),
            append((4, None), 12, type="info", process=1),
            poll((5, 6), 3, (3, 11), (5, 12), process=2),
            poll((7, 8), 0, (0, 10), (2, 12), process=3),
        ],
        [],
        ["duplicate"],
    ),
    "lost-write: a batch without all its values": (
        THREE,
        [row | {"values": [10, 11]} for row in replica_log(1, [(1, [10, 11, 12])])],
        ["lost-write?"],
    ),
    "malformed-operation: no value": ([append((0, 1), 10, 0) | {"value": None}], [], ["malformed-operation?"]),
    "malformed-operation: no records": ([poll((0, 1), 0, records=None)], [], ["malformed-operation?"]),
    "lost-write: not decoded": (
        THREE,
        [row | {"values": None, "is_control": False} for row in replica_log(1, [(1, [10, 11, 12])])],
        ["lost-write?"],
    ),
}

INNOCENT: dict[str, tuple[list[Row], list[Row]]] = {
    "lost-write: only beyond what was read": ([*THREE, poll((6, 7), 0, (0, 10), process=1), SEEN], []),
    "lost-write: read from above its offset": ([*THREE, poll((6, 7), 1, (1, 11), process=1), SEEN], []),
    "lost-write: the final read began before": (
        [*THREE[:2], append((4, 9), 12, 2), poll((6, 8), 0, (0, 10), (1, 11), f="final-read"), SEEN],
        [],
    ),
    "lost-write: the final read went on": (
        [
            *THREE,
            poll((6, 7), 0, (0, 10), (1, 11), f="final-read", limited=True),
            poll((8, 9), 2, (2, 12), f="final-read"),
        ],
        [],
    ),
    "lost-write: above what a late replica vouches for": (
        [*THREE, SEEN],
        replica_log(1, [(1, [10]), (1, [11, 12])]) + replica_log(2, [(1, [10])], high_watermark=1),
    ),
    "lost-write: a minority of the logs": (
        [*THREE, SEEN],
        replica_log(1, [(1, [10])]) + replica_log(2, [(1, [10])], complete=False) + replica_log(3, [], complete=False),
    ),
    "lost-write: one replica of three is behind": (
        [*THREE, SEEN],
        replica_log(1, [(1, [10, 11]), (1, [12])])
        + replica_log(2, [(1, [10, 11]), (1, [12])])
        + replica_log(3, [(1, [10, 11])]),
    ),
    "lost-write: deleted from the start of the logs": (
        [*THREE, SEEN],
        [
            row
            for replica_id in (1, 2, 3)
            for row in replica_log(replica_id, [(1, [12])], base_offset=2, log_start_offset=2)
        ],
    ),
    "lost-write: in an uncommitted tail": (
        [*THREE, SEEN],
        replica_log(1, [(1, [10, 11]), (1, [12])], high_watermark=2) + replica_log(2, [(1, [10, 11])]),
    ),
    "duplicate: one value read twice at its offset": ([*THREE, SEEN, poll((6, 7), 1, (1, 11), process=5)], []),
    "duplicate: in an uncommitted tail": ([*THREE, SEEN], replica_log(1, [(1, [10, 11, 12, 10])], high_watermark=3)),
    "phantom-read: the write is of unknown outcome": (
        [append((0, None), 10, type="info"), poll((1, 2), 0, (0, 10), process=1)],
        [],
    ),
    "phantom-read: a control record between": (
        [append((0, 1), 10, 1), append((2, 3), 11, 3), poll((4, 5), 0, (1, 10), (3, 11), strict=True)],
        replica_log(1, [(1, None), (1, [10]), (2, None), (2, [11])]),
    ),
    "aborted-read: failed once, then written": (
        [append((0, 1), 10, type="fail"), append((2, 3), 10, 0), poll((4, 5), 0, (0, 10))],
        [],
    ),
    "uncommitted-read: just below": (
        [*THREE, poll((6, 7), 0, (0, 10), (1, 11), (2, 12), high_watermark=3)],
        [],
    ),
    "nonmonotonic-poll: another process": ([*THREE, SEEN, poll((92, 93), 0, (0, 10), process=8)], []),
    "nonmonotonic-poll: an explicit seek": ([*THREE, SEEN, poll((92, 93), 0, (0, 10), process=9, seek=True)], []),
    "nonmonotonic-poll: a final read begins again": (
        [*THREE, SEEN, SEEN | {"f": "final-read", "invoke_index": 95}],
        [],
    ),
    "nonmonotonic-poll: after a seek that failed": (
        [
            *THREE,
            poll((6, 7), 0, (0, 10), (1, 11), (2, 12)),
            poll((8, 9), 0, seek=True, type="fail", records=None),
            poll((10, 11), 0, (0, 10)),
        ],
        [],
    ),
    "poll-skip: only offsets that hold no value": (
        [append((0, 1), 10, 0), append((2, 3), 11, 10**15), poll((4, 5), 0, (0, 10)), poll((6, 7), 1, (10**15, 11))],
        [],
    ),
    "poll-skip: a poll that returned nothing between": (
        [*THREE, poll((6, 7), 0, (0, 10)), poll((8, 9), 1), poll((10, 11), 1, (1, 11), (2, 12))],
        [],
    ),
    "int-poll-skip: only offsets that hold no value": (
        [append((0, 1), 10, 0), append((2, 3), 11, 10**15), poll((4, 5), 0, (0, 10), (10**15, 11))],
        [],
    ),
    "nonmonotonic-send: of unknown outcome, before": (
        [append((0, 1), 10, type="info"), append((2, 3), 11, 0), poll((4, 5), 0, (0, 11), (1, 10), process=1)],
        [],
    ),
    "realtime-reorder: the appends overlap": (
        [append((0, 3), 10, 1), append((2, 5), 11, 0, process=1), poll((6, 7), 0, (0, 11), (1, 10))],
        [],
    ),
    "realtime-reorder: an offset without an acknowledgement": (
        [append((0, 1), 10, 1), append((2, 3), 11, 0, type="info", process=1), poll((4, 5), 1, (1, 10))],
        [],
    ),
    "stale-read: the read overlaps the append": (
        [
            append((0, 1), 10, 0),
            append((2, 5), 11, 1),
            poll((4, 6), 0, (0, 10), strict=True, process=1),
            poll((7, 8), 1, (1, 11), process=1),
        ],
        [],
    ),
    "stale-read: it stopped at its limit": ([*THREE, poll((6, 7), 0, (0, 10), strict=True, limited=True), SEEN], []),
    "stale-read: nothing was promised": ([*THREE, poll((6, 7), 0, (0, 10)), SEEN], []),
    "stale-read: it began at the end": ([*THREE, SEEN, poll((92, 93), 3, strict=True)], []),
    "unseen: a replica holds it": (THREE, replica_log(1, [(1, [10, 11, 12])])),
    "diverged-log: an uncommitted tail below nobody's high watermark": (
        [append((0, 1), 10, 0)],
        replica_log(1, [(1, [10]), (2, [11])], high_watermark=1)
        + replica_log(2, [(1, [10]), (1, [99])], high_watermark=1),
    ),
    "diverged-log: one is shorter": (
        [*THREE, SEEN],
        replica_log(1, [(1, [10, 11]), (1, [12])]) + replica_log(2, [(1, [10, 11])]),
    ),
    "diverged-log: one was read twice": (
        [*THREE, SEEN],
        replica_log(1, [(1, [10]), (1, [11, 12])]) * 2 + replica_log(2, [(1, [10]), (1, [11, 12])]),
    ),
    "fenced-acknowledgement: in the same epoch": (
        [append((0, 1), 10, 0, leader_epoch=2), append((2, 3), 11, 1, leader_epoch=2), SEEN_TWO],
        [],
    ),
    "fenced-acknowledgement: it began before the later one was answered": (
        [
            append((0, 5), 10, 0, leader_epoch=1),
            append((1, 2), 11, 1, leader_epoch=2, process=1),
            poll((6, 7), 0, (0, 10), (1, 11)),
        ],
        [],
    ),
    "fenced-acknowledgement: the deposed leader was asked for less than all": (
        [
            append((0, 1), 10, 0, leader_epoch=2),
            append((2, 3), 11, 7, leader_epoch=1, acks=1),
            poll((4, 5), 0, (0, 10)),
        ],
        [],
    ),
    "lost-write: less than all replicas were asked for": (
        [append((0, 1), 10, 0), append((2, 3), 11, 1, acks=1), append((4, 5), 12, acks=0)],
        replica_log(1, [(1, [10])]) + replica_log(2, [(1, [10])]) + replica_log(3, [(1, [10])]),
    ),
    "inconsistent-offsets: less than all replicas were asked for": (
        [
            append((0, 1), 11, 0, acks=1),
            append((2, 3), 10, 0),
            poll((4, 5), 0, (0, 10)),
        ],
        [],
    ),
    "epoch-regression: epochs may stay and leap": (
        [append((0, 1), 10, 0, leader_epoch=1), append((2, 3), 11, 1, leader_epoch=7)],
        replica_log(1, [(1, [10]), (7, [11])]),
    ),
}


@pytest.mark.parametrize("case", CONVICTED)
def test_convicted(case: str) -> None:
    """The history shows exactly the anomalies that it was made for."""
    operations, logs, expected = CONVICTED[case]
    assert names(judge(operations, logs)) == expected


@pytest.mark.parametrize("case", INNOCENT)
def test_innocent(case: str) -> None:
    """The history comes near to an anomaly and shows none."""
    operations, logs = INNOCENT[case]
    assert judge(operations, logs) == []


@pytest.mark.parametrize("case", CONVICTED)
def test_evidence_names_operations(case: str) -> None:
    """Each row says in words and in JSON what was found, and names operations or replicas that exist."""
    operations, logs, _ = CONVICTED[case]
    for row in judge(operations, logs):
        assert row["detail"]
        assert isinstance(json.loads(row["evidence"]), dict)
        assert set(row["op_indexes"]) <= {operation["invoke_index"] for operation in operations}
        assert set(row["replicas"]) <= {log["replica_id"] for log in logs}
        assert row["op_indexes"] or row["replicas"]


@pytest.mark.parametrize("case", CONVICTED)
def test_row_order_does_not_matter(case: str) -> None:
    """Rows in another order give the same anomalies."""
    operations, logs, _ = CONVICTED[case]
    assert judge(operations[::-1], logs[::-1]) == judge(operations, logs)


def test_two_leaders() -> None:
    """Two replicas that became leader in one epoch are convicted; one that did so twice, or in two epochs, is not."""
    assert names(judge([], [], [became_leader(1, 3), became_leader(2, 3)])) == ["two-leaders"]
    assert judge([], [], [became_leader(1, 3), became_leader(1, 3), became_leader(2, 4)]) == []


def test_many_rows_are_counted_not_listed() -> None:
    """More than a hundred anomalies of a kind in one topic-partition end in a row that counts the others."""
    polls: list[dict[str, Any]] = [poll((i, i + 1), 0, (i, i)) for i in range(0, 300, 2)]
    rows = [row for row in judge(polls) if row["anomaly"] == "phantom-read"]
    assert len(rows) == 101
    assert any(json.loads(row["evidence"]) == {"more": 50} for row in rows)


def test_replica_stopped() -> None:
    """A replica that halted or died by itself is convicted with its reason; one that was stopped in order is not."""
    event = became_leader(2, 3) | {"epoch": None, "topic_partition": None}
    halted = event | {"event": "halted", "detail": "committed records would be lost"}
    rows = judge([], [], [halted, event | {"event": "stopped"}, event | {"event": "died"}])
    assert [(row["anomaly"], row["replicas"]) for row in rows] == [("replica-stopped", [2])] * 2
    assert "committed records would be lost" in "".join(row["detail"] for row in rows)


def test_who_was_killed_from_outside_is_not_convicted() -> None:
    """The run is unknown, with a sentence that names replica, signal and time; an end of its own beside it convicts."""
    event = told(2, "killed-from-outside", 12_345_000_000, topic_partition=None, detail="SIGKILL")
    rows = judge([], [], [event])
    counts = RunCounts(events=4, index_end=4, append_ok=2, acked_checked=2, logs_dumped=1, logs_dumped_completely=1)
    decision = decide(counts=counts, anomalies=rows, coverage=(), complete=True, problems=())
    sentence = "SIGKILL of replica 2 at 12.3 s, which the harness did not send"
    assert (decision.verdict, decision.reasons) == (
        Verdict.UNKNOWN,
        (f"replica-stopped: 1 (undecided), 1 by {sentence}",),
    )
    assert sentence in rows[0]["detail"]
    both = judge([], [], [event, event | {"event": "died", "detail": "exit code -11"}])
    assert decide(counts=counts, anomalies=both, coverage=(), complete=True, problems=()).verdict is Verdict.INVALID
