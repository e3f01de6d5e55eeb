"""What a replica once said to be committed stays so.

Owns **high-watermark-regression** and **committed-truncated**, by what replicas answered when they were asked while the
run went on. A leader's high watermark never falls within its leadership; that of a new leader may be lower, and a
follower's too. But what lies below any of them is committed, so no replica may cut it off that has said so itself.
Source: I11 of KIP-595's ``MonotonicHighWatermark``; the truncation below the high watermark is fatal in Kafka's quorum
and a warning in its brokers.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from nemesis.checks.anomalies import Anomaly
from nemesis.checks.check import Coverage, Found, LogCheck, Row
from nemesis.checks.partition import Partition
from nemesis.checks.replica_events import HighWatermark

LEADER = "leader"


def check_high_watermark_regression(partition: Partition) -> Found:
    """High watermarks that fell at one leader within one epoch, in order of time."""
    highest: dict[tuple[int, int], HighWatermark] = {}
    of_leaders = [told for told in partition.events.high_watermarks if told.role == LEADER]
    for told in of_leaders:
        before = highest.setdefault((told.replica_id, told.epoch), told)
        if told.offset >= before.offset:
            highest[told.replica_id, told.epoch] = told
            continue
        yield Anomaly(
            detail=f"replica {told.replica_id}, leader in epoch {told.epoch}, reported high watermark {told.offset}"
            f" after {before.offset}",
            offsets=(before.offset, told.offset),
            replicas=(told.replica_id,),
            evidence={"epoch": told.epoch, "told": [_told(before), _told(told)]},
        )
    return Coverage(looked=len(of_leaders))


def check_committed_truncated(partition: Partition) -> Found:
    """Truncations below a high watermark that the same replica had told before, in order of time."""
    told = partition.events.high_watermarks
    highest: dict[int, HighWatermark] = {}
    position = 0
    for cut in partition.events.truncations:
        while position < len(told) and told[position].time_ns < cut.time_ns:
            known = highest.setdefault(told[position].replica_id, told[position])
            if told[position].offset > known.offset:
                highest[told[position].replica_id] = told[position]
            position += 1
        before = highest.get(cut.replica_id)
        if before is None or before.offset <= cut.offset:
            continue
        yield Anomaly(
            detail=f"replica {cut.replica_id} truncated its log to offset {cut.offset}, after it had reported high"
            f" watermark {before.offset}",
            offsets=(cut.offset, before.offset),
            replicas=(cut.replica_id,),
            evidence={"told": _told(before), "truncated": {"time_ns": cut.time_ns, "end_offset": cut.offset}},
        )
    return Coverage(looked=len(told))


def _told(told: HighWatermark) -> dict[str, object]:
    return {"time_ns": told.time_ns, "role": told.role, "epoch": told.epoch, "high_watermark": told.offset}


def _by_truncation(row: Row, evidence: Mapping[str, Any]) -> tuple[Any, ...]:
    return (*row["replicas"], evidence["truncated"]["time_ns"])


def _by_lower_word(row: Row, evidence: Mapping[str, Any]) -> tuple[Any, ...]:
    return (*row["replicas"], evidence["told"][1]["time_ns"])


# What a replica has told or done is never taken back, and what comes to be known later can only raise the high
# watermark that it had told before.
COMMITTED_TRUNCATED = LogCheck(
    name="committed-truncated",
    promise="No replica truncates its log below a high watermark that it has reported.",
    needs="high watermarks that replicas were asked for",
    implies=frozenset({"committed-truncated"}),
    identity=_by_truncation,
    run=check_committed_truncated,
)
HIGH_WATERMARK_REGRESSION = LogCheck(
    name="high-watermark-regression",
    promise="A leader's high watermark never falls in its epoch.",
    needs="high watermarks that leaders were asked for",
    implies=frozenset({"high-watermark-regression"}),
    identity=_by_lower_word,
    run=check_high_watermark_regression,
)
