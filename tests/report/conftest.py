"""Run folders made by hand: a small cluster, its faults, its operations and, if wished, its judgement."""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from nemesis.history import (
    APPEND,
    FINAL_READ,
    NEMESIS_PROCESS,
    POLL,
    EventType,
    HistoryEvent,
    PolledRecord,
    ReplicaEvent,
    ReplicaLogBatch,
)
from nemesis.history.writer import HistoryWriter

SECOND = 1_000_000_000
TEST: Mapping[str, Any] = {
    "workload": "append",
    "variant": None,
    "seed": 7,
    "options": {"nodes": 3, "nemesis": ["partition", "kill", "pause"], "time_limit": 30, "rate": 200},
    "versions": {"highwater-log": "0.1.0", "python": "3.11.2"},
    "argv": ["/usr/bin/nemesis", "run", "--workload", "append", "--nemesis", "partition,kill,pause"],
    "started_at": "2026-01-02T03:04:05Z",
}


class RunFolder:
    """A run folder in the making. Times are seconds; events are written in order of time, as a runner does."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._events: list[tuple[float, dict[str, Any]]] = []
        self._rows: list[ReplicaEvent | ReplicaLogBatch] = []

    def event(self, time_s: float, type_: EventType, f: str, process: int = 0, **fields: Any) -> None:
        self._events.append((time_s, {"type": type_, "f": f, "process": process} | fields))

    def operation(
        self,
        invoked_s: float,
        returned_s: float | None,
        f: str = APPEND,
        outcome: EventType = EventType.OK,
        process: int = 0,
        **fields: Any,
    ) -> None:
        """An invocation and, unless ``returned_s`` is ``None``, its completion, which gets all of ``fields``."""
        self.event(invoked_s, EventType.INVOKE, f, process, value=fields.get("value"), topic_partition="log-0")
        if returned_s is not None:
            self.event(returned_s, outcome, f, process, topic_partition="log-0", **fields)

    def fault(self, f: str, time_s: float, **detail: Any) -> None:
        """One action of the nemesis, which took 20 ms."""
        self.event(time_s, EventType.INVOKE, f, NEMESIS_PROCESS, detail=json.dumps(detail))
        self.event(time_s + 0.02, EventType.INFO, f, NEMESIS_PROCESS, detail=json.dumps(detail))

    def replica_event(self, time_s: float, replica_id: int, event: str, **fields: Any) -> None:
        self._rows.append(ReplicaEvent(time_ns=int(time_s * SECOND), replica_id=replica_id, event=event, **fields))

    def log(self, replica_id: int, values: list[int], epochs: list[int]) -> None:
        """The final log of one replica: a batch of one record for each value."""
        for offset, (value, epoch) in enumerate(zip(values, epochs, strict=True)):
            self._rows.append(
                ReplicaLogBatch(
                    replica_id=replica_id,
                    topic_partition="log-0",
                    base_offset=offset,
                    last_offset=offset,
                    leader_epoch=epoch,
                    crc=value + 1000,
                    is_control=False,
                    high_watermark=len(values),
                    log_end_offset=len(values),
                    complete=True,
                    values=(value,),
                )
            )

    def document(self, name: str, content: Any) -> None:
        self.folder.mkdir(parents=True, exist_ok=True)
        (self.folder / name).write_text(json.dumps(content), encoding="utf-8")

    def write(self, **results: Any) -> Path:
        """Write everything; ``results.json`` only when something is given for it."""
        self.document("test.json", TEST)
        if results:
            self.document("results.json", results)
        with HistoryWriter(self.folder) as writer:
            ordered = sorted(self._events, key=lambda event: event[0])
            for index, (time_s, fields) in enumerate(ordered):
                writer.write(HistoryEvent(index=index, time_ns=int(time_s * SECOND), **fields))
            for row in self._rows:
                writer.write(row)
        return self.folder


@pytest.fixture
def run_folder(tmp_path: Path) -> RunFolder:
    """An empty run folder to fill."""
    return RunFolder(tmp_path / "run")


@pytest.fixture
def busy_run(run_folder: RunFolder) -> Callable[[], RunFolder]:
    """A run of 30 s in which leaders fall and a log is truncated, without results."""

    def fill() -> RunFolder:
        _faults(run_folder)
        _operations(run_folder, random.Random(7))
        for replica_id in (1, 2, 3):
            run_folder.log(replica_id, values=[0, 1, 2, 3], epochs=[1, 1, 3, 3])
        return run_folder

    return fill


def _faults(run: RunFolder) -> None:
    run.replica_event(0.4, 1, "became-leader", epoch=1)
    run.fault("partition", 5.0, replicas=[1], shape="isolate-leader")
    run.replica_event(6.1, 2, "became-leader", epoch=2)
    run.fault("heal", 10.0, replicas=[1])
    run.replica_event(10.2, 1, "became-follower", epoch=2)
    run.replica_event(10.25, 1, "truncated", epoch=2, offset=412)
    run.fault("kill", 14.0, replicas=[2])
    run.replica_event(15.2, 3, "became-leader", epoch=3)
    run.fault("restart", 18.0, replicas=[2])
    run.replica_event(18.3, 2, "started", epoch=3)
    run.fault("pause", 21.0, replicas=[3])
    run.replica_event(22.4, 1, "became-leader", epoch=4)
    run.fault("resume", 25.0, replicas=[3])
    run.replica_event(25.1, 3, "became-follower", epoch=4)


def _operations(run: RunFolder, dice: random.Random) -> None:
    unavailable = ((5.0, 6.1), (14.0, 15.2), (21.0, 22.4))
    for process in range(10):
        now, number = 0.5 + process * 0.01, process
        while now < 28:
            cut = next((end for begin, end in unavailable if begin <= now < end), None)
            took = dice.lognormvariate(-4.6, 0.6)
            f = APPEND if dice.random() < 0.5 else POLL
            if cut is None:
                outcome = {"offset": number} if f == APPEND else {"records": (PolledRecord(offset=1, value=1),)}
                run.operation(now, now + took, f, process=process, value=number if f == APPEND else None, **outcome)
            else:
                took = min(1.0, cut - now + took)
                failed = EventType.INFO if dice.random() < 0.6 else EventType.FAIL
                error = "REQUEST_TIMED_OUT" if failed is EventType.INFO else "NOT_LEADER_OR_FOLLOWER"
                run.operation(now, now + took, f, failed, process=process, error=error)
            now += took + 0.05 * dice.random()
            number += 10
    run.operation(29.0, 29.8, FINAL_READ, process=11, records=(PolledRecord(offset=0, value=0),))
