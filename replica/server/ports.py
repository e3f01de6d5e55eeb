"""What the driver needs from its surroundings, as protocols: the core, logs on disk, the way to peers, an observer.

Owns the shapes only. The server fills them with the real core, storage and gRPC; tests fill them with fakes.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

from replica.core.effects import Effect, ReplyWithOffset, ReplyWithSnapshot
from replica.core.events import Event
from replica.core.messages import FetchSnapshotResponse, ListOffsetsResponse, PeerRequest, Response
from replica.ids import Offset, ReplicaId, SnapshotId, TopicPartition
from replica.storage import StorageEffect, StorageReport


class Core(Protocol):
    """The replica as a value-in, value-out machine."""

    @property
    def deadline_ms(self) -> int | None:
        """When the core wants to be stepped again at the latest; absent = only when something happens."""

    def step(self, event: Event, now_ms: int) -> tuple[Effect, ...]:
        """Take one event; return what to do, in order."""


class LogPort(Protocol):
    """One open log on disk. Every method raises StorageError when the disk does not do as asked.

    A reader that comes upon damage to a partition's log raises DamagedLogError, which is about this log alone.
    """

    def flush(self) -> Offset:
        """Make everything appended so far durable and return its end offset. Blocks; called from another thread."""

    def store_snapshot(self, snapshot_id: SnapshotId, data: bytes) -> None:
        """Keep a snapshot, durable on return. Blocks; called from another thread."""

    def read(self, start_offset: Offset, end_offset: Offset, max_bytes: int) -> bytes:
        """Return whole batches from the one that holds ``start_offset``, at least one, none above ``end_offset``."""


class StoragePort(Protocol):
    """All logs on disk. Every method raises StorageError when the disk does not do as asked."""

    @property
    def stores(self) -> Mapping[TopicPartition, LogPort]:
        """The logs that are open now."""

    def perform(self, effect: StorageEffect) -> StorageReport | None:
        """Do what the core asks of storage, and return what it is to be told."""

    def with_offset(self, reply: ReplyWithOffset) -> ListOffsetsResponse:
        """Return the answer to a question for the first offset not older than a time."""

    def with_snapshot(self, reply: ReplyWithSnapshot) -> FetchSnapshotResponse:
        """Return the answer to a question for a piece of a snapshot."""


class PeerTransport(Protocol):
    """The way to other replicas."""

    async def call(self, replica_id: ReplicaId, request: PeerRequest, timeout_ms: int) -> Response:
        """Send one request and return its answer; raises TransportError when none came in time."""


class StepObserver(Protocol):
    """Whoever writes log lines and keeps metrics; it sees everything and changes nothing."""

    def on_step(self, event: Event, effects: tuple[Effect, ...], now_ms: int) -> None:
        """One step is done and its effects are performed."""

    def on_flushed(self, topic_partition: TopicPartition, end_offset: Offset, seconds: float) -> None:
        """One flush came back after ``seconds``."""

    def on_peer_unreachable(self, replica_id: ReplicaId, request: PeerRequest, reason: str) -> None:
        """A request to a peer earned no answer."""

    def on_halted(self, reason: str, error: Exception | None) -> None:
        """The replica has stopped for good; ``error`` is set where our own code is to blame."""
