"""What is told of a history that was made up, event by event, as it goes into files.

Owns the form of each event: as a run's history, and as the micro-operations of a Kafka workload. Nothing is kept: a
history may be longer than memory.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, TextIO

import pyarrow as pa
import pyarrow.parquet as pq

from benchmarks.synth.log_world import Call, Poll, Send
from nemesis.history.events import APPEND, FINAL_READ, POLL, EventType, HistoryEvent, PolledRecord
from nemesis.history.writer import HistoryWriter

NANOSECONDS = 1000
"""So much time passes from one event to the next."""
BATCH_ROWS = 50_000
Line = Mapping[str, Any]

EVENT_SCHEMA = pa.schema(
    [
        pa.field("index", pa.int64()),
        pa.field("time", pa.int64()),
        pa.field("process", pa.int64()),
        pa.field("type", pa.string()),
        pa.field("f", pa.string()),
        pa.field("key", pa.int64()),
        pa.field("value", pa.string()),
        pa.field("seek-to-beginning?", pa.bool_()),
    ]
)
"""The columns of a history in Parquet; the value is JSON."""


def partition_name(partition: int) -> str:
    """A log of a run."""
    return f"synth-{partition}"


class RunRecorder:
    """Writes the history of a run; each operation is one send or poll."""

    def __init__(self, writer: HistoryWriter) -> None:
        self._writer = writer

    def invoke(self, call: Call) -> int:
        """The operation begins."""
        [micro] = call.micro
        if isinstance(micro, Send):
            return self._write(call, EventType.INVOKE, APPEND, value=micro.value)
        asked: dict[str, Any] = {"offset": micro.position, "strict": micro.strict or None, "seek": micro.seek or None}
        return self._write(call, EventType.INVOKE, FINAL_READ if micro.final else POLL, **asked)

    def complete(self, call: Call, type: str) -> int:
        """It ends as this."""
        [micro] = call.micro
        is_ok = type == "ok"
        if isinstance(micro, Send):
            sent: dict[str, Any] = {"offset": micro.offset, "leader_epoch": micro.epoch} if is_ok else {"error": type}
            return self._write(call, EventType(type), APPEND, value=micro.value, **sent)
        told: dict[str, Any] = {
            "offset": micro.position,
            "records": tuple(PolledRecord(offset=offset, value=value) for offset, value in micro.records),
        }
        told |= {"high_watermark": micro.high_watermark, "limited": micro.limited}
        f = FINAL_READ if micro.final else POLL
        return self._write(call, EventType(type), f, **(told if is_ok else {"offset": micro.position, "error": type}))

    def take_all(self, process: int, partitions: list[int]) -> None:
        """In a run, whoever reads in the end says from where."""

    def _write(self, call: Call, type: EventType, f: str, **fields: Any) -> int:
        index = self._writer.next_index
        about: dict[str, Any] = {"process": call.process, "topic_partition": partition_name(call.micro[0].partition)}
        self._writer.write(HistoryEvent(index=index, time_ns=index * NANOSECONDS, type=type, f=f, **about, **fields))
        return index


class TransactionRecorder:
    """Hands out the history of a Kafka workload as lines; keys are numbers."""

    def __init__(self, write: Callable[[Line], None]) -> None:
        self._write_line = write
        self.index = 0

    def invoke(self, call: Call) -> int:
        """The operation begins."""
        return self._write(call.process, "invoke", "txn", [_asked(micro) for micro in call.micro])

    def complete(self, call: Call, type: str) -> int:
        """It ends as this."""
        told = _told if type == "ok" else _asked
        return self._write(call.process, type, "txn", [told(micro) for micro in call.micro])

    def take_all(self, process: int, partitions: list[int]) -> None:
        """Assign them, and seek to their start."""
        for type in ("invoke", "ok"):
            self._write(process, type, "assign", partitions, {"seek-to-beginning?": True})

    def _write(self, process: int, type: str, f: str, value: Any, extra: Line | None = None) -> int:
        about = {"index": self.index, "time": self.index * NANOSECONDS, "process": process, "type": type, "f": f}
        self._write_line(about | {"value": value} | dict(extra or {}))
        self.index += 1
        return self.index - 1


def _asked(micro: Send | Poll) -> list[Any]:
    return ["send", micro.partition, micro.value] if isinstance(micro, Send) else ["poll"]


def _told(micro: Send | Poll) -> list[Any]:
    if isinstance(micro, Send):
        return ["send", micro.partition, [micro.offset, micro.value]]
    return ["poll", {micro.partition: [list(record) for record in micro.records]} if micro.records else {}]


class JsonLines:
    """One object a line."""

    def __init__(self, path: Path) -> None:
        self._out: TextIO = path.open("w", encoding="utf-8")

    def write(self, line: Line) -> None:
        """Write one event."""
        self._out.write(json.dumps(line, separators=(",", ":")) + "\n")

    def close(self) -> None:
        """Nothing follows."""
        self._out.close()


class EdnLines:
    """One map a line, as Jepsen writes them: names are keywords."""

    def __init__(self, path: Path) -> None:
        self._out: TextIO = path.open("w", encoding="utf-8")

    def write(self, line: Line) -> None:
        """Write one event."""
        self._out.write("{" + ", ".join(f":{name} {_edn(name, value)}" for name, value in line.items()) + "}\n")

    def close(self) -> None:
        """Nothing follows."""
        self._out.close()


def _edn(name: str, value: Any) -> str:
    match value:
        case None:
            return "nil"
        case bool():
            return "true" if value else "false"
        case str():
            return f":{value}"
        case list():
            return "[" + " ".join(_edn(name, item) for item in value) + "]"
        case dict():
            return "{" + " ".join(f"{_edn(name, key)} {_edn(name, item)}" for key, item in value.items()) + "}"
    return str(value)


class ParquetRows:
    """One row for each event, written in groups."""

    def __init__(self, path: Path) -> None:
        self._out = pq.ParquetWriter(path, EVENT_SCHEMA)
        self._rows: list[dict[str, Any]] = []

    def write(self, line: Line) -> None:
        """Write one event, at the latest when a group is full."""
        self._rows.append({**line, "value": json.dumps(line["value"], separators=(",", ":"))})
        if len(self._rows) >= BATCH_ROWS:
            self._flush()

    def close(self) -> None:
        """Nothing follows."""
        self._flush()
        self._out.close()

    def _flush(self) -> None:
        self._out.write_table(pa.Table.from_pylist(self._rows, schema=EVENT_SCHEMA))
        self._rows = []


Lines = JsonLines | EdnLines | ParquetRows
LINES: Mapping[str, type[Lines]] = {".jsonl": JsonLines, ".json": JsonLines, ".edn": EdnLines, ".parquet": ParquetRows}
"""The form of a file by how its name ends."""
