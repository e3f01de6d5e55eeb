"""The story of a run is made from its events, in the order of time, and says no more than they do."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import pyarrow as pa
import pytest

from nemesis.faults.look import KILLED
from nemesis.history.schemas import HISTORY_SCHEMA, REPLICA_EVENT_SCHEMA
from nemesis.report.lives import LogLife
from nemesis.report.lost_records import explained_losses
from nemesis.report.narrative import SENTENCES_MAX, Narrator
from nemesis.report.text import explained
from nemesis.report.values import (
    AnomalyView,
    Fault,
    Judgement,
    Latency,
    LostRecord,
    ReplicaLog,
    RunView,
    Throughput,
    Timeline,
)
from nemesis.verdict import Verdict

LOG = "topic1-0"
SECOND = 1_000_000_000


def event(time_s: float, replica_id: int, name: str, log: str | None = LOG, **told: Any) -> dict[str, Any]:
    """What a replica reported; ``epoch`` and ``offset`` have columns, the rest is the detail."""
    return {
        "time_ns": int(time_s * SECOND),
        "replica_id": replica_id,
        "event": name,
        "topic_partition": log,
        "epoch": told.pop("epoch", None),
        "offset": told.pop("offset", None),
        "detail": json.dumps(told) if told else None,
    }


def leads(time_s: float, replica_id: int, epoch: int, log_end_offset: int | None = None) -> dict[str, Any]:
    """A replica became the leader."""
    return event(time_s, replica_id, "became-leader", epoch=epoch, leader_id=replica_id, log_end_offset=log_end_offset)


def follows(time_s: float, replica_id: int, leader_id: int, epoch: int, log_end_offset: int) -> dict[str, Any]:
    """A replica became a follower."""
    where = {"epoch": epoch, "log_end_offset": log_end_offset}
    return event(time_s, replica_id, "became-follower", LOG, leader_id=leader_id, **where)


def cuts(time_s: float, replica_id: int, start: int, end: int, leader_id: int, epoch: int) -> dict[str, Any]:
    """A replica truncated its log from ``start`` to ``end``."""
    return event(time_s, replica_id, "truncated", epoch=epoch, offset=end, from_offset=start, leader_id=leader_id)


def fault(start_s: float, end_s: float | None, *replicas: int) -> Fault:
    return Fault(look=KILLED, fault_id=0, name="partition", target="", replicas=replicas, start_s=start_s, end_s=end_s)


FAULTS = (fault(3, 11, 2), fault(3, 5, 1))


def acknowledged(*values_at: tuple[int, float], epoch: int = 0) -> pa.Table:
    """A history of appends that replica 2 acknowledged, of these values at these seconds, 100 offsets above them."""
    rows = [
        {
            **{"index": k, "process": 1, "type": "ok", "f": "append", "value": value, "time_ns": int(at_s * SECOND)},
            **{"topic_partition": LOG, "offset": 100 + value, "leader_epoch": epoch},
        }
        for k, (value, at_s) in enumerate(values_at)
    ]
    return pa.Table.from_pylist(rows, schema=HISTORY_SCHEMA)


HISTORY = acknowledged((7, 4.0), (8, 9.0), (9, 20.0))


def lost(*values: int, log: str = LOG) -> tuple[LostRecord, ...]:
    return tuple(LostRecord(topic_partition=log, offset=100 + value, value=value, cause="") for value in values)


def lives_of(
    events: Sequence[dict[str, Any]],
    *others: str,
    logs: Sequence[ReplicaLog] = (),
    history: pa.Table = HISTORY,
) -> Mapping[str, LogLife]:
    """What befell the log, and others of which nothing is told."""
    table = pa.Table.from_pylist(list(events), schema=REPLICA_EVENT_SCHEMA)
    return {log: LogLife(log, history, table, logs, 0) for log in (LOG, *others)}


def told_of(judgement: Judgement, events: Sequence[dict[str, Any]], logs: Sequence[ReplicaLog] = ()) -> list[str]:
    """The story."""
    others = {record.topic_partition for record in judgement.lost}
    return list(Narrator(lives_of(events, *others, logs=logs), FAULTS, logs).narrative(judgement))


def losing(*values: int) -> Judgement:
    """A judgement by which these values are lost."""
    return Judgement(verdict=Verdict.INVALID, lost=lost(*values))


def diverged() -> AnomalyView:
    """The logs of replicas 2 and 3 part at offset 107."""
    return AnomalyView(
        number=1,
        anomaly="diverged-log",
        severity="violation",
        topic_partition=LOG,
        offsets=(107,),
        replicas=(2, 3),
        sentence="",
    )


def log_of(replica_id: int, *epochs: tuple[int, int]) -> ReplicaLog:
    """A log in the end: each epoch and where it begins."""
    return ReplicaLog(
        topic_partition=LOG,
        replica_id=replica_id,
        log_start_offset=0,
        high_watermark=200,
        log_end_offset=200,
        epochs=epochs,
        is_complete=True,
    )


TOOK_ALONE = (leads(1, 2, 0, 0), leads(6, 3, 1, 107), cuts(12, 2, 300, 107, 3, 1), leads(13, 2, 2, 140))
"""A leader is cut off, another one is elected, and the first truncates its log when it is back."""


def test_a_leader_that_was_cut_off_and_acknowledged_alone() -> None:
    """Who led, what struck it, what is lost, who led next without it, and who truncated it on following whom."""
    assert told_of(losing(7, 8), TOOK_ALONE) == [
        "1.0 s: replica 2 became the leader of topic1-0 in epoch 0.",
        "3.0 s: partition struck replica 2, the leader of topic1-0, until 11.0 s.",
        "From 4.0 s to 9.0 s replica 2 acknowledged 2 writes to topic1-0 at offsets 107 to 108 that are lost.",
        "6.0 s: replica 3 became the leader of topic1-0 in epoch 1, with a log that ended at offset 107.",
        "12.0 s: replica 2 followed replica 3 in epoch 1 and truncated topic1-0 from offset 300 to 107.",
    ]


def test_what_two_leaders_have_acknowledged_is_not_told_of_one() -> None:
    """The story is of the leader that has lost most; what others have lost is counted."""
    table = pa.concat_tables([acknowledged((7, 4.0), (8, 9.0)), acknowledged((9, 20.0), epoch=1)])
    events = pa.Table.from_pylist(list(TOOK_ALONE), schema=REPLICA_EVENT_SCHEMA)
    told = Narrator({LOG: LogLife(LOG, table, events, (), 0)}, (), ()).narrative(losing(7, 8, 9))
    assert (
        "From 4.0 s to 9.0 s replica 2 acknowledged 2 writes to topic1-0 at offsets 107 to 108 that are lost." in told
    )
    assert told[-1] == "More acknowledged writes are lost: 1 of topic1-0 in other epochs."


def test_each_lost_record_has_its_cause() -> None:
    """A record is told by whoever led without it and whoever truncated it; one that an election explains keeps that."""
    explained = (*lost(7), replace(lost(8)[0], cause="unclean election in epoch 1 of replica 3"))
    found = explained_losses(explained, lives_of(TOOK_ALONE), FAULTS)
    assert [record.cause for record in found] == [
        "6.0 s: replica 3 became the leader in epoch 1 without it;"
        " 12.0 s: replica 2 truncated it on following replica 3 in epoch 1",
        "unclean election in epoch 1 of replica 3",
    ]
    assert [record.faults for record in found] == ["3.0 to 11.0 s: partition of replica 2"] * 2


@pytest.mark.parametrize(
    ("fault_of", "told"),
    [
        (fault(5, 5.5, 3), "5.0 to 5.5 s: partition of replica 3"),
        (fault(11.5, None), "11.5 s on: partition of all replicas"),
        (fault(1, 3.9, 2), ""),
        (fault(12.1, 13, 2), ""),
        (fault(5, 6, 1), ""),
    ],
    ids=["between", "at its end", "before", "behind", "of another"],
)
def test_a_lost_record_is_told_with_the_faults_from_its_acknowledgement_to_its_loss(fault_of: Fault, told: str) -> None:
    """Of those only the ones that struck its leader, or whoever led without it or truncated it."""
    (found,) = explained_losses(lost(7), lives_of(TOOK_ALONE), (fault_of,))
    assert found.faults == told


def test_a_record_of_which_nobody_tells_has_no_cause() -> None:
    """A truncation behind the record, or before it was acknowledged, or of what was not reached, is not its cause."""
    behind, before, above = cuts(12, 2, 300, 108, 3, 1), cuts(3, 2, 300, 107, 3, 0), cuts(12, 3, 107, 90, 2, 1)
    found = explained_losses(lost(7), lives_of([leads(1, 2, 0, 0), behind, before, above]), FAULTS)
    assert [record.cause for record in found] == [""]


def test_a_replica_that_comes_back_without_what_it_held() -> None:
    """What a power loss takes nobody tells: once it is back, the log ends below what the replica had acknowledged."""
    back = (leads(1, 2, 0, 0), event(10, 2, "started", None), follows(10.5, 2, 3, 1, 90))
    assert told_of(losing(7, 8), back)[-1] == (
        "10.5 s: replica 2 started again with a log of topic1-0 that ended at offset 90: it had held what is below 109."
    )
    assert explained_losses(lost(7), lives_of(back), FAULTS)[0].cause == "10.5 s: replica 2 started again without it"


def test_an_acknowledgement_that_comes_late_is_of_its_epoch() -> None:
    """A client may hear of it when another one leads: the leader is told that gave it, and what came after that."""
    events = (leads(1, 2, 0, 0), leads(3, 3, 1, 107), cuts(3.5, 2, 300, 107, 3, 1))
    assert told_of(losing(7), events)[0] == "1.0 s: replica 2 became the leader of topic1-0 in epoch 0."
    assert explained_losses(lost(7), lives_of(events), FAULTS)[0].cause == (
        "3.0 s: replica 3 became the leader in epoch 1 without it;"
        " 3.5 s: replica 2 truncated it on following replica 3 in epoch 1"
    )


def test_a_replica_that_comes_back_with_what_it_held_has_lost_nothing() -> None:
    """A restart alone is no cause, and neither is a shorter log of who has not started again."""
    whole = (leads(1, 2, 0, 0), event(10, 2, "started", None), follows(10.5, 2, 3, 1, 109))
    shorter = (leads(1, 2, 0, 0), follows(10.5, 2, 3, 1, 90))
    assert [lives_of(events)[LOG].returns for events in (whole, shorter)] == [(), ()]


def test_a_replica_that_truncated_and_starts_again_has_lost_nothing_more() -> None:
    """What a replica has truncated it does not hold any more: where it starts then is no second loss."""
    cut = (leads(1, 2, 0, 0), cuts(9.5, 2, 109, 90, 3, 1), event(10, 2, "started", None), follows(10.5, 2, 3, 1, 90))
    assert lives_of(cut)[LOG].returns == ()


def test_logs_that_part_have_a_replica_that_kept_its_records() -> None:
    """Who followed a leader of a later epoch and did not truncate is told, with what both hold."""
    judgement = Judgement(verdict=Verdict.INVALID, anomalies=(diverged(),))
    events = (leads(1, 2, 0, 0), leads(6, 3, 1, 107), follows(12, 2, 3, 1, 300))
    logs = (log_of(2, (0, 0)), log_of(3, (0, 0), (1, 107)))
    assert told_of(judgement, events, logs) == [
        "1.0 s: replica 2 became the leader of topic1-0 in epoch 0.",
        "Then replica 2 appended to topic1-0 what is in question at offset 107.",
        "3.0 s: partition struck replica 2, the leader of topic1-0, until 11.0 s.",
        "6.0 s: replica 3 became the leader of topic1-0 in epoch 1, with a log that ended at offset 107.",
        "12.0 s: replica 2 followed replica 3 in epoch 1 and did not truncate topic1-0 to offset 107: it kept its"
        " record of epoch 0, where replica 3 holds one of epoch 1.",
    ]


def test_a_replica_that_truncated_there_did_not_keep_its_records() -> None:
    """What the logs hold in the end came from elsewhere then, and nobody is said to have kept it."""
    events = (leads(1, 2, 0, 0), leads(6, 3, 1, 107), follows(12, 2, 3, 1, 300), cuts(12.1, 2, 300, 107, 3, 1))
    assert lives_of(events, logs=(log_of(2, (0, 0)), log_of(3, (0, 0), (1, 107))))[LOG].kept(107) is None


def test_a_record_that_another_one_overlies_has_a_cause() -> None:
    """An acknowledged record is lost at the replica that kept an elder one in its place."""
    events = (leads(1, 3, 1, 0), follows(3, 2, 3, 1, 300), follows(12, 1, 3, 1, 50))
    logs = (log_of(1, (1, 0)), log_of(2, (0, 0), (1, 300)), log_of(3, (1, 0)))
    lives = lives_of(events, logs=logs, history=acknowledged((7, 4.0), epoch=1))
    assert explained_losses(lost(7), lives, FAULTS)[0].cause == (
        "3.0 s: replica 2 kept another record there and did not truncate it"
    )


def test_where_nobody_tells_the_cause_is_not_known() -> None:
    """A log that was lost with its disk was truncated by nobody; and other logs that lost less are counted."""
    judgement = Judgement(verdict=Verdict.INVALID, lost=(*lost(7, 8), *lost(9, log="a-0")))
    assert told_of(judgement, TOOK_ALONE[:1])[-2:] == [
        "No replica has told of truncating topic1-0 there, or of being without it: the cause is not known.",
        "More acknowledged writes are lost: 1 of 1 other log.",
    ]


@pytest.mark.parametrize("judgement", [Judgement(verdict=Verdict.VALID), Judgement(verdict=Verdict.UNKNOWN)])
def test_where_nothing_was_found_there_is_no_story(judgement: Judgement) -> None:
    """Faults alone are no story."""
    assert told_of(judgement, TOOK_ALONE) == []


def test_a_story_has_an_end() -> None:
    """An election burst does not fill the page, and does not displace what has lost the records."""
    burst = (leads(1, 2, 0, 0), *(leads(6 + k / 100, 1 + k % 3, 1 + k, 200) for k in range(100)), TOOK_ALONE[2])
    told = told_of(losing(7, 8), burst)
    assert len(told) == SENTENCES_MAX
    assert told[-1].startswith("12.0 s: replica 2 followed replica 3")


def test_in_a_terminal_a_run_is_told_in_a_few_lines() -> None:
    """The verdict, the story, one of each of the worst kinds, the names of the others, and the command."""
    anomalies = tuple(
        AnomalyView(
            number=number,
            anomaly=kind,
            severity="violation",
            topic_partition=LOG,
            offsets=(),
            replicas=(),
            sentence=f"the sentence of {number}",
        )
        for number, kind in enumerate(["lost-write", "lost-write", "diverged-log", "hole", "stale-read"], 1)
    )
    judgement = Judgement(verdict=Verdict.INVALID, narrative=("It broke.",), anomalies=anomalies)
    run = RunView(
        name="run",
        command="nemesis run --seed 1",
        facts=(),
        duration_s=1,
        judgement=judgement,
        timeline=Timeline(),
        throughput=Throughput(bin_ms=1000),
        latency=Latency(),
    )
    lines = [line for line in explained(run) if line]
    assert lines == [
        "run: invalid",
        "What happened:",
        "  It broke.",
        "lost-write in topic1-0: the sentence of 1",
        "diverged-log in topic1-0: the sentence of 3",
        "hole in topic1-0: the sentence of 4",
        "Other kinds of anomalies: stale-read",
        "The same faults again:",
        "  nemesis run --seed 1",
    ]
