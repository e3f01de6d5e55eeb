"""The replicas' logs as they were found at the end: how far each goes, its epochs, and what stands at an offset.

Owns reading the table of final logs. Does not compare replicas: that is judging.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from nemesis.report.values import Held, ReplicaLog

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
