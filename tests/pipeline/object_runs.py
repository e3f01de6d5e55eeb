"""Runs on objects, written by hand or by processes that use a store in memory."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from random import Random
from typing import Any

import pyarrow as pa

from nemesis.history import EventType, HistoryEvent, ReplicaEvent, ReplicaLogBatch
from nemesis.history.pairing import paired
from nemesis.history.recorder import Clock, Recorder
from nemesis.history.schemas import Kind
from nemesis.history.tables import table_of
from nemesis.history.writer import HistoryWriter
from nemesis.workload.objects import ObjectWorkload
from nemesis.workload.workload import Setup, Workload
from tests.pipeline.recorded import dumps_of
from tests.workload.fake_store import FakeStore
from tests.workload.fake_system import FakeSystem

STEP_NS = 10_000_000
GROUP_LOG = "kv-0"


def done(
    process: int, kind: str, f: str, name: str = "x", *, at_ms: int | None = None, **fields: Any
) -> dict[str, Any]:
    """One event on an object; ``detail`` as an object, ``at_ms`` if its time is not that of its place."""
    detail = fields.pop("detail", None)
    row = {"process": process, "type": EventType(kind), "f": f, "topic_partition": name, **fields}
    row |= {} if detail is None else {"detail": json.dumps(detail)}
    return row | ({} if at_ms is None else {"time_ns": at_ms * 1_000_000})


def events_of(*rows: dict[str, Any]) -> list[HistoryEvent]:
    """The rows as events, in their order."""
    return [HistoryEvent(index=place, **{"time_ns": place * STEP_NS, **row}) for place, row in enumerate(rows)]


def history_of(*rows: dict[str, Any]) -> pa.Table:
    """The rows as a history."""
    return table_of(Kind.HISTORY, paired(events_of(*rows)))


def object_run(folder: Path, workload: type[Workload], *rows: dict[str, Any]) -> Path:
    """Record the rows as a run of this workload, with a log that was read to its end."""
    with HistoryWriter(folder) as writer:
        for event in events_of(*rows):
            writer.write(event)
        write_replicas(writer)
    (folder / "test.json").write_text(json.dumps({"workload": workload.name}))
    return folder


def write_replicas(writer: HistoryWriter) -> None:
    """Three replicas that agree on two batches, whose leader changed once, and one of which loaded a snapshot."""
    rows = [
        {"replica_id": replica_id, "topic_partition": GROUP_LOG, "base_offset": offset}
        for replica_id in (1, 2, 3)
        for offset in (0, 1)
    ]
    for dump in dumps_of(rows, writer.next_index):
        writer.write(dump)
    for replica_id in (1, 2, 3):
        for offset in (0, 1):
            writer.write(
                ReplicaLogBatch(
                    replica_id=replica_id,
                    topic_partition=GROUP_LOG,
                    base_offset=offset,
                    last_offset=offset,
                    leader_epoch=offset + 1,
                    crc=offset,
                    is_control=False,
                    high_watermark=2,
                    log_end_offset=2,
                    complete=True,
                )
            )
    voters = (("voters-changed", 2), ("voters-learned", 2))
    told = (("became-leader", 1), ("became-leader", 2), ("snapshot-installed", None), *voters)
    for replica_id, (event, epoch) in enumerate(told, 1):
        time_ns = replica_id - 1
        writer.write(
            ReplicaEvent(time_ns=time_ns, replica_id=replica_id, event=event, epoch=epoch, topic_partition=GROUP_LOG)
        )


def used_store(folder: Path, workload: type[ObjectWorkload], store: FakeStore, events: int = 800) -> Path:
    """A run of this workload on a store in memory."""
    with HistoryWriter(folder) as writer:
        asyncio.run(_use(writer, workload, store, events))
        write_replicas(writer)
    (folder / "test.json").write_text(json.dumps({"workload": workload.name}))
    return folder


async def _use(writer: HistoryWriter, workload: type[ObjectWorkload], store: FakeStore, events: int) -> None:
    stop, recorder = asyncio.Event(), Recorder(writer, Clock())
    runs = workload(Setup(system=FakeSystem(objects=store), recorder=recorder, random=Random(7), concurrency=6, keys=3))
    async with asyncio.timeout(30), asyncio.TaskGroup() as tasks:
        tasks.create_task(runs.run(rate=4000, stop=stop))
        while writer.next_index < events:
            await asyncio.sleep(0.002)
        stop.set()
    await runs.read_all(at_most_s=30)
