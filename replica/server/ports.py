"""What the driver needs from its surroundings, as protocols: the core, logs on disk, the way to peers, an observer.

Owns the shapes only. The server fills them with the real core, storage and gRPC; tests fill them with fakes.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

from replica.core.effects import Effect
from replica.core.events import Event, LogDirectoryFailed
from replica.core.lanes import Place
from replica.core.messages import PeerRequest, Request, Response
from replica.ids import CallId, Offset, ReplicaId, SnapshotId, TopicPartition
from replica.storage import Answer, FailedDirectoryError, StorageEffect, StorageReport


class Core(Protocol):
    """The replica as a value-in, value-out machine."""

    @property
    def deadline_ms(self) -> int | None:
        """When the core wants to be stepped again at the latest; absent = only when something happens."""

    @property
    def watched_peers(self) -> frozenset[ReplicaId]:
        """Whose end the core wants to hear of at once, as ``PeerRefused``; another object when they are others."""

    def step(self, event: Event, now_ms: int) -> tuple[Effect, ...]:
        """Take one event; return what to do, in order."""


class LogPort(Protocol):
    """One open log on disk. Every method raises StorageError when the disk does not do as asked.

    Where damage to a partition's log comes to light that is a DamagedLogError, which is about this log alone.
    """

    def flush(self) -> Offset:
        """Make everything appended so far durable and return its end offset. Blocks; called from another thread."""

    def store_snapshot(self, snapshot_id: SnapshotId, data: bytes) -> None:
        """Keep a snapshot, durable on return. Blocks; called from another thread."""


class StoragePort(Protocol):
    """All logs on disk. Every method raises StorageError when the disk does not do as asked."""

    @property
    def stores(self) -> Mapping[TopicPartition, LogPort]:
        """The logs that are open now."""

    def place_of(self, effect: Effect, requests: Mapping[CallId, Request]) -> Place:
        """Return where an effect waits for what is before it; ``requests`` are those not yet answered."""

    def waits_for_disk(self, effect: Effect) -> bool:
        """Tell whether an effect may wait for the disk now: it is then performed in another thread."""

    def perform(self, effect: StorageEffect) -> StorageReport | Answer | None:
        """Do what the core asks of storage, and return what it is to be told, or what a question earned.

        Called for one effect of a log at a time.
        """

    def on_failed(self, failure: FailedDirectoryError) -> LogDirectoryFailed:
        """Return what the core has to hear when the disk of a log directory has refused."""

    def told(self, request: Request | None, response: Response) -> Response:
        """Return what may be told the caller of a request after that."""


class PeerTransport(Protocol):
    """The way to other replicas."""

    async def call(self, replica_id: ReplicaId, request: PeerRequest, timeout_ms: int) -> Response:
        """Send one request and return its answer; raises TransportError when none came in time."""


class PeerWatch(Protocol):
    """Whoever sees that the process of a peer has ended."""

    def watch(self, replica_ids: frozenset[ReplicaId]) -> None:
        """Watch these from now on, and nobody else."""

    async def stop(self) -> None:
        """Watch nobody any more."""


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
