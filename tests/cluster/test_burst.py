"""A burst of load reaches a cluster: for its time, and no longer, clients begin many more operations."""

from __future__ import annotations

from pathlib import Path

import pytest

from nemesis.cli.exit import Exit
from nemesis.faults.bursts import Burst
from nemesis.history import APPEND, POLL
from nemesis.history.reader import read_history
from nemesis.schedules.schedule import Heal, Inject, Schedule, Step
from nemesis.workload.workload import BEHIND_S_MAX
from tests.systems.running import run

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(300)]

RATE, FACTOR = 5, 20
"""So that even a fifth of what is asked for in the burst cannot be mistaken for the usual rate."""
WANTED = (APPEND, POLL, "burst", "ease")
BURST = Schedule(
    name="burst",
    time_limit_s=6,
    steps=(
        Step(at_s=2, action=Inject(fault_id=0, fault=Burst(factor=FACTOR))),
        Step(at_s=4, action=Heal(fault_id=0)),
    ),
)


def test_clients_ask_more_often_while_a_burst_lasts(tmp_path: Path) -> None:
    """Between the burst and its end far more operations begin than at the usual rate, before and after it no more."""
    (tmp_path / "burst.json").write_text(BURST.to_json(), encoding="utf-8")

    done = run(tmp_path / "store", "--schedule", str(tmp_path / "burst.json"), "--rate", str(RATE), "--seed", "1")

    assert done.returncode == Exit.VALID, done.stdout + done.stderr
    table = read_history(tmp_path / "store" / "append" / "latest")
    rows = [row for row in table.select(["time_ns", "process", "type", "f"]).to_pylist() if row["f"] in WANTED]
    (begin_ns,) = (row["time_ns"] for row in rows if (row["f"], row["type"]) == ("burst", "info"))
    (end_ns,) = (row["time_ns"] for row in rows if (row["f"], row["type"]) == ("ease", "info"))
    begun_ns = [row["time_ns"] for row in rows if row["process"] >= 0 and row["type"] == "invoke"]
    usual = RATE * (end_ns - begin_ns) / 1e9
    assert sum(begin_ns <= time_ns < end_ns for time_ns in begun_ns) > FACTOR / 5 * usual
    after_s = (max(begun_ns) - end_ns) / 1e9
    # Slots that are behind by half a second may be made up for.
    assert sum(time_ns >= end_ns for time_ns in begun_ns) <= RATE * (after_s + 1) + FACTOR * RATE * BEHIND_S_MAX
    assert sum(time_ns < begin_ns for time_ns in begun_ns) <= RATE * (begin_ns - min(begun_ns)) / 1e9 + RATE
