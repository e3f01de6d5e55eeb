"""A leader dies that alone has everything: with unclean elections records are lost, without them time is."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from nemesis.report.data import read_run
from nemesis.report.values import RunView
from nemesis.schedules.directed import UNCLEAN_ELECTION

pytestmark = [pytest.mark.cluster, pytest.mark.long]

PATIENCE_S = 150.0
SOONER_S = {13.5: 9.0, 14.0: 9.5, 21.0: 14.5}
"""When the steps come where replicas that have lagged for a second and a half are out of sync."""
SOON = replace(
    UNCLEAN_ELECTION,
    time_limit_s=18.0,
    steps=tuple(replace(step, at_s=SOONER_S.get(step.at_s, step.at_s)) for step in UNCLEAN_ELECTION.steps),
)
COMMAND = ("run", "--engine", "local", "--seed", "5", "--lag-time-max-ms", "1500")


def recorded(store: Path, *arguments: str) -> tuple[int, str, dict[str, Any], RunView]:
    """Run the schedule: the exit code, what was said, ``results.json``, and what the report shows."""
    schedule = store / "soon.json"
    schedule.write_text(SOON.to_json(), encoding="utf-8")
    where = ("--schedule", str(schedule), "--store", str(store))
    command = [sys.executable, "-m", "nemesis.cli", *COMMAND, *where, *arguments]
    done = subprocess.run(command, check=False, capture_output=True, text=True, timeout=PATIENCE_S)
    folder = store / "append" / "latest"
    assert (folder / "results.json").exists(), done.stderr
    return done.returncode, done.stdout, json.loads((folder / "results.json").read_text()), read_run(folder)


def test_with_unclean_elections_records_are_lost_and_the_report_says_why(tmp_path: Path) -> None:
    """Every lost record is named with its offset and value, and with the election of a replica that lacked it."""
    code, said, results, run = recorded(tmp_path, "--unclean-leader-election")
    lost = [row for row in results["anomalies"] if row["anomaly"] == "lost-write"]
    (election,) = run.timeline.unclean_elections

    assert (code, results["verdict"], results["stats"]["unclean_elections"]) == (1, "invalid", 1), said
    assert lost, "the leader had acknowledged alone"
    assert election.log_end_offset is not None
    assert len(election.isr) + len(election.elr) == 1, "somebody else had everything"
    assert election.leader_id not in (*election.isr, *election.elr)
    cause = f"unclean election in epoch {election.epoch} of replica {election.leader_id}"
    assert {row["evidence"]["cause"] for row in lost} == {cause}
    assert all(row["offsets"][0] >= election.log_end_offset for row in lost)
    assert f"  lost-write: {len(lost)}, {len(lost)} by {cause} (topic1-0)" in said.splitlines()
    assert [(record.offset, record.value) for record in run.judgement.lost] == sorted(
        (row["offsets"][0], row["evidence"]["value"]) for row in lost
    )
    assert ("unclean leader election", "true") in run.facts
    assert any("by an unclean election, with a log that ended at" in told for told in run.judgement.narrative)


def test_without_unclean_elections_the_partition_is_offline_and_nothing_is_lost(tmp_path: Path) -> None:
    """The partition waits for the replica that has everything; the run is valid."""
    code, said, results, run = recorded(tmp_path, "--no-unclean-leader-election")
    (offline,) = run.timeline.offline

    assert (code, results["verdict"], results["anomalies"]) == (0, "valid", []), said
    assert (results["stats"]["unclean_elections"], results["stats"]["offline_partitions"]) == (0, 1)
    assert "partitions that were offline: 1" in said.splitlines()
    assert offline.end_s is not None
    assert offline.end_s - offline.start_s > 2
    assert offline.eligible == (offline.leader_id,), "it is led again by the only one that had everything"
    assert any("topic1-0 was offline for" in sentence for sentence in run.judgement.headlines)
