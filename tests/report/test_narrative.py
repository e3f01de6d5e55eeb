"""The story of a run is made from its events, in the order of time, and says no more than they do."""

from __future__ import annotations

from dataclasses import replace

import pyarrow as pa
import pytest

from nemesis.faults.look import KILLED
from nemesis.history.schemas import HISTORY_SCHEMA
from nemesis.report.narrative import SENTENCES_MAX, narrative
from nemesis.report.text import explained
from nemesis.report.values import (
    AnomalyView,
    Fault,
    Judgement,
    Latency,
    LostRecord,
    Mark,
    MarkKind,
    RunView,
    Throughput,
    Timeline,
)
from nemesis.verdict import Verdict

LOG = "topic1-0"
SECOND = 1_000_000_000


def mark(
    kind: MarkKind, time_s: float, replica_id: int, *, epoch: int | None = None, offset: int | None = None
) -> Mark:
    return Mark(kind=kind, log=LOG, time_s=time_s, replica_id=replica_id, epoch=epoch, offset=offset)


def fault(start_s: float, end_s: float | None, *replicas: int) -> Fault:
    return Fault(look=KILLED, fault_id=0, name="partition", target="", replicas=replicas, start_s=start_s, end_s=end_s)


def acknowledged(*values_at: tuple[int, float]) -> pa.Table:
    """A history of appends that were acknowledged, of these values at these seconds."""
    rows = [
        {"index": k, "process": 1, "type": "ok", "f": "append", "value": value, "time_ns": int(at_s * SECOND)}
        for k, (value, at_s) in enumerate(values_at)
    ]
    return pa.Table.from_pylist(rows, schema=HISTORY_SCHEMA)


def lost(*values: int, log: str = LOG) -> tuple[LostRecord, ...]:
    return tuple(LostRecord(topic_partition=log, offset=100 + value, value=value, cause="") for value in values)


TOOK_ALONE = Timeline(
    faults=(fault(3, 11, 2), fault(3, 5, 1)),
    marks=(
        mark(MarkKind.ELECTION, 1, 2, epoch=0),
        mark(MarkKind.ELECTION, 6, 3, epoch=1),
        mark(MarkKind.TRUNCATION, 12, 2, offset=107),
        mark(MarkKind.ELECTION, 13, 2, epoch=2),
    ),
)
"""A leader is cut off, another one is elected, and the first cuts its log when it is back."""
HISTORY = acknowledged((7, 4.0), (8, 9.0), (9, 20.0))


def test_a_leader_that_was_cut_off_and_acknowledged_alone() -> None:
    """Who led, what struck it, what is lost, who led next, and who cut it off; nothing of a fault elsewhere."""
    judgement = Judgement(verdict=Verdict.INVALID, lost=lost(7, 8))
    assert narrative(judgement, TOOK_ALONE, HISTORY, 0) == (
        "1.0 s: replica 2 became the leader of topic1-0 in epoch 0.",
        "3.0 s: partition struck replica 2, the leader of topic1-0.",
        "From 4.0 s to 9.0 s replica 2 acknowledged 2 writes to topic1-0 at offsets 107 to 108 that are lost.",
        "6.0 s: replica 3 became the leader of topic1-0 in epoch 1.",
        "11.0 s: partition of replica 2 ended.",
        "12.0 s: replica 2 cut its log of topic1-0 at offset 107: what was acknowledged behind that is lost.",
    )


def test_where_nobody_tells_of_a_cut_the_cause_is_not_known() -> None:
    """A log that was lost with its disk was cut by nobody; and other logs that lost less are counted."""
    silent = replace(TOOK_ALONE, marks=TOOK_ALONE.marks[:1])
    told = narrative(Judgement(verdict=Verdict.INVALID, lost=(*lost(7, 8), *lost(9, log="a-0"))), silent, HISTORY, 0)
    assert told[-2:] == (
        "No replica has told of cutting topic1-0 there: the cause is not known.",
        "1 more acknowledged writes are lost of 1 other log.",
    )


def test_a_cut_above_what_is_lost_is_none_of_the_story() -> None:
    """What a replica dropped behind the lost records cannot be what has lost them."""
    above = replace(TOOK_ALONE, marks=(mark(MarkKind.TRUNCATION, 12, 2, offset=109),))
    assert "cut its log" not in " ".join(
        narrative(Judgement(verdict=Verdict.INVALID, lost=lost(7, 8)), above, HISTORY, 0)
    )


@pytest.mark.parametrize("judgement", [Judgement(verdict=Verdict.VALID), Judgement(verdict=Verdict.UNKNOWN)])
def test_where_nothing_was_found_there_is_no_story(judgement: Judgement) -> None:
    """Faults alone are no story."""
    assert narrative(judgement, TOOK_ALONE, HISTORY, 0) == ()


def test_a_story_has_an_end() -> None:
    """An election burst does not fill the page."""
    burst = tuple(mark(MarkKind.ELECTION, 4 + k / 100, 1 + k % 3, epoch=k) for k in range(100))
    told = narrative(Judgement(verdict=Verdict.INVALID, lost=lost(7, 8)), replace(TOOK_ALONE, marks=burst), HISTORY, 0)
    assert len(told) <= SENTENCES_MAX


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
