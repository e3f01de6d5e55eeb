"""Everything that can happen to a replica, one frozen class each.

The drivers (gRPC server, simulator) make these values and hand them to ``Replica.step``; nothing else gets in.
"""

from __future__ import annotations

from msgspec import Struct

from replica.core.log.recovered import ProducerEntry
from replica.core.messages import PeerResponse, Request
from replica.ids import CallId, CorrelationId, Offset, ReplicaId, SnapshotId, TopicPartition


class Started(Struct, frozen=True, kw_only=True):
    """The driver is ready to perform effects. Always the first event, exactly once.

    ``unix_ms`` is what the machine's clock shows; absent where nobody asks what time of day it is.
    """

    unix_ms: int | None = None


class ClockRead(Struct, frozen=True, kw_only=True):
    """What the machine's clock shows, in milliseconds since 1970. Comes about every second in which anything does."""

    unix_ms: int


class Ticked(Struct, frozen=True, kw_only=True):
    """Nothing but time has passed; ``deadline_ms`` was reached."""


class RequestReceived(Struct, frozen=True, kw_only=True):
    """A client or a peer asks; the core owes exactly one Reply, or ReplyWith..., for ``call_id``."""

    call_id: CallId
    request: Request


class ResponseReceived(Struct, frozen=True, kw_only=True):
    """A peer has answered the request that the core sent as ``correlation_id``."""

    correlation_id: CorrelationId
    replica_id: ReplicaId
    response: PeerResponse


class SendFailed(Struct, frozen=True, kw_only=True):
    """No answer came for ``correlation_id``: refused, cut or out of time. Whether the peer acted is unknown."""

    correlation_id: CorrelationId
    replica_id: ReplicaId


class PeerRefused(Struct, frozen=True, kw_only=True):
    """Nobody listens any more where a replica did: its process has ended, as far as a driver can see.

    ``refused_at_ms`` is when that was seen, by the clock that steps go by. It comes for those whom the core watches
    (``watched_peers``), again and again while they refuse; of a peer that is merely silent it never comes. It may be
    late, and it may be wrong: something else than the process may refuse in its name.
    """

    replica_id: ReplicaId
    refused_at_ms: int


class Flushed(Struct, frozen=True, kw_only=True):
    """Everything below ``end_offset`` of this log is on stable storage."""

    topic_partition: TopicPartition
    end_offset: Offset


class LogRead(Struct, frozen=True, kw_only=True):
    """What ``ReadLog`` asked for: whole batches, back to back, from the one that holds ``start_offset`` on."""

    topic_partition: TopicPartition
    start_offset: Offset
    records: bytes


class BatchFound(Struct, frozen=True, kw_only=True):
    """What ``FindBatch`` asked for: the batch that holds ``offset`` begins at ``base_offset``."""

    topic_partition: TopicPartition
    offset: Offset
    base_offset: Offset


class ProducersScanned(Struct, frozen=True, kw_only=True):
    """What ``ScanProducers`` found in the log as it stood when the effect was performed."""

    topic_partition: TopicPartition
    producers: tuple[ProducerEntry, ...]


class LogStartMoved(Struct, frozen=True, kw_only=True):
    """By its retention the log may begin at ``log_start_offset``; it still begins where it did."""

    topic_partition: TopicPartition
    log_start_offset: Offset


class SnapshotStored(Struct, frozen=True, kw_only=True):
    """What ``StoreSnapshot`` asked for is durable, in so many bytes."""

    topic_partition: TopicPartition
    snapshot_id: SnapshotId
    size_bytes: int


class SnapshotTooLarge(Struct, frozen=True, kw_only=True):
    """What ``StoreSnapshot`` asked for would have so many bytes, more than it may, and is not stored."""

    topic_partition: TopicPartition
    snapshot_id: SnapshotId
    size_bytes: int


class StorageFailed(Struct, frozen=True, kw_only=True):
    """Reading, writing or flushing failed in the data directory, on which all else rests: the replica halts."""

    reason: str


class LogDamaged(Struct, frozen=True, kw_only=True):
    """The log of one partition cannot be read any more, at ``offset`` if that is known; what others hold is as it was.

    What was to be done with this log in the step before was not done.
    """

    topic_partition: TopicPartition
    offset: Offset | None
    reason: str


class LogDirectoryFailed(Struct, frozen=True, kw_only=True):
    """The disk of one log directory refuses: nothing is done to the ``logs`` in it any more; others are as they were.

    What was to be done with them since is not done. It may be told several times, for logs that were put there.
    """

    directory: str
    logs: tuple[TopicPartition, ...]
    reason: str


class ResignRequested(Struct, frozen=True, kw_only=True):
    """The operator stops this replica gracefully: lead no more, and hand over to others."""


Event = (
    Started
    | ClockRead
    | Ticked
    | RequestReceived
    | ResponseReceived
    | SendFailed
    | PeerRefused
    | Flushed
    | LogRead
    | BatchFound
    | ProducersScanned
    | LogStartMoved
    | SnapshotStored
    | SnapshotTooLarge
    | StorageFailed
    | LogDamaged
    | LogDirectoryFailed
    | ResignRequested
)
