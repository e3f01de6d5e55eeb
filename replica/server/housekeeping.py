"""What a replica does on its disk from time to time: note how far logs are flushed and where they begin, free space.

Owns what is due when. Each chore blocks on the disk, so that all of it is for another thread. Knows no clock: time is
handed in. Source: Kafka's ``LogManager.startup``, which schedules the same chores.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from replica.core.config import LogFlush
from replica.server.options import ServerOptions
from replica.storage import StorageError

FREE_INTERVAL_MS = 5000
"""How often the space of what was deleted is freed."""


class Storage(Protocol):
    """The logs of a data directory, as far as this needs them. StorageError where the disk refuses."""

    def flush(self) -> None:
        """Flush every log."""

    def checkpoint_recovery_points(self) -> None:
        """Note how far each log is known to be flushed."""

    def checkpoint_log_starts(self) -> None:
        """Note where each log begins."""

    def free_deleted(self, now_ms: int, *, file_delete_delay_ms: int) -> None:
        """Remove the files of what was deleted, once they were first looked at that long ago."""


class Housekeeping:
    """The chores of one replica, each at its own pace from ``now_ms`` on."""

    def __init__(self, *, storage: Storage, options: ServerOptions, now_ms: int) -> None:
        self._storage = storage
        self.configure(options)
        self._done_ms = dict.fromkeys(self._chores, now_ms)
        """When each was done last, or its time began."""

    def configure(self, options: ServerOptions) -> None:
        """Go by other intervals from now on, counted from when each chore was done last."""
        self._options = options
        self._chores: dict[Callable[[int], None], int] = {
            self._checkpoint_recovery_points: options.log_flush_offset_checkpoint_interval_ms,
            self._checkpoint_log_starts: options.log_flush_start_offset_checkpoint_interval_ms,
            self._free_deleted: FREE_INTERVAL_MS,
        }

    @property
    def deadline_ms(self) -> int:
        """When the next chore is due: soon, since space is freed often, so that other intervals are soon gone by."""
        return min(self._done_ms[chore] + interval_ms for chore, interval_ms in self._chores.items())

    def do_due(self, now_ms: int) -> None:
        """Do what is due, each chore once however late it is. Raises StorageError, also for a mistake of our own.

        A chore that ended in silence would never be done again: no log would be checkpointed, no space be freed.
        """
        for chore, interval_ms in self._chores.items():
            if self._done_ms[chore] + interval_ms <= now_ms:
                self._done_ms[chore] = now_ms
                try:
                    chore(now_ms)
                except StorageError:
                    raise
                except Exception as error:
                    raise StorageError(f"house-keeping failed: {type(error).__name__}: {error}") from error

    def _checkpoint_recovery_points(self, _: int) -> None:
        if self._options.broker.log_flush is LogFlush.OS:
            # Nobody else asks for flushes there, and what is not known to be flushed is searched after a crash.
            self._storage.flush()
        self._storage.checkpoint_recovery_points()

    def _checkpoint_log_starts(self, _: int) -> None:
        self._storage.checkpoint_log_starts()

    def _free_deleted(self, now_ms: int) -> None:
        self._storage.free_deleted(now_ms, file_delete_delay_ms=self._options.file_delete_delay_ms)
