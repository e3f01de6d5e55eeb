"""The page says which records an unclean election has lost, and how long a partition was offline, and for whom."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import pytest

from nemesis.history import BECAME_LEADER, LAST_KNOWN_LEADER_ELECTED, OFFLINE, UNCLEAN_ELECTION
from nemesis.report.data import read_run
from nemesis.report.page import render_page
from nemesis.report.values import LostRecord, MarkKind

if TYPE_CHECKING:
    from tests.report.conftest import RunFolder

CAUSE = "unclean election in epoch 1 of replica 2"
ELECTED = {"leader_id": 2, "isr": [1], "elr": []}
WAITING = {"replicas": [1, 2, 3], "isr": [], "elr": [1]}


def tell(run: RunFolder, time_s: float, replica_id: int, event: str, epoch: int, detail: Mapping[str, Any]) -> None:
    """An event of the one log, with its detail."""
    run.replica_event(time_s, replica_id, event, epoch=epoch, topic_partition="log-0", detail=json.dumps(detail))


def lead(run: RunFolder, time_s: float, replica_id: int, epoch: int, log_end_offset: int = 0) -> None:
    """A replica becomes the leader."""
    tell(run, time_s, replica_id, BECAME_LEADER, epoch, {"leader_id": replica_id, "log_end_offset": log_end_offset})


def lost_write(offset: int, value: int, **evidence: Any) -> dict[str, Any]:
    """A row of ``results.json``."""
    found = {"anomaly": "lost-write", "severity": "violation", "topic_partition": "log-0", "detail": "gone"}
    return found | {"offsets": [offset], "op_indexes": [], "replicas": [], "evidence": {"value": value} | evidence}


@pytest.fixture
def lossy_run(run_folder: RunFolder) -> RunFolder:
    """Replica 2 is elected uncleanly at 7 s and lacks the records from offset 4 on."""
    run_folder.operation(0.0, 0.5, value=10, offset=0)
    lead(run_folder, 0.2, 1, epoch=0)
    tell(run_folder, 6.9, 3, UNCLEAN_ELECTION, 1, ELECTED)
    lead(run_folder, 7.0, 2, epoch=1, log_end_offset=4)
    run_folder.operation(8.0, 8.5, value=30, offset=4)
    return run_folder


def test_lost_records_are_named_with_their_election(lossy_run: RunFolder) -> None:
    """Each lost record is a row, those beyond the bound of the anomalies as well; the first sentences sum them up."""
    rest = {"more": 1, "causes": {CAUSE: 1}, "records": [{"offset": 5, "value": 15, "cause": CAUSE}]}
    rows = [lost_write(4, 14, cause=CAUSE), lost_write(9, 19), lost_write(0, 0) | {"offsets": [], "evidence": rest}]
    run = read_run(lossy_run.write(verdict="invalid", anomalies=rows))

    assert run.judgement.lost == (
        LostRecord(topic_partition="log-0", offset=4, value=14, cause=CAUSE),
        LostRecord(topic_partition="log-0", offset=5, value=15, cause=CAUSE),
        LostRecord(topic_partition="log-0", offset=9, value=19, cause=""),
    )
    (said,) = [sentence for sentence in run.judgement.headlines if "nclean" in sentence and "befell" not in sentence]
    assert said == (
        "Unclean election: replica 2 became the leader of log-0 in epoch 1 with a log that ended at offset 4. In sync"
        " before: replica 1; else eligible: nobody. By it 2 acknowledged writes from offset 4 to 5 were lost."
    )
    page = render_page(run)
    assert "Acknowledged records that are lost (3)" in page
    assert page.count(f"<td>{CAUSE}</td>") == 2
    assert "<td>not known</td>" in page


def test_of_a_run_that_is_not_judged_no_cost_is_claimed(lossy_run: RunFolder) -> None:
    """Without a judgement nobody knows what an unclean election has cost."""
    said = " ".join(read_run(lossy_run.write()).judgement.headlines)
    assert "Whether acknowledged writes were lost by it is not known." in said


def test_an_unclean_election_is_a_mark_of_its_own(lossy_run: RunFolder) -> None:
    """The leader that was elected uncleanly is marked so, and not counted among the other elections."""
    timeline = read_run(lossy_run.write(verdict="valid", anomalies=[])).timeline

    assert [(mark.kind, mark.replica_id) for mark in timeline.marks] == [(MarkKind.ELECTION, 1), (MarkKind.UNCLEAN, 2)]
    (election,) = timeline.unclean_elections
    assert (election.epoch, election.leader_id, election.isr, election.log_end_offset) == (1, 2, (1,), 4)


def test_a_partition_without_a_leader_is_shown_as_offline(run_folder: RunFolder) -> None:
    """It is offline until the next leader, and the page says for whom it waited and how it ended."""
    run_folder.operation(0.0, 0.5, value=10, offset=0)
    lead(run_folder, 0.2, 1, epoch=0)
    tell(run_folder, 10.0, 3, OFFLINE, 1, WAITING)
    tell(run_folder, 16.1, 3, LAST_KNOWN_LEADER_ELECTED, 2, {"leader_id": 1, "isr": [], "elr": []})
    lead(run_folder, 16.2, 1, epoch=2, log_end_offset=1)
    lead(run_folder, 18.0, 2, epoch=3, log_end_offset=1)
    run = read_run(run_folder.write(verdict="valid", anomalies=[]))

    (offline,) = run.timeline.offline
    assert (offline.start_s, offline.end_s, offline.eligible, offline.leader_id) == (10.0, 16.2, (1,), 1)
    assert (
        "log-0 was offline for 6.2 s, from 10.0 s to 16.2 s: only replica 1 could lead it without a loss; then replica"
        " 1 led (election of the last known leader)."
    ) in run.judgement.headlines
    assert "No acknowledged write is known to be lost by it." in " ".join(run.judgement.headlines)
    assert {mark.kind for mark in run.timeline.marks} == {MarkKind.ELECTION}, "nobody had more than the last leader"
    assert "Partitions that had no leader" in render_page(run)


def test_what_two_controllers_tell_has_happened_once(run_folder: RunFolder) -> None:
    """A controller that has just taken over tells again what it finds: the same epoch of the same log."""
    lead(run_folder, 0.0, 1, epoch=0)
    for time_s in (6.9, 7.4):
        tell(run_folder, time_s, 3, OFFLINE, 1, WAITING)
        tell(run_folder, time_s + 3, 3, UNCLEAN_ELECTION, 2, ELECTED)
    run_folder.replica_event(9.0, 3, OFFLINE, epoch=1, topic_partition="log-1", detail=json.dumps(WAITING))
    timeline = read_run(run_folder.write(verdict="valid", anomalies=[])).timeline
    assert [(told.log, round(told.time_s, 3)) for told in timeline.unclean_elections] == [("log-0", 9.9)]
    assert [(told.log, round(told.start_s, 3)) for told in timeline.offline] == [("log-0", 6.9), ("log-1", 9.0)]


@pytest.mark.parametrize("detail", [{}, {"leader_id": 2}, {"leader_id": "2", "isr": [], "elr": []}])
def test_an_election_that_cannot_be_read_is_passed_over(run_folder: RunFolder, detail: dict[str, Any]) -> None:
    """The page comes all the same."""
    tell(run_folder, 6.9, 3, UNCLEAN_ELECTION, 1, detail)
    tell(run_folder, 7.9, 3, OFFLINE, 2, {"isr": 7})
    run = read_run(run_folder.write(verdict="valid", anomalies=[]))
    assert run.timeline.unclean_elections == ()
    assert [offline.eligible for offline in run.timeline.offline] == [()]


def test_the_page_says_when_it_does_not_list_all(lossy_run: RunFolder) -> None:
    """Of the lost records beyond a bound there is only a number, and of the election that lost them a lower one."""
    rest = {"more": 7, "causes": {CAUSE: 7}, "records": [{"offset": 5, "value": 15, "cause": CAUSE}]}
    rows = [lost_write(4, 14, cause=CAUSE), lost_write(0, 0) | {"offsets": [], "evidence": rest}]
    run = read_run(lossy_run.write(verdict="invalid", anomalies=rows))
    assert (len(run.judgement.lost), run.judgement.lost_unlisted) == (2, 6)
    assert "By it at least 2 acknowledged writes from offset 4 to 5 were lost." in " ".join(run.judgement.headlines)
    assert "6 more lost records are not listed here" in render_page(run)


def test_a_partition_may_be_offline_to_the_end(run_folder: RunFolder) -> None:
    """Without a later leader it has no end; another log's leader, and one of an earlier epoch, end nothing."""
    tell(run_folder, 1.0, 3, OFFLINE, 1, WAITING)
    lead(run_folder, 2.0, 1, epoch=0)
    run_folder.replica_event(3.0, 1, BECAME_LEADER, epoch=2, topic_partition="log-1")
    run = read_run(run_folder.write(verdict="valid", anomalies=[]))
    (offline,) = run.timeline.offline
    assert (offline.end_s, offline.leader_id) == (None, None)
    assert "to the end" in " ".join(run.judgement.headlines)


def test_a_run_without_either_does_not_mention_it(run_folder: RunFolder) -> None:
    """Where all went cleanly there is no table of it."""
    lead(run_folder, 1.0, 1, epoch=0)
    assert 'id="unclean"' not in render_page(read_run(run_folder.write(verdict="valid", anomalies=[])))
