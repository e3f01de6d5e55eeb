"""Snapshots are encoded and written in a thread of their own: one can be large, and nobody should wait for it.

Owns the thread, and which snapshot of each log is on its way: one at most. One that is abandoned, because its log
begins anew at a newer snapshot, is never spoken of. Knows no rule of the protocol.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor

from replica.core.effects import StoreSnapshot
from replica.core.events import SnapshotStored, SnapshotTooLarge, StorageFailed
from replica.ids import TopicPartition
from replica.server.ports import LogPort
from replica.storage import StorageError

Outcome = SnapshotStored | SnapshotTooLarge | StorageFailed


class SnapshotWriter:
    """Stores snapshots off the event loop.

    ``on_outcome`` is called on the loop, once for each that was not abandoned. ``log_of`` finds the log that has a name
    now.
    """

    def __init__(self, log_of: Callable[[TopicPartition], LogPort], on_outcome: Callable[[Outcome], None]) -> None:
        self._log_of = log_of
        self._on_outcome = on_outcome
        self._executor = ThreadPoolExecutor(max_workers=1, thread_name_prefix="snapshot")
        self._flights: dict[TopicPartition, Future[Outcome]] = {}

    def store(self, effect: StoreSnapshot) -> None:
        """Begin to store a snapshot, or stand in line behind those of other logs.

        Only the thread keeps the effect: a view can have millions of references, which are not to be given back on the
        loop.
        """
        log = effect.topic_partition
        assert log not in self._flights, f"a snapshot of {log} is on its way already"
        loop = asyncio.get_running_loop()
        future = self._flights[log] = self._executor.submit(_store, effect, self._log_of(log))
        future.add_done_callback(lambda _: loop.call_soon_threadsafe(self._on_done, log, future))

    def abandon(self, log: TopicPartition) -> None:
        """Never report the log's snapshot that is being written, nor begin it if it stands in line."""
        future = self._flights.pop(log, None)
        if future is not None:
            future.cancel()

    async def stop(self) -> None:
        """Report nothing any more, wait for the snapshot that is being written, and end the thread."""
        self._flights.clear()
        await asyncio.to_thread(self._executor.shutdown, cancel_futures=True)

    def _on_done(self, log: TopicPartition, future: Future[Outcome]) -> None:
        if self._flights.get(log) is future:
            del self._flights[log]
            self._on_outcome(future.result())


def _store(effect: StoreSnapshot, log: LogPort) -> Outcome:
    """Encode and store one snapshot. A failure is a value here: it must reach the core as an event."""
    name, snapshot_id = effect.topic_partition, effect.snapshot_id
    try:
        data = effect.state.encode()
        if len(data) > effect.max_bytes:
            return SnapshotTooLarge(topic_partition=name, snapshot_id=snapshot_id, size_bytes=len(data))
        log.store_snapshot(snapshot_id, data)
    except (StorageError, OSError) as error:
        return StorageFailed(reason=str(error))
    except Exception as error:  # a mistake of ours or of a machine, or no memory: here nobody else would hear of it
        return StorageFailed(reason=f"cannot store a snapshot of {name}: {type(error).__name__}: {error}")
    return SnapshotStored(topic_partition=name, snapshot_id=snapshot_id, size_bytes=len(data))
