"""Snapshots are written in a thread of their own: one can be large, and no flush should wait for it.

Owns the thread, and which snapshot of each log is on its way: one at most. One that is abandoned, because its log
begins anew at a newer snapshot, is never spoken of. Knows nothing of the core.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor

from replica.core.effects import StoreSnapshot
from replica.ids import TopicPartition
from replica.server.ports import LogPort
from replica.storage import StorageError


class SnapshotWriter:
    """Stores snapshots off the event loop.

    ``on_outcome`` is called on the loop, once for each that was not abandoned, with why it failed, or None. ``log_of``
    finds the log that has a name now.
    """

    def __init__(
        self, log_of: Callable[[TopicPartition], LogPort], on_outcome: Callable[[StoreSnapshot, str | None], None]
    ) -> None:
        self._log_of = log_of
        self._on_outcome = on_outcome
        self._executor = ThreadPoolExecutor(max_workers=1, thread_name_prefix="snapshot")
        self._flights: dict[TopicPartition, Future[str | None]] = {}

    def store(self, effect: StoreSnapshot) -> None:
        """Begin to store a snapshot, or stand in line behind those of other logs."""
        log = effect.topic_partition
        assert log not in self._flights, f"a snapshot of {log} is on its way already"
        loop = asyncio.get_running_loop()
        future = self._flights[log] = self._executor.submit(_store, effect, self._log_of(log))
        future.add_done_callback(lambda _: loop.call_soon_threadsafe(self._on_done, effect, future))

    def abandon(self, log: TopicPartition) -> None:
        """Never report the log's snapshot that is being written, nor begin it if it stands in line."""
        future = self._flights.pop(log, None)
        if future is not None:
            future.cancel()

    async def stop(self) -> None:
        """Report nothing any more, wait for the snapshot that is being written, and end the thread."""
        self._flights.clear()
        await asyncio.to_thread(self._executor.shutdown, cancel_futures=True)

    def _on_done(self, effect: StoreSnapshot, future: Future[str | None]) -> None:
        if self._flights.get(effect.topic_partition) is future:
            del self._flights[effect.topic_partition]
            self._on_outcome(effect, future.result())


def _store(effect: StoreSnapshot, log: LogPort) -> str | None:
    """Store one snapshot. A failure is a value here: it must reach the core as an event."""
    try:
        log.store_snapshot(effect.snapshot_id, effect.data)
    except (StorageError, OSError) as error:
        return str(error)
    except Exception as error:  # a mistake of ours, or no memory: in this thread nobody else would hear of it
        return f"cannot store a snapshot of {effect.topic_partition}: {type(error).__name__}: {error}"
    return None
