"""The small protocol through which a run reaches the system under test, whatever it is.

Owns the words between a run and a cluster: what a client may be told, and what is left when all is over; what can be
done to nodes is in ``faults.breakable``. Imports neither our replicas nor our client, so that another system can be put
to the same test.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from nemesis.cluster.store import StoreClient
from nemesis.faults.breakable import Breakable

UNREADABLE_VALUE = -1
"""Stands for a record that is not a value of the workload: nobody wrote it, so that reading it is a phantom read."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Appended:
    """An append that was answered with success: where it stands, and the epoch of the leader that says so.

    Both are absent where nobody says, as with ``acks=0``.
    """

    offset: int | None
    leader_epoch: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Polled:
    """What a poll returned: (offset, value) in the order of the answer, and where to go on; ``node`` if it is known."""

    records: tuple[tuple[int, int], ...]
    high_watermark: int | None
    next_offset: int
    node: int | None

    @property
    def reached_end(self) -> bool:
        """Whether this poll saw the end of what may be read."""
        return self.high_watermark is not None and self.next_offset >= self.high_watermark


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplicaState:
    """How one node sees its own replica of one log. ``leader_id`` is whom it follows, itself when it leads."""

    node: int
    topic_partition: str
    role: str
    epoch: int
    leader_id: int | None
    high_watermark: int | None
    log_end_offset: int


@dataclass(frozen=True, slots=True, kw_only=True)
class DumpedBatch:
    """One batch of a node's log. ``values`` has one entry for each offset; absent where they are not values.

    The last three are absent where no idempotent producer wrote the batch.
    """

    base_offset: int
    last_offset: int
    leader_epoch: int
    crc: int
    is_control: bool
    values: tuple[int, ...] | None
    producer_id: int | None = None
    producer_epoch: int | None = None
    base_sequence: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Dump:
    """A node's whole log, committed or not. ``complete`` says that it was read to its end."""

    node: int
    topic_partition: str
    batches: tuple[DumpedBatch, ...]
    high_watermark: int | None
    log_start_offset: int
    log_end_offset: int
    complete: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """Something a node reported of itself; ``monotonic_ns`` is on the machine's clock that nobody sets."""

    node: int
    monotonic_ns: int
    event: str
    epoch: int | None = None
    offset: int | None = None
    topic_partition: str | None = None
    detail: str | None = None


class LogClient(Protocol):
    """A client of all logs, for one process of the workload. Both calls raise NotDoneError or UnknownOutcomeError."""

    async def append(self, topic_partition: str, value: int) -> Appended:
        """Append one value and wait until it is acknowledged, as far as its ``acks`` ask for that."""

    async def poll(self, topic_partition: str, offset: int) -> Polled:
        """Read on from ``offset``; a poll that raises has read nothing. DeletedError says where the log begins now."""

    async def close(self) -> None:
        """Give the connections back."""


class System(Breakable, Protocol):
    """A cluster that can be broken, used by clients, and read when all is over. Everything is idempotent."""

    @property
    def shows_logs(self) -> bool:
        """Whether ``replica_states`` and ``dumps`` tell what the nodes hold; else clients alone say what is kept."""

    def client(self) -> LogClient:
        """A new client that reaches the nodes through the clients' links."""

    def store(self) -> StoreClient:
        """A new client of the objects of the system's state machine, through the clients' links."""

    async def create_logs(self) -> None:
        """Create the logs that clients write to, and wait until they can be. Raises NodeFailedError."""

    async def replica_states(self) -> tuple[ReplicaState, ...]:
        """How those nodes that answer at once see their own replicas, through links that no fault touches."""

    async def dumps(self, node: int) -> tuple[Dump, ...]:
        """All logs of a node, whole. Raises NodeFailedError."""

    def reports(self) -> Sequence[Report]:
        """All that the nodes have reported of themselves so far, in order of time."""
