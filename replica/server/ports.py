"""What the driver needs from its surroundings, as protocols: the core, a log on disk, the way to peers, an observer.

Owns the shapes only. The server fills them with the real core, storage and gRPC; tests fill them with fakes.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from replica.core.effects import Effect, QuorumState
from replica.core.events import Event
from replica.core.messages import PeerRequest, Response
from replica.ids import EpochEntry, Offset, ReplicaId, TopicPartition
from replica.records import RecordBatch


class Core(Protocol):
    """The replica as a value-in, value-out machine."""

    @property
    def deadline_ms(self) -> int | None:
        """When the core wants to be stepped again at the latest; absent = only when something happens."""

    def step(self, event: Event, now_ms: int) -> tuple[Effect, ...]:
        """Take one event; return what to do, in order."""


class LogPort(Protocol):
    """One log on disk. Every method raises StorageError when the disk does not do as asked."""

    def append(self, batches: Sequence[RecordBatch]) -> None:
        """Write the batches at the end; they need not be durable yet."""

    def flush(self) -> Offset:
        """Make everything appended so far durable and return its end offset. Blocks; called from another thread."""

    def truncate(self, end_offset: Offset) -> None:
        """Drop everything at and above ``end_offset``, durably."""

    def store_epochs(self, entries: Sequence[EpochEntry]) -> None:
        """Replace the leader-epoch checkpoint, durably."""

    def store_quorum_state(self, state: QuorumState) -> None:
        """Replace the quorum-state file, durably."""

    def read(self, start_offset: Offset, end_offset: Offset, max_bytes: int) -> bytes:
        """Return whole batches from the one that holds ``start_offset``, at least one, none above ``end_offset``."""


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
