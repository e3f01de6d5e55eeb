"""What a simulated machine needs of the world around it, and whom it tells what happens to it.

Owns the shape only; the worlds fill it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from nemesis.simulator.climate import Climate
from nemesis.simulator.queue import EventQueue
from replica.core.effects import Send
from replica.core.events import Event
from replica.core.lanes import Lane
from replica.core.replica import Replica
from replica.storage import LogTable, StorageError

if TYPE_CHECKING:
    from nemesis.simulator.node import Crash, Node, Step


class Surroundings(Protocol):
    """What a node needs of its world."""

    queue: EventQueue
    climate: Climate

    def new_core(self, node: Node, opened: LogTable) -> Replica:
        """A core for a process that begins now."""

    def send(self, node: Node, effect: Send) -> None:
        """Take a request to a peer, and its answer back."""

    def crash_point(self, node: Node, event: Event, effects: int) -> int | None:
        """After how many of a step's effects the process dies; None if it lives."""

    def flush_us(self, node: Node) -> int:
        """How long a flush takes that begins now."""

    def lane_us(self, node: Node, lanes: frozenset[Lane]) -> int:
        """How long what waits for the disk takes that begins now in these lanes; 0 if it is done at once."""

    def report_us(self, node: Node) -> int:
        """How long it takes until the core hears of what was read for it now."""

    def on_boot(self, node: Node, torn_bytes: int) -> None:
        """A process has opened its logs and is about to start; so much of a torn tail was cut off."""

    def on_step(self, node: Node, step: Step) -> None:
        """A step was taken."""

    def on_down(self, node: Node, crash: Crash) -> None:
        """The process is gone."""

    def on_refused_start(self, node: Node, error: StorageError) -> None:
        """The storage would not open."""
