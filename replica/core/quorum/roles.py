"""The roles of a replica in a quorum, one frozen class each with only its own fields.

::

    Unattached --election timeout--> Prospective --majority would vote--> Candidate --majority votes--> Leader
        ^                              |    ^                                |                            |
        |                              |    +-----lost, or out of time-------+                            |
        +-----nobody leads here--------+                                                                  |
    Follower <----a leader of this or a later epoch is heard of (from every role but Leader)              |
    Follower --no answer to fetches, or its leader's process has ended--> Prospective                     |
    Resigned <---no majority fetches, a transfer or graceful stop, or a restart of the recorded leader----+
    Resigned --election timeout--> Prospective

The epoch, the vote and the recorded leader are not here: they are persistent (``QuorumState``) and outlive roles.
All times are absolute milliseconds of the driver's clock. Source: Kafka ``QuorumState`` and its ``EpochState`` classes.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

from msgspec import Struct

from replica.ids import CallId, CorrelationId, Offset, ReplicaId, SnapshotId
from replica.machines import Snapshot
from replica.voters import ReplicaKey, Voter, VoterSet


class Unattached(Struct, frozen=True, kw_only=True):
    """Knows of no leader that can be followed; may have voted. Waits to hear of one, or to campaign.

    An observer never campaigns: it asks one voter after another who leads (``questions`` so far), one at a time.
    """

    name: ClassVar[str] = "unattached"
    election_deadline_ms: int
    questions: int = 0
    pending: CorrelationId | None = None
    retry_at_ms: int = 0


class Campaign(Struct, frozen=True, kw_only=True):
    """The votes of one round: who said yes, who said no, which requests are out and when to ask whom again.

    Of those who are ``gone`` no answer is awaited: their processes have ended. One that answers all the same counts.
    """

    granted: frozenset[ReplicaId]
    rejected: frozenset[ReplicaId] = frozenset()
    gone: frozenset[ReplicaId] = frozenset()
    pending: Mapping[CorrelationId, ReplicaId]
    ask_at_ms: Mapping[ReplicaId, int]


class Prospective(Struct, frozen=True, kw_only=True):
    """Asks whether an election could be won before it disturbs anybody with a new epoch (KIP-996)."""

    name: ClassVar[str] = "prospective"
    election_deadline_ms: int
    campaign: Campaign
    retries: int


class Candidate(Struct, frozen=True, kw_only=True):
    """Has voted for itself in a new epoch and asks for the others' votes; ``back_off_until_ms`` once it has lost."""

    name: ClassVar[str] = "candidate"
    election_deadline_ms: int
    campaign: Campaign
    retries: int
    back_off_until_ms: int | None = None


class SnapshotFetch(Struct, frozen=True, kw_only=True):
    """A replica loads, or has loaded, the leader's snapshot that ends at ``end_offset``; it began at ``since_ms``."""

    end_offset: Offset
    since_ms: int


class ReplicaProgress(Struct, frozen=True, kw_only=True):
    """What the leader knows of one other replica: how far it has fetched, and when.

    ``log_end_offset`` is the offset of its last fetch, hence flushed there; absent until it has fetched in this epoch.
    ``announce_at_ms`` is when to repeat BeginQuorumEpoch to it. ``read_round`` is the newest that it has echoed.
    ``snapshot_fetch`` is the last snapshot of which it has fetched a piece, ``newest_level`` the newest feature level
    that it says it knows.
    """

    log_end_offset: Offset | None = None
    last_fetch_ms: int
    last_caught_up_ms: int | None = None
    announce_at_ms: int
    has_fetched: bool = False
    read_round: int = 0
    snapshot_fetch: SnapshotFetch | None = None
    newest_level: int | None = None


class Transfer(Struct, frozen=True, kw_only=True):
    """The leadership is to go to ``target_id`` by ``deadline_ms``; ``call_id`` is who asked, absent if nobody did.

    The target has fetched since this began when it has echoed ``read_round``.
    """

    target_id: ReplicaId
    deadline_ms: int
    read_round: int
    call_id: CallId | None


class Joining(Struct, frozen=True, kw_only=True):
    """``voter`` is to be added once it has caught up, by ``deadline_ms``; ``call_id`` asks for that.

    It has fetched since that was asked for when it has echoed ``read_round``. The round in which it fetches what is
    below ``end_offset`` began at ``began_ms``.
    """

    call_id: CallId
    deadline_ms: int
    voter: Voter
    read_round: int
    end_offset: Offset
    began_ms: int


class Changing(Struct, frozen=True, kw_only=True):
    """The voters are changed by a record that ends at ``end_offset``; ``call_id`` waits for it to be committed."""

    call_id: CallId
    deadline_ms: int
    end_offset: Offset


class BegunRound(Struct, frozen=True, kw_only=True):
    """When a read round began."""

    read_round: int
    began_ms: int


class Leader(Struct, frozen=True, kw_only=True):
    """Appends, answers fetches and counts how far the majority is. ``high_watermark`` is absent until it is known.

    ``read_round`` numbers the rounds in which it makes sure that it still leads; 0 before the first. ``rounds`` says
    when some of them began, oldest first. While there is a ``transfer`` nothing is appended. ``voters`` are those of
    ``voter_set`` without itself, by their ids; observers are told apart by their disks. At most one ``change`` of the
    voters is asked for at a time.
    """

    name: ClassVar[str] = "leader"
    epoch_start_offset: Offset
    voter_set: VoterSet
    voters: Mapping[ReplicaId, ReplicaProgress]
    observers: Mapping[ReplicaKey, ReplicaProgress]
    high_watermark: Offset | None = None
    read_round: int = 0
    rounds: tuple[BegunRound, ...] = ()
    transfer: Transfer | None = None
    change: Joining | Changing | None = None


class CatchingUp(Struct, frozen=True, kw_only=True):
    """A snapshot that comes piece by piece: those that are here, back to back, ``position`` bytes of ``size_bytes``.

    The size is absent before the first piece.
    """

    snapshot_id: SnapshotId
    pieces: tuple[bytes, ...] = ()
    position: int = 0
    size_bytes: int | None = None


class Follower(Struct, frozen=True, kw_only=True):
    """Fetches from ``leader_id``. At most one request is out (``pending``); the next goes out at ``retry_at_ms``.

    ``read_round`` is the newest of this leadership that it was told, and that its next fetch echoes. While it is
    ``catching_up`` it asks for pieces of a snapshot; once that has been ``received`` whole it asks for nothing, until
    the snapshot is taken. ``rejected`` counts those in a row that could not be loaded. ``heard_ms`` is when the leader
    was last heard from, or of; it ``is_refused`` once there is evidence that its process has ended since.
    """

    name: ClassVar[str] = "follower"
    leader_id: ReplicaId
    heard_ms: int
    fetch_deadline_ms: int
    has_fetched: bool = False
    is_refused: bool = False
    pending: CorrelationId | None = None
    retry_at_ms: int = 0
    read_round: int = 0
    catching_up: CatchingUp | None = None
    received: Snapshot | None = None
    rejected: int = 0


class Resigned(Struct, frozen=True, kw_only=True):
    """Led this epoch and leads it no more: appends nothing, votes for nobody in it, and tells the voters so.

    A leader that restarts comes back like this: it could have lost an unflushed tail, and leading on in the same epoch
    could put different records under the same offset and epoch.
    """

    name: ClassVar[str] = "resigned"
    election_deadline_ms: int
    preferred_candidates: tuple[ReplicaId, ...]
    pending: Mapping[CorrelationId, ReplicaId]
    tell_at_ms: Mapping[ReplicaId, int]


Role = Unattached | Prospective | Candidate | Leader | Follower | Resigned
