"""Why an acknowledged record is lost: hand-made runs with unclean elections, and with what only looks like them."""

from __future__ import annotations

import json
from typing import Any

import pytest

from nemesis.checks.verdict import RunCounts, decide
from nemesis.history import BECAME_LEADER, LAST_KNOWN_LEADER_ELECTED, UNCLEAN_ELECTION
from nemesis.verdict import Verdict
from tests.checks.histories import PARTITION, Row, append, coverage, judge, names, poll, told

CAUSE = "unclean election in epoch 2 of replica 3"


def led(replica_id: int, epoch: int, log_end_offset: int | None) -> Row:
    """A replica became the leader, and said where its log ended."""
    detail = None if log_end_offset is None else json.dumps({"log_end_offset": log_end_offset})
    return told(replica_id, "became-leader", epoch, epoch=epoch, detail=detail)


def elected(leader_id: int, epoch: int, event: str = UNCLEAN_ELECTION, *, detail: str | None = None) -> Row:
    """The controller, replica 2, elected a leader that was not eligible; in sync was replica 1 alone."""
    said = json.dumps({"leader_id": leader_id, "isr": [1], "elr": []})
    return told(2, event, epoch, epoch=epoch, detail=said if detail is None else detail)


def lost(rows: list[Row]) -> list[Row]:
    """The rows of lost writes, with their evidence as objects."""
    return [row | {"evidence": json.loads(row["evidence"])} for row in rows if row["anomaly"] == "lost-write"]


def acknowledged(*epochs: int) -> list[Row]:
    """Value 10 at offset 0, 11 at offset 1, ..., each acknowledged by the leader of that epoch."""
    return [
        append((2 * at, 2 * at + 1), 10 + at, at, process=at, leader_epoch=epoch) for at, epoch in enumerate(epochs)
    ]


THREE = acknowledged(1, 1, 1)
CUT = [elected(3, 2), led(3, 2, 1)]
ONE_IS_LEFT = poll((10, 11), 0, (0, 10), f="final-read")


def test_a_lost_write_names_the_unclean_election() -> None:
    """Each record that the new leader lacked is named with its value and offset, the election, and what it lacked."""
    rows = lost(judge([*THREE, ONE_IS_LEFT], events=[led(1, 1, 0), elected(3, 2), led(3, 2, 1)]))

    assert [(row["offsets"], row["evidence"]["value"], row["evidence"]["cause"]) for row in rows] == [
        ([1], 11, CAUSE),
        ([2], 12, CAUSE),
    ]
    assert rows[0]["evidence"]["unclean_election"] == {
        **{"epoch": 2, "leader_id": 3, "isr": [1], "elr": []},
        **{"log_end_offset": 1, "acknowledged_end_offset": 3},
    }
    assert rows[0]["topic_partition"] == PARTITION
    assert rows[0]["detail"].endswith(
        "cause: unclean election in epoch 2 of replica 3, which was neither in the ISR (1) nor in the ELR (nobody): its"
        " log ended at offset 1, and records below 3 had been acknowledged"
    )
    assert {row["severity"] for row in rows} == {"violation"}, "who allows a loss has a loss"


@pytest.mark.parametrize(
    "events",
    [
        pytest.param([], id="nothing is known"),
        pytest.param([led(3, 2, 1)], id="a clean election"),
        pytest.param([elected(3, 2), led(3, 2, 3)], id="the new leader had everything"),
        pytest.param([elected(3, 2)], id="the elected never led"),
        pytest.param([elected(3, 2), led(3, 2, None)], id="the new leader did not say where its log ended"),
        pytest.param([elected(3, 1), led(3, 1, 0)], id="it was acknowledged in that epoch"),
        pytest.param([led(1, 2, 1), elected(3, 3), led(3, 3, 1)], id="a clean leader lacked it before"),
        pytest.param([elected(3, 2), led(2, 2, 1)], id="another one led"),
        pytest.param([led(2, 2, None), elected(3, 3), led(3, 3, 1)], id="one before did not say where its log ended"),
    ],
)
def test_a_loss_of_another_cause_is_not_excused(events: list[Row]) -> None:
    """Where no unclean election can be the first that lacked the record, none is named."""
    rows = lost(judge([*THREE, ONE_IS_LEFT], events=events))

    assert [row["offsets"] for row in rows] == [[1], [2]]
    assert all("cause" not in row["evidence"] and "cause" not in row["detail"] for row in rows)


def test_the_last_known_leader_is_told_apart() -> None:
    """The last known leader is nobody's choice against a better one, and a loss by it says so."""
    events = [led(1, 1, 0), elected(1, 2, LAST_KNOWN_LEADER_ELECTED), led(1, 2, 1)]
    row, _ = lost(judge([*THREE, ONE_IS_LEFT], events=events))
    assert row["evidence"]["cause"] == "election of the last known leader in epoch 2 of replica 1"


def test_of_two_unclean_elections_the_first_that_lacked_it_is_the_cause() -> None:
    """A record is lost once, by the first leader without it; what was acknowledged since is lost by the next."""
    operations = [*acknowledged(1, 1, 3), ONE_IS_LEFT]
    events = [elected(3, 2), led(3, 2, 1), led(3, 3, 2), elected(2, 4), led(2, 4, 1)]
    rows = lost(judge(operations, events=events))
    assert [row["evidence"]["cause"] for row in rows] == [CAUSE, "unclean election in epoch 4 of replica 2"]


def test_an_unclean_election_without_a_loss_is_no_anomaly() -> None:
    """A leader that was not in sync and had everything all the same has broken no promise."""
    rows = judge([*THREE, poll((10, 11), 0, (0, 10), (1, 11), (2, 12))], events=[elected(3, 2), led(3, 2, 3)])
    assert names(rows) == []


@pytest.mark.parametrize(
    ("events", "expected"),
    [
        ([elected(3, 2), led(3, 2, 1)], CAUSE),
        ([elected(3, 2), led(3, 2, 2)], None),
        ([elected(3, 2, detail="[]"), led(3, 2, 1)], None),
        ([led(3, 2, 1)], None),
        ([], None),
    ],
)
def test_what_stands_in_the_cut_says_so(events: list[Row], expected: str | None) -> None:
    """A contradiction is told to stand where an unclean election has cut the log if all its offsets do."""
    operations = [*acknowledged(1, 1, 1), append((8, 9), 20, 1, process=9, leader_epoch=2)]
    rows = [row for row in judge(operations, events=events) if row["anomaly"] == "inconsistent-offsets"]
    assert [json.loads(row["evidence"]).get("cut_by") for row in rows] == [expected]


def test_beyond_what_was_committed_nothing_is_cut() -> None:
    """What comes to pass above the old end of the log has nothing to do with the election."""
    operations = [*acknowledged(1, 1, 2, 2, 2), append((20, 21), 20, 4, process=9, leader_epoch=2)]
    rows = judge(operations, events=[elected(3, 2), led(3, 2, 1)])
    assert [row["offsets"] for row in rows if row["anomaly"] == "inconsistent-offsets"] == [[4]]
    assert all("cut_by" not in json.loads(row["evidence"]) for row in rows)


def test_the_first_offset_that_was_not_committed_is_not_cut() -> None:
    """What was committed ends before it."""
    operations = [*acknowledged(1, 1, 2), append((8, 9), 20, 2, process=9, leader_epoch=2)]
    (row,) = [row for row in judge(operations, events=CUT) if row["anomaly"] == "inconsistent-offsets"]
    assert (row["offsets"], json.loads(row["evidence"]).get("cut_by")) == ([2], None)


def test_an_acknowledgement_of_an_unknown_epoch_widens_no_cut() -> None:
    """It may have come after the election, and says nothing of what was committed before."""
    operations = [*acknowledged(1, 1), append((20, 21), 30, 5, process=8), append((22, 23), 20, 5, process=9)]
    rows = judge(operations, events=CUT)
    (row,) = [row for row in rows if row["anomaly"] == "inconsistent-offsets"]
    assert (row["offsets"], json.loads(row["evidence"]).get("cut_by")) == ([5], None)


UNREADABLE = ["elected", "[]", "7", "null", "{", '"{}"', '{"log_end_offset": "1", "leader_id": [], "isr": [null]}']


@pytest.mark.parametrize("detail", [*UNREADABLE, '{"leader_id": 3}', '{"leader_id": 3, "isr": 1, "elr": []}'])
@pytest.mark.parametrize("event", [UNCLEAN_ELECTION, LAST_KNOWN_LEADER_ELECTED, BECAME_LEADER])
def test_what_cannot_be_read_hides_no_loss(event: str, detail: str) -> None:
    """An event that only explains, and does not say what such events say, is passed over; the losses stay."""
    events = [led(1, 1, 0), told(3, event, 2, epoch=2, detail=detail)]
    rows = judge([*THREE, ONE_IS_LEFT], events=events)
    assert [(row["offsets"], row["severity"]) for row in lost(rows)] == [([1], "violation"), ([2], "violation")]
    assert not any(missed for _, missed in coverage([*THREE, ONE_IS_LEFT], events=events).values())


def test_an_election_without_an_epoch_hides_no_loss() -> None:
    """As little as one with an unreadable detail."""
    rows = judge([*THREE, ONE_IS_LEFT], events=[elected(3, 2) | {"epoch": None}, elected(3, 2), led(3, 2, 1)])
    assert [row["evidence"]["cause"] for row in lost(rows)] == [CAUSE, CAUSE]


def judged(rows: list[Row]) -> tuple[Verdict, tuple[str, ...]]:
    """What the lost writes among the anomalies make of an otherwise whole run."""
    rows = [row for row in rows if row["anomaly"] == "lost-write"]
    whole: dict[str, Any] = {"append_ok": 3, "acked_checked": 3, "logs_dumped": 1, "logs_dumped_completely": 1}
    decision = decide(counts=RunCounts(**whole), anomalies=rows, coverage=(), complete=True, problems=())
    return decision.verdict, decision.reasons


def test_the_verdict_stays_invalid_and_says_why() -> None:
    """Lost writes convict whatever allowed them; the reason names the elections that did, and how many are by each."""
    rows = judge([*THREE, ONE_IS_LEFT], events=[elected(3, 2), led(3, 2, 1)])
    assert judged(rows) == (Verdict.INVALID, (f"lost-write: 2, 2 by {CAUSE} ({PARTITION})",))
    assert judged(judge([*THREE, ONE_IS_LEFT])) == (Verdict.INVALID, ("lost-write: 2",))


def test_records_beyond_the_bound_are_named_all_the_same() -> None:
    """The row that counts the others lists their offsets, values and causes, and the reason counts them."""
    operations = [*acknowledged(*[1] * 105), poll((300, 301), 0, (0, 10), f="final-read")]
    rows = judge(operations, events=[elected(3, 2), led(3, 2, 1)])
    more = [row for row in lost(rows) if not row["offsets"]]
    assert [row["evidence"]["more"] for row in more] == [4]
    assert more[0]["evidence"]["causes"] == {CAUSE: 4}
    assert more[0]["evidence"]["records"] == [
        {"offset": offset, "value": 10 + offset, "cause": CAUSE} for offset in range(101, 105)
    ]
    assert judged(rows)[1] == (f"lost-write: 104, 104 by {CAUSE} ({PARTITION})",)
