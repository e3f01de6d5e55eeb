"""What one machine's process has its disk do beside its lanes: flushes and snapshots, one at a time for each log.

Owns what is under way; flushes that are asked for meanwhile become one more. It must not know the protocol.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from nemesis.disks.simulated_files import PowerLossError
from nemesis.simulator.queue import US_PER_MS
from nemesis.simulator.steps import Surroundings
from replica.core import events as ev
from replica.core.effects import StoreSnapshot
from replica.ids import Offset, TopicPartition
from replica.storage import FailedDirectoryError, LogStore, LogTable, StorageError

if TYPE_CHECKING:
    from nemesis.simulator.node import Node

RECOVERY_POINT_MS = 5_000


class Flushes:
    """What the process on ``node`` has asked its disk for, and was not told yet."""

    def __init__(self, node: Node, world: Surroundings) -> None:
        self._node = node
        self._world = world
        self._flushing: dict[TopicPartition, Offset] = {}
        self._wanted: dict[TopicPartition, Offset] = {}
        self._storing: dict[TopicPartition, StoreSnapshot] = {}

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
        self._storing.clear()

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
        if self._node.is_gone(log, store):
            return
        try:
            store.flush()
        except PowerLossError:
            self._node.lose_power()
        except FailedDirectoryError as failure:
            self.forget(log)
            self._node.on_directory_failed(failure)
        except StorageError as error:
            self._node.submit(ev.StorageFailed(reason=str(error)))
        else:
            self._node.after_ms(and_then_ms, lambda: self._finish(log, store))

    def _finish(self, log: TopicPartition, store: LogStore) -> None:
        if self._node.is_gone(log, store):
            return
        end_offset = self._flushing.pop(log)
        wanted = self._wanted.pop(log, end_offset)
        if store.is_damaged:
            return  # Whether it was flushed before that, nobody knows.
        self._node.flushed_end[log] = end_offset
        if wanted > end_offset:
            self.request(log, wanted)
        self._node.submit(ev.Flushed(topic_partition=log, end_offset=end_offset))

    def checkpoint_later(self, opened: LogTable) -> None:
        """Note how far each log is flushed after a while, and again and again."""
        self._node.after_ms(RECOVERY_POINT_MS, lambda: self._checkpoint(opened))

    def _checkpoint(self, opened: LogTable) -> None:
        try:
            opened.checkpoint_recovery_points()
        except PowerLossError:
            self._node.lose_power()
        except FailedDirectoryError as failure:
            self.checkpoint_later(opened)
            self._node.on_directory_failed(failure)
        except StorageError as error:
            self._node.submit(ev.StorageFailed(reason=str(error)))
        else:
            self.checkpoint_later(opened)

    def store(self, effect: StoreSnapshot) -> None:
        """Store a snapshot after a while, unless another is installed or the process ends before that.

        It is encoded only then: what the machine has applied meanwhile must not show in it.
        """
        assert effect.topic_partition not in self._storing, (effect.topic_partition, "has a snapshot on its way")
        self._storing[effect.topic_partition] = effect
        self._node.after_ms(self._world.flush_us(self._node) / US_PER_MS, lambda: self._finish_storing(effect))

    def abandon(self, log: TopicPartition) -> None:
        """Never store the snapshot of this log that is on its way."""
        self._storing.pop(log, None)

    def _finish_storing(self, effect: StoreSnapshot) -> None:
        log, snapshot_id = effect.topic_partition, effect.snapshot_id
        if self._storing.get(log) is not effect:
            return
        del self._storing[log]
        data = effect.state.encode()
        if len(data) > effect.max_bytes:
            self._node.submit(ev.SnapshotTooLarge(topic_partition=log, snapshot_id=snapshot_id, size_bytes=len(data)))
            return
        try:
            self._node.stores[log].store_snapshot(snapshot_id, data)
        except PowerLossError:
            self._node.lose_power()
        except StorageError as error:
            self._node.submit(ev.StorageFailed(reason=str(error)))
        else:
            self._node.submit(ev.SnapshotStored(topic_partition=log, snapshot_id=snapshot_id, size_bytes=len(data)))
