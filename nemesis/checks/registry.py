"""All checks, in the order in which they are told.

Owns the list, and nothing else: whoever adds a check writes its file and its name here.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import Any

from nemesis.checks.check import Check, LogCheck
from nemesis.checks.cycles import CYCLES
from nemesis.checks.evidence import MISSING_EVIDENCE
from nemesis.checks.future_read import FUTURE_READ
from nemesis.checks.high_watermarks import COMMITTED_TRUNCATED, HIGH_WATERMARK_REGRESSION
from nemesis.checks.in_sync import INCOMPLETE_ISR, ISR_NOT_RESTORED
from nemesis.checks.losses import LOST_WRITE, UNSEEN
from nemesis.checks.objects import NONLINEARIZABLE, WRONG_ORDER
from nemesis.checks.placement import DUPLICATE, INCONSISTENT_OFFSETS
from nemesis.checks.provenance import ABORTED_READ, MALFORMED_OPERATION, PHANTOM_READ
from nemesis.checks.real_time import FENCED_ACKNOWLEDGEMENT, HOLE, REALTIME_REORDER, STALE_READ
from nemesis.checks.replica_logs import DIVERGED_LOG, EPOCH_REGRESSION, REPLICA_STOPPED, TWO_LEADERS
from nemesis.checks.schemas import Severity
from nemesis.checks.sends import INT_NONMONOTONIC_SEND, INT_SEND_SKIP, NONMONOTONIC_SEND
from nemesis.checks.sequences import DUPLICATE_SEQUENCE, OUT_OF_ORDER_SEQUENCE
from nemesis.checks.sessions import (
    INT_NONMONOTONIC_POLL,
    INT_POLL_SKIP,
    NONMONOTONIC_POLL,
    POLL_SKIP,
    UNCOMMITTED_READ,
)
from nemesis.checks.transactions import PRECOMMITTED_READ

CHECKS: tuple[Check, ...] = (
    LOST_WRITE,
    DUPLICATE,
    INCONSISTENT_OFFSETS,
    PHANTOM_READ,
    ABORTED_READ,
    FUTURE_READ,
    PRECOMMITTED_READ,
    UNCOMMITTED_READ,
    NONMONOTONIC_POLL,
    POLL_SKIP,
    INT_NONMONOTONIC_POLL,
    INT_POLL_SKIP,
    NONMONOTONIC_SEND,
    INT_NONMONOTONIC_SEND,
    INT_SEND_SKIP,
    *CYCLES,
    REALTIME_REORDER,
    STALE_READ,
    HOLE,
    UNSEEN,
    FENCED_ACKNOWLEDGEMENT,
    DUPLICATE_SEQUENCE,
    OUT_OF_ORDER_SEQUENCE,
    DIVERGED_LOG,
    COMMITTED_TRUNCATED,
    HIGH_WATERMARK_REGRESSION,
    INCOMPLETE_ISR,
    ISR_NOT_RESTORED,
    EPOCH_REGRESSION,
    TWO_LEADERS,
    REPLICA_STOPPED,
    NONLINEARIZABLE,
    WRONG_ORDER,
    MISSING_EVIDENCE,
    MALFORMED_OPERATION,
)
LOG_CHECKS = tuple(check for check in CHECKS if isinstance(check, LogCheck))
BY_NAME: Mapping[str, Check] = MappingProxyType({check.name: check for check in CHECKS})


def is_shown(anomaly: str, topic_partition: str, rows: Iterable[Mapping[str, Any]]) -> bool:
    """Whether the rows of the whole of a run have what this anomaly of its beginning implies; a kind that does not
    exist implies nothing."""
    implied = BY_NAME[anomaly].implies if anomaly in BY_NAME else frozenset()
    return any(
        row["severity"] == Severity.VIOLATION
        and row["topic_partition"] == topic_partition
        and row["anomaly"] in implied
        for row in rows
    )
