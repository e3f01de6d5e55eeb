"""The small protocol through which a run reaches the system under test, whatever it is.

Owns the words between a run and a cluster: what a client may be told, what can be done to a node, what is left when all
is over. Imports neither our replicas nor our client, so that another system can be put to the same test.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from nemesis.faults.links import Link, LinkMode

UNREADABLE_VALUE = -1
"""Stands for a record that is not a value of the workload: nobody wrote it, so that reading it is a phantom read."""


class NotDoneError(Exception):
    """The operation definitely did not happen."""


class UnknownOutcomeError(Exception):
    """The operation may have happened, or may still happen."""


class NodeFailedError(Exception):
    """A node did not start, or cannot be asked; the message says which and why."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Appended:
    """An acknowledged append: where it stands, and the epoch and the id of the leader that says so."""

    offset: int | None
    leader_epoch: int | None
    node: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Polled:
    """What a poll returned: (offset, value) in the order of the answer, and where to go on."""

    records: tuple[tuple[int, int], ...]
    high_watermark: int | None
    next_offset: int
    node: int

    @property
    def reached_end(self) -> bool:
        """Whether this poll saw the end of what may be read."""
        return self.high_watermark is not None and self.next_offset >= self.high_watermark


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeState:
    """How one node sees itself. ``leader_id`` is whom it follows, itself when it leads."""

    node: int
    role: str
    epoch: int
    leader_id: int | None
    high_watermark: int | None
    log_end_offset: int


@dataclass(frozen=True, slots=True, kw_only=True)
class DumpedBatch:
    """One batch of a node's log. ``values`` has one entry for each offset; absent where they are not values."""

    base_offset: int
    last_offset: int
    leader_epoch: int
    crc: int
    is_control: bool
    values: tuple[int, ...] | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Dump:
    """A node's whole log, committed or not. ``complete`` says that it was read to its end."""

    node: int
    batches: tuple[DumpedBatch, ...]
    high_watermark: int | None
    log_start_offset: int
    log_end_offset: int
    complete: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """Something a node reported of itself; ``wall_ns`` is on the machine's clock, since 1970."""

    node: int
    wall_ns: int
    event: str
    epoch: int | None = None
    offset: int | None = None
    topic_partition: str | None = None
    detail: str | None = None


class LogClient(Protocol):
    """A client of one log, for one process of the workload. Both calls raise NotDoneError or UnknownOutcomeError."""

    async def append(self, value: int) -> Appended:
        """Append one value and wait until it is acknowledged."""

    async def poll(self, offset: int) -> Polled:
        """Read on from ``offset``; a poll that raises has read nothing."""

    async def close(self) -> None:
        """Give the connections back."""


class SystemLinks(Protocol):
    """The directed links of a cluster."""

    def cut(self, key: str, links: frozenset[Link], mode: LinkMode) -> None:
        """Break links until ``heal(key)``."""

    def heal(self, key: str) -> None:
        """Take one cut back."""

    def heal_all(self) -> None:
        """Take all cuts back."""


class System(Protocol):
    """A cluster whose nodes can be started, killed, paused and parted. Everything is idempotent."""

    @property
    def nodes(self) -> tuple[int, ...]:
        """The ids of the nodes, ascending."""

    @property
    def topic_partition(self) -> str:
        """The name of the log under test."""

    @property
    def links(self) -> SystemLinks:
        """The links between nodes, and from clients."""

    async def start(self, node: int) -> None:
        """Start a node and wait until it serves; nothing if it runs. Raises NodeFailedError."""

    async def stop(self, node: int) -> None:
        """Ask a node to stop, and kill it if it does not."""

    async def kill(self, node: int) -> bool:
        """SIGKILL; whether there was something to kill."""

    def pause(self, node: int) -> bool:
        """SIGSTOP; whether the node was running."""

    def resume(self, node: int) -> bool:
        """SIGCONT; whether the node was paused."""

    def is_running(self, node: int) -> bool:
        """Whether the node's process is there, paused or not."""

    def client(self) -> LogClient:
        """A new client that reaches the nodes through the clients' links."""

    async def states(self) -> tuple[NodeState, ...]:
        """How those nodes that answer at once see themselves, through links that no fault touches."""

    async def dump(self, node: int) -> Dump:
        """A node's whole log. Raises NodeFailedError."""

    def reports(self) -> Sequence[Report]:
        """All that the nodes have reported of themselves so far, in order of time."""


def leader_of(states: Sequence[NodeState]) -> int | None:
    """Who leads: of those that think so, the one of the latest epoch."""
    leading = [state for state in states if state.role == "leader"]
    return max(leading, key=lambda state: state.epoch).node if leading else None
