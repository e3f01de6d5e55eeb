"""One data directory: formatting it, opening it, and what its logs share, also those in other log directories.

Owns the directory's identity, the lock, the checkpoints, the clean-shutdown marker, and which logs there are: they
come with ``create_log`` and go with ``delete_log``. Knows nothing of what is inside a log. A replica never
formats a directory by itself: a disk that was wiped has forgotten its votes, and must come back under a fresh directory
id instead of voting twice unnoticed.
Source: Kafka's ``StorageTool``, ``LogManager``, ``CleanShutdownFileHandler``, ``MetaPropertiesEnsemble``.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

from msgspec import Struct

from replica.core.metadata.levels import FIRST_LEVEL
from replica.ids import BrokerEpoch, Offset, ReplicaId, TopicId, TopicPartition
from replica.storage import clean_shutdown, meta_properties
from replica.storage.checkpoints import OffsetCheckpoint, PlacesCheckpoint, write_lines
from replica.storage.errors import (
    DamagedLogError,
    FailedDirectoryError,
    ForeignDirectoryError,
    NotFormattedError,
    StorageError,
)
from replica.storage.files import OS_FILES, Files, Handle, make_directory, remove_durably
from replica.storage.group_backup import GroupBackup, restore_log
from replica.storage.late_files import LateFiles
from replica.storage.log_directories import is_named, is_topic, make_partition, partitions_in
from replica.storage.log_dirs import (
    LogDir,
    Places,
    check_is_empty,
    format_log_dir,
    open_log_dir,
    take_lock,
)
from replica.storage.meta_properties import MetaProperties
from replica.storage.tail import Tails
from replica.storage.trash import FILE_DELETE_DELAY_MS, Trash, remove_deleted_directories, remove_tree
from replica.storage.voter_files import INITIAL_VOTERS_FILE, read_initial_voters, write_initial_voters
from replica.voters import ReplicaKey, VoterSet, is_directory_id

RECOVERY_POINT_FILE = "recovery-point-offset-checkpoint"
LOG_START_FILE = "log-start-offset-checkpoint"
REPLICATION_OFFSET_FILE = "replication-offset-checkpoint"
LOG_DIRECTORY_FILE = "log-directory-checkpoint"


def format_directory(
    path: Path,
    *,
    cluster_id: str,
    replica_id: ReplicaId,
    directory_id: str | None = None,
    initial_voters: VoterSet,
    feature_level: int = FIRST_LEVEL,
    restored: Sequence[GroupBackup] = (),
    files: Files = OS_FILES,
) -> MetaProperties:
    """Make an empty or missing directory the data directory of one replica of one cluster, durably.

    A fresh ``directory_id`` is drawn unless one is given. ``initial_voters`` are those of every quorum log until the
    log itself says otherwise: this disk among them, or nobody. A new cluster of theirs begins at ``feature_level``.
    The groups of ``restored`` begin as their back-ups are.

    ``meta.properties`` comes last, so that a directory whose formatting was cut short is not taken for a formatted
    one. AlreadyFormattedError if the directory holds anything; ValueError for an id that cannot be stored, and where
    this disk is not among the initial voters, or a back-up cannot be restored so; StorageError if the disk refuses.
    """
    meta = MetaProperties(
        cluster_id=cluster_id,
        replica_id=replica_id,
        directory_id=meta_properties.random_directory_id() if directory_id is None else directory_id,
        feature_level=feature_level,
    )
    _check_initial_voters(initial_voters, meta)
    _check_restored(restored, initial_voters, cluster_id)
    try:
        make_directory(files, path)
        check_is_empty(files, path)
        for name in (RECOVERY_POINT_FILE, LOG_START_FILE, REPLICATION_OFFSET_FILE):
            write_lines(files, path / name, ())
        for backup in restored:
            restore_log(files, path, backup, initial_voters)
        OffsetCheckpoint.load(files, path / LOG_START_FILE).put_all({one.log: one.end_offset for one in restored})
        write_initial_voters(files, path / INITIAL_VOTERS_FILE, initial_voters)
        meta_properties.write_meta_properties(files, path / meta_properties.FILE_NAME, meta)
    except OSError as error:
        raise StorageError(f"cannot format {path}: {error}") from error
    return meta


def format_log_directory(path: Path, *, data_dir: Path, files: Files = OS_FILES) -> MetaProperties:
    """Make an empty or missing directory a log directory of the replica whose data directory there is, durably.

    Raises NotFormattedError for the latter, AlreadyFormattedError if the directory holds anything, StorageError if the
    disk refuses.
    """
    try:
        meta = replace(_read_meta(files, data_dir), directory_id=meta_properties.random_directory_id())
        format_log_dir(files, path, meta)
    except OSError as error:
        raise StorageError(f"cannot format {path}: {error}") from error
    return meta


def _read_meta(files: Files, path: Path) -> MetaProperties:
    meta_path = path / meta_properties.FILE_NAME
    if not files.exists(meta_path):
        raise NotFormattedError(f"{path} is not a formatted data directory; run `replica format` on it first")
    return meta_properties.read_meta_properties(files, meta_path)


def _check_initial_voters(voters: VoterSet, meta: MetaProperties) -> None:
    for voter in voters.voters:
        if not is_directory_id(voter.directory_id):
            raise ValueError(f"{voter.directory_id!r} of voter {voter.replica_id} is no directory id")
    if not is_directory_id(meta.directory_id):
        raise ValueError(f"{meta.directory_id!r} is no directory id that a voter can have")
    if voters.voters and not voters.has(ReplicaKey(meta.replica_id, meta.directory_id)):
        raise ValueError(
            f"replica {meta.replica_id} with directory id {meta.directory_id} is not among the initial voters; "
            "a disk that is to join later is formatted without any"
        )


def _check_restored(restored: Sequence[GroupBackup], voters: VoterSet, cluster_id: str) -> None:
    if restored and not voters.voters:
        raise ValueError("who begins with a back-up votes at first; a disk that joins later gets everything from those")
    for backup in restored:
        if backup.cluster_id == cluster_id:
            raise ValueError(
                f"the back-up is of cluster {cluster_id} itself: choose another cluster id, so that the replicas of "
                "before cannot join the new ones"
            )
    if len({backup.group for backup in restored}) < len(restored):
        raise ValueError("two back-ups are of the same group")


def open_directory(
    path: Path,
    *,
    cluster_id: str | None = None,
    replica_id: ReplicaId | None = None,
    log_dirs: Sequence[Path] = (),
    files: Files = OS_FILES,
) -> DataDirectory:
    """Lock a formatted directory and load what its logs share; the ids, where given, must be the directory's own.

    New partitions are put into ``log_dirs`` where any are given. One of them whose disk refuses has failed, and all
    else goes on. The clean-shutdown marker is consumed here, durably, before anything can be written. Raises
    NotFormattedError, ForeignDirectoryError, DirectoryLockedError, CorruptCheckpointError, or StorageError if the disk
    refuses, or a log lies in two directories and nobody can say which of them counts.
    """
    try:
        meta = _read_meta(files, path)
        _check_identity(path, meta, cluster_id, replica_id)
        lock = take_lock(files, path)
        found: dict[LogDir, list[TopicPartition]] = {}
        try:
            for log_dir in log_dirs:
                place, logs = open_log_dir(files, log_dir, meta)
                found[place] = logs
            return _load(files, path, meta, lock, found)
        except BaseException:
            for place in found:
                place.close()
            files.close(lock)
            raise
    except OSError as error:
        raise StorageError(f"cannot open {path}: {error}") from error


def _check_identity(path: Path, meta: MetaProperties, cluster_id: str | None, replica_id: ReplicaId | None) -> None:
    if cluster_id is not None and cluster_id != meta.cluster_id:
        raise ForeignDirectoryError(f"{path} belongs to cluster {meta.cluster_id}, not to {cluster_id}")
    if replica_id is not None and replica_id != meta.replica_id:
        raise ForeignDirectoryError(f"{path} belongs to replica {meta.replica_id}, not to {replica_id}")


def _load(
    files: Files, path: Path, meta: MetaProperties, lock: Handle, log_dirs: Mapping[LogDir, Sequence[TopicPartition]]
) -> DataDirectory:
    checkpoints = Checkpoints(
        recovery_points=OffsetCheckpoint.load(files, path / RECOVERY_POINT_FILE),
        log_starts=OffsetCheckpoint.load(files, path / LOG_START_FILE),
        high_watermarks=OffsetCheckpoint.load(files, path / REPLICATION_OFFSET_FILE),
        places=Places(tuple(log_dirs), PlacesCheckpoint.load(files, path / LOG_DIRECTORY_FILE)),
    )
    flushed = checkpoints.recovery_points.topic_partitions()
    checkpoints.places.take_stock(path, partitions_in(files, path), log_dirs, flushed)
    initial_voters = read_initial_voters(files, path / INITIAL_VOTERS_FILE)
    marker = path / clean_shutdown.FILE_NAME
    was_clean, clean_broker_epoch = files.exists(marker), None
    if was_clean:
        clean_broker_epoch = clean_shutdown.read_clean_shutdown(files, marker)
        remove_durably(files, marker)
    remove_deleted_directories(files, path)
    return DataDirectory(
        path=path,
        meta=meta,
        initial_voters=initial_voters,
        files=files,
        lock=lock,
        was_clean=was_clean,
        clean_broker_epoch=clean_broker_epoch,
        checkpoints=checkpoints,
    )


class Checkpoints(Struct, frozen=True, kw_only=True):
    """The offset checkpoints of a data directory, one offset a log in each, and where each log lies."""

    recovery_points: OffsetCheckpoint
    log_starts: OffsetCheckpoint
    high_watermarks: OffsetCheckpoint
    places: Places


class DataDirectory:
    """An open, locked data directory.

    ``was_clean`` tells whether the last stop left its marker, and ``clean_broker_epoch`` as which incarnation of a
    broker (absent without a marker, and if there was none). A missing recovery point stands for a log whose creation
    was never finished; ``high_watermarks`` is for logs whose high watermark survives a restart. ``initial_voters`` are
    those that it was formatted with.
    """

    def __init__(
        self,
        *,
        path: Path,
        meta: MetaProperties,
        initial_voters: VoterSet,
        files: Files,
        lock: Handle,
        was_clean: bool,
        clean_broker_epoch: BrokerEpoch | None,
        checkpoints: Checkpoints,
    ) -> None:
        self.path = path
        self.meta = meta
        self.initial_voters = initial_voters
        self.files = files
        self.was_clean = was_clean
        self.clean_broker_epoch = clean_broker_epoch
        self.recovery_points = checkpoints.recovery_points
        self.log_starts = checkpoints.log_starts
        self.high_watermarks = checkpoints.high_watermarks
        self.places = checkpoints.places
        self.tails = Tails()
        self._trash = Trash(files)
        self._lock: Handle | None = lock
        self._state_lock = threading.Lock()
        # The marker speaks for every log of the directory. A log that nobody has opened since an unclean stop is as
        # unclean as before, however cleanly the others are closed.
        self._unclean_logs = set() if was_clean else set(self.topic_partitions())

    @property
    def cluster_id(self) -> str:
        return self.meta.cluster_id

    @property
    def replica_id(self) -> ReplicaId:
        return self.meta.replica_id

    @property
    def directory_id(self) -> str:
        return self.meta.directory_id

    def check_is_there(self, topic_partition: TopicPartition) -> None:
        """Raise FailedDirectoryError or DamagedLogError for a log whose directory has failed, or is another one now."""
        if (failure := self.failure_of(topic_partition)) is not None:
            raise failure
        if topic_partition in self.places.lost:
            raise DamagedLogError(topic_partition, self.places.lost[topic_partition])

    # --- its logs ---------------------------------------------------------------------------------------------------

    def log_path(self, topic_partition: TopicPartition) -> Path:
        """The directory of one log; StorageError for a topic that cannot be a directory's name."""
        if not is_topic(topic_partition.topic):
            topic = topic_partition.topic
            raise StorageError(f"topic {topic!r} must be 1 to 249 letters, digits, dots, dashes and underscores")
        place = self.places.of(topic_partition)
        return (self.path if place is None else place.path) / str(topic_partition)

    def trash_of(self, topic_partition: TopicPartition) -> Trash:
        """Where what is deleted of a log waits for its removal: on the same disk."""
        place = self.places.of(topic_partition)
        return self._trash if place is None else place.trash

    def refused(self, topic_partition: TopicPartition, told: str, error: OSError) -> StorageError:
        """What it means that the disk refuses on which a log lies: FailedDirectoryError if others are unconcerned."""
        return self.places.refused(self.places.of(topic_partition), told, error)

    def is_failed(self, topic_partition: TopicPartition) -> bool:
        """Tell whether the log directory in which a log lies has failed: then nothing is done to it any more."""
        return self.failure_of(topic_partition) is not None

    def failure_of(self, topic_partition: TopicPartition) -> FailedDirectoryError | None:
        """How the log directory has failed in which a log lies; absent while it has not."""
        place = self.places.of(topic_partition)
        if place is None or place.failure is None:
            return None
        return FailedDirectoryError(place.path, place.failure)

    def topic_partitions(self) -> tuple[TopicPartition, ...]:
        """All logs, sorted: those of topics, by their partition.metadata, and those with a recovery point.

        A log whose creation was cut short is not among them. One whose directory is gone is: opening it is refused.
        """
        with self._guard("list the logs of"):
            here = partitions_in(self.files, self.path)
            return tuple(sorted({*here, *self.places.elsewhere(), *self.recovery_points.topic_partitions()}))

    def create_log(
        self, topic_partition: TopicPartition, topic_id: TopicId, late_files: LateFiles | None = None
    ) -> None:
        """Make the log of one partition of a topic, empty and durable on return; a crash leaves it whole or not at all.

        In ``late_files`` it is as durable as they are. StorageError if there is a log of that name.
        """
        # An earlier log of that name is gone, and its place with it.
        path = self.log_path(topic_partition)
        with self._guard(f"create log {topic_partition} in", topic_partition):
            if is_named(self.files, path) or self.recovery_points.get(topic_partition) is not None:
                raise StorageError(f"cannot create log {path}: there is one of that name")
        # What is known of an earlier log of that name must not be believed of the new one.
        self._forget(topic_partition)
        self.places.choose(topic_partition)
        if (failure := self.failure_of(topic_partition)) is not None:
            raise failure
        if self.places.has_failures():
            self.places.store(topic_partition)  # An earlier log of that name may come back with its disk.
        path = self.log_path(topic_partition)
        with self._guard(f"create log {topic_partition} in", topic_partition):
            if self.files.exists(path):
                remove_tree(self.files, path)  # What an earlier creation has left.
            make_partition(late_files or self.files, path, topic_id)

    def has_log(self, topic_partition: TopicPartition) -> bool:
        """Tell whether anything is known or there of a log."""
        with self._guard(f"look for log {topic_partition} in", topic_partition):
            path, trash = self.log_path(topic_partition), self.trash_of(topic_partition)
            is_known = self.recovery_points.get(topic_partition) is not None or self.is_failed(topic_partition)
            return is_known or self.files.exists(path) or bool(trash.put_aside_before(path))

    def delete_log(self, topic_partition: TopicPartition) -> None:
        """Delete a log that is not open; its name is free, durably, on return, its space after ``delete_expired``.

        A crash leaves the log whole, or gone. StorageError if there is no such log. What was put aside of it goes too.
        What lies in a log directory that has failed stays there, and is nobody's log any more.
        """
        path, trash = self.log_path(topic_partition), self.trash_of(topic_partition)
        if not self.is_failed(topic_partition):
            with self._guard(f"delete log {topic_partition} from", topic_partition):
                if not self.has_log(topic_partition):
                    raise StorageError(f"cannot delete log {path}: there is none of that name")
                # First the checkpoints: with a recovery point left behind, the next start would take the log for lost.
                self._forget(topic_partition)
                if self.files.exists(path):  # A log that is lost is only forgotten.
                    trash.put_directory(path)
                for damaged in trash.put_aside_before(path):
                    trash.put_directory(damaged)
        self._forget(topic_partition)
        self.places.forget(topic_partition)
        self.log_closed_cleanly(topic_partition)

    def put_log_aside(self, topic_partition: TopicPartition) -> None:
        """Free the name of a damaged log that is not open, durably; its files are kept under another one.

        A crash leaves the log where it was, or put aside. One whose directory is missing is only forgotten.
        """
        path = self.log_path(topic_partition)
        with self._guard(f"put aside log {topic_partition} in", topic_partition):
            self._forget(topic_partition)
            if self.files.exists(path):
                self.trash_of(topic_partition).put_aside(path)
        self.places.forget(topic_partition)
        self.log_closed_cleanly(topic_partition)

    def _forget(self, topic_partition: TopicPartition) -> None:
        for checkpoint in (self.recovery_points, self.log_starts, self.high_watermarks):
            checkpoint.remove(topic_partition)

    def delete_expired(self, now_ms: int, *, file_delete_delay_ms: int = FILE_DELETE_DELAY_MS) -> None:
        """Remove the files of logs and segments that were deleted, once this was first called that long ago.

        For any thread: it may block for long. StorageError if the disk refuses.
        """
        with self._guard("remove deleted files from"):
            self._trash.empty(now_ms, file_delete_delay_ms)
        for place in self.places.dirs:
            if place.failure is None:
                try:
                    place.trash.empty(now_ms, file_delete_delay_ms)
                except OSError as error:
                    told = f"cannot remove deleted files from {place.path}"
                    raise self.places.refused(place, told, error) from error

    def store_high_watermarks(self, offsets: Mapping[TopicPartition, Offset]) -> None:
        """Store these in replication-offset-checkpoint, durable on return. StorageError if the disk refuses.

        Those of other logs stay: a log that is offline has none to tell for now, and may be whole at the next start.
        """
        self.high_watermarks.put_all(offsets)

    def store_checkpoints(self) -> None:
        """Store what was noted of the logs, durable on return. StorageError if the disk refuses."""
        self.recovery_points.store()
        self.log_starts.store()

    @contextmanager
    def _guard(self, action: str, topic_partition: TopicPartition | None = None) -> Iterator[None]:
        """Say what was refused: of this log, wherever it lies, or in this directory."""
        try:
            yield
        except OSError as error:
            place = None if topic_partition is None else self.places.of(topic_partition)
            where = self.path if place is None else place.path
            raise self.places.refused(place, f"cannot {action} {where}", error) from error

    # --- clean or not -----------------------------------------------------------------------------------------------

    def is_clean(self, topic_partition: TopicPartition) -> bool:
        """Tell whether the log was closed cleanly when it was last open (or is new)."""
        with self._state_lock:
            return topic_partition not in self._unclean_logs

    def log_opened(self, topic_partition: TopicPartition) -> None:
        """A log may change from now on: only its own clean close makes it clean again."""
        with self._state_lock:
            self._unclean_logs.add(topic_partition)

    def log_recovered(self, topic_partition: TopicPartition, end_offset: Offset) -> None:
        """All below ``end_offset`` is on the disk: from now on the log is known to be, and where, durable on return."""
        self.places.store(topic_partition)
        self.recovery_points.put(topic_partition, end_offset)

    def log_closed_cleanly(self, topic_partition: TopicPartition) -> None:
        """Everything in this log is flushed and its recovery point is its end."""
        with self._state_lock:
            self._unclean_logs.discard(topic_partition)

    def close(self, *, clean: bool, broker_epoch: BrokerEpoch | None = None) -> None:
        """Give up the lock; with ``clean``, first leave the marker, durably, if every log was closed cleanly.

        ``broker_epoch`` is the incarnation that stops, absent if it was never registered. Closing twice does nothing.
        StorageError if the marker cannot be written; the lock is given up all the same.
        """
        lock, self._lock = self._lock, None
        if lock is None:
            return
        try:
            if clean:
                self.store_checkpoints()
            if clean and not self._unclean_logs:
                clean_shutdown.write_clean_shutdown(self.files, self.path / clean_shutdown.FILE_NAME, broker_epoch)
        except OSError as error:
            raise StorageError(f"cannot mark {self.path} as cleanly closed: {error}") from error
        finally:
            for place in self.places.dirs:
                place.close()
            self.files.close(lock)
