"""Kafka's error names, and what each says about a write.

Owns the closed set of protocol errors and the rule that a client and a checker live by: after an error, is the write
*definitely not* in the log, or is that *unknown*? Source: Kafka's ``Errors`` for the names, ``ReplicaManager`` and
``DelayedProduce`` for when each is raised.
"""

from __future__ import annotations

from enum import StrEnum


class ErrorCode(StrEnum):
    """The outcome of one request, as Kafka names it."""

    NONE = "NONE"
    UNKNOWN_SERVER_ERROR = "UNKNOWN_SERVER_ERROR"
    OFFSET_OUT_OF_RANGE = "OFFSET_OUT_OF_RANGE"
    CORRUPT_MESSAGE = "CORRUPT_MESSAGE"
    UNKNOWN_TOPIC_OR_PARTITION = "UNKNOWN_TOPIC_OR_PARTITION"
    NOT_LEADER_OR_FOLLOWER = "NOT_LEADER_OR_FOLLOWER"
    REQUEST_TIMED_OUT = "REQUEST_TIMED_OUT"
    BROKER_NOT_AVAILABLE = "BROKER_NOT_AVAILABLE"
    MESSAGE_TOO_LARGE = "MESSAGE_TOO_LARGE"
    INVALID_REQUIRED_ACKS = "INVALID_REQUIRED_ACKS"
    INVALID_REQUEST = "INVALID_REQUEST"
    KAFKA_STORAGE_ERROR = "KAFKA_STORAGE_ERROR"
    FENCED_LEADER_EPOCH = "FENCED_LEADER_EPOCH"
    UNKNOWN_LEADER_EPOCH = "UNKNOWN_LEADER_EPOCH"
    OFFSET_NOT_AVAILABLE = "OFFSET_NOT_AVAILABLE"
    INVALID_RECORD = "INVALID_RECORD"
    THROTTLING_QUOTA_EXCEEDED = "THROTTLING_QUOTA_EXCEEDED"
    INCONSISTENT_CLUSTER_ID = "INCONSISTENT_CLUSTER_ID"
    INVALID_VOTER_KEY = "INVALID_VOTER_KEY"


DEFINITELY_NOT_WRITTEN = frozenset(
    {
        ErrorCode.CORRUPT_MESSAGE,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.MESSAGE_TOO_LARGE,
        ErrorCode.INVALID_REQUIRED_ACKS,
        ErrorCode.INVALID_REQUEST,
        ErrorCode.FENCED_LEADER_EPOCH,
        ErrorCode.UNKNOWN_LEADER_EPOCH,
        ErrorCode.INVALID_RECORD,
        ErrorCode.THROTTLING_QUOTA_EXCEEDED,
        ErrorCode.INCONSISTENT_CLUSTER_ID,
    }
)
"""Errors that a Produce earns before anything is appended. All others leave the outcome unknown."""


def write_definitely_failed(error: ErrorCode, *, not_appended: bool) -> bool:
    """Tell whether a Produce *attempt* that ended with ``error`` certainly left nothing in the log.

    ``NOT_LEADER_OR_FOLLOWER`` is one code for two things: refused at the door, or leadership lost while the write
    waited for its replicas. Only the server knows which, and says so in ``not_appended``.
    """
    return error in DEFINITELY_NOT_WRITTEN or not_appended
