"""Records in and out: what clients ask of a leader, and how a follower replicates from it.

Sources: Kafka's ``ProduceRequest.json``, ``FetchRequest.json`` and their siblings; KIP-320 (epochs), KIP-903
(``broker_epoch``), KIP-1166 (``high_watermark`` in Fetch), KIP-227 (sessions).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated

from msgspec import Struct
from msgspec.structs import replace

from replica.bounds import FETCHED_AT_ONCE, PRODUCED_AT_ONCE, Carried, DirectoryId, Long, Message, Number, Timestamp
from replica.core.messages.leadership import CurrentLeader
from replica.errors import ErrorCode
from replica.ids import (
    OFFSET_MAX,
    BrokerEpoch,
    Epoch,
    EpochEndOffset,
    Offset,
    ReplicaId,
    SnapshotId,
    TopicId,
    TopicPartition,
)


class ProduceRequest(Struct, frozen=True, kw_only=True):
    """Append one record batch. ``records`` is exactly one encoded batch; ``acks`` is -1 (all), 1 or 0."""

    topic_partition: TopicPartition
    acks: Annotated[int, Number(-(1 << 15), (1 << 15) - 1)]
    timeout_ms: int
    records: bytes
    cluster_id: str | None = None
    current_leader_epoch: Epoch | None = None


class ProduceResponse(Struct, frozen=True, kw_only=True):
    """``base_offset`` is where the batch stands; absent unless ``error`` is NONE and ``acks`` is not 0.

    ``not_appended`` is true where the error was found before the append: the write definitely did not happen.
    ``message`` is for people where the error's name does not say it all. ``throttle_time_ms`` is how long the client is
    to ask nothing more of this replica, whose server alone knows of quotas.
    """

    error: ErrorCode
    message: Message = ""
    not_appended: bool = False
    base_offset: Offset | None = None
    leader_epoch: Epoch | None = None
    current_leader: CurrentLeader | None = None
    throttle_time_ms: int = 0


class ProduceRequests(Struct, frozen=True, kw_only=True):
    """Writes that travel together; each is a request of its own to the core, in this order."""

    requests: Annotated[tuple[ProduceRequest, ...], PRODUCED_AT_ONCE]


class ProduceResponses(Struct, frozen=True, kw_only=True):
    """The answers to writes that travelled together, in the order of the requests."""

    responses: Annotated[tuple[ProduceResponse, ...], PRODUCED_AT_ONCE]


class FetchPartition(Struct, frozen=True, kw_only=True):
    """Read one log from ``fetch_offset``. From a replica, the offset is also its acknowledgement of everything below.

    ``last_fetched_epoch`` is the epoch of the record just below; ``log_start_offset`` is the fetching replica's own.
    ``high_watermark`` is what the asker already knows: the leader answers at once if its own is larger, unless that
    ``high_watermark_may_wait`` for what goes to the asker next; absent turns both off. ``topic_id`` is absent where the
    topic is known by name only. ``max_bytes`` bounds this log's share. ``read_round`` is the last that this leader has
    named to the asker in this epoch; 0 before the first.
    """

    topic_partition: TopicPartition
    topic_id: TopicId | None = None
    fetch_offset: Offset
    current_leader_epoch: Epoch | None = None
    last_fetched_epoch: Epoch | None = None
    log_start_offset: Offset | None = None
    high_watermark: Offset | None = None
    high_watermark_may_wait: bool = False
    max_bytes: int = 1 << 20
    read_round: Long = 0


class FetchRequest(Struct, frozen=True, kw_only=True):
    """Read one or several logs, each named once, waiting up to ``max_wait_ms`` for ``min_bytes`` in all of them.

    ``replica_id`` is absent for a consumer; ``broker_epoch`` is the fetching broker's incarnation, absent in a quorum.
    A quorum log is fetched alone. ``max_bytes`` bounds the sum; at least one whole batch is always returned.
    ``rack_id`` is where a consumer stands: the leader may name a follower there instead of sending records.

    With a ``session_id``, which a follower chooses, this is fetch ``session_epoch`` of a session, 0 being its first:
    ``partitions`` are then those of which the leader does not know yet what is wanted (KIP-227).

    ``newest_feature_level`` is the highest that a replica knows, which it says where it fetches the metadata log.
    """

    partitions: Annotated[tuple[FetchPartition, ...], FETCHED_AT_ONCE]
    replica_id: ReplicaId | None = None
    replica_directory_id: DirectoryId | None = None
    broker_epoch: BrokerEpoch | None = None
    cluster_id: str | None = None
    max_wait_ms: int = 0
    min_bytes: int = 1
    max_bytes: int = 10 << 20
    rack_id: str | None = None
    session_id: Long | None = None
    session_epoch: Long = 0
    newest_feature_level: int | None = None


class FetchedPartition(Struct, frozen=True, kw_only=True):
    """Whole batches of one log, back to back, from the one that holds ``fetch_offset``; or where the logs part.

    ``high_watermark`` is absent while the leader does not know it. ``diverging_epoch`` comes without records.
    ``preferred_read_replica`` names an in-sync follower that the consumer should rather ask (KIP-392); it comes
    without records, as does ``snapshot_id``: what the asker lacks is gone from the log, and stands in this
    snapshot. ``read_round`` is the newest round of linearizable reads, which the asker puts into its next fetch.
    """

    topic_partition: TopicPartition
    error: ErrorCode
    high_watermark: Offset | None = None
    log_start_offset: Offset | None = None
    diverging_epoch: EpochEndOffset | None = None
    current_leader: CurrentLeader | None = None
    preferred_read_replica: ReplicaId | None = None
    snapshot_id: SnapshotId | None = None
    read_round: Long = 0
    records: Carried = b""


class FetchResponse(Struct, frozen=True, kw_only=True):
    """One answer for each log that was asked for, in the same order. ``error`` is about the request as a whole.

    With an ``error``, ``partitions`` is empty. In a session only logs of which there is something to say are answered,
    and what was wanted of these is forgotten by that. ``throttle_time_ms`` is as in ``ProduceResponse``.
    """

    error: ErrorCode = ErrorCode.NONE
    partitions: Annotated[tuple[FetchedPartition, ...], FETCHED_AT_ONCE] = ()
    throttle_time_ms: int = 0

    def answer_for(self, topic_partition: TopicPartition) -> FetchedPartition:
        """What this answer says of one log that was asked for: an error of the whole request is one of each log.

        UNKNOWN_SERVER_ERROR for a log that the answering side has forgotten.
        """
        if self.error is not ErrorCode.NONE:
            return FetchedPartition(topic_partition=topic_partition, error=self.error)
        for part in self.partitions:
            if part.topic_partition == topic_partition:
                return part
        return FetchedPartition(topic_partition=topic_partition, error=ErrorCode.UNKNOWN_SERVER_ERROR)

    def with_records(self, records: Mapping[TopicPartition, bytes | None]) -> FetchResponse:
        """This answer with what was read for it, log by log; None is a log that is damaged."""
        return replace(self, partitions=tuple(_with_records(part, records) for part in self.partitions))


def _with_records(part: FetchedPartition, records: Mapping[TopicPartition, bytes | None]) -> FetchedPartition:
    if part.topic_partition not in records:
        return part
    read = records[part.topic_partition]
    if read is None:
        return FetchedPartition(topic_partition=part.topic_partition, error=ErrorCode.KAFKA_STORAGE_ERROR)
    return replace(part, records=read)


class OffsetForLeaderEpochRequest(Struct, frozen=True, kw_only=True):
    """Ask where ``leader_epoch`` ends in the leader's log: a client's question. Followers learn it as they fetch."""

    topic_partition: TopicPartition
    leader_epoch: Epoch
    cluster_id: str | None = None
    current_leader_epoch: Epoch | None = None


class OffsetForLeaderEpochResponse(Struct, frozen=True, kw_only=True):
    """``answer`` is absent where the epoch is undefined for this log (Kafka's ``(-1, -1)``), with error NONE.

    ``log_start_offset`` is where the leader's log begins: an epoch that it does not hold any more ends there at best.
    """

    error: ErrorCode
    answer: EpochEndOffset | None = None
    log_start_offset: Offset | None = None
    current_leader: CurrentLeader | None = None


class ListOffsetsRequest(Struct, frozen=True, kw_only=True):
    """Ask for the log start offset, the end of what may be read, or the first record that is not older than a time.

    ``timestamp_ms`` (milliseconds since 1970), when given, takes the place of ``latest``.
    """

    topic_partition: TopicPartition
    latest: bool = False
    timestamp_ms: Timestamp | None = None
    replica_id: ReplicaId | None = None
    cluster_id: str | None = None
    current_leader_epoch: Epoch | None = None


class ListOffsetsResponse(Struct, frozen=True, kw_only=True):
    """``latest`` is the high watermark for a consumer and the log end offset for a replica.

    ``leader_epoch`` is then that of the record just below it; else that of the record at ``offset``; absent where the
    log has none. OFFSET_NOT_AVAILABLE while a new leader does not know its high watermark (KIP-207).
    """

    error: ErrorCode
    offset: Offset | None = None
    leader_epoch: Epoch | None = None
    current_leader: CurrentLeader | None = None


HIGH_WATERMARK = -1
"""How a DeleteRecordsRequest names the leader's high watermark, whatever it is."""


class DeleteRecordsRequest(Struct, frozen=True, kw_only=True):
    """Ask the leader to forget everything below ``offset``: at most its high watermark, or HIGH_WATERMARK for that.

    ``timeout_ms`` is how long the other live replicas may take to do the same.
    """

    topic_partition: TopicPartition
    offset: Annotated[int, Number(HIGH_WATERMARK, OFFSET_MAX)]
    timeout_ms: int
    cluster_id: str | None = None


class DeleteRecordsResponse(Struct, frozen=True, kw_only=True):
    """``low_watermark`` is where the logs of all live replicas begin at least; absent with an error.

    REQUEST_TIMED_OUT: the leader has done it, and not all others have in time, or before it ceased to lead. With
    KAFKA_STORAGE_ERROR it may be done; with any other error certainly nothing was.
    """

    error: ErrorCode
    low_watermark: Offset | None = None
    current_leader: CurrentLeader | None = None
