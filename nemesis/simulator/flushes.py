"""The flushes of one machine's process: one at a time for each log, and what is asked for meanwhile becomes one more.

Owns what is under way. It must not know the protocol.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from nemesis.simulator.files import PowerLossError
from nemesis.simulator.queue import US_PER_MS
from nemesis.simulator.surroundings import Surroundings
from replica.core import events as ev
from replica.ids import Offset, TopicPartition
from replica.storage import LogStore, StorageError

if TYPE_CHECKING:
    from nemesis.simulator.node import Node


class Flushes:
    """What the process on ``node`` has asked its disk for, and was not told yet."""

    def __init__(self, node: Node, world: Surroundings) -> None:
        self._node = node
        self._world = world
        self._flushing: dict[TopicPartition, Offset] = {}
        self._wanted: dict[TopicPartition, Offset] = {}

    def is_owed(self, log: TopicPartition) -> bool:
        """Whether a flush of this log is under way."""
        return log in self._flushing

    def forget(self, log: TopicPartition) -> None:
        """Never tell of a log that is gone."""
        self._flushing.pop(log, None)
        self._wanted.pop(log, None)

    def forget_all(self) -> None:
        """The process has ended."""
        self._flushing.clear()
        self._wanted.clear()

    def request(self, log: TopicPartition, end_offset: Offset) -> None:
        """Begin a flush, or have one follow that which is under way. It speaks for what there was when it began.

        The platter may have it at once or only at the end, and then perhaps more: both are what disks do.
        """
        if log in self._flushing:
            self._wanted[log] = end_offset
            return
        node = self._node
        store = node.stores[log]
        self._flushing[log] = store.log_end_offset
        after_ms = self._world.flush_us(node) / US_PER_MS
        if node.dice.random() < 0.5:
            node.after_ms(0, lambda: self._sync(log, store, and_then_ms=after_ms))
        else:
            node.after_ms(after_ms, lambda: self._sync(log, store, and_then_ms=0))

    def _sync(self, log: TopicPartition, store: LogStore, *, and_then_ms: float) -> None:
        """Bring the log to the platter and say so after a while, or end the process. A log may be gone by then."""
        if self._node.stores.get(log) is not store:
            return
        try:
            store.flush()
        except PowerLossError:
            self._node.lose_power()
        except StorageError as error:
            self._node.submit(ev.StorageFailed(reason=str(error)))
        else:
            self._node.after_ms(and_then_ms, lambda: self._finish(log, store))

    def _finish(self, log: TopicPartition, store: LogStore) -> None:
        if self._node.stores.get(log) is not store:
            return
        end_offset = self._flushing.pop(log)
        wanted = self._wanted.pop(log, end_offset)
        if store.is_damaged:
            return  # Whether it was flushed before that, nobody knows.
        self._node.flushed_end[log] = end_offset
        if wanted > end_offset:
            self.request(log, wanted)
        self._node.submit(ev.Flushed(topic_partition=log, end_offset=end_offset))
