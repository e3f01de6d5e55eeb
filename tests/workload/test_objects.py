"""What processes record of what they did with objects, and that it is judged rightly."""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from datetime import UTC, datetime
from pathlib import Path
from random import Random
from typing import Any

import pytest

from nemesis.checks import Verdict
from nemesis.history.reader import read_history
from nemesis.history.recorder import Clock
from nemesis.history.schemas import REPLICA_EVENT_SCHEMA, REPLICA_LOG_SCHEMA
from nemesis.history.writer import HistoryWriter
from nemesis.pipeline import judge_run
from nemesis.pipeline.local import judge_tables
from nemesis.runner import OpenRun, RunOptions, write_documents
from nemesis.schedules.schedule import Schedule
from nemesis.workload.bank import BankWorkload
from nemesis.workload.catalogue import ON_OBJECTS, workload_of
from nemesis.workload.collection import SetWorkload
from nemesis.workload.counter import CounterWorkload
from nemesis.workload.ending import ReportWriter
from nemesis.workload.lock import LockWorkload
from nemesis.workload.objects import Objects, ObjectWorkload
from nemesis.workload.queue import QueueWorkload
from nemesis.workload.register import RegisterWorkload
from nemesis.workload.workload import Setup
from tests.workload.fake_store import (
    DoneTwice,
    FakeStore,
    LostUpdates,
    NothingCompared,
    ShortLeases,
    StaleReads,
    TornTransactions,
    WrongRevisions,
)
from tests.workload.fake_system import FakeSystem
from tests.workload.recording import Recording

PATIENCE_S = 30.0
COMMON = (RegisterWorkload, SetWorkload, CounterWorkload, BankWorkload, QueueWorkload)
CONVICTED = [
    *((workload, StaleReads) for workload in COMMON),
    *((workload, LostUpdates) for workload in COMMON),
    *((workload, DoneTwice) for workload in COMMON if workload is not SetWorkload),
    *((workload, NothingCompared) for workload in (RegisterWorkload, BankWorkload, LockWorkload, QueueWorkload)),
    (BankWorkload, TornTransactions),
    (LockWorkload, ShortLeases),
]


async def run_on(store: FakeStore, workload: type[ObjectWorkload], recording: Recording, events: int = 700) -> None:
    """Run the workload until so many events are recorded, and read everything."""
    stop, system = asyncio.Event(), FakeSystem(objects=store)
    runs = workload(Setup(system=system, recorder=recording.recorder, random=Random(7), concurrency=6, keys=3))
    async with asyncio.timeout(PATIENCE_S), asyncio.TaskGroup() as tasks:
        tasks.create_task(runs.run(rate=4000, stop=stop))
        while recording.writer.next_index < events:
            await asyncio.sleep(0.002)
        stop.set()
    assert await runs.read_all(at_most_s=PATIENCE_S) == ()
    recording.writer.flush()


def anomalies_of(folder: Path, workload: type[ObjectWorkload]) -> list[dict[str, Any]]:
    """What the judge finds in the history of a folder."""
    nothing = (REPLICA_LOG_SCHEMA.empty_table(), REPLICA_EVENT_SCHEMA.empty_table())
    findings = judge_tables("run", read_history(folder), *nothing, whole=True, workload=workload)[1]
    assert not any(row["missed"] for row in findings.coverage.to_pylist()), "each object was looked at"
    return list(findings.anomalies.to_pylist())


@pytest.mark.parametrize("workload", ON_OBJECTS.values())
async def test_a_linearizable_store_is_found_right(tmp_path: Path, workload: type[ObjectWorkload]) -> None:
    """Of a store that is linearizable no object is convicted, and none is unknown, whatever outcomes were unknown."""
    store, recording = FakeStore(Random(3), refused=0.02, unknown=0.02), Recording(tmp_path)

    await run_on(store, workload, recording)

    assert anomalies_of(tmp_path, workload) == []
    kinds = Counter(row["type"] for row in recording.client_rows())
    assert min(kinds["ok"], kinds["fail"], kinds["info"]) > 0


@pytest.mark.parametrize(("workload", "kind"), CONVICTED)
async def test_a_wrong_store_is_convicted(
    tmp_path: Path, workload: type[ObjectWorkload], kind: type[FakeStore]
) -> None:
    """Each wrong store is found out by each workload that it can hurt."""
    await run_on(kind(Random(3), unknown=0.01), workload, Recording(tmp_path))

    found = anomalies_of(tmp_path, workload)
    assert {row["severity"] for row in found if row["anomaly"] == "nonlinearizable"} == {"violation"}
    assert all(row["op_indexes"] for row in found if row["anomaly"] == "nonlinearizable")


@pytest.mark.parametrize("workload", COMMON)
async def test_revisions_that_explain_nothing_are_told(tmp_path: Path, workload: type[ObjectWorkload]) -> None:
    """If every answer is right and the revisions are not, that and nothing else is found."""
    await run_on(WrongRevisions(Random(3)), workload, Recording(tmp_path))

    found = {(row["anomaly"], row["severity"]) for row in anomalies_of(tmp_path, workload)}
    assert found == {("wrong-order", "violation")}


async def test_an_unknown_change_ends_the_process(tmp_path: Path) -> None:
    """After info a process is never heard of again, and another with a client of its own takes its place."""
    store, recording = FakeStore(Random(3), unknown=0.05), Recording(tmp_path)

    await run_on(store, RegisterWorkload, recording, events=600)

    rows = recording.client_rows()
    ended = {row["process"]: row["index"] for row in rows if row["type"] == "info"}
    last = {row["process"]: row["index"] for row in rows}
    assert len(ended) >= 3
    assert all(last[process] == index for process, index in ended.items())
    # One more reads everything at the end; those that begin when the time is up may have nothing left to do.
    assert 6 + 1 < len(last) <= store.clients <= 6 + len(ended) + 1


async def test_values_are_written_once(tmp_path: Path) -> None:
    """No two operations of a run write the same value, so that a read names its write."""
    recording = Recording(tmp_path)
    await run_on(FakeStore(Random(3)), RegisterWorkload, recording, events=600)
    written = [row["value"] for row in recording.client_rows() if row["type"] == "invoke" and row["f"] != "read"]
    assert written
    assert len(set(written)) == len(written)


def test_objects_are_retired() -> None:
    """So many are in use at a time, each for so many operations, and every one that there was is known by name."""
    objects = Objects("set", 3, Random(1), operations=10)
    chosen = Counter(objects.choose() for _ in range(200))
    assert max(chosen.values()) == 10
    assert sum(number < 10 for number in chosen.values()) <= 3
    assert set(chosen) <= set(objects.names)
    assert objects.names[:4] == ("set-0", "set-1", "set-2", "set-3")


@pytest.mark.parametrize(("refused", "kind"), [(0.0, "info"), (1.0, "fail")])
async def test_what_cannot_be_read_at_the_end_is_told(tmp_path: Path, refused: float, kind: str) -> None:
    """Objects that nobody could read in time are a failure of the harness, which leaves the run unknown at best."""
    recording, random = Recording(tmp_path), Random(1)
    system = FakeSystem(objects=FakeStore(random, refused=refused))
    workload = CounterWorkload(Setup(system=system, recorder=recording.recorder, random=random, concurrency=1, keys=2))

    await workload.read_everything(at_most_s=0.2)

    unread = [] if kind == "info" else ["counter-0", "counter-1"]
    assert recording.harness_rows() == [
        ("read-objects", "invoke", "{}"),
        ("read-objects", kind, json.dumps({"unread": unread})),
    ]


async def test_a_run_on_objects_is_recorded_whole(tmp_path: Path) -> None:
    """Clients, faults, healing, reads of every object and dumps are in the folder, and its documents say what it is."""
    system, options = FakeSystem(), RunOptions(seed=1, workload=BankWorkload, concurrency=2, final_time_limit=5.0)
    schedule = Schedule(name="test", time_limit_s=0.5, steps=())
    write_documents(tmp_path, options, schedule, ["nemesis", "run"], datetime.now(UTC))
    document = json.loads((tmp_path / "test.json").read_text())
    (tmp_path / "test.json").write_text(json.dumps(document | {"logs": dict.fromkeys(system.topic_partitions, ())}))
    with HistoryWriter(tmp_path) as writer:
        clock = Clock()
        reports = ReportWriter(writer, clock)
        run = OpenRun(system, writer, clock, reports, options, schedule, lambda _: None)
        assert await run.record() is None

    rows = read_history(tmp_path).to_pylist()
    read_at_the_end = {row["topic_partition"] for row in rows[-60:] if row["f"] == "read" and row["type"] == "ok"}
    assert {f"bank-{number}" for number in range(options.keys)} <= read_at_the_end
    assert workload_of(tmp_path) is BankWorkload
    judgement = judge_run(tmp_path, engine="local")
    assert (judgement.verdict, judgement.stats.objects) == (Verdict.VALID, options.keys)
