"""What the whole of a run must show if its beginning shows an anomaly.

Owns the table of kinds, and whether the rows of the whole keep to it. What only goes on growing (which values were seen
where, how long a log was known to be, who became leader) makes an anomaly final; what speaks of *nobody* and *never*
does not. Does not know how a prefix is judged.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import Any

from nemesis.checks.schemas import AnomalyName, Severity

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
        AnomalyName.MISSING_EVIDENCE: NOTHING,
        AnomalyName.MALFORMED_OPERATION: NOTHING,
        AnomalyName.CHECK_CRASHED: NOTHING,
        # What is pending in a prefix has an unknown outcome there, so that the whole leaves no more orders than it has.
        # But runs on objects are not judged while they go on.
        AnomalyName.NONLINEARIZABLE: NOTHING,
        AnomalyName.WRONG_ORDER: NOTHING,
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


def is_shown(anomaly: str, topic_partition: str, rows: Iterable[Mapping[str, Any]]) -> bool:
    """Whether the rows of the whole have what this anomaly of a prefix implies; a kind that does not exist implies
    nothing."""
    implied = IMPLIED[AnomalyName(anomaly)] if anomaly in set(AnomalyName) else NOTHING
    return any(
        row["severity"] == Severity.VIOLATION
        and row["topic_partition"] == topic_partition
        and row["anomaly"] in implied
        for row in rows
    )
