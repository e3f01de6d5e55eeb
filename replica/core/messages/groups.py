"""State machines on quorum logs: what clients ask of them, and how replicas catch up with them.

Sources: KIP-630 (``FetchSnapshot``); Ongaro's thesis, sections 6.3 and 6.4 (clients, read-only queries).
"""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

from msgspec import Struct
from msgspec.structs import replace

from replica.bounds import ENTRIES_MAX, Carried, DirectoryId, Entries, Long
from replica.core.messages.leadership import CurrentLeader
from replica.errors import ErrorCode
from replica.ids import Epoch, Offset, ReplicaId, SnapshotId, TopicPartition


class Consistency(StrEnum):
    """How recent an answer must be.

    ``LINEARIZABLE``: not older than the question, whoever answers. ``LEASE``: the same, but only as long as no clock
    runs faster or slower than configured; a leader that is configured so answers it without asking a majority, any
    other replica as ``LINEARIZABLE``. ``STALE``: what the asked replica has applied, however old.
    """

    LINEARIZABLE = "LINEARIZABLE"
    LEASE = "LEASE"
    STALE = "STALE"


class ApplyRequest(Struct, frozen=True, kw_only=True):
    """Write ``entries`` into a group's log, in order, and apply them. For its leader.

    Each is encoded by ``replica.machines.encode_entry``. The answer comes when all of them are applied, or after
    ``timeout_ms``.
    """

    topic_partition: TopicPartition
    entries: Annotated[tuple[Carried, ...], Entries(ENTRIES_MAX)]
    timeout_ms: int
    cluster_id: str | None = None


class ApplyResponse(Struct, frozen=True, kw_only=True):
    """``outcomes`` (``replica.machines.decode_outcome``), one for each entry, the first of which is at ``base_offset``.

    Both only with error NONE. ``not_appended`` is true where the error was found before the append: no entry was, or
    will be, applied by this request. With any other error all of them may be. MESSAGE_TOO_LARGE without
    ``not_appended``: all were applied, and what they came to does not fit into an answer.
    """

    error: ErrorCode
    not_appended: bool = False
    base_offset: Offset | None = None
    outcomes: Annotated[tuple[Carried, ...], Entries(ENTRIES_MAX)] = ()
    leader_epoch: Epoch | None = None
    current_leader: CurrentLeader | None = None


class QueryRequest(Struct, frozen=True, kw_only=True):
    """Ask a group's machine; any replica of the group answers. All ``requests``, one or more, are of the same state.

    With ``after_offset`` the answer waits until something at or beyond that offset is applied, or until ``timeout_ms``
    have passed, and is given then in either case: so a client follows what changes.
    """

    topic_partition: TopicPartition
    requests: Annotated[tuple[Carried, ...], Entries(ENTRIES_MAX)]
    consistency: Consistency
    timeout_ms: int
    after_offset: Offset | None = None
    cluster_id: str | None = None


class QueryResponse(Struct, frozen=True, kw_only=True):
    """``outcomes`` (``replica.machines.decode_outcome``), one for each question, of the state below ``applied_offset``.

    Both only with error NONE. MESSAGE_TOO_LARGE: what is asked, or what it comes to, does not fit into one message.
    """

    error: ErrorCode
    outcomes: Annotated[tuple[Carried, ...], Entries(ENTRIES_MAX)] = ()
    applied_offset: Offset | None = None
    current_leader: CurrentLeader | None = None


class ReadIndexRequest(Struct, frozen=True, kw_only=True):
    """A replica asks the leader of ``current_leader_epoch`` how far it must have applied to answer a question now."""

    topic_partition: TopicPartition
    replica_id: ReplicaId
    current_leader_epoch: Epoch
    cluster_id: str | None = None


class ReadIndexResponse(Struct, frozen=True, kw_only=True):
    """Who has applied all below ``read_index`` knows what was answered before the question; only with error NONE."""

    error: ErrorCode
    read_index: Offset | None = None
    current_leader: CurrentLeader | None = None


class FetchSnapshotRequest(Struct, frozen=True, kw_only=True):
    """Ask the leader of ``current_leader_epoch`` for up to ``max_bytes`` of a snapshot, from ``position`` on.

    ``replica_id`` is absent for a client, which at position 0 gets the newest that ends at ``snapshot_end_offset`` or
    above; where there is none, one is taken soon.
    """

    topic_partition: TopicPartition
    snapshot_end_offset: Offset
    snapshot_epoch: Epoch
    position: Long
    max_bytes: int
    current_leader_epoch: Epoch
    replica_id: ReplicaId | None = None
    replica_directory_id: DirectoryId | None = None
    cluster_id: str | None = None

    @property
    def snapshot_id(self) -> SnapshotId:
        """Which snapshot."""
        return SnapshotId(self.snapshot_end_offset, self.snapshot_epoch)


class FetchSnapshotResponse(Struct, frozen=True, kw_only=True):
    """``data`` is the snapshot's from ``position`` on; it has ``size_bytes`` in all. Only with error NONE."""

    error: ErrorCode
    snapshot_id: SnapshotId | None = None
    size_bytes: Long = 0
    position: Long = 0
    data: bytes = b""
    current_leader: CurrentLeader | None = None

    def with_data(self, data: bytes) -> FetchSnapshotResponse:
        """This answer with what was read for it."""
        return replace(self, data=data)
