"""What three replicas hold and have told in the end, for a run that was made up.

Owns the form only: all of them hold what truly stands in the log, but for what was planted.
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Iterator, Mapping

from benchmarks.synth.log_world import Partition
from benchmarks.synth.recording import NANOSECONDS, partition_name
from nemesis.history.events import (
    BECAME_LEADER,
    DUMP,
    FINAL_ISR,
    HARNESS_PROCESS,
    EventType,
    HistoryEvent,
    ReplicaEvent,
    ReplicaLogBatch,
)

REPLICAS = (1, 2, 3)
BATCH_MAX = 100
"""Records of one batch; a log in which something was planted has one for each record."""


def batches(number: int, log: Partition) -> Iterator[ReplicaLogBatch]:
    """The final logs of one topic-partition; none where nobody is to look."""
    if not log.is_shown:
        return
    for replica_id in REPLICAS:
        end = log.ends.get(replica_id, log.end)
        ranges = list(_ranges(log, end))
        if not ranges:
            yield _batch(number, log, replica_id, None, end)
        for found in ranges:
            yield _batch(number, log, replica_id, found, end)


def _ranges(log: Partition, end: int) -> Iterator[tuple[int, int]]:
    """The batches by their first and last offset."""
    start = 0
    for offset in range(1, end + 1):
        is_full = offset - start == BATCH_MAX or log.is_planted
        if offset == end or is_full or log.epochs[offset] != log.epochs[start] or _is_control(log, offset, start):
            yield start, offset - 1
            start = offset


def _is_control(log: Partition, *offsets: int) -> bool:
    return any(log.values[offset] is None for offset in offsets)


def _batch(number: int, log: Partition, replica_id: int, found: tuple[int, int] | None, end: int) -> ReplicaLogBatch:
    if found is None:
        return ReplicaLogBatch(
            replica_id=replica_id,
            topic_partition=partition_name(number),
            base_offset=None,
            last_offset=None,
            leader_epoch=None,
            crc=None,
            is_control=False,
            high_watermark=end,
            log_end_offset=end,
            complete=True,
        )
    first, last = found
    values = tuple(value for value in log.values[first : last + 1] if value is not None)
    whole = zlib.crc32(repr((first, values, log.epochs[first])).encode())
    producer = log.numbers.get(first, (None, None, None))
    return ReplicaLogBatch(
        replica_id=replica_id,
        topic_partition=partition_name(number),
        base_offset=first,
        last_offset=last,
        leader_epoch=log.epochs[first],
        crc=log.checksums.get((replica_id, first), whole),
        is_control=not values,
        values=values or None,
        high_watermark=end,
        log_end_offset=end,
        complete=True,
        producer_id=producer[0],
        producer_epoch=producer[1],
        base_sequence=producer[2],
    )


def starts() -> Iterator[ReplicaEvent]:
    """What each replica tells first."""
    yield from (ReplicaEvent(time_ns=0, replica_id=replica_id, event="started") for replica_id in REPLICAS)


def dumps(batches: Mapping[tuple[int, str], int], index: int) -> Iterator[HistoryEvent]:
    """What the harness tells of its dumps, as the history goes on at ``index``: one line for each replica.

    ``batches`` has how many of each replica and topic-partition there are.
    """
    for place, replica_id in enumerate(sorted({replica_id for replica_id, _ in batches})):
        own = {name: number for (owner, name), number in batches.items() if owner == replica_id}
        logs = {name: {"complete": True, "batches": number} for name, number in own.items()}
        yield HistoryEvent(
            index=index + place,
            time_ns=(index + place) * NANOSECONDS,
            process=HARNESS_PROCESS,
            type=EventType.INFO,
            f=DUMP,
            detail=json.dumps({"replicas": [replica_id], "logs": logs}),
        )


def told(number: int, log: Partition, index: int) -> Iterator[ReplicaEvent]:
    """What the replicas of one topic-partition told, up to the end of the history, which has ``index`` events."""
    name = partition_name(number)
    yield ReplicaEvent(time_ns=0, replica_id=1, event=BECAME_LEADER, epoch=1, topic_partition=name)
    for place, fields in enumerate(log.events):
        yield ReplicaEvent(time_ns=(index + place) * NANOSECONDS, topic_partition=name, **fields)
    isr = list(REPLICAS) if log.isr_restored else list(REPLICAS[:2])
    claim = {"isr": isr, "replicas": list(REPLICAS), "restored": log.isr_restored, "after_s": 1.0}
    yield ReplicaEvent(
        time_ns=(index + len(log.events)) * NANOSECONDS,
        replica_id=1,
        event=FINAL_ISR,
        epoch=log.epoch,
        offset=log.end if log.is_shown else None,
        topic_partition=name,
        detail=json.dumps(claim),
    )
