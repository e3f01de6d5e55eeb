"""Everything a replica can ask its driver to do, one frozen class each.

A driver performs the effects of one step in order. Effects that store something (``StoreQuorumState``, ``StoreEpochs``,
``Truncate``) are durable before the next effect is performed; that is how "persisted before the reply" holds by
construction. ``Append`` reaches the file but not yet the platter: ``Flush`` asks for that, and ``Flushed`` comes back
as an event, later and possibly for several flushes at once. A crash may come after any prefix of the list.
"""

from __future__ import annotations

from dataclasses import dataclass

from replica.core.messages import DumpLogResponse, FetchResponse, PeerRequest, Response
from replica.ids import CallId, CorrelationId, Epoch, EpochEntry, Offset, ReplicaId, TopicPartition
from replica.records import RecordBatch


@dataclass(frozen=True, slots=True, kw_only=True)
class QuorumState:
    """What a voter must never forget: the epoch it has reached, whom it voted for in it, and who leads it.

    The content of the ``quorum-state`` file (KIP-595, KIP-853).
    """

    leader_epoch: Epoch
    leader_id: ReplicaId | None = None
    voted_id: ReplicaId | None = None
    voted_directory_id: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class StoreQuorumState:
    """Replace the quorum-state file, durably."""

    topic_partition: TopicPartition
    state: QuorumState


@dataclass(frozen=True, slots=True, kw_only=True)
class StoreEpochs:
    """Replace the leader-epoch-checkpoint file, durably."""

    topic_partition: TopicPartition
    entries: tuple[EpochEntry, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Append:
    """Write these batches, already stamped, at the end of the log."""

    topic_partition: TopicPartition
    batches: tuple[RecordBatch, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Flush:
    """Bring everything below ``end_offset`` to stable storage and report ``Flushed``.

    Flushes of one log may be merged, but their reports come in the order in which they were asked for. Hence a log that
    is flushed to its end has no report outstanding, and only such a log is ever truncated.
    """

    topic_partition: TopicPartition
    end_offset: Offset


@dataclass(frozen=True, slots=True, kw_only=True)
class Truncate:
    """Drop everything at and above ``end_offset`` (a batch boundary), durably."""

    topic_partition: TopicPartition
    end_offset: Offset


@dataclass(frozen=True, slots=True, kw_only=True)
class Send:
    """Send a request to a peer; report ResponseReceived or, at the latest after ``timeout_ms``, SendFailed."""

    replica_id: ReplicaId
    correlation_id: CorrelationId
    request: PeerRequest
    timeout_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Reply:
    """Answer the call. A call that the caller has given up on is skipped by the driver."""

    call_id: CallId
    response: Response


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplyWithRecords:
    """Answer the call with ``response``, its ``records`` read from the log at this very moment.

    Whole batches in ``[start_offset, end_offset)``, beginning with the one that holds ``start_offset``: at least one,
    further ones while the sum stays within ``max_bytes``. ``end_offset`` is a batch boundary above ``start_offset``.
    """

    call_id: CallId
    response: FetchResponse | DumpLogResponse
    topic_partition: TopicPartition
    start_offset: Offset
    end_offset: Offset
    max_bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Halt:
    """Stop this replica for good: going on could break a promise. Nothing after it is performed."""

    reason: str


Effect = StoreQuorumState | StoreEpochs | Append | Flush | Truncate | Send | Reply | ReplyWithRecords | Halt
