"""What checks say they have looked at: all there was, less, or nothing; and what follows from that."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pyarrow as pa
import pytest

from nemesis.checks import (
    BY_NAME,
    CHECKS,
    LOG_CHECKS,
    Decision,
    Kept,
    LogCheck,
    RunCounts,
    Verdict,
    decide,
    judge_transactions,
)
from nemesis.checks.promises import not_judged
from tests.checks.histories import Row, append, became_leader, coverage, final_isr, findings, poll, replica_log, told
from tests.checks.simulation import simulate
from tests.checks.transactions import Op, send, table_of, txn

COUNTS = RunCounts(events=4, index_end=4, append_ok=2, acked_checked=2, logs_dumped=1, logs_dumped_completely=1)
TWO = [append((0, 1), 10, 0), append((2, 3), 11, 1)]
READ = poll((4, 5), 0, (0, 10), (1, 11), process=1, f="final-read")
LOGS = [*replica_log(1, [(1, [10, 11])]), *replica_log(2, [(1, [10, 11])])]
CYCLES = {"G0", "G0-process", "G0-realtime", "G1c", "G1c-process", "G1c-realtime"}
"""What only transactions can show."""


def decided(
    operations: Sequence[Row], logs: Sequence[Row] = LOGS, events: Sequence[Row] = (), **options: Any
) -> Decision:
    """What follows from hand-made rows of a run whose files are whole."""
    found = findings(operations, logs, events, **options)
    rows, covered = found.anomalies.to_pylist(), found.coverage.to_pylist()
    return decide(counts=COUNTS, anomalies=rows, coverage=covered, complete=True, problems=())


def by_kept(decision: Decision, kept: Kept) -> set[str]:
    """The names of the checks of which this became."""
    return {check.name for check in decision.checks if check.kept is kept}


def test_a_declaration_is_all_there_is() -> None:
    """Names are told apart, and each check says what it promises and needs in words."""
    assert len(BY_NAME) == len(CHECKS)
    for check in CHECKS:
        assert check.promise.endswith("."), check.name
        assert check.promise[0].isupper(), check.name
        assert check.needs.strip("."), check.name
        assert not check.needs[0].isupper(), check.name
    others = {check.name for check in CHECKS if not isinstance(check, LogCheck)}
    assert others == CYCLES | {"nonlinearizable", "wrong-order"}


def test_nothing_is_kept_that_nobody_looked_at() -> None:
    """A run of appends was not searched for cycles, and where nobody asked for high watermarks none is known."""
    decision = decided([*TWO, READ])
    assert decision.verdict is Verdict.VALID
    idle = by_kept(decision, Kept.NOT_JUDGED)
    assert idle >= CYCLES | {"hole", "precommitted-read", "nonlinearizable", "wrong-order"}
    assert idle >= {"committed-truncated", "high-watermark-regression", "uncommitted-read", "fenced-acknowledgement"}
    assert idle >= {"two-leaders", "replica-stopped", "incomplete-isr", "duplicate-sequence"}
    assert by_kept(decision, Kept.KEPT) >= {"lost-write", "duplicate", "diverged-log", "stale-read", "phantom-read"}
    said = list(not_judged(decision.checks))
    assert "hole (there were no logs that are known to hold a value at every offset)" in said
    assert any(sentence.startswith("G0, ") and "transactions" in sentence for sentence in said)


def test_what_was_recorded_is_judged() -> None:
    """The same run with what replicas have told: then there is something to look at, and it is counted."""
    at = {"epoch": 1, "offset": 2}
    events = [told(1, "started"), became_leader(1, 1), told(1, "high-watermark", 5, detail="leader", **at)]
    events += [final_isr(1, (1, 2), 2)]
    polled = READ | {"high_watermark": 2}
    decision = decided([*[row | {"leader_epoch": 1} for row in TWO], polled], events=events)
    assert by_kept(decision, Kept.NOT_JUDGED).isdisjoint(
        {"committed-truncated", "high-watermark-regression", "uncommitted-read", "fenced-acknowledgement"}
    )
    looked = {check.name: check.looked for check in decision.checks}
    assert (looked["replica-stopped"], looked["two-leaders"], looked["high-watermark-regression"]) == (1, 1, 1)
    assert (looked["incomplete-isr"], looked["isr-not-restored"], looked["fenced-acknowledgement"]) == (2, 1, 2)


@pytest.mark.parametrize(
    ("operations", "logs", "events", "check", "amount"),
    [
        ([TWO[0], TWO[1] | {"offset": None}, READ], LOGS, (), "lost-write", (1, 1)),
        ([TWO[0], TWO[1] | {"offset": None}, READ], (), (), "lost-write", (2, 0)),
        ([TWO[0], TWO[1] | {"offset": None}], (), (), "lost-write", (1, 1)),
        ([*TWO, READ | {"limited": True}], LOGS, (), "stale-read", (0, 1)),
        ([*TWO, READ | {"type": "fail", "records": None}], LOGS, (), "stale-read", (0, 1)),
        ([*TWO, READ], [LOGS[0], LOGS[1] | {"complete": False}], (), "diverged-log", (1, 1)),
        ([*TWO, READ], LOGS, [final_isr(1, (1, 2, 3), 2)], "incomplete-isr", (2, 1)),
    ],
)
def test_what_could_not_be_looked_at_makes_unknown(
    operations: list[Row], logs: list[Row], events: list[Row], check: str, amount: tuple[int, int]
) -> None:
    """A check that applies and has not seen all there was clears nobody, and the verdict names it and says why."""
    assert coverage(operations, logs, events)[check] == amount
    decision = decided(operations, logs, events)
    if amount[1]:
        assert decision.verdict is Verdict.UNKNOWN
        assert check in by_kept(decision, Kept.UNDECIDED)
        assert any(f"not all was looked at for {check}" in reason for reason in decision.reasons)
    else:
        assert check in by_kept(decision, Kept.KEPT)


def test_a_record_that_is_not_whole_keeps_nothing() -> None:
    """What is there may be all right; what is missing might not be."""
    found = findings([*TWO, READ], LOGS)
    covered = found.coverage.to_pylist()
    decision = decide(counts=COUNTS, anomalies=(), coverage=covered, complete=False, problems=())
    assert by_kept(decision, Kept.KEPT) == set()
    assert by_kept(decision, Kept.UNDECIDED) >= {"lost-write", "missing-evidence"}
    assert "hole" in by_kept(decision, Kept.NOT_JUDGED)


@pytest.mark.slow
def test_a_check_that_finds_has_looked() -> None:
    """Whatever a check finds in any lie, it says that it has looked at something."""
    names = {check.name for check in LOG_CHECKS}
    found_of: set[str] = set()
    for seed in range(60):
        run = simulate(seed, seed % 5)
        found = findings(run.operations, run.logs, run.events, gapless=run.gapless)
        looked = {row["check"]: row["looked"] + row["missed"] for row in found.coverage.to_pylist()}
        found_of |= {row["anomaly"] for row in found.anomalies.to_pylist()}
        assert {row["anomaly"] for row in found.anomalies.to_pylist()} <= {name for name in looked if looked[name]}
        assert looked.keys() <= names
    assert len(found_of) > 12


def test_transactions_are_searched_for_cycles() -> None:
    """Where operations do more than one thing, circles are looked for, and counted by transaction."""
    single: list[Op] = [txn((0, 1), send(1, 10, 0)), txn((2, 3), send(1, 11, 1))]
    several = [txn((0, 1), send(1, 10, 0), send(2, 20, 0)), txn((2, 3), send(1, 11, 1))]
    for ops, amount in ((single, {}), (several, dict.fromkeys(CYCLES, 1))):
        table: pa.Table = table_of(ops)
        looked = {row["check"]: row["looked"] for row in judge_transactions(table).coverage.to_pylist()}
        assert {name: looked[name] for name in CYCLES & looked.keys()} == amount


def test_what_is_allowed_is_not_called_kept() -> None:
    """A promise that the system does not make, and that was not kept, is told as that."""
    rows = [{"anomaly": "G0", "severity": "allowed", "evidence": "{}", "topic_partition": ""}]
    covered = [{"check": "G0", "looked": 3, "missed": 0, "why": ""}]
    decision = decide(counts=COUNTS, anomalies=rows, coverage=covered, complete=True, problems=())
    assert (decision.verdict, by_kept(decision, Kept.ALLOWED)) == (Verdict.VALID, {"G0"})


EARLY = poll((0, 1), 0, (0, 10), process=1)


@pytest.mark.parametrize(
    ("operations", "is_convicted"),
    [
        ([EARLY, append((2, 3), 10, 0)], True),
        ([EARLY, append((2, 3), 10)], True),
        ([EARLY, append((2, None), 10, type="info")], True),
        ([EARLY, append((2, 3), 10, 0), poll((4, 5), 0, (0, 10), process=1, seek=True)], True),
        ([append((0, 9), 10, 0), EARLY | {"invoke_index": 1, "return_index": 2}], False),
        ([EARLY | {"return_index": 3}, append((2, 5), 10, 0)], False),
        ([EARLY | {"type": "info"}, append((2, 3), 10, 0)], False),
        ([EARLY, append((2, 3), 11, 1)], False),
    ],
)
def test_a_read_from_the_future(operations: list[Row], is_convicted: bool) -> None:
    """A poll that was over before its value was asked for convicts, whatever the append was told; one beside it does
    not, nor one whose outcome is not known, nor one of a value that nobody wrote."""
    rows = [row for row in findings(operations).anomalies.to_pylist() if row["anomaly"] == "future-read"]
    assert [row["severity"] for row in rows] == ["violation"] * is_convicted
    assert [row["op_indexes"] for row in rows] == [[0, 2]] * is_convicted
