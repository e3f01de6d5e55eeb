"""The disk of a replica: everything that must outlive the process, and the only place where fsync is called.

The way of the data, file by file:

1. ``files`` is the seam to the operating system, and knows how to replace a small file atomically. ``bounded_files``
   see to it that only so many are open.
2. ``directory`` formats, locks and opens a data directory; ``meta_properties`` says whose it is, ``clean_shutdown`` how
   it was left. ``log_directories`` knows which logs it holds, ``trash`` what was deleted and still takes space.
   ``log_dirs`` are further directories for partitions, each on a disk of its own.
3. ``checkpoints``, ``quorum_state_file`` and ``partition_metadata`` are the small state files, in Kafka's formats;
   ``voter_files`` say who votes, in a format of their own.
4. ``recovery`` opens a log: a clean stop is believed, an unclean one searched by ``log_scan``; flushed data is never
   cut.
   ``producer_snapshots`` tell what was known of producers, also of batches that are deleted since.
   ``snapshots`` are a quorum log's: what its records have led to, in their place.
5. ``log`` is the open log that a driver appends to, flushes, truncates and reads, under the limits of ``config``;
   ``log_producers`` knows who wrote to it, ``retention`` says where it may begin, ``timestamps`` finds a record by
   its time.
6. ``segments``, ``segment``, ``offset_index`` and ``time_index`` are its files, ``batch_reader`` walks them, ``tail``
   spares the disk.
7. ``log_table`` is all open logs of a directory, and performs the core's effects on them.
8. ``dump`` prints any segment file, sound or not; ``group_backup`` is the state of a group in a file of its own, and a
   directory that begins with it; ``topic_backup`` the records of a topic. ``errors`` names what can be wrong.
"""

from __future__ import annotations

from replica.storage.bounded_files import BoundedFiles
from replica.storage.config import LogConfig
from replica.storage.directory import DataDirectory, format_directory, format_log_directory, open_directory
from replica.storage.errors import (
    AlreadyFormattedError,
    CorruptCheckpointError,
    CorruptLogError,
    DamagedLogError,
    DirectoryLockedError,
    FailedDirectoryError,
    ForeignDirectoryError,
    NotFormattedError,
    OffsetOutOfRangeError,
    OutOfDescriptorsError,
    StorageError,
)
from replica.storage.files import OS_FILES, Files, OsFiles
from replica.storage.log import LogStore
from replica.storage.log_table import Answer, LogTable, StorageEffect, StorageReport
from replica.storage.meta_properties import MetaProperties

__all__ = [
    "OS_FILES",
    "AlreadyFormattedError",
    "Answer",
    "BoundedFiles",
    "CorruptCheckpointError",
    "CorruptLogError",
    "DamagedLogError",
    "DataDirectory",
    "DirectoryLockedError",
    "FailedDirectoryError",
    "Files",
    "ForeignDirectoryError",
    "LogConfig",
    "LogStore",
    "LogTable",
    "MetaProperties",
    "NotFormattedError",
    "OffsetOutOfRangeError",
    "OsFiles",
    "OutOfDescriptorsError",
    "StorageEffect",
    "StorageError",
    "StorageReport",
    "format_directory",
    "format_log_directory",
    "open_directory",
]
