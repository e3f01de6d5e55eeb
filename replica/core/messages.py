"""What replicas and clients say to each other, as values.

One frozen class per request and per response, with Kafka's field names. The codec translates them from and to the
wire; the core and its tests see nothing else. ``None`` stands for "absent" (Kafka's -1) and has that one meaning.
Sources: Kafka's ``FetchRequest.json`` and its siblings; KIP-595 (quorum), KIP-320 (epochs), KIP-996 (pre-vote),
KIP-1166 (``high_watermark`` in Fetch).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from replica.errors import ErrorCode
from replica.ids import Epoch, EpochEndOffset, EpochEntry, Offset, ReplicaId, TopicPartition


@dataclass(frozen=True, slots=True, kw_only=True)
class CurrentLeader:
    """Who leads, as far as the answering replica knows; ``leader_id`` is absent while nobody is known to."""

    leader_id: ReplicaId | None
    leader_epoch: Epoch


# --- data -----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class ProduceRequest:
    """Append one record batch. ``records`` is exactly one encoded batch; ``acks`` is -1 (all), 1 or 0."""

    topic_partition: TopicPartition
    acks: int
    timeout_ms: int
    records: bytes
    cluster_id: str | None = None
    current_leader_epoch: Epoch | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ProduceResponse:
    """``base_offset`` is where the batch stands; absent unless ``error`` is NONE and ``acks`` is not 0.

    ``not_appended`` is true where the error was found before the append: the write definitely did not happen.
    """

    error: ErrorCode
    not_appended: bool = False
    base_offset: Offset | None = None
    leader_epoch: Epoch | None = None
    current_leader: CurrentLeader | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class FetchRequest:
    """Read from ``fetch_offset``. From a replica, the offset is also its acknowledgement of everything below.

    ``replica_id`` is absent for a consumer. ``high_watermark`` is what the asker already knows: the leader answers at
    once if its own is larger; absent turns that off. Sizes are in bytes; at least one whole batch is always returned.
    """

    topic_partition: TopicPartition
    fetch_offset: Offset
    replica_id: ReplicaId | None = None
    replica_directory_id: str | None = None
    cluster_id: str | None = None
    current_leader_epoch: Epoch | None = None
    last_fetched_epoch: Epoch | None = None
    high_watermark: Offset | None = None
    max_wait_ms: int = 0
    min_bytes: int = 1
    max_bytes: int = 1 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class FetchResponse:
    """Whole batches, back to back, from the one that holds ``fetch_offset``; or where the logs part.

    ``high_watermark`` is absent while the leader does not know it. ``diverging_epoch`` comes without records.
    """

    error: ErrorCode
    high_watermark: Offset | None = None
    log_start_offset: Offset | None = None
    diverging_epoch: EpochEndOffset | None = None
    current_leader: CurrentLeader | None = None
    records: bytes = b""


@dataclass(frozen=True, slots=True, kw_only=True)
class OffsetForLeaderEpochRequest:
    """Ask where ``leader_epoch`` ends in the leader's log. ``replica_id`` is absent for a consumer."""

    topic_partition: TopicPartition
    leader_epoch: Epoch
    replica_id: ReplicaId | None = None
    cluster_id: str | None = None
    current_leader_epoch: Epoch | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class OffsetForLeaderEpochResponse:
    """``answer`` is absent where the epoch is undefined for this log (Kafka's ``(-1, -1)``), with error NONE."""

    error: ErrorCode
    answer: EpochEndOffset | None = None
    current_leader: CurrentLeader | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ListOffsetsRequest:
    """Ask for the log start offset (``earliest``) or the end of what may be read (``latest``)."""

    topic_partition: TopicPartition
    latest: bool
    replica_id: ReplicaId | None = None
    cluster_id: str | None = None
    current_leader_epoch: Epoch | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ListOffsetsResponse:
    """``latest`` is the high watermark for a consumer and the log end offset for a replica.

    OFFSET_NOT_AVAILABLE while a new leader does not know its high watermark (KIP-207).
    """

    error: ErrorCode
    offset: Offset | None = None
    leader_epoch: Epoch | None = None
    current_leader: CurrentLeader | None = None


# --- quorum ---------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class VoteRequest:
    """Ask for a vote in ``candidate_epoch``; with ``pre_vote``, ask only whether it would be worth asking.

    ``last_offset`` is the candidate's log end offset (exclusive; Kafka's name for it), ``last_offset_epoch`` the epoch
    of its last record (0 for an empty log). ``voter_directory_id``, when given, must be the asked replica's own.
    """

    topic_partition: TopicPartition
    candidate_id: ReplicaId
    candidate_epoch: Epoch
    last_offset_epoch: int
    last_offset: int
    pre_vote: bool
    cluster_id: str | None = None
    candidate_directory_id: str | None = None
    voter_id: ReplicaId | None = None
    voter_directory_id: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class VoteResponse:
    """The voter's verdict, and what it knows of the leadership in its own epoch."""

    error: ErrorCode
    vote_granted: bool = False
    current_leader: CurrentLeader | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class BeginQuorumEpochRequest:
    """A new leader makes itself known."""

    topic_partition: TopicPartition
    leader_id: ReplicaId
    leader_epoch: Epoch
    cluster_id: str | None = None
    voter_id: ReplicaId | None = None
    voter_directory_id: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class BeginQuorumEpochResponse:
    error: ErrorCode
    current_leader: CurrentLeader | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class EndQuorumEpochRequest:
    """A leader resigns and names who should follow it, best log first."""

    topic_partition: TopicPartition
    leader_id: ReplicaId
    leader_epoch: Epoch
    preferred_candidates: tuple[ReplicaId, ...]
    cluster_id: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class EndQuorumEpochResponse:
    error: ErrorCode
    current_leader: CurrentLeader | None = None


# --- looking in -----------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class DescribeQuorumRequest:
    topic_partition: TopicPartition
    cluster_id: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class QuorumReplicaState:
    """A voter or observer as its leader sees it. Times are milliseconds before the answer; absent = never."""

    replica_id: ReplicaId
    log_end_offset: Offset | None
    last_fetch_ms_ago: int | None = None
    last_caught_up_ms_ago: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class DescribeQuorumResponse:
    """The leader's view of its quorum; NOT_LEADER_OR_FOLLOWER (with ``current_leader``) from anyone else."""

    error: ErrorCode
    current_leader: CurrentLeader | None = None
    high_watermark: Offset | None = None
    current_voters: tuple[QuorumReplicaState, ...] = ()
    observers: tuple[QuorumReplicaState, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class DescribeReplicaRequest:
    """Ask any replica, leading or not, for its own state of one log."""

    topic_partition: TopicPartition


@dataclass(frozen=True, slots=True, kw_only=True)
class DescribeReplicaResponse:
    """One replica's own state. ``role`` is the lower-case name of the quorum role; ``epochs`` the whole epoch cache."""

    error: ErrorCode
    replica_id: ReplicaId | None = None
    directory_id: str = ""
    cluster_id: str = ""
    role: str = ""
    leader: CurrentLeader | None = None
    log_start_offset: Offset | None = None
    high_watermark: Offset | None = None
    flushed_end_offset: Offset | None = None
    log_end_offset: Offset | None = None
    epochs: tuple[EpochEntry, ...] = ()
    addresses: Mapping[ReplicaId, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class DumpLogRequest:
    """Read any replica's own log from ``offset``, committed or not: for the convergence check, never for consumers."""

    topic_partition: TopicPartition
    offset: Offset
    max_bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class DumpLogResponse:
    """Whole batches from ``offset``; empty records at ``log_end_offset`` end the dump."""

    error: ErrorCode
    records: bytes = b""
    high_watermark: Offset | None = None
    log_end_offset: Offset | None = None


ClientRequest = ProduceRequest | ListOffsetsRequest | DescribeQuorumRequest | DescribeReplicaRequest | DumpLogRequest
PeerRequest = FetchRequest | OffsetForLeaderEpochRequest | VoteRequest | BeginQuorumEpochRequest | EndQuorumEpochRequest
"""What one replica sends to another (clients use Fetch and OffsetForLeaderEpoch as well)."""

Request = ClientRequest | PeerRequest

PeerResponse = (
    FetchResponse | OffsetForLeaderEpochResponse | VoteResponse | BeginQuorumEpochResponse | EndQuorumEpochResponse
)
Response = (
    PeerResponse
    | ProduceResponse
    | ListOffsetsResponse
    | DescribeQuorumResponse
    | DescribeReplicaResponse
    | DumpLogResponse
)
