"""The data directory of a running replica: its lock, its identity and its open logs, as one thing to close.

Owns the order of opening and closing. Storage itself is the ``storage`` package's.
"""

from __future__ import annotations

from contextlib import ExitStack

from replica.core.recovered import RecoveredLog
from replica.ids import ReplicaId, TopicPartition
from replica.server.options import HOSTED_LOGS, ServerOptions
from replica.storage import DataDirectory, LogStore, open_directory


class OpenedStorage:
    """An open, locked data directory and its logs. Close it with ``close_clean``, or give it up with ``abandon``."""

    def __init__(
        self,
        directory: DataDirectory,
        stores: dict[TopicPartition, LogStore],
        recovered: dict[TopicPartition, RecoveredLog],
    ) -> None:
        self.directory = directory
        self.stores = stores
        self.recovered = recovered
        self._open = True

    @property
    def cluster_id(self) -> str:
        """The cluster that the directory was formatted for."""
        return self.directory.cluster_id

    @property
    def replica_id(self) -> ReplicaId:
        """The replica that the directory was formatted for."""
        return self.directory.replica_id

    @property
    def directory_id(self) -> str:
        """The identity of this very disk: another one after every format."""
        return self.directory.directory_id

    def checkpoint_recovery_points(self) -> None:
        """Note how far each log is known to be flushed, so that recovery need not doubt it.

        Blocks on the disk: for another thread. Raises StorageError.
        """
        for store in self.stores.values():
            store.checkpoint_recovery_point()

    def close_clean(self) -> None:
        """Flush everything, leave the marker of a clean stop, and unlock the directory. Raises StorageError."""
        for store in self.stores.values():
            store.flush()
            store.close(clean=True)
        self.directory.close(clean=True)
        self._open = False

    def abandon(self) -> None:
        """Close without any promise, as after a failure; does nothing after ``close_clean``."""
        if self._open:
            self._open = False
            for store in self.stores.values():
                store.close(clean=False)
            self.directory.close(clean=False)


def open_storage(options: ServerOptions) -> OpenedStorage:
    """Lock the data directory, check whose it is, and recover its logs. Raises StorageError with one sentence."""
    with ExitStack() as undo:
        directory = open_directory(options.data_dir, cluster_id=options.cluster_id, replica_id=options.replica_id)
        # If a log is refused, nothing was changed, and the marker that was taken away goes back to where it was.
        undo.callback(directory.close, clean=directory.was_clean)
        stores: dict[TopicPartition, LogStore] = {}
        recovered: dict[TopicPartition, RecoveredLog] = {}
        for topic_partition in HOSTED_LOGS:
            store, recovered[topic_partition] = LogStore.open(directory, topic_partition)
            undo.callback(store.close, clean=False)
            stores[topic_partition] = store
        undo.pop_all()
    return OpenedStorage(directory, stores, recovered)
