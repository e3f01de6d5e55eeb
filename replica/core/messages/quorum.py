"""How the voters of a quorum log choose a leader and learn of it.

Sources: KIP-595, KIP-853, KIP-996; Ongaro's thesis, section 3.10 (``TransferLeadership``).
"""

from __future__ import annotations

from msgspec import Struct

from replica.bounds import Address, DirectoryId, Long
from replica.core.messages.leadership import CurrentLeader
from replica.errors import ErrorCode
from replica.ids import Epoch, Offset, ReplicaId, TopicPartition
from replica.voters import ReplicaKey, Voter


class VoteRequest(Struct, frozen=True, kw_only=True):
    """Ask for a vote in ``candidate_epoch``; with ``pre_vote``, ask only whether it would be worth asking.

    ``last_offset`` is the candidate's log end offset (exclusive; Kafka's name for it), ``last_offset_epoch`` the epoch
    of its last record (0 for an empty log). ``voter_directory_id``, when given, must be the asked replica's own.
    """

    topic_partition: TopicPartition
    candidate_id: ReplicaId
    candidate_epoch: Epoch
    last_offset_epoch: int
    last_offset: Long
    pre_vote: bool
    cluster_id: str | None = None
    candidate_directory_id: DirectoryId | None = None
    voter_id: ReplicaId | None = None
    voter_directory_id: DirectoryId | None = None


class VoteResponse(Struct, frozen=True, kw_only=True):
    """The voter's verdict, and what it knows of the leadership in its own epoch."""

    error: ErrorCode
    vote_granted: bool = False
    current_leader: CurrentLeader | None = None


class BeginQuorumEpochRequest(Struct, frozen=True, kw_only=True):
    """A new leader makes itself known. ``leader_address`` is for whoever dials it, as in CurrentLeader."""

    topic_partition: TopicPartition
    leader_id: ReplicaId
    leader_epoch: Epoch
    cluster_id: str | None = None
    voter_id: ReplicaId | None = None
    voter_directory_id: DirectoryId | None = None
    leader_address: Address = ""


class BeginQuorumEpochResponse(Struct, frozen=True, kw_only=True):
    error: ErrorCode
    current_leader: CurrentLeader | None = None


class EndQuorumEpochRequest(Struct, frozen=True, kw_only=True):
    """A leader resigns and names who should follow it, best log first."""

    topic_partition: TopicPartition
    leader_id: ReplicaId
    leader_epoch: Epoch
    preferred_candidates: tuple[ReplicaId, ...]
    cluster_id: str | None = None


class EndQuorumEpochResponse(Struct, frozen=True, kw_only=True):
    error: ErrorCode
    current_leader: CurrentLeader | None = None


class TransferLeadershipRequest(Struct, frozen=True, kw_only=True):
    """Let ``target_id``, a voter, lead in the leader's place; the leader waits for it up to ``timeout_ms``."""

    topic_partition: TopicPartition
    target_id: ReplicaId
    timeout_ms: int
    cluster_id: str | None = None


class TransferLeadershipResponse(Struct, frozen=True, kw_only=True):
    """NONE: the leader has resigned in favour of the target; whether that is elected, DescribeQuorum tells.

    ELECTION_NOT_NEEDED: the target leads already. INVALID_REQUEST: it is no voter. THROTTLING_QUOTA_EXCEEDED: another
    transfer is under way. REQUEST_TIMED_OUT: the target was not there in time, and the leader leads on.
    """

    error: ErrorCode
    current_leader: CurrentLeader | None = None


class AddVoterRequest(Struct, frozen=True, kw_only=True):
    """Let ``voter``, which fetches already, vote; the leader waits up to ``timeout_ms`` until it has caught up."""

    topic_partition: TopicPartition
    voter: Voter
    timeout_ms: int
    cluster_id: str | None = None


class RemoveVoterRequest(Struct, frozen=True, kw_only=True):
    """Let ``voter`` vote no more. A leader that removes itself leads until that is committed."""

    topic_partition: TopicPartition
    voter: ReplicaKey
    timeout_ms: int
    cluster_id: str | None = None


class ChangeVotersResponse(Struct, frozen=True, kw_only=True):
    """Whether the voters are changed: with NONE it is committed.

    DUPLICATE_VOTER: the id votes already. VOTER_NOT_FOUND: the id does not vote, or on another disk. INVALID_REQUEST:
    the last voter cannot be removed. THROTTLING_QUOTA_EXCEEDED: another change, or a transfer, is under way, or nothing
    of the leader's epoch is committed yet. REQUEST_TIMED_OUT with ``not_appended``: a new voter did not catch up in
    time. With any other error and without ``not_appended`` it may be changed or not.
    """

    error: ErrorCode
    not_appended: bool = False
    current_leader: CurrentLeader | None = None


class DescribeQuorumRequest(Struct, frozen=True, kw_only=True):
    topic_partition: TopicPartition
    cluster_id: str | None = None


class QuorumReplicaState(Struct, frozen=True, kw_only=True):
    """A voter or observer as its leader sees it. Times are milliseconds before the answer; absent = never.

    ``directory_id`` is that of its disk, absent where it is not known; ``address`` only of a voter whose log knows it.
    """

    replica_id: ReplicaId
    log_end_offset: Offset | None
    directory_id: DirectoryId | None = None
    address: Address = ""
    last_fetch_ms_ago: Long | None = None
    last_caught_up_ms_ago: Long | None = None


class DescribeQuorumResponse(Struct, frozen=True, kw_only=True):
    """The leader's view of its quorum; NOT_LEADER_OR_FOLLOWER (with ``current_leader``) from anyone else."""

    error: ErrorCode
    current_leader: CurrentLeader | None = None
    high_watermark: Offset | None = None
    current_voters: tuple[QuorumReplicaState, ...] = ()
    observers: tuple[QuorumReplicaState, ...] = ()
