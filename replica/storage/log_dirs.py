"""Log directories: further disks on which a replica's partitions lie, beside its data directory (Kafka's ``log.dirs``).

Owns what makes a directory one (``meta.properties`` with an id of its own, a lock), which of them has failed, and where
each partition's log lies. All that must outlive such a disk is in the data directory: the checkpoints, and of each log
in which directory it is. So a log that is not where it was is known to be lost, and a disk that was emptied or
exchanged holds nothing that anybody counts on. Knows nothing of what is inside a log.
Source: KIP-112, KIP-113, KIP-858; Kafka's ``LogManager``.
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from replica.ids import TopicPartition
from replica.storage import meta_properties
from replica.storage.checkpoints import PlacesCheckpoint
from replica.storage.errors import (
    AlreadyFormattedError,
    DirectoryLockedError,
    FailedDirectoryError,
    ForeignDirectoryError,
    NotFormattedError,
    StorageError,
)
from replica.storage.files import Files, Handle, OpenMode, is_out_of_descriptors, make_directory
from replica.storage.log_directories import partitions_in
from replica.storage.meta_properties import MetaProperties
from replica.storage.trash import Trash, remove_deleted_directories

LOCK_FILE = ".lock"
NOT_OURS_TO_MIND = frozenset({"lost+found"})


def take_lock(files: Files, path: Path) -> Handle:
    """Lock a directory for this process. DirectoryLockedError if another one has it; may raise OSError."""
    handle = files.open(path / LOCK_FILE, OpenMode.ENSURE)
    if not files.try_lock(handle):
        files.close(handle)
        raise DirectoryLockedError(f"{path} is in use by another process; stop it or choose another directory")
    return handle


def check_is_empty(files: Files, path: Path) -> None:
    """Refuse to format what holds anything: AlreadyFormattedError. May raise OSError."""
    if files.exists(path / meta_properties.FILE_NAME):
        raise AlreadyFormattedError(f"{path} is formatted already; choose another directory or delete this one")
    if set(files.names(path)) - NOT_OURS_TO_MIND:
        raise AlreadyFormattedError(f"{path} is not empty; choose another directory or empty this one")


def format_log_dir(files: Files, path: Path, meta: MetaProperties) -> None:
    """Make an empty or missing directory a log directory of this identity, durably. AlreadyFormattedError, OSError."""
    make_directory(files, path)
    check_is_empty(files, path)
    meta_properties.write_meta_properties(files, path / meta_properties.FILE_NAME, meta)


class LogDir:
    """One log directory. ``failure`` says why nothing is done on its disk any more; absent while it works.

    One that could not be opened has no id: what it holds nobody knows.
    """

    def __init__(
        self, path: Path, files: Files, *, directory_id: str | None = None, lock: Handle | None = None
    ) -> None:
        self.path = path
        self.directory_id = directory_id
        self.failure: str | None = None
        self.trash = Trash(files)
        self._files = files
        self._lock = lock

    def put_aside(self, log: TopicPartition) -> None:
        """Free the name of a log that counts no more, durably, and keep its files; a disk that refuses has failed."""
        try:
            self.trash.put_aside(self.path / f"{log}")
        except OSError as error:
            self.failure = f"cannot put aside log {log} in {self.path}: {error}"

    def close(self) -> None:
        """Give up the lock."""
        lock, self._lock = self._lock, None
        if lock is not None:
            self._files.close(lock)


def open_log_dir(files: Files, path: Path, own: MetaProperties) -> tuple[LogDir, list[TopicPartition]]:
    """Lock a log directory of this replica, and name the logs in it; one on which the disk refuses is opened as failed.

    Raises NotFormattedError, ForeignDirectoryError, DirectoryLockedError, CorruptCheckpointError.
    """
    try:
        if not files.exists(path / meta_properties.FILE_NAME):
            raise NotFormattedError(
                f"{path} is not a formatted log directory; mount its disk, or run `replica format-log-dir`"
            )
        meta = meta_properties.read_meta_properties(files, path / meta_properties.FILE_NAME)
        if (meta.cluster_id, meta.replica_id) != (own.cluster_id, own.replica_id):
            raise ForeignDirectoryError(f"{path} belongs to replica {meta.replica_id} of cluster {meta.cluster_id}")
        found = LogDir(path, files, directory_id=meta.directory_id, lock=take_lock(files, path))
        try:
            remove_deleted_directories(files, path)
            return found, partitions_in(files, path)
        except BaseException:
            found.close()
            raise
    except OSError as error:
        failed = LogDir(path, files)
        failed.failure = f"cannot open {path}: {error}"
        return failed, []


class Places:
    """Where each log lies: in one of ``dirs``, or in the data directory. Safe to share between threads.

    ``lost`` says of a log why its own directory is not there, or why what is there is not the log that was written
    last: nothing of it may be believed.
    """

    def __init__(self, dirs: Sequence[LogDir], checkpoint: PlacesCheckpoint) -> None:
        self.dirs = tuple(dirs)
        self.lost: dict[TopicPartition, str] = {}
        self._checkpoint = checkpoint
        self._lock = threading.Lock()
        self._place_of: dict[TopicPartition, LogDir] = {}

    def take_stock(
        self,
        own: Path,
        in_own: Iterable[TopicPartition],
        found: Mapping[LogDir, Iterable[TopicPartition]],
        flushed: Iterable[TopicPartition],
    ) -> None:
        """Note where logs were found, and which of those that were ever ``flushed`` are not where they were.

        StorageError if one lies in two directories, and nobody can say which is the log.
        """
        by_id = {place.directory_id: place for place in self.dirs if place.directory_id is not None}
        if len(by_id) + sum(place.failure is not None for place in self.dirs) < len(self.dirs):
            raise StorageError("two log directories have the same directory id: one is a copy of the other; format it")
        lie: dict[TopicPartition, list[LogDir | None]] = {log: [None] for log in in_own}
        for place, logs in found.items():
            for log in logs:
                lie.setdefault(log, []).append(place)
        paths: dict[TopicPartition, Path] = {}
        for log, places in lie.items():
            the_place = places[0] if len(places) == 1 else self._choose_among(log, places, own, by_id)
            paths[log] = own if the_place is None else the_place.path
            if the_place is not None:
                self._place_of[log] = the_place
        for log in flushed:
            self._check(log, paths.get(log), by_id)

    def _choose_among(
        self, log: TopicPartition, places: Sequence[LogDir | None], own: Path, by_id: Mapping[str, LogDir]
    ) -> LogDir:
        """Name the place of a log that was made anew while its own disk had failed, and put aside what came back."""
        the_place = by_id.get(self._checkpoint.get(log) or "")
        strays = [place for place in places if place is not None and place is not the_place]
        if the_place is None or len(strays) != len(places) - 1:
            paths = " and in ".join(f"{own if place is None else place.path}" for place in places)
            told = f"{log} lies in {paths}: move one of the two folders away"
            raise StorageError(told + self._hint(log, own, by_id))
        for stray in strays:
            stray.put_aside(log)
        return the_place

    def _hint(self, log: TopicPartition, own: Path, by_id: Mapping[str, LogDir]) -> str:
        directory_id = self._checkpoint.get(log)
        if directory_id is None:
            return f"; the one in {own} was written last"
        return f"; the one in {by_id[directory_id].path} was written last" if directory_id in by_id else ""

    def _check(self, log: TopicPartition, path: Path | None, by_id: Mapping[str, LogDir]) -> None:
        """See that a log that was flushed lies in the directory that it was flushed in."""
        directory_id = self._checkpoint.get(log)
        place = self._place_of.get(log)
        if (None if place is None else place.directory_id) == directory_id:
            return
        if path is None and directory_id is not None and directory_id in by_id:
            self._place_of[log] = by_id[directory_id]
            return  # Its folder is missing there, which its recovery says.
        failed = next((place for place in self.dirs if place.failure is not None), None)
        if path is None and failed is not None:
            self._place_of[log] = failed
            self.lost[log] = f"{failed.failure}"
            return
        where = "the data directory" if directory_id is None else f"log directory {directory_id}"
        self.lost[log] = f"{log} is of {where}, and " + (
            "no --log-dir has this id: its disk was replaced, or is not named" if path is None else f"lies in {path}"
        )

    def of(self, log: TopicPartition) -> LogDir | None:
        """The log directory in which a log lies; absent for the data directory."""
        with self._lock:
            return self._place_of.get(log)

    def logs_of(self, place: LogDir) -> tuple[TopicPartition, ...]:
        """The logs that lie in a directory."""
        with self._lock:
            return tuple(sorted(log for log, there in self._place_of.items() if there is place))

    def elsewhere(self) -> tuple[TopicPartition, ...]:
        """The logs that do not lie in the data directory."""
        with self._lock:
            return tuple(self._place_of)

    def choose(self, log: TopicPartition) -> LogDir | None:
        """Give a new log its place: the directory with the fewest; a failed one only where all are.

        Absent where there are none: then it is the data directory.
        """
        if not self.dirs:
            return None
        with self._lock:
            counts = Counter(self._place_of.values())
            place = min(self.dirs, key=lambda place: (place.failure is not None, counts[place]))
            self._place_of[log] = place
        return place

    def store(self, log: TopicPartition) -> None:
        """Let it be known for good where a log lies: before anything of it is flushed. May raise StorageError."""
        place = self.of(log)
        if place is not None:
            assert place.directory_id is not None, place.path
            self._checkpoint.put(log, place.directory_id)

    def has_failures(self) -> bool:
        """Tell whether a log directory has failed: what lies there may come back."""
        return any(place.failure is not None for place in self.dirs)

    def forget(self, log: TopicPartition) -> None:
        """The log is gone, for good: its name is free. May raise StorageError."""
        self._checkpoint.remove(log)
        with self._lock:
            self._place_of.pop(log, None)
            self.lost.pop(log, None)

    def refused(self, place: LogDir | None, told: str, error: OSError) -> StorageError:
        """What a refusal of the disk means on which a log lies: a log directory has failed, or the replica has."""
        reason = f"{told}: {error}"
        if place is None or is_out_of_descriptors(error):  # Which says nothing about that disk.
            return StorageError(reason)
        if place.failure is None:
            place.failure = reason
        return FailedDirectoryError(place.path, reason)
