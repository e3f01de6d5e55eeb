"""What replicas say of their high watermarks while a run goes on."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

from nemesis.cluster.system import ReplicaState
from nemesis.history.reader import read_replica_events
from nemesis.workload.ending import record_states, sample_high_watermarks
from tests.workload.fake_system import FakeSystem
from tests.workload.recording import Recording

TOLD = ReplicaState(
    node=2, topic_partition="orders-0", role="follower", epoch=3, leader_id=1, high_watermark=7, log_end_offset=9
)


def test_a_sample_is_a_row(tmp_path: Path) -> None:
    """Each replica that knows a high watermark is a row with its role and epoch; one that knows none is no row."""
    recording = Recording(tmp_path)

    record_states((TOLD, replace(TOLD, node=3, high_watermark=None)), recording.recorder)

    recording.writer.flush()
    (row,) = read_replica_events(tmp_path).to_pylist()
    assert (row["event"], row["replica_id"], row["topic_partition"]) == ("high-watermark", 2, "orders-0")
    assert (row["epoch"], row["offset"], row["detail"]) == (3, 7, "follower")


async def test_every_replica_is_asked(tmp_path: Path) -> None:
    """Every replica of every log is asked at once, and what it says is written before the pause."""
    recording = Recording(tmp_path)
    sampling = asyncio.create_task(sample_high_watermarks(FakeSystem(), recording.recorder, asyncio.Event()))
    await asyncio.sleep(0)
    sampling.cancel()
    with suppress(asyncio.CancelledError):
        await sampling

    recording.writer.flush()
    rows = read_replica_events(tmp_path).to_pylist()
    assert {(row["replica_id"], row["topic_partition"]) for row in rows} == {
        (node, name) for node in (1, 2, 3) for name in ("orders-0", "orders-1")
    }
