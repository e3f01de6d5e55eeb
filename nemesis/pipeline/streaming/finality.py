"""What the beginning of a run proves about the whole of it.

Owns which rows of a prefix may be told because the whole must have them or what they imply (``pipeline.implied``), and
what makes two rows, of a shorter and of a longer prefix, the same anomaly. A prefix is all events of the history up to
one of them, some of the replicas' events, and no replica's log: those are read at the end.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from nemesis.checks.anomalies import row_order
from nemesis.checks.schemas import AnomalyName, Severity
from nemesis.history.events import APPEND, EventType
from nemesis.pipeline.implied import IMPLIED

Row = Mapping[str, Any]
"""A row of ``ANOMALY_SCHEMA``."""


def final(rows: Iterable[Row]) -> list[Row]:
    """The rows of a prefix that convict the whole: what the earliest operations show first."""
    return sorted(filter(_is_final, rows), key=lambda row: (max(row["op_indexes"], default=-1), row_order(row)))


def _is_final(row: Row) -> bool:
    if row["severity"] != Severity.VIOLATION or not IMPLIED[AnomalyName(row["anomaly"])]:
        return False
    evidence = json.loads(row["evidence"])
    return "more" not in evidence and all(map(_has_ended, _operations(evidence)))


def _operations(evidence: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    seen = [entry["operation"] for entry in evidence.get("seen", ()) if "operation" in entry]
    return [*seen, *evidence.get("operations", ())]


def _has_ended(operation: Mapping[str, Any]) -> bool:
    """Whether nothing can become of an operation any more, which may be that it failed; and that a poll is ok.

    What a poll returned that did not succeed is believed by some checks only.
    """
    return "return_index" in operation and (operation["f"] == APPEND or operation["type"] == EventType.OK)


def identity(row: Row) -> tuple[Any, ...]:
    """What is the same of one anomaly in every prefix that shows it: kind, topic-partition, and what it is about."""
    return row["topic_partition"], row["anomaly"], *_about(row, json.loads(row["evidence"]))


def _about(row: Row, evidence: Mapping[str, Any]) -> tuple[Any, ...]:
    match AnomalyName(row["anomaly"]):
        case AnomalyName.INCONSISTENT_OFFSETS:
            return tuple(row["offsets"])
        case AnomalyName.DUPLICATE:
            return (evidence["seen"][0]["value"],)
        case AnomalyName.PHANTOM_READ | AnomalyName.ABORTED_READ:
            return (evidence["value"],)
        case AnomalyName.TWO_LEADERS:
            return (evidence["epoch"],)
        case AnomalyName.COMMITTED_TRUNCATED:
            return (*row["replicas"], evidence["truncated"]["time_ns"])
        case AnomalyName.HIGH_WATERMARK_REGRESSION:
            return (*row["replicas"], evidence["told"][1]["time_ns"])
        case AnomalyName.REPLICA_STOPPED:
            return (*row["replicas"], row["detail"])
        case _:
            # The later of two operations: what it is held against may be another when more is known.
            return tuple(row["op_indexes"][-1:]) or tuple(row["offsets"])


class Told:
    """The anomalies of one run that were told already."""

    def __init__(self) -> None:
        self._known: set[tuple[Any, ...]] = set()

    def new(self, rows: Iterable[Row]) -> Iterator[Row]:
        """Of the rows of a prefix, those that are final and were not told before; the earliest first."""
        for row in final(rows):
            if (about := identity(row)) not in self._known:
                self._known.add(about)
                yield row
