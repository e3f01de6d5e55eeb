"""Everything a replica can ask its driver to do, one frozen class each.

A driver performs effects in the order of their log (``core.lanes``). Effects that store something
(``StoreQuorumState``, ``StoreEpochs``, ``StoreVoters``, ``Truncate``) are durable before the next one of that log is
performed; that is how "persisted before the reply" holds by construction. ``Append`` reaches the file but not yet the
platter: ``Flush`` asks for that, and ``Flushed`` comes back as an event, later and possibly for several flushes at
once. A crash may come after any prefix of what was asked of each log.
"""

from __future__ import annotations

from collections.abc import Mapping

from msgspec import Struct

from replica.core.limits import LimitTable
from replica.core.messages import (
    DumpLogResponse,
    FetchResponse,
    FetchSnapshotResponse,
    ListOffsetsResponse,
    PeerRequest,
    Response,
)
from replica.core.setting_kinds import Value
from replica.ids import CallId, CorrelationId, Epoch, EpochEntry, Offset, ReplicaId, SnapshotId, TopicId, TopicPartition
from replica.machines import StateView
from replica.records import RecordBatch
from replica.voters import VoterEntry


class QuorumState(Struct, frozen=True, kw_only=True):
    """What a voter must never forget: the epoch it has reached, whom it voted for in it, and who leads it.

    The content of the ``quorum-state`` file (KIP-595, KIP-853).
    """

    leader_epoch: Epoch
    leader_id: ReplicaId | None = None
    voted_id: ReplicaId | None = None
    voted_directory_id: str | None = None


class StoreQuorumState(Struct, frozen=True, kw_only=True):
    """Replace the quorum-state file, durably."""

    topic_partition: TopicPartition
    state: QuorumState


class StoreEpochs(Struct, frozen=True, kw_only=True):
    """Replace the leader-epoch-checkpoint file, durably; that of a log without a record yet together with the first."""

    topic_partition: TopicPartition
    entries: tuple[EpochEntry, ...]


class StoreVoters(Struct, frozen=True, kw_only=True):
    """Replace the file that says which voters count from which record of a quorum log on, durably."""

    topic_partition: TopicPartition
    entries: tuple[VoterEntry, ...]
    """Oldest first. Those that the log was formatted with, or that the newest snapshot holds, are not among them."""


class Append(Struct, frozen=True, kw_only=True):
    """Write these batches, already stamped, at the end of the log."""

    topic_partition: TopicPartition
    batches: tuple[RecordBatch, ...]


class Flush(Struct, frozen=True, kw_only=True):
    """Bring everything below ``end_offset`` to stable storage and report ``Flushed``.

    Flushes of one log may be merged, but their reports come in the order in which they were asked for. Hence a log that
    is flushed to its end has no report outstanding, and only such a log is ever truncated.
    """

    topic_partition: TopicPartition
    end_offset: Offset


class Truncate(Struct, frozen=True, kw_only=True):
    """Drop everything at and above ``end_offset`` (a batch boundary), durably."""

    topic_partition: TopicPartition
    end_offset: Offset


class Send(Struct, frozen=True, kw_only=True):
    """Send a request to a peer; report ResponseReceived or, at the latest after ``timeout_ms``, SendFailed."""

    replica_id: ReplicaId
    correlation_id: CorrelationId
    request: PeerRequest
    timeout_ms: int


class Reply(Struct, frozen=True, kw_only=True):
    """Answer the call. A call that the caller has given up on is skipped by the driver."""

    call_id: CallId
    response: Response


class LogRange(Struct, frozen=True, kw_only=True):
    """Whole batches in ``[start_offset, end_offset)``, beginning with the one that holds ``start_offset``.

    ``end_offset`` is a batch boundary above ``start_offset``. At least one batch is read, further ones while the sum
    stays within ``max_bytes``.
    """

    topic_partition: TopicPartition
    start_offset: Offset
    end_offset: Offset
    max_bytes: int


class ReplyWithRecords(Struct, frozen=True, kw_only=True):
    """Answer the call with ``response.with_records(...)``: its records are read from the logs when its turn comes.

    The ranges are read in order while their sum stays within ``max_bytes``; of the first, at least one batch is read
    whatever its size. A range for which nothing is left is left out.
    """

    call_id: CallId
    response: FetchResponse | DumpLogResponse
    ranges: tuple[LogRange, ...]
    max_bytes: int


class ReplyWithOffset(Struct, frozen=True, kw_only=True):
    """Answer the call with ``response``, in it the first offset in ``[log start, end_offset)`` not older than a time.

    Its ``offset`` and ``leader_epoch`` are those of that record; both stay absent where all records are older.
    """

    call_id: CallId
    response: ListOffsetsResponse
    topic_partition: TopicPartition
    timestamp_ms: int
    end_offset: Offset


class ReplyWithSnapshot(Struct, frozen=True, kw_only=True):
    """Answer the call with ``response.with_data(...)``: up to ``max_bytes`` of a snapshot, from ``position`` on."""

    call_id: CallId
    response: FetchSnapshotResponse
    topic_partition: TopicPartition
    snapshot_id: SnapshotId
    position: int
    max_bytes: int


class StoreSnapshot(Struct, frozen=True, kw_only=True):
    """Encode a state, keep that beside the log, and report ``SnapshotStored`` when it is durable: later, never torn.

    Or report ``SnapshotTooLarge``, and keep nothing, where it has more than ``max_bytes``. It is encoded when its turn
    comes, beside the steps that follow. At most one of a log is on its way. It may be abandoned, unreported, when an
    ``InstallSnapshot`` comes meanwhile.
    """

    topic_partition: TopicPartition
    snapshot_id: SnapshotId
    state: StateView
    max_bytes: int


class InstallSnapshot(Struct, frozen=True, kw_only=True):
    """Keep a snapshot from the leader, durably, and only then drop everything in the log, which begins at its end.

    A crash between the two leaves a snapshot beyond the log's end: the next start drops the log. Older snapshots go.
    """

    topic_partition: TopicPartition
    snapshot_id: SnapshotId
    data: bytes


class DropSnapshots(Struct, frozen=True, kw_only=True):
    """Remove the snapshots that end below ``end_offset``. What a crash leaves of them, the next start removes."""

    topic_partition: TopicPartition
    end_offset: Offset


class CreateLog(Struct, frozen=True, kw_only=True):
    """Create an empty log for a partition of this topic. One of another topic of that name is gone by then.

    A crash may take it until something of it was flushed: it is then created again, as empty as before.
    """

    topic_partition: TopicPartition
    topic_id: TopicId


class DeleteLog(Struct, frozen=True, kw_only=True):
    """Drop a log with all its files; its name is free at once, its space some time later."""

    topic_partition: TopicPartition


class ReplaceLog(Struct, frozen=True, kw_only=True):
    """Put a damaged log aside, with all its files, durably, and create an empty one in its place.

    A crash on the way leaves the damaged one, or none, or the new one.
    """

    topic_partition: TopicPartition
    topic_id: TopicId


class StartLogAt(Struct, frozen=True, kw_only=True):
    """Drop everything in the log and let it begin, empty, at ``start_offset``, durably.

    With ``keeps_producers`` what stood below is committed, and the producers that wrote it are remembered.
    """

    topic_partition: TopicPartition
    start_offset: Offset
    keeps_producers: bool = False


class RaiseLogStart(Struct, frozen=True, kw_only=True):
    """Let the log begin at ``log_start_offset``: what lies below is never read again, and deleted by segments."""

    topic_partition: TopicPartition
    log_start_offset: Offset


class ApplyRetention(Struct, frozen=True, kw_only=True):
    """Find the segments below ``high_watermark`` that are too old or too many, and report where the rest begins.

    ``LogStartMoved`` comes back if that is above the log start; limits that are absent do not count. Nothing is deleted
    before ``RaiseLogStart`` says so. ``unix_ms`` is what time it is; absent where no clock may be believed, so that
    nothing is too old.
    """

    topic_partition: TopicPartition
    high_watermark: Offset
    unix_ms: int | None
    retention_ms: int | None
    retention_bytes: int | None


class StoreHighWatermarks(Struct, frozen=True, kw_only=True):
    """Replace the replication-offset-checkpoint file, which names every partition of this broker, durably."""

    offsets: Mapping[TopicPartition, Offset]


class ReadLog(Struct, frozen=True, kw_only=True):
    """Read a range of a log and report it as ``LogRead``."""

    range: LogRange


class FindBatch(Struct, frozen=True, kw_only=True):
    """Find where the batch begins that holds ``offset``, which lies in the log, and report it as ``BatchFound``."""

    topic_partition: TopicPartition
    offset: Offset


class ScanProducers(Struct, frozen=True, kw_only=True):
    """Read all batch headers of a log and report its idempotent producers as ``ProducersScanned``."""

    topic_partition: TopicPartition


class ApplySettings(Struct, frozen=True, kw_only=True):
    """Go by these settings from now on, as far as they are the driver's own, over those that it was started with.

    ``left_out`` is what the metadata log says and cannot hold here, by name, with the reason. ``limits`` are the quotas
    of users.
    """

    values: Mapping[str, Value]
    left_out: Mapping[str, str]
    limits: LimitTable


class Halt(Struct, frozen=True, kw_only=True):
    """Stop this replica for good: going on could break a promise. Nothing after it is performed."""

    reason: str


Effect = (
    StoreQuorumState
    | StoreEpochs
    | StoreVoters
    | StoreHighWatermarks
    | CreateLog
    | DeleteLog
    | ReplaceLog
    | StartLogAt
    | RaiseLogStart
    | ApplyRetention
    | ReadLog
    | FindBatch
    | ScanProducers
    | StoreSnapshot
    | InstallSnapshot
    | DropSnapshots
    | Append
    | Flush
    | Truncate
    | Send
    | Reply
    | ReplyWithRecords
    | ReplyWithOffset
    | ReplyWithSnapshot
    | ApplySettings
    | Halt
)
