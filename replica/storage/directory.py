"""One data directory: formatting it, opening it, and what its logs share.

Owns the directory's identity, the lock, the three offset checkpoints and the clean-shutdown marker. Knows nothing of
what is inside a log. A replica never formats a directory by itself: a disk that was wiped has forgotten its votes, and
must come back under a fresh directory id instead of voting twice unnoticed.
Source: Kafka's ``StorageTool``, ``LogManager``, ``CleanShutdownFileHandler``, ``MetaPropertiesEnsemble``.
"""

from __future__ import annotations

import re
import threading
from pathlib import Path

from replica.ids import ReplicaId, TopicPartition
from replica.storage import meta_properties
from replica.storage.checkpoints import OffsetCheckpoint, write_lines
from replica.storage.errors import (
    AlreadyFormattedError,
    DirectoryLockedError,
    ForeignDirectoryError,
    NotFormattedError,
    StorageError,
)
from replica.storage.files import OS_FILES, Files, Handle, OpenMode, atomic_write, remove_durably
from replica.storage.meta_properties import MetaProperties

LOCK_FILE = ".lock"
CLEAN_SHUTDOWN_FILE = ".kafka_cleanshutdown"
RECOVERY_POINT_FILE = "recovery-point-offset-checkpoint"
LOG_START_FILE = "log-start-offset-checkpoint"
REPLICATION_OFFSET_FILE = "replication-offset-checkpoint"

_CLEAN_SHUTDOWN_CONTENT = b'{"version":0}\n'
_NOT_OURS_TO_MIND = frozenset({"lost+found"})
_TOPIC = re.compile(r"[A-Za-z0-9._-]{1,249}")


def format_directory(
    path: Path, *, cluster_id: str, replica_id: ReplicaId, directory_id: str | None = None, files: Files = OS_FILES
) -> MetaProperties:
    """Make an empty or missing directory the data directory of one replica of one cluster, durably.

    A fresh ``directory_id`` is drawn unless one is given. ``meta.properties`` comes last, so that a directory whose
    formatting was cut short is not taken for a formatted one. AlreadyFormattedError if the directory holds anything;
    ValueError for an id that cannot be stored; StorageError if the disk refuses.
    """
    meta = MetaProperties(
        cluster_id=cluster_id,
        replica_id=replica_id,
        directory_id=meta_properties.random_directory_id() if directory_id is None else directory_id,
    )
    try:
        _make_directory(files, path)
        if files.exists(path / meta_properties.FILE_NAME):
            raise AlreadyFormattedError(f"{path} is formatted already; choose another directory or delete this one")
        if set(files.names(path)) - _NOT_OURS_TO_MIND:
            raise AlreadyFormattedError(f"{path} is not empty; choose another directory or empty this one")
        for name in (RECOVERY_POINT_FILE, LOG_START_FILE, REPLICATION_OFFSET_FILE):
            write_lines(files, path / name, ())
        meta_properties.write_meta_properties(files, path / meta_properties.FILE_NAME, meta)
    except OSError as error:
        raise StorageError(f"cannot format {path}: {error}") from error
    return meta


def _make_directory(files: Files, path: Path) -> None:
    if files.exists(path):
        return
    _make_directory(files, path.parent)
    files.mkdir(path)
    files.fsync_directory(path.parent)


def open_directory(
    path: Path, *, cluster_id: str | None = None, replica_id: ReplicaId | None = None, files: Files = OS_FILES
) -> DataDirectory:
    """Lock a formatted directory and load what its logs share; the ids, where given, must be the directory's own.

    The clean-shutdown marker is consumed here, durably, before anything can be written. Raises NotFormattedError,
    ForeignDirectoryError, DirectoryLockedError, CorruptCheckpointError, or StorageError if the disk refuses.
    """
    meta_path = path / meta_properties.FILE_NAME
    try:
        if not files.exists(meta_path):
            raise NotFormattedError(f"{path} is not a formatted data directory; run `replica format` on it first")
        meta = meta_properties.read_meta_properties(files, meta_path)
        _check_identity(path, meta, cluster_id, replica_id)
        lock = _take_lock(files, path)
        try:
            return _load(files, path, meta, lock)
        except BaseException:
            files.close(lock)
            raise
    except OSError as error:
        raise StorageError(f"cannot open {path}: {error}") from error


def _check_identity(path: Path, meta: MetaProperties, cluster_id: str | None, replica_id: ReplicaId | None) -> None:
    if cluster_id is not None and cluster_id != meta.cluster_id:
        raise ForeignDirectoryError(f"{path} belongs to cluster {meta.cluster_id}, not to {cluster_id}")
    if replica_id is not None and replica_id != meta.replica_id:
        raise ForeignDirectoryError(f"{path} belongs to replica {meta.replica_id}, not to {replica_id}")


def _take_lock(files: Files, path: Path) -> Handle:
    handle = files.open(path / LOCK_FILE, OpenMode.ENSURE)
    if not files.try_lock(handle):
        files.close(handle)
        raise DirectoryLockedError(f"{path} is in use by another process; stop it or choose another data directory")
    return handle


def _load(files: Files, path: Path, meta: MetaProperties, lock: Handle) -> DataDirectory:
    recovery_points = OffsetCheckpoint.load(files, path / RECOVERY_POINT_FILE)
    log_starts = OffsetCheckpoint.load(files, path / LOG_START_FILE)
    high_watermarks = OffsetCheckpoint.load(files, path / REPLICATION_OFFSET_FILE)
    marker = path / CLEAN_SHUTDOWN_FILE
    was_clean = files.exists(marker)
    if was_clean:
        remove_durably(files, marker)
    return DataDirectory(
        path=path,
        meta=meta,
        files=files,
        lock=lock,
        was_clean=was_clean,
        recovery_points=recovery_points,
        log_starts=log_starts,
        high_watermarks=high_watermarks,
    )


class DataDirectory:
    """An open, locked data directory. ``was_clean`` tells whether the last stop left its marker.

    A missing recovery point stands for a log that was never created; ``high_watermarks`` is for logs whose high
    watermark survives a restart.
    """

    def __init__(
        self,
        *,
        path: Path,
        meta: MetaProperties,
        files: Files,
        lock: Handle,
        was_clean: bool,
        recovery_points: OffsetCheckpoint,
        log_starts: OffsetCheckpoint,
        high_watermarks: OffsetCheckpoint,
    ) -> None:
        self.path = path
        self.meta = meta
        self.files = files
        self.was_clean = was_clean
        self.recovery_points = recovery_points
        self.log_starts = log_starts
        self.high_watermarks = high_watermarks
        self._lock: Handle | None = lock
        self._state_lock = threading.Lock()
        # The marker speaks for every log of the directory. A log that nobody has opened since an unclean stop is as
        # unclean as before, however cleanly the others are closed.
        self._unclean_logs = set() if was_clean else set(recovery_points.topic_partitions())

    @property
    def cluster_id(self) -> str:
        return self.meta.cluster_id

    @property
    def replica_id(self) -> ReplicaId:
        return self.meta.replica_id

    @property
    def directory_id(self) -> str:
        return self.meta.directory_id

    def log_path(self, topic_partition: TopicPartition) -> Path:
        """The directory of one log; StorageError for a topic that cannot be a directory's name."""
        topic = topic_partition.topic
        if not _TOPIC.fullmatch(topic) or topic in {".", ".."}:
            raise StorageError(f"topic {topic!r} must be 1 to 249 letters, digits, dots, dashes and underscores")
        return self.path / str(topic_partition)

    def is_clean(self, topic_partition: TopicPartition) -> bool:
        """Tell whether the log was closed cleanly when it was last open (or is new)."""
        with self._state_lock:
            return topic_partition not in self._unclean_logs

    def log_opened(self, topic_partition: TopicPartition) -> None:
        """A log may change from now on: only its own clean close makes it clean again."""
        with self._state_lock:
            self._unclean_logs.add(topic_partition)

    def log_closed_cleanly(self, topic_partition: TopicPartition) -> None:
        """Everything in this log is flushed and its recovery point is its end."""
        with self._state_lock:
            self._unclean_logs.discard(topic_partition)

    def close(self, *, clean: bool) -> None:
        """Give up the lock; with ``clean``, first leave the marker, durably, if every log was closed cleanly.

        Closing twice does nothing. StorageError if the marker cannot be written; the lock is given up all the same.
        """
        lock, self._lock = self._lock, None
        if lock is None:
            return
        try:
            if clean and not self._unclean_logs:
                atomic_write(self.files, self.path / CLEAN_SHUTDOWN_FILE, _CLEAN_SHUTDOWN_CONTENT)
        except OSError as error:
            raise StorageError(f"cannot mark {self.path} as cleanly closed: {error}") from error
        finally:
            self.files.close(lock)
