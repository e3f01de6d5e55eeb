"""Which anomalies a world may show: those of elections that its topics allow, and of records that it has deleted."""

from __future__ import annotations

import json
from typing import Any

import pytest

from nemesis.checks.schemas import Severity
from nemesis.history import APPEND, EventType, ReplicaLogBatch
from nemesis.simulator.not_promised import DELETED, GIVEN_UP, OF_ELECTIONS, told, with_allowed
from nemesis.simulator.partition_history import GivenUp
from nemesis.simulator.queue import EventQueue
from nemesis.simulator.rare import Rare
from nemesis.simulator.record import Record
from nemesis.simulator.run import SimOptions, simulate
from nemesis.verdict import Verdict
from replica.ids import Epoch, Offset, ReplicaId, TopicPartition
from tests.simulator.worlds import recorded_climate

LOG = TopicPartition("topic", 0)
ELECTION = GivenUp(
    epoch=Epoch(3),
    leader_id=ReplicaId(2),
    isr=(ReplicaId(1),),
    elr=(),
    led_last=False,
    end_offset=Offset(5),
    committed_end_offset=Offset(8),
)
GIVEN = {f"{LOG}": [ELECTION]}


def row(anomaly: str, *offsets: int, severity: Severity = Severity.VIOLATION, **evidence: Any) -> dict[str, Any]:
    """An anomaly at these offsets, of the first operation."""
    return {
        "anomaly": anomaly,
        "severity": severity.value,
        "topic_partition": f"{LOG}",
        "offsets": list(offsets),
        "op_indexes": [0],
        "evidence": json.dumps(evidence),
    }


def record_of(*offsets: int | None, epoch: int = 0, log_end_offset: int = 20) -> Record:
    """Acknowledged appends at these offsets, and a log that ends there."""
    record = Record(EventQueue())
    for value, offset in enumerate(offsets):
        record.client(value, EventType.INVOKE, APPEND, topic_partition=LOG, value=value)
        record.client(value, EventType.OK, APPEND, topic_partition=LOG, value=value, offset=offset, leader_epoch=epoch)
    record.logs.append(
        ReplicaLogBatch(
            replica_id=1,
            topic_partition=f"{LOG}",
            base_offset=None,
            last_offset=None,
            leader_epoch=None,
            crc=None,
            is_control=False,
            high_watermark=log_end_offset,
            log_end_offset=log_end_offset,
            log_start_offset=log_end_offset,
            complete=True,
        )
    )
    return record


def severity_of(one: dict[str, Any], record: Record | None = None, *, deletes: bool = False) -> str:
    """How severe an anomaly is where the election was."""
    (judged,) = with_allowed([one], record or record_of(6), GIVEN, deletes=deletes)
    return str(judged["severity"])


@pytest.mark.parametrize(
    ("one", "expected"),
    [
        pytest.param(row("lost-write", 6, cause="unclean election"), "allowed", id="its cause is known"),
        pytest.param(row("lost-write", 6), "unknown", id="its cause is not known"),
        pytest.param(row("lost-write", 6, operations=[{"leader_epoch": 2}]), "allowed", id="given up since"),
        pytest.param(row("lost-write", 9, operations=[{"leader_epoch": 2}]), "unknown", id="not given up"),
        pytest.param(row("lost-write", 4), "violation", id="below all that was given up"),
        pytest.param(row("stale-read", 6, 7), "allowed", id="where the log was cut"),
        pytest.param(row("stale-read", 6, 8), "unknown", id="not only where the log was cut"),
        pytest.param(row("stale-read"), "unknown", id="nobody knows where"),
        pytest.param(row("stale-read", *range(20)), "unknown", id="perhaps at more offsets than are listed"),
        pytest.param(row("stale-read", more=3, cuts={"a": 1, "b": 2}), "allowed", id="each of the others is explained"),
        pytest.param(row("stale-read", more=3, cuts={"a": 2}), "unknown", id="not each of the others is explained"),
        pytest.param(row("phantom-read", 6), "violation", id="nobody wrote it"),
        pytest.param(row("aborted-read", 6, cut_by="unclean election"), "violation", id="it was never written"),
        pytest.param(row("diverged-log", 6, cut_by="unclean election"), "violation", id="the logs differ in the end"),
    ],
)
def test_an_election_excuses_what_it_did_and_nothing_else(one: dict[str, Any], expected: str) -> None:
    """What is known to be the election's is allowed, what it cannot do convicts, and all else is unknown."""
    assert severity_of(one) == expected


def test_what_a_later_leader_has_acknowledged_is_promised() -> None:
    """No election gives up what was acknowledged after it, also where it had cut the log before."""
    for lost in (row("lost-write", 6), row("lost-write", 6, cut_by="unclean election")):
        assert severity_of(lost, record_of(6, epoch=2)) == "unknown"
        assert severity_of(lost, record_of(6, epoch=3)) == "violation"


def test_what_began_when_the_election_was_over_is_not_its_doing() -> None:
    """Two operations of the new leader's time contradict each other where the log had been cut before."""
    late = row("stale-read", 6, cut_by="unclean election") | {"op_indexes": [2, 4]}
    assert severity_of(late, record_of(6, 7, 8, epoch=2)) == "allowed"
    assert severity_of(late, record_of(6, 7, 8, epoch=3)) == "unknown"


def test_holes_are_excused_only_together() -> None:
    """The first that nobody fills is told; one that no election has cut may stand behind it."""
    assert severity_of(row("hole", 6, holes=[6, 7])) == "allowed"
    assert severity_of(row("hole", 6, holes=[6, 12])) == "unknown"


@pytest.mark.parametrize(("epochs", "expected"), [((3, 2), "allowed"), ((4, 3), "violation"), ((2, 1), "violation")])
def test_a_leader_acknowledges_until_it_hears_of_an_election_outside_its_isr(
    epochs: tuple[int, int], expected: str
) -> None:
    """It may be its whole ISR; one that a clean election has deposed can commit nothing any more."""
    operations = [{"leader_epoch": epoch} for epoch in epochs]
    assert severity_of(row("fenced-acknowledgement", 9, operations=operations)) == expected


def test_without_an_election_everything_counts() -> None:
    """Neither a cause that somebody names nor a cut clears a partition in which the judges saw no such election."""
    for anomaly in OF_ELECTIONS:
        (judged,) = with_allowed([row(anomaly, 6, cause="so they say")], record_of(6), {}, deletes=True)
        assert judged["severity"] == "violation", anomaly


@pytest.mark.parametrize(
    ("record", "deletes", "expected"),
    [
        pytest.param(record_of(1, 2), True, "allowed", id="deleted"),
        pytest.param(record_of(1, 2), False, "unknown", id="nobody deletes"),
        pytest.param(record_of(1, None), True, "unknown", id="one of them may stand anywhere"),
        pytest.param(record_of(1, 20), True, "unknown", id="one of them may stand behind the log"),
    ],
)
def test_what_was_deleted_need_not_be_seen(record: Record, deletes: bool, expected: str) -> None:
    """Where retention deletes, an acknowledged record that nobody saw was deleted if no log can have lacked it."""
    assert severity_of(row("unseen", 1, severity=Severity.UNKNOWN, unseen=2), record, deletes=deletes) == expected


def test_what_was_not_promised_is_told_with_its_numbers() -> None:
    """One sentence for each reason: how many of which anomaly, in which partitions."""
    rows = [row("lost-write", 6, cause="c"), row("lost-write", more=4, causes={"c": 4}), row("phantom-read", 6)]
    unseen = row("unseen", 1, severity=Severity.UNKNOWN, unseen=2)

    assert list(told(with_allowed([*rows, unseen], record_of(1), GIVEN, deletes=True))) == [
        f"{GIVEN_UP}: lost-write 5 (topic-0)",
        f"{DELETED}: unseen 2 (topic-0)",
    ]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("seed", "rare", "reason"),
    [
        pytest.param(17, Rare.UNCLEAN_ELECTION, GIVEN_UP, id="unclean elections"),
        pytest.param(55, Rare.POWER_LOSS, GIVEN_UP, id="power losses without a flush"),
        pytest.param(74, Rare.LOG_START_RAISED, DELETED, id="retention"),
    ],
)
def test_a_world_that_may_lose_is_judged_for_what_it_promises(seed: int, rare: Rare, reason: str) -> None:
    """Such a world recovers, all of it is read and judged, and what it may lose is told, and is no violation."""
    outcome = simulate(SimOptions(seed=seed, climate=recorded_climate(seed))).outcome

    assert outcome.verdict is Verdict.VALID, outcome.reasons
    assert outcome.rare[rare] > 0
    assert [sentence.startswith(reason) for sentence in outcome.not_promised] == [True]
