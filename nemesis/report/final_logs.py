"""The replicas' logs as they were found at the end: how far each goes, its epochs, and what stands at an offset.

Owns reading the table of final logs. Does not compare replicas: that is judging.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from nemesis.report.values import Held, ReplicaLog

Ints = npt.NDArray[np.int64]
OFFSETS_MAX = 4
"""So many offsets of one anomaly are looked up in each replica's log."""


def replica_logs(logs: pa.Table) -> tuple[ReplicaLog, ...]:
    """One entry for each topic-partition and replica, in this order. ``logs`` has the columns of REPLICA_LOG_SCHEMA."""
    keys = logs.select(["topic_partition", "replica_id"]).group_by(["topic_partition", "replica_id"]).aggregate([])
    ordered = keys.sort_by([("topic_partition", "ascending"), ("replica_id", "ascending")]).to_pylist()
    return tuple(_replica_log(logs, row["topic_partition"], row["replica_id"]) for row in ordered)


def _replica_log(logs: pa.Table, topic_partition: str, replica_id: int) -> ReplicaLog:
    own = _of(logs, topic_partition, replica_id)
    end = own.slice(own.num_rows - 1).to_pylist()[0]
    starts = own.select(["leader_epoch", "base_offset"]).group_by("leader_epoch").aggregate([("base_offset", "min")])
    epochs = (
        (row["leader_epoch"], row["base_offset_min"])
        for row in starts.to_pylist()
        if row["leader_epoch"] is not None and row["base_offset_min"] is not None
    )
    return ReplicaLog(
        topic_partition=topic_partition,
        replica_id=replica_id,
        log_start_offset=end["log_start_offset"],
        high_watermark=end["high_watermark"],
        log_end_offset=end["log_end_offset"],
        epochs=tuple(sorted(epochs)),
        is_complete=bool(end["complete"]),
    )


def _of(logs: pa.Table, topic_partition: str, replica_id: int) -> pa.Table:
    own = pc.and_(
        pc.equal(logs.column("topic_partition"), topic_partition), pc.equal(logs.column("replica_id"), replica_id)
    )
    return logs.filter(own)


def held_at(
    logs: pa.Table, known: Iterable[ReplicaLog], topic_partition: str, offsets: Iterable[int]
) -> tuple[Held, ...]:
    """What each replica of ``topic_partition`` holds at the first ``OFFSETS_MAX`` of ``offsets``."""
    concerned = [log for log in known if log.topic_partition == topic_partition]
    return tuple(
        Held(replica_id=log.replica_id, offset=offset, holds=_holds(logs, log, offset))
        for offset in sorted(set(offsets))[:OFFSETS_MAX]
        for log in concerned
    )


def _holds(logs: pa.Table, log: ReplicaLog, offset: int) -> str:
    own = _of(logs, log.topic_partition, log.replica_id)
    begun, ended = pc.less_equal(own.column("base_offset"), offset), pc.less(own.column("last_offset"), offset)
    there = pc.and_(begun, pc.invert(ended))
    batches = own.filter(there).to_pylist()
    if batches:
        return "; ".join(_batch_words(batch, offset) for batch in batches)
    if offset < log.log_start_offset:
        return f"nothing: its log starts at {log.log_start_offset}"
    if offset >= log.log_end_offset:
        return f"nothing: its log ends at {log.log_end_offset}"
    return "nothing" if log.is_complete else "not known: its log was not read to the end"


def _batch_words(batch: Mapping[str, Any], offset: int) -> str:
    base_offset, last_offset, values = batch["base_offset"], batch["last_offset"], batch["values"]
    if batch["is_control"]:
        what = "a control record"
    elif values is not None and offset - base_offset < len(values):
        what = f"value {values[offset - base_offset]}"
    else:
        what = "a record that could not be decoded"
    crc = "" if batch["crc"] is None else f", CRC {batch['crc']:08x}"
    return f"{what}, of leader epoch {batch['leader_epoch']}, in the batch {base_offset} to {last_offset}{crc}"


@dataclass(frozen=True, slots=True, kw_only=True)
class HeldAt:
    """What a replica holds at an offset: in words, of which epoch, and what must be equal where two hold the same."""

    text: str
    epoch: int | None = None
    identity: tuple[int, ...] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplicaBatches:
    """One replica's log, batch by batch in the order of offsets: columns of equal length."""

    replica_id: int
    start_offset: int
    end_offset: int
    high_watermark: int | None
    is_complete: bool
    base_offset: Ints
    last_offset: Ints
    epoch: Ints
    crc: Ints
    rows: pa.Table

    def identities(self, start: int, end: int) -> Ints:
        """The batches that begin in [start, end): rows of (base offset, last offset, leader epoch, checksum)."""
        within = (self.base_offset >= start) & (self.base_offset < end)
        return np.stack([self.base_offset, self.last_offset, self.epoch, self.crc], axis=1)[within]

    def at(self, offset: int) -> HeldAt:
        """What stands at an offset."""
        found = np.flatnonzero((self.base_offset <= offset) & (self.last_offset >= offset))
        if not len(found):
            beyond = offset >= self.end_offset
            return HeldAt(text="beyond its end" if beyond else "before its start" if offset < self.start_offset else "")
        place = int(found[0])
        batch = self.rows.slice(place, 1).to_pylist()[0]
        values, epoch = batch["values"], int(self.epoch[place])
        at = offset - int(self.base_offset[place])
        value = "control record" if batch["is_control"] else "a record"
        if not batch["is_control"] and values is not None and at < len(values):
            value = str(values[at])
        identity = (int(self.base_offset[place]), int(self.last_offset[place]), epoch, int(self.crc[place]))
        return HeldAt(text=f"{value}, epoch {epoch}", epoch=epoch, identity=identity)


def replica_batches(logs: pa.Table, topic_partition: str) -> list[ReplicaBatches]:
    """The logs of one topic-partition, in the order of the replicas."""
    own = logs.filter(pc.equal(logs.column("topic_partition"), topic_partition))
    return [_replica_batches(own, replica_id) for replica_id in sorted(set(own.column("replica_id").to_pylist()))]


def _replica_batches(own: pa.Table, replica_id: int) -> ReplicaBatches:
    rows = own.filter(pc.equal(own.column("replica_id"), replica_id))
    end = rows.slice(rows.num_rows - 1).to_pylist()[0]
    rows = rows.filter(pc.is_valid(rows.column("base_offset"))).sort_by("base_offset").combine_chunks()

    def ints(name: str) -> Ints:
        return np.asarray(rows.column(name).fill_null(-1).to_numpy(), dtype=np.int64)

    return ReplicaBatches(
        replica_id=replica_id,
        start_offset=end["log_start_offset"],
        end_offset=end["log_end_offset"],
        high_watermark=end["high_watermark"],
        is_complete=bool(end["complete"]),
        base_offset=ints("base_offset"),
        last_offset=ints("last_offset"),
        epoch=ints("leader_epoch"),
        crc=ints("crc"),
        rows=rows,
    )
