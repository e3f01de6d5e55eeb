"""A run tells the same story whenever and wherever it is told, and another run tells another one."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from nemesis.faults.disks import PowerLoss
from nemesis.simulator.climate import Climate
from nemesis.simulator.run import SimOptions, simulate
from nemesis.simulator.trace import Trace, told
from nemesis.simulator.world import LOG
from replica.core import effects as fx
from replica.core import events as ev
from replica.core import messages as m
from replica.errors import ErrorCode
from replica.ids import CallId, CorrelationId, Epoch, Offset, ReplicaId, SnapshotId
from replica.machines import AppliedLog
from replica.machines.counter import Counter
from replica.records import encode_batch


def traced(options: SimOptions) -> tuple[list[str], str]:
    """The lines of a run and their hash."""
    lines: list[str] = []
    trace = Trace(lines.append)
    simulate(options, [trace])
    trace.finish("end")
    assert trace.lines == len(lines)
    return lines, trace.hash


def hash_elsewhere(seed: int, world: str, hash_seed: str, folder: Path) -> str:
    """The last line of ``nemesis sim --trace`` in a process with its own order of sets."""
    command = [sys.executable, "-m", "nemesis.cli", "sim", "--seed", f"{seed}", "--world", world]
    command += ["--time-limit", "12", "--trace"]
    environment = os.environ | {"PYTHONHASHSEED": hash_seed}
    done = subprocess.run(
        [*command, str(folder / hash_seed)], env=environment, capture_output=True, text=True, check=True
    )
    return done.stdout.splitlines()[-1]


@pytest.mark.parametrize(("seed", "world"), [(3, "quorum"), (1, "cluster"), (12, "group"), (5, "cluster")])
def test_a_run_is_a_function_of_its_seed(seed: int, world: str, tmp_path: Path) -> None:
    """Two processes that hash differently trace the same run, to the last byte."""
    one, other = (hash_elsewhere(seed, world, hash_seed, tmp_path) for hash_seed in ("1", "20"))

    assert one == other
    assert re.fullmatch(r"trace: [1-9]\d* lines, sha256 [0-9a-f]{64}", one)
    assert (tmp_path / "1").read_bytes() == (tmp_path / "20").read_bytes()


def test_another_seed_is_another_story() -> None:
    """The hash tells runs apart, by their seed and by their rules."""
    kinds = (None, "ack-before-replication")
    options = [SimOptions(seed=seed, time_limit_s=5, variant=kind) for seed in (3, 4) for kind in kinds]

    assert len({traced(one)[1] for one in options}) == 4


def test_watching_changes_nothing() -> None:
    """A run has the same outcome and the same history with a trace and without."""
    options = SimOptions(seed=6, time_limit_s=20)
    lines: list[str] = []
    watched, unwatched = simulate(options, [Trace(lines.append)]), simulate(options)

    assert watched.outcome == unwatched.outcome
    assert watched.record.history == unwatched.record.history
    assert lines


def test_the_story_is_whole_and_in_order() -> None:
    """Every operation, fault, step, crash and start has its line, and no line is before the one above it."""
    options = SimOptions(seed=5, time_limit_s=30, climate=Climate(weather=(PowerLoss,)))
    lines, _ = traced(options)
    run = simulate(options)
    times = [float(line.split()[0]) for line in lines[:-1]]
    operations = [line for line in lines if re.match(r" *[\d.]+ (process \d+|nemesis|harness) ", line)]

    assert times == sorted(times)
    assert len(operations) == len(run.record.history)
    assert sum(" is down: power" in line for line in lines) == run.outcome.rare["power-loss"]
    assert (
        sum(bool(re.search(r"replica \d   is leader in epoch", line)) for line in lines) >= run.outcome.rare["election"]
    )
    assert lines[-1] == "end"


def test_a_violation_comes_after_the_step_that_shows_it() -> None:
    """The last thing that a convicted run tells is the step that convicts it."""
    lines, _ = traced(SimOptions(seed=1, variant="ack-before-replication"))
    last_reply = max(index for index, line in enumerate(lines) if "Reply to #" in line)

    assert "ProduceResponse(error=NONE base_offset=" in lines[last_reply]
    assert len(lines) - last_reply <= 6


BATCH = encode_batch([b"7"], timestamp_ms=0)


@pytest.mark.parametrize(
    ("value", "line"),
    [
        (ev.Flushed(topic_partition=LOG, end_offset=Offset(4)), "Flushed(end_offset=4)"),
        (
            ev.RequestReceived(
                call_id=CallId(3),
                request=m.FetchRequest(partitions=(m.FetchPartition(topic_partition=LOG, fetch_offset=Offset(0)),)),
            ),
            "is asked #3 FetchRequest(partitions=[FetchPartition(fetch_offset=0)])",
        ),
        (
            ev.ResponseReceived(
                correlation_id=CorrelationId(9),
                replica_id=ReplicaId(2),
                response=m.VoteResponse(error=ErrorCode.NONE, vote_granted=True),
            ),
            "hears from 2 on @9 VoteResponse(error=NONE vote_granted=True)",
        ),
        (
            fx.Reply(call_id=CallId(3), response=m.ProduceResponse(error=ErrorCode.NONE, base_offset=Offset(1))),
            "Reply to #3 ProduceResponse(error=NONE base_offset=1)",
        ),
        (
            fx.StoreSnapshot(
                topic_partition=LOG,
                snapshot_id=SnapshotId(Offset(1), Epoch(2)),
                state=AppliedLog(Counter(), name="counter").view(),
                max_bytes=99,
            ),
            r"StoreSnapshot\(snapshot_id=SnapshotId\(end_offset=1 epoch=2\) "
            r"state=EncodedState\(data=\d+ bytes [0-9a-f]{8}\) max_bytes=99\)",
        ),
        (
            fx.Append(topic_partition=LOG, batches=(BATCH.stamped(base_offset=Offset(5), leader_epoch=Epoch(2)),)),
            r"Append\(batches=\[batch \[5, 6\) of epoch 2, 69 bytes [0-9a-f]{8}\]\)",
        ),
        (frozenset({ReplicaId(11), ReplicaId(2)}), "{11, 2}"),
        ({ReplicaId(1): b"ab"}, r"\{1: 2 bytes [0-9a-f]{8}\}"),
    ],
    ids=["event", "request", "response", "reply", "snapshot", "append", "set", "mapping"],
)
def test_values_are_told_by_what_they_say(value: object, line: str) -> None:
    """Defaults and the one log go without saying; bytes are told by length and checksum, sets in one order."""
    assert told(value) == line or re.fullmatch(line, told(value))
