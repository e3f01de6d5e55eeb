"""Looking into any replica, leading or not: its own state and its whole log. Changes nothing."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated

from msgspec import Struct, field
from msgspec.structs import replace

from replica.bounds import BROKERS_MAX, EPOCHS_MAX, Address, Carried, DirectoryId, Entries
from replica.core.messages.leadership import CurrentLeader
from replica.errors import ErrorCode
from replica.ids import EpochEntry, Offset, ReplicaId, TopicPartition


class DescribeReplicaRequest(Struct, frozen=True, kw_only=True):
    """Ask any replica, leading or not, for its own state of one log."""

    topic_partition: TopicPartition


class DescribeReplicaResponse(Struct, frozen=True, kw_only=True):
    """One replica's own state. ``role`` is the lower-case name of the quorum role; ``epochs`` its newest.

    ``peer_address`` is where other replicas reach it, if that is a listener of its own.
    """

    error: ErrorCode
    replica_id: ReplicaId | None = None
    directory_id: DirectoryId = ""
    cluster_id: str = ""
    role: str = ""
    leader: CurrentLeader | None = None
    log_start_offset: Offset | None = None
    high_watermark: Offset | None = None
    flushed_end_offset: Offset | None = None
    log_end_offset: Offset | None = None
    epochs: Annotated[tuple[EpochEntry, ...], Entries(EPOCHS_MAX)] = ()
    addresses: Annotated[Mapping[ReplicaId, Address], Entries(2 * BROKERS_MAX)] = field(default_factory=dict)
    peer_address: Address = ""


class DumpLogRequest(Struct, frozen=True, kw_only=True):
    """Read any replica's own log from ``offset``, committed or not: for the convergence check, never for consumers."""

    topic_partition: TopicPartition
    offset: Offset
    max_bytes: int


class DumpLogResponse(Struct, frozen=True, kw_only=True):
    """Whole batches from ``offset``; empty records at ``log_end_offset`` end the dump."""

    error: ErrorCode
    records: Carried = b""
    high_watermark: Offset | None = None
    log_end_offset: Offset | None = None

    def with_records(self, records: Mapping[TopicPartition, bytes | None]) -> DumpLogResponse:
        """This answer with what was read for it, from the one log that was asked for; None is a log that is damaged."""
        (read,) = records.values()
        return DumpLogResponse(error=ErrorCode.KAFKA_STORAGE_ERROR) if read is None else replace(self, records=read)
