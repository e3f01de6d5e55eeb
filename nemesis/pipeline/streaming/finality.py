"""What the beginning of a run proves about the whole of it.

Owns, for each kind of anomaly, what the judgement of the whole history must have if a prefix shows it; which rows of a
prefix may be told on that ground; and what makes two rows, of a shorter and of a longer prefix, the same anomaly. A
prefix is all events of the history up to one of them, some of the replicas' events, and no replica's log: those are
read at the end. What only goes on growing (which values were seen where, how long a log was known to be, who became
leader) makes an anomaly final; what speaks of *nobody* and *never* does not.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from types import MappingProxyType
from typing import Any

from nemesis.checks.anomalies import row_order
from nemesis.checks.schemas import AnomalyName, Severity
from nemesis.history.events import APPEND, EventType

Row = Mapping[str, Any]
"""A row of ``ANOMALY_SCHEMA``."""

NOTHING: frozenset[AnomalyName] = frozenset()


def _itself(name: AnomalyName, *others: AnomalyName) -> frozenset[AnomalyName]:
    return frozenset({name, *others})


IMPLIED: Mapping[AnomalyName, frozenset[AnomalyName]] = MappingProxyType(
    {
        # What was seen where is never unseen.
        AnomalyName.INCONSISTENT_OFFSETS: _itself(AnomalyName.INCONSISTENT_OFFSETS),
        AnomalyName.DUPLICATE: _itself(AnomalyName.DUPLICATE),
        # Somebody may still send the value. He does so after it was read: where it stood then, he comes too late; where
        # he gets another offset, it stands twice; if he fails, it was read all the same.
        AnomalyName.PHANTOM_READ: _itself(
            AnomalyName.PHANTOM_READ,
            AnomalyName.ABORTED_READ,
            AnomalyName.DUPLICATE,
            AnomalyName.REALTIME_REORDER,
        ),
        AnomalyName.ABORTED_READ: _itself(
            AnomalyName.ABORTED_READ, AnomalyName.DUPLICATE, AnomalyName.REALTIME_REORDER
        ),
        # One poll by itself, or against what its process had come to before.
        AnomalyName.PRECOMMITTED_READ: _itself(AnomalyName.PRECOMMITTED_READ),
        AnomalyName.UNCOMMITTED_READ: _itself(AnomalyName.UNCOMMITTED_READ),
        AnomalyName.NONMONOTONIC_POLL: _itself(AnomalyName.NONMONOTONIC_POLL),
        AnomalyName.INT_NONMONOTONIC_POLL: _itself(AnomalyName.INT_NONMONOTONIC_POLL),
        # An offset that is known to hold a value stays known.
        AnomalyName.POLL_SKIP: _itself(AnomalyName.POLL_SKIP),
        AnomalyName.INT_POLL_SKIP: _itself(AnomalyName.INT_POLL_SKIP),
        # A send that was not told its offset stands where the earliest operation saw it. An operation that began
        # earlier may yet return and show another place: then the value has two.
        AnomalyName.NONMONOTONIC_SEND: _itself(AnomalyName.NONMONOTONIC_SEND, AnomalyName.DUPLICATE),
        AnomalyName.INT_NONMONOTONIC_SEND: _itself(AnomalyName.INT_NONMONOTONIC_SEND, AnomalyName.DUPLICATE),
        AnomalyName.REALTIME_REORDER: _itself(AnomalyName.REALTIME_REORDER, AnomalyName.DUPLICATE),
        # What had returned before an operation began is all there when that has returned.
        AnomalyName.STALE_READ: _itself(AnomalyName.STALE_READ),
        AnomalyName.FENCED_ACKNOWLEDGEMENT: _itself(AnomalyName.FENCED_ACKNOWLEDGEMENT),
        AnomalyName.EPOCH_REGRESSION: _itself(AnomalyName.EPOCH_REGRESSION),
        # What a replica has told or done is never taken back, and what comes to be known later can only raise the
        # high watermark that it had told before.
        AnomalyName.COMMITTED_TRUNCATED: _itself(AnomalyName.COMMITTED_TRUNCATED),
        AnomalyName.HIGH_WATERMARK_REGRESSION: _itself(AnomalyName.HIGH_WATERMARK_REGRESSION),
        AnomalyName.TWO_LEADERS: _itself(AnomalyName.TWO_LEADERS),
        AnomalyName.REPLICA_STOPPED: _itself(AnomalyName.REPLICA_STOPPED),
        # Somebody may still read it, or fill it.
        AnomalyName.LOST_WRITE: NOTHING,
        AnomalyName.UNSEEN: NOTHING,
        AnomalyName.HOLE: NOTHING,
        # The replicas' logs are read when everything has healed, and so is the ISR.
        AnomalyName.DUPLICATE_SEQUENCE: NOTHING,
        AnomalyName.OUT_OF_ORDER_SEQUENCE: NOTHING,
        AnomalyName.DIVERGED_LOG: NOTHING,
        AnomalyName.INCOMPLETE_ISR: NOTHING,
        AnomalyName.ISR_NOT_RESTORED: NOTHING,
        # No violations: allowed, or undecided.
        AnomalyName.INT_SEND_SKIP: NOTHING,
        AnomalyName.MALFORMED_OPERATION: NOTHING,
        AnomalyName.CHECK_CRASHED: NOTHING,
        # Circles cross the topic-partitions; a run has no transactions.
        AnomalyName.WRITE_CYCLE: NOTHING,
        AnomalyName.WRITE_CYCLE_PROCESS: NOTHING,
        AnomalyName.WRITE_CYCLE_REALTIME: NOTHING,
        AnomalyName.CIRCULAR_INFORMATION_FLOW: NOTHING,
        AnomalyName.CIRCULAR_INFORMATION_FLOW_PROCESS: NOTHING,
        AnomalyName.CIRCULAR_INFORMATION_FLOW_REALTIME: NOTHING,
    }
)
"""If a prefix shows this of a topic-partition, the whole shows at least one of these of it; of ``NOTHING`` it is never
told early."""


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
