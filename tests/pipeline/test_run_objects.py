"""Runs on objects: what is read from their histories, and what follows from the two judgements of an object."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from nemesis.checks import Verdict
from nemesis.history import HistoryError
from nemesis.linearizability.judgement import Budget, Counterexample, KeyJudgement
from nemesis.linearizability.operations import Operation, Outcome
from nemesis.pipeline import judge_run
from nemesis.pipeline.local import with_run_id
from nemesis.pipeline.run_objects.kernel_and_witness import BUDGET, found_in, judge_objects
from nemesis.pipeline.run_objects.operations import object_history
from nemesis.workload.append import AppendWorkload
from nemesis.workload.bank import BankWorkload
from nemesis.workload.collection import SetWorkload
from nemesis.workload.counter import CounterWorkload
from nemesis.workload.lock import LockWorkload
from nemesis.workload.objects import ObjectWorkload
from nemesis.workload.register import RegisterWorkload
from tests.pipeline.object_runs import done, history_of, object_run

Row = dict[str, Any]
WRITE_1 = (done(0, "invoke", "write", value=1), done(0, "ok", "write", offset=1))
WRITE_2 = (done(0, "invoke", "write", value=2), done(0, "ok", "write", offset=2))
READ_1 = (done(1, "invoke", "read"), done(1, "ok", "read", value=1, offset=1, detail={"changed_at": 1}))
READ_2 = (done(1, "invoke", "read"), done(1, "ok", "read", value=2, offset=2, detail={"changed_at": 2}))
TTL = {"ttl_ms": 1000}


def found(workload: type[ObjectWorkload], *rows: Row, budget: Budget = BUDGET) -> list[tuple[str, str, list[int]]]:
    """The anomalies of these events: kind, severity, operations."""
    rows_found = judge_objects(with_run_id(history_of(*rows), "run"), {"run": workload}, budget).anomalies.to_pylist()
    return [(row["anomaly"], row["severity"], row["op_indexes"]) for row in rows_found]


def test_a_register_that_was_read_too_late_is_convicted() -> None:
    """A value that was gone before the read began is no answer; the same read beside the write is."""
    assert found(RegisterWorkload, *WRITE_1, *WRITE_2, *READ_1) == [("nonlinearizable", "violation", [0, 2, 4])]
    assert found(RegisterWorkload, *WRITE_1, READ_1[0], *WRITE_2, READ_1[1]) == []


def test_a_fail_that_was_answered_is_a_read() -> None:
    """What a refused compare-and-set says that the register holds is judged; one that was not answered says nothing."""
    asked = done(1, "invoke", "cas", value=9, detail={"expected": 7})
    wrong = done(1, "fail", "cas", value=1, offset=2, detail={"changed_at": 1})
    right = done(1, "fail", "cas", value=2, offset=2, detail={"changed_at": 2})
    assert [name for name, *_ in found(RegisterWorkload, *WRITE_1, *WRITE_2, asked, wrong)] == ["nonlinearizable"]
    assert found(RegisterWorkload, *WRITE_1, *WRITE_2, asked, right) == []
    assert found(RegisterWorkload, *WRITE_1, *WRITE_2, asked, done(1, "fail", "cas", error="refused")) == []


@pytest.mark.parametrize("end", [(), (done(0, "info", "write", error="no answer"),)])
def test_what_somebody_saw_has_a_place(end: tuple[Row, ...]) -> None:
    """An unknown write stands where a read says that its value came to be; one that nobody saw has no place."""
    history = history_of(done(0, "invoke", "write", value=2), *end, *READ_2, done(2, "invoke", "write", value=5))
    read = object_history(history, RegisterWorkload)
    assert read.places == {0: 2, len(end) + 1: 2}
    assert read.unplaced == 1


def test_revisions_must_explain_the_answers() -> None:
    """Answers that some order explains, and their revisions do not, are told; not where something has no place."""
    swapped = (done(0, "invoke", "write", value=2), done(0, "ok", "write", offset=0))
    late = (READ_2[0], done(1, "ok", "read", value=2, offset=5))
    assert found(RegisterWorkload, *WRITE_1, *swapped, *late) == [("wrong-order", "violation", [0, 2])]
    unplaced = done(3, "invoke", "write", value=8)
    assert found(RegisterWorkload, *WRITE_1, *swapped, *late, unplaced) == []


def test_what_a_search_gives_up_the_revisions_may_prove() -> None:
    """Without a budget a counter is unknown, unless the order that the servers claim explains it."""
    adds = [row for process in range(4) for row in (done(process, "invoke", "increment", value=1),)]
    sums = [done(process, "ok", "increment", value=process + 1, offset=process + 1) for process in range(4)]
    assert found(CounterWorkload, *adds, *sums, budget=Budget(configurations=1)) == []
    unplaced = [row | {"offset": None} for row in sums]
    assert [row[:2] for row in found(CounterWorkload, *adds, *unplaced, budget=Budget(configurations=1))] == [
        ("nonlinearizable", "unknown")
    ]


def test_two_judges_that_disagree_leave_it_unknown() -> None:
    """If a kernel convicts what the claimed order proves right, one of the two is wrong, and that is said."""
    operation = Operation(
        process=0, f="write", key="x", argument=1, result=None, outcome=Outcome.OK, invoked=0, returned=1, line=0
    )
    example = Counterexample(last=operation, operations=(operation,), states=(), reason="it cannot be")
    invalid = KeyJudgement(
        key="x",
        verdict=Verdict.INVALID,
        kernel="zones",
        operations=1,
        decided=0,
        configurations=0,
        counterexample=example,
    )
    history = object_history(history_of(*WRITE_1), RegisterWorkload)
    model = RegisterWorkload.model
    [(check, unsure)] = found_in(invalid, history, model, None)
    assert (check.name, unsure.severity) == ("nonlinearizable", "unknown")
    assert "one of the two checks is wrong" in unsure.detail
    [(check, sure)] = found_in(invalid, history, model, "some objection")
    assert (check.name, sure.severity) == ("nonlinearizable", "violation")


# --- locks ------------------------------------------------------------------------------------------------------------


def holding(process: int, holder: int, revision: int, at_ms: int) -> tuple[Row, Row]:
    """A lock is acquired for a second."""
    return (
        done(process, "invoke", "acquire", value=holder, detail=TTL, at_ms=at_ms),
        done(process, "ok", "acquire", value=holder, offset=revision, detail={"changed_at": revision}, at_ms=at_ms + 1),
    )


@pytest.mark.parametrize(("second_ms", "is_wrong"), [(500, True), (880, True), (950, False), (2000, False)])
def test_a_lock_is_lent_for_its_time(second_ms: int, *, is_wrong: bool) -> None:
    """A second holder before the lease of the first can have ended is a violation, and after it none."""
    names = [name for name, *_ in found(LockWorkload, *holding(0, 1, 1, 0), *holding(1, 2, 3, second_ms))]
    assert names == (["nonlinearizable"] if is_wrong else [])


def test_a_lock_that_was_given_back_is_free() -> None:
    """After its release the next one holds it at once; a release by who lost it tells who holds it."""
    release = (
        done(0, "invoke", "release", value=1, at_ms=100),
        done(0, "ok", "release", offset=2, at_ms=101),
    )
    assert found(LockWorkload, *holding(0, 1, 1, 0), *release, *holding(1, 2, 3, 200)) == []
    lost = (
        done(0, "invoke", "release", value=1, at_ms=1500),
        done(0, "fail", "release", value=2, offset=4, detail={"changed_at": 4}, at_ms=1501),
    )
    assert found(LockWorkload, *holding(0, 1, 1, 0), *holding(1, 2, 4, 1200), *lost) == []
    wrong = (lost[0], lost[1] | {"value": 3})
    assert [name for name, *_ in found(LockWorkload, *holding(0, 1, 1, 0), *holding(1, 2, 4, 1200), *wrong)] == [
        "nonlinearizable"
    ]


# --- banks ------------------------------------------------------------------------------------------------------------

OPENED = (
    done(0, "invoke", "open", detail={"accounts": [[0, 100], [1, 100]]}),
    done(0, "ok", "open", offset=1),
)
MOVED = done(0, "invoke", "transfer", value=5, detail={"from": 0, "to": 1, "expected": [100, 100]})


def accounts(revision: int, *balances: int) -> tuple[Row, Row]:
    """All accounts are read."""
    told = [[account, balance] for account, balance in enumerate(balances)]
    return done(1, "invoke", "read"), done(1, "ok", "read", offset=revision, detail={"accounts": told})


@pytest.mark.parametrize(
    ("end", "balances", "is_wrong"),
    [
        ((done(0, "ok", "transfer", offset=2),), (95, 105), False),
        ((done(0, "ok", "transfer", offset=2),), (95, 100), True),
        ((done(0, "ok", "transfer", offset=2),), (100, 100), True),
        ((done(0, "info", "transfer", error="no answer"),), (95, 105), False),
        ((done(0, "info", "transfer", error="no answer"),), (100, 100), False),
        ((done(0, "info", "transfer", error="no answer"),), (90, 110), True),
        ((done(0, "fail", "transfer", error="refused"),), (95, 105), True),
    ],
)
def test_a_transfer_moves_what_it_says_or_nothing(
    end: tuple[Row, ...], balances: tuple[int, int], *, is_wrong: bool
) -> None:
    """A read of all accounts shows a transfer whole or not at all."""
    names = [name for name, *_ in found(BankWorkload, *OPENED, MOVED, *end, *accounts(2, *balances))]
    assert names == (["nonlinearizable"] if is_wrong else [])


def test_a_transfer_rests_on_what_was_seen() -> None:
    """Of two transfers that rest on the same balances one was done at most."""
    moved = (MOVED, done(0, "ok", "transfer", offset=2))
    again = (MOVED | {"process": 1}, done(1, "ok", "transfer", offset=3))
    assert found(BankWorkload, *OPENED, *moved) == []
    assert [name for name, *_ in found(BankWorkload, *OPENED, *moved, *again)] == ["nonlinearizable"]


# --- verdicts ---------------------------------------------------------------------------------------------------------


def test_the_verdict_on_a_run_on_objects(tmp_path: Path) -> None:
    """Valid with what was looked at; the counts tell elections, snapshots and changes of voters of the group's log."""
    judgement = judge_run(object_run(tmp_path, RegisterWorkload, *WRITE_1, *READ_1), engine="local")
    assert (judgement.verdict, judgement.reasons) == (
        Verdict.VALID,
        ("2 acknowledged operations on 1 objects keep every promise",),
    )
    counts = judgement.stats
    assert (counts.operations_ok, counts.objects, counts.acked_checked) == (2, 1, 2)
    assert (counts.leader_elections, counts.snapshots_installed, counts.membership_changes) == (2, 1, 1)
    assert json.loads(judgement.to_json())["stats"]["leader_changes"] == counts.leader_changes == 1
    assert not judgement.faults_bit, "there was no fault"


def test_nothing_acknowledged_is_unknown(tmp_path: Path) -> None:
    """A run in which no operation earned an answer proves nothing."""
    rows = (WRITE_1[0], done(0, "info", "write", error="no answer"))
    judgement = judge_run(object_run(tmp_path, RegisterWorkload, *rows), engine="local")
    assert judgement.verdict is Verdict.UNKNOWN
    assert "nothing was acknowledged, so nothing was promised" in judgement.reasons


def test_what_its_workload_does_not_judge_is_unknown(tmp_path: Path) -> None:
    """Operations that belong to another workload than the one that is named were looked at by nobody."""
    on_objects = object_run(tmp_path / "a", AppendWorkload, *WRITE_1)
    append = (done(0, "invoke", "append", value=1), done(0, "ok", "append", value=1, offset=0))
    on_logs = object_run(tmp_path / "b", SetWorkload, *append)
    for folder in (on_objects, on_logs):
        judgement = judge_run(folder, engine="local")
        assert judgement.verdict is Verdict.UNKNOWN
        assert any("were not judged" in reason for reason in judgement.reasons)


def test_a_workload_that_nobody_knows_is_refused(tmp_path: Path) -> None:
    """A run of another version's workload gets no verdict."""

    class Unknown(RegisterWorkload):
        name = "tomorrow"

    with pytest.raises(HistoryError, match="'tomorrow'; known are append, register"):
        judge_run(object_run(tmp_path, Unknown, *WRITE_1), engine="local")


def test_a_damaged_object_stops_no_other(tmp_path: Path) -> None:
    """What was not recorded as its workload records it is unknown, and the others are judged."""
    damaged = (done(3, "invoke", "cas", "y", value=2), done(3, "ok", "cas", "y", offset=9))
    rows = (*damaged, *WRITE_1, *WRITE_2, *READ_1)
    judgement = judge_run(object_run(tmp_path, RegisterWorkload, *rows), engine="local")
    assert [(row["topic_partition"], row["anomaly"]) for row in judgement.anomalies] == [("x", "nonlinearizable")]
    assert any(reason.startswith("y: the check of an object raised") for reason in judgement.reasons)
