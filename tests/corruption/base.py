"""Small runs as rows that can be damaged: a clean one, and some that are rightly convicted."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from nemesis.history import DUMP, HARNESS_PROCESS, METADATA_LOG, NEMESIS_PROCESS, EventType
from nemesis.history.pairing import Pairing
from nemesis.history.schemas import COMPLETE_MARKER, SCHEMAS, Kind
from nemesis.history.writer import shard_name

Row = dict[str, Any]
LOGS = ("orders-0", "orders-1")
REPLICAS = (1, 2, 3)
CONTROL = 6
"""The offset at which a second leader began: no value stands there."""
VALUES = [offset for offset in range(13) if offset != CONTROL]
END = 13
UNTOLD = 12
"""The offset of a value whose append was never answered."""
READER = 9
"""The process of the final reads."""
SHARD_ROWS = 80
METADATA_LOGS = {METADATA_LOG: list(REPLICAS)}
TEST = json.dumps({"workload": "append", "logs": {**METADATA_LOGS, **{name: [] for name in LOGS}}})


def value_at(log: str, offset: int) -> int:
    """What stands there."""
    return 100 * (1 + LOGS.index(log)) + offset


@dataclass(slots=True)
class Recording:
    """The rows of a run folder, and what is done to its files when they are written."""

    history: list[Row] = field(default_factory=list)
    logs: list[Row] = field(default_factory=list)
    events: list[Row] = field(default_factory=list)
    test: str | None = TEST
    rows_told: dict[str, Any] | None = None
    to_files: list[Callable[[Path], object]] = field(default_factory=list)
    pairing: Pairing = field(default_factory=Pairing)

    @property
    def tables(self) -> dict[Kind, list[Row]]:
        """Its tables by their kinds."""
        return {Kind.HISTORY: self.history, Kind.LOGS: self.logs, Kind.EVENTS: self.events}

    def event(self, process: int, type: str, f: str, **fields: Any) -> None:
        """Add a line of the history."""
        index = len(self.history)
        about = {"index": index, "time_ns": index * 1000, "process": process, "type": type, "f": f}
        about |= {"invoked": self.pairing.invoked(index, process, EventType(type), f)}
        self.history.append(about | fields)

    def count(self) -> None:
        """Let the mark of the end tell of as many rows as there are now."""
        self.rows_told = {kind.value: len(rows) for kind, rows in self.tables.items()}

    def write(self, folder: Path) -> Path:
        """Write it as a run folder; returns the folder."""
        for kind, rows in self.tables.items():
            (folder / kind).mkdir(parents=True)
            for number, begin in enumerate(range(0, len(rows), SHARD_ROWS)):
                table = pa.Table.from_pylist(rows[begin : begin + SHARD_ROWS], schema=SCHEMAS[kind])
                pq.write_table(table, folder / kind / shard_name(number), write_page_checksum=True)
        (folder / Kind.HISTORY / COMPLETE_MARKER).write_text(json.dumps(self.rows_told))
        (folder / "schedule.json").write_text("{}")
        if self.test is not None:
            (folder / "test.json").write_text(self.test)
        for damage in self.to_files:
            damage(folder)
        return folder


def clean() -> Recording:
    """Two logs with a change of leader in each, read while they grew and in the end; three replicas that agree."""
    run = Recording()
    positions = dict.fromkeys(LOGS, 0)
    for offset in range(UNTOLD):
        if offset == CONTROL:
            run.event(NEMESIS_PROCESS, "invoke", "kill", detail='{"replicas": [1]}')
            run.event(NEMESIS_PROCESS, "info", "kill", detail='{"replicas": [1]}')
            continue
        for log in LOGS:
            _append(run, log, offset)
            if offset % 3 == 2:
                known = [known for known in VALUES if positions[log] <= known <= offset]
                read(run, log, positions[log], known, process=3, seek=positions[log] == 0)
                positions[log] = offset + 1
    for process, log in enumerate(LOGS, 4):
        _lose_touch(run, log, process)
    run.event(HARNESS_PROCESS, "invoke", "converge", detail="{}")
    run.event(HARNESS_PROCESS, "info", "converge", detail="{}")
    for log in LOGS:
        half = len(VALUES) // 2
        for position, offsets in ((0, VALUES[:half]), (VALUES[half - 1] + 1, VALUES[half:])):
            read(run, log, position, offsets, process=READER, final=True, seek=True, limited=position == 0)
    _replicas(run)
    run.count()
    return run


def _append(run: Recording, log: str, offset: int) -> None:
    """An append that is acknowledged; now and then another that fails before it."""
    process = offset % 2
    if offset == 4:
        for kind in ("invoke", "fail"):
            run.event(process, kind, "append", topic_partition=log, value=90)
    run.event(process, "invoke", "append", topic_partition=log, value=value_at(log, offset))
    told = {"value": value_at(log, offset), "offset": offset, "leader_epoch": 1 if offset < CONTROL else 2}
    run.event(process, "ok", "append", topic_partition=log, **told)


def _lose_touch(run: Recording, log: str, process: int) -> None:
    """Appends of unknown outcome, of which one stands; and a poll that fails."""
    for value in (91, value_at(log, UNTOLD)):
        run.event(process, "invoke", "append", topic_partition=log, value=value)
        run.event(process, "info", "append", topic_partition=log, value=value, error="no answer in time")
    run.event(process, "invoke", "poll", topic_partition=log, offset=0, seek=True)
    run.event(process, "fail", "poll", topic_partition=log, offset=0, error="no answer in time")


def read(
    run: Recording, log: str, position: int, offsets: Sequence[int], *, process: int, final: bool = False, **fields: Any
) -> None:
    """A poll of these offsets, or a final read."""
    f, limited = "final-read" if final else "poll", fields.pop("limited", False)
    run.event(process, "invoke", f, topic_partition=log, offset=position, **fields)
    records = [{"offset": offset, "value": value_at(log, offset)} for offset in offsets]
    end = END if final else offsets[-1] + 1
    told = {"offset": position, "records": records, "high_watermark": end, "node": 2, "limited": limited}
    run.event(process, "ok", f, topic_partition=log, **told)


def _replicas(run: Recording) -> None:
    claim = json.dumps({"isr": REPLICAS, "replicas": REPLICAS, "restored": True, "after_s": 0.5})
    for replica_id in REPLICAS:
        run.events.append({"time_ns": 1, "replica_id": replica_id, "event": "started"})
    for log in (*LOGS, METADATA_LOG):
        for epoch in (1, 2):
            led = {"time_ns": (epoch - 1) * 60_000, "replica_id": epoch, "event": "became-leader", "epoch": epoch}
            run.events.append(led | {"topic_partition": log})
        for replica_id in REPLICAS if log in LOGS else ():
            told = {"time_ns": 90_000, "replica_id": replica_id, "event": "high-watermark", "epoch": 2, "offset": END}
            role = "leader" if replica_id == 2 else "follower"
            run.events.append(told | {"topic_partition": log, "detail": role})
    for log in LOGS:
        last = {"time_ns": 100_000, "replica_id": 2, "event": "final-isr", "epoch": 2, "offset": END}
        run.events.append(last | {"topic_partition": log, "detail": claim})
    for replica_id in REPLICAS:
        run.event(HARNESS_PROCESS, "invoke", DUMP, detail=json.dumps({"replicas": [replica_id]}))
        for log in (*LOGS, METADATA_LOG):
            run.logs += [_batch(replica_id, log, offset) for offset in range(END)]
        logs = {log: {"complete": True, "batches": END} for log in (*LOGS, METADATA_LOG)}
        run.event(HARNESS_PROCESS, "info", DUMP, detail=json.dumps({"replicas": [replica_id], "logs": logs}))


def _batch(replica_id: int, log: str, offset: int) -> Row:
    is_control = offset == CONTROL
    return {
        "replica_id": replica_id,
        "topic_partition": log,
        "base_offset": offset,
        "last_offset": offset,
        "leader_epoch": 1 if offset < CONTROL else 2,
        "crc": 7000 + offset,
        "is_control": is_control,
        "values": None if is_control or log == METADATA_LOG else [value_at(log, offset)],
        "high_watermark": END,
        "log_start_offset": 0,
        "log_end_offset": END,
        "complete": True,
    }


def lost() -> Recording:
    """Another value stands where one was acknowledged, whoever looks."""
    run = clean()
    log, other = LOGS[0], 91
    for row in run.history:
        for record in row.get("records") or ():
            if record["value"] == value_at(log, 4):
                record["value"] = other
    for row in run.logs:
        if row["values"] == [value_at(log, 4)]:
            row["values"] = [other]
    return run


def diverged() -> Recording:
    """One replica holds other batches below every high watermark."""
    run = clean()
    for row in run.logs:
        if row["replica_id"] == 3 and row["topic_partition"] == LOGS[1] and row["base_offset"] > CONTROL:
            row["crc"] += 1
    return run


def phantom() -> Recording:
    """A value was read that nobody wrote."""
    run = clean()
    unknown = value_at(LOGS[0], UNTOLD)
    for row in run.history:
        if row.get("value") == unknown:
            row["value"] = 92
    return run


def objects() -> Recording:
    """A register that is written and read, and the log of its store at three replicas."""
    run = Recording(test=json.dumps({"workload": "register", "logs": METADATA_LOGS}))
    for value in (1, 2, 3):
        run.event(0, "invoke", "write", topic_partition="x", value=value)
        run.event(0, "ok", "write", topic_partition="x", offset=value)
        run.event(1, "invoke", "read", topic_partition="x")
        changed = json.dumps({"changed_at": value})
        run.event(1, "ok", "read", topic_partition="x", value=value, offset=value, detail=changed)
    for replica_id in REPLICAS:
        run.logs += [_batch(replica_id, METADATA_LOG, offset) for offset in range(END)]
        logs = {METADATA_LOG: {"complete": True, "batches": END}}
        run.event(HARNESS_PROCESS, "info", DUMP, detail=json.dumps({"replicas": [replica_id], "logs": logs}))
    run.events += [{"time_ns": 1, "replica_id": replica_id, "event": "started"} for replica_id in REPLICAS]
    run.count()
    return run
