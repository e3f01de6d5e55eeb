"""One log on disk, as its driver uses it: append, flush, truncate, read, and the files beside the segments.

Owns the open segments, what of them is flushed, where the log begins, the recovery point, and the rule that after a
failed write or fsync nothing more is done: the kernel may have dropped the dirty pages of a failed fsync, so that a
second one would lie.
Knows nothing of epochs' meaning, votes or the network. All of it blocks.

Threads: all but ``flush``, ``store_snapshot`` and the two checkpoints is called one at a time, from whichever thread;
those run beside it. ``_snapshot_lock`` lets one snapshot be written at a time, beside whatever else goes on.
``_sync_lock`` lets one of flush, truncate, checkpoint and close happen at a time and is held during fsync;
``_state_lock`` protects the fields and is never held during one, so that an append does not wait for the platter.
Order: ``_snapshot_lock`` before ``_sync_lock`` before ``_state_lock``.
Source: Kafka's ``UnifiedLog``, ``LocalLog``; KAFKA-5413 and its kin for the limits of a segment.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress

from replica.core.effects import QuorumState
from replica.core.log.recovered import ProducerEntry, RecoveredLog
from replica.core.rules.log import LogRules
from replica.ids import Epoch, EpochEntry, Offset, SnapshotId, TopicPartition
from replica.records import RecordBatch
from replica.storage.batch_reader import UnreadableFileError
from replica.storage.checkpoints import write_epochs
from replica.storage.config import LogConfig
from replica.storage.directory import DataDirectory
from replica.storage.errors import (
    DamagedLogError,
    DamagedSegmentError,
    OffsetOutOfRangeError,
    OutOfDescriptorsError,
    StorageError,
)
from replica.storage.late_files import LateFiles
from replica.storage.log_producers import LogProducers
from replica.storage.quorum_state_file import QUORUM_STATE_FILE, read_quorum_state, write_quorum_state
from replica.storage.recovery import EPOCH_FILE, LoadedLog, load_log
from replica.storage.retention import Retention, retention_start
from replica.storage.segment import Segment
from replica.storage.segments import Segments
from replica.storage.snapshots import LogSnapshots
from replica.storage.tail import Tail
from replica.storage.timestamps import offset_for_timestamp
from replica.storage.voter_files import QUORUM_VOTERS_FILE, write_voter_entries
from replica.voters import VoterEntry


class LogStore:
    """One open log. Every method may raise StorageError, after which all but ``close`` raise it again.
    Exceptions are OffsetOutOfRangeError and OutOfDescriptorsError, which say nothing about the disk. Damage to a
    partition's log that a reader comes upon is a DamagedLogError: then this log is neither trusted nor written to."""

    def __init__(
        self, directory: DataDirectory, topic_partition: TopicPartition, config: LogConfig, loaded: LoadedLog
    ) -> None:
        self._directory = directory
        self._late_files = loaded.late_files
        self._files = loaded.late_files or directory.files
        self._topic_partition = topic_partition
        self._path = directory.log_path(topic_partition)
        start, epochs = loaded.log_start_offset, loaded.epochs
        self._segments = Segments(self._files, self._path, config, loaded.segments, start, epochs)
        self._log_end_offset = loaded.log_end_offset
        self._flushed_end_offset = loaded.log_end_offset
        self._unflushed: list[Segment] = []
        self._names_unflushed = False
        self._snapshots = loaded.snapshots
        self._producers = LogProducers(loaded.producer_snapshots, loaded.producers, self._segments)
        self._tail = Tail(config.tail_bytes_max, directory.tails)
        self._failure: StorageError | None = None
        self._is_partition = loaded.topic_id is not None
        self._closed = False
        self._snapshot_lock = threading.Lock()
        self._sync_lock = threading.Lock()
        self._state_lock = threading.RLock()

    @classmethod
    def open(
        cls,
        directory: DataDirectory,
        topic_partition: TopicPartition,
        *,
        config: LogConfig | None = None,
        rules: LogRules | None = None,
        late_files: LateFiles | None = None,
    ) -> tuple[LogStore, RecoveredLog]:
        """Open and recover one log, in ``late_files`` if it was just created there; a quorum's log may have to be made.

        CorruptLogError where flushed data is damaged or missing (nothing is changed), CorruptCheckpointError for a bad
        state file, DamagedLogError where a segment cannot be read, StorageError if the disk refuses.
        """
        path, config = directory.log_path(topic_partition), config or LogConfig()
        try:
            quorum_state = read_quorum_state(directory.files, path / QUORUM_STATE_FILE)
            loaded = load_log(directory, topic_partition, config, rules or LogRules(), late_files)
            recovered = loaded.recovered(quorum_state, directory.high_watermarks.get(topic_partition))
        except UnreadableFileError as error:
            raise DamagedLogError(topic_partition, f"cannot open log {path}: {error}") from error
        except OSError as error:
            raise directory.refused(topic_partition, f"cannot open log {path}", error) from error
        return cls(directory, topic_partition, config, loaded), recovered

    @property
    def log_start_offset(self) -> Offset:
        """Nothing below is read."""
        return self._segments.log_start_offset

    @property
    def epochs(self) -> tuple[EpochEntry, ...]:
        """Where each epoch begins, of the batches that are held; not of what was stored of them."""
        return self._segments.epochs

    @property
    def log_end_offset(self) -> Offset:
        """Where the next batch goes."""
        return self._log_end_offset

    @property
    def flushed_end_offset(self) -> Offset:
        """Everything below is on stable storage *now*; a flush that ended may have been of what was cut since."""
        return self._flushed_end_offset

    # --- writing ----------------------------------------------------------------------------------------------------

    def append(self, batches: Sequence[RecordBatch]) -> None:
        """Write batches at the end, into the page cache. They must continue the log, from ``log_end_offset`` on."""
        with self._state_lock, self._guard("append to"):
            self._segments.check_continues(batches, self._log_end_offset)
            if (late_files := self._late_files) is not None:
                late_files.write_out()
            pending: list[RecordBatch] = []
            pending_bytes = 0
            for batch in batches:
                if not self._segments.last.has_room(batch, pending_bytes):
                    self._append_to_last(pending)
                    self._roll(batch.base_offset)
                    pending, pending_bytes = [], 0
                pending.append(batch)
                pending_bytes += batch.size_bytes
            self._append_to_last(pending)

    def makes_files_for(self, batches: Sequence[RecordBatch]) -> bool:
        """Tell whether an append of these makes files: the first of a new log, or another segment."""
        late_files = self._late_files  # A flush in another thread may be done with them just now.
        return (late_files is not None and not late_files.is_written) or not self._segments.have_room_for(batches)

    def is_in_memory(self, offset: Offset) -> bool:
        """Tell whether a read from ``offset`` on needs no disk."""
        return offset >= self._log_end_offset or self._tail.holds(offset)

    def _append_to_last(self, batches: list[RecordBatch]) -> None:
        if not batches:
            return
        segment = self._segments.last
        if segment not in self._unflushed:
            self._unflushed.append(segment)
        segment.append(batches)
        self._tail.append(batches)
        for batch in batches:
            self._segments.note_appended(batch)
            self._producers.note(batch)
        self._log_end_offset = batches[-1].end_offset

    def _roll(self, base_offset: Offset) -> None:
        # The finished segment stays in _unflushed if it is dirty, so the next flush covers it and the new name.
        self._segments.roll(base_offset)
        self._names_unflushed = True
        self._producers.note_rolled(base_offset)

    def flush(self) -> Offset:
        """Bring everything appended so far to stable storage; return the end of that, taken as this began.

        Appends may go on meanwhile. A log that is damaged, or was closed because it was deleted, is left as it is.
        """
        with self._sync_lock:
            if not self._is_over:
                with suppress(DamagedLogError), self._guard("flush"):  # A reader may just come upon damage.
                    return self._flush()
            return self._flushed_end_offset

    def _make_durable(self) -> None:
        """Let a new log be there for good, before anything relies on what is in it."""
        if self._late_files is not None:
            self._late_files.catch_up()
            self._late_files = None
            self._directory.log_recovered(self._topic_partition, Offset(0))

    def _flush(self) -> Offset:
        if self._late_files is not None and self._log_end_offset == 0:
            return self._flushed_end_offset  # Nothing has to be durable.
        self._make_durable()
        with self._state_lock:
            end_offset, last = self._log_end_offset, self._segments.last
            unflushed, self._unflushed = self._unflushed, []
            names_unflushed, self._names_unflushed = self._names_unflushed, False
            unstored = self._producers.take_unstored()
        for segment in unflushed:
            segment.fsync()
        self._producers.store(unstored)
        if names_unflushed:
            self._files.fsync_directory(self._path)
        with self._state_lock:
            self._flushed_end_offset = end_offset
        if names_unflushed:
            self._finish_segments(end_offset, [segment for segment in unflushed if segment is not last])
        return end_offset

    def _finish_segments(self, end_offset: Offset, finished: list[Segment]) -> None:
        # The recovery point moves at every roll as well as every minute: no crash tears a finished, flushed segment,
        # so damage in one must never be mistaken for a torn tail. Once per segment it costs nothing.
        for segment in finished:
            segment.store_indexes()
        self._directory.recovery_points.put(self._topic_partition, end_offset)

    def truncate(self, end_offset: Offset) -> None:
        """Drop everything at and above ``end_offset``, durable on return. Nothing happens at or beyond the log's end.

        StorageError if ``end_offset`` lies inside a batch, OffsetOutOfRangeError below the log's start.
        """
        with self._sync_lock, self._state_lock, self._guard("truncate"):
            if end_offset >= self._log_end_offset:
                return
            if end_offset < self.log_start_offset:
                raise self._out_of_range("truncate", end_offset)
            if self.log_start_offset == end_offset > self._segments.first.base_offset:
                # Nothing of the log stays, and its start may lie inside a batch, where no file can be cut. First the
                # log start, so that a crash on the way does not leave a log that ends below it.
                self._directory.log_starts.put(self._topic_partition, end_offset)
                self._start_at(end_offset, self._producers.read(end_offset))
                return
            self._make_durable()
            segment, place = self._segments.place_of(end_offset)
            # First the recovery point: with the log cut and the old recovery point still on the platter, the next
            # start would take the truncation for lost data. And the high watermark: what comes to stand above
            # ``end_offset`` is not committed because something else was.
            self._directory.recovery_points.lower(self._topic_partition, end_offset)
            self._directory.high_watermarks.lower(self._topic_partition, end_offset)
            self._producers.forget_above(end_offset)
            self._segments.drop_after(segment)
            segment.truncate(place)
            for kept in self._segments:
                if kept is segment or kept in self._unflushed:
                    kept.fsync()
            self._files.fsync_directory(self._path)
            self._unflushed, self._names_unflushed = [], False
            self._tail.truncate(end_offset)
            self._segments.note_truncated(end_offset)
            self._log_end_offset = self._flushed_end_offset = end_offset

    def start_at(self, offset: Offset, *, keeps_producers: bool = False) -> None:
        """Drop everything and let the log begin, empty, at ``offset``, durable on return.

        A crash on the way leaves the new log, or one that begins where it did, and is shorter if it did not end at
        ``offset``. With ``keeps_producers`` it knows the producers of the batches below, unless a crash intervenes.
        """
        with self._sync_lock, self._state_lock, self._guard("start anew"):
            self._start_at(offset, self._producers.read(offset) if keeps_producers else ())

    def _start_at(self, offset: Offset, producers: tuple[ProducerEntry, ...]) -> None:
        self._make_durable()
        self._directory.high_watermarks.lower(self._topic_partition, offset)
        # First the recovery point, below everything: from here on the next start may find any part of the log.
        self._directory.recovery_points.lower(self._topic_partition, min(self._segments.first.base_offset, offset))
        ends_there = self._is_partition and offset == self._log_end_offset

        def forget() -> None:
            self._producers.begin_anew(offset, producers)
            if ends_there:
                self._directory.log_starts.put(self._topic_partition, offset)

        # Others may count on a log that ends there: a crash must not leave a shorter one.
        (self._segments.begin_at_end if ends_there else self._segments.begin_anew)(offset, forget)
        self._tail.clear()
        self._unflushed, self._names_unflushed = [], False
        self._log_end_offset = self._flushed_end_offset = offset
        # The segment's name says it all. A higher log start, left behind, would swallow what is appended next.
        self._directory.log_starts.remove(self._topic_partition)
        self._directory.recovery_points.put(self._topic_partition, offset)

    def raise_log_start(self, offset: Offset) -> None:
        """Let the log begin at ``offset``; nothing happens at or below its start. OffsetOutOfRangeError above its end.

        Durable on return: what lies below may be of another history than the leader's, and must never be served again.
        Segments wholly below are marked for removal, after the log start is durable; the last one stays.
        """
        with self._sync_lock, self._state_lock, self._guard("raise the start of"):
            if offset <= self.log_start_offset:
                return
            if offset > self._log_end_offset:
                raise self._out_of_range("raise the start of", offset)
            self._make_durable()
            dropped = self._segments.wholly_below(offset)
            self._producers.keep_beside(offset, self._log_end_offset, dropped)
            self._segments.note_log_start(offset)
            self._directory.log_starts.put(self._topic_partition, offset)
            self._tail.drop_below(offset)
            if not dropped:
                return
            if self._names_unflushed:
                # The names of the segments that stay may not be durable yet: a crash must not leave a log without any.
                self._files.fsync_directory(self._path)
            trash = self._directory.trash_of(self._topic_partition)
            self._segments.throw_away(dropped, trash)
            self._producers.throw_away_below(self._segments.first.base_offset, trash)
            self._files.fsync_directory(self._path)
            self._unflushed = [segment for segment in self._unflushed if segment not in dropped]

    def store_epochs(self, entries: Sequence[EpochEntry]) -> None:
        """Replace ``leader-epoch-checkpoint``, durable on return; in a log that is new, with its first records."""
        with self._guard("store the epochs of"):
            write_epochs(self._files, self._path / EPOCH_FILE, entries)

    def store_quorum_state(self, state: QuorumState) -> None:
        """Replace ``quorum-state``, durable on return."""
        with self._guard("store the quorum state of"):
            write_quorum_state(self._files, self._path / QUORUM_STATE_FILE, state)

    def store_voters(self, entries: Sequence[VoterEntry]) -> None:
        """Replace ``quorum-voters``, durable on return."""
        with self._guard("store the voters of"):
            write_voter_entries(self._files, self._path / QUORUM_VOTERS_FILE, entries)

    # --- snapshots --------------------------------------------------------------------------------------------------

    def store_snapshot(self, snapshot_id: SnapshotId, data: bytes) -> None:
        """Keep a snapshot of a quorum log, durable on return; for any thread.

        Nothing happens if the log was closed meanwhile, or begins above it by now.
        """
        with self._snapshot_lock:
            if self._is_over or snapshot_id.end_offset < self.log_start_offset:
                return
            with self._guard("store a snapshot of"):
                self._quorum_snapshots.store(snapshot_id, data)

    def install_snapshot(self, snapshot_id: SnapshotId, data: bytes) -> None:
        """Keep a snapshot, and begin the log anew, empty, at its end; all durable on return. Older snapshots go.

        A crash on the way leaves the log as it was, or this snapshot and a log that the next start begins anew at it.
        """
        with self._snapshot_lock, self._sync_lock, self._state_lock, self._guard("install a snapshot in"):
            self._quorum_snapshots.store(snapshot_id, data)
            self._start_at(snapshot_id.end_offset, ())
            write_epochs(self._files, self._path / EPOCH_FILE, ())
            self._quorum_snapshots.drop_below(snapshot_id.end_offset)

    def drop_snapshots(self, end_offset: Offset) -> None:
        """Remove the snapshots that end below ``end_offset``."""
        with self._guard("drop snapshots of"):
            self._quorum_snapshots.drop_below(end_offset)

    def read_snapshot(self, snapshot_id: SnapshotId, position: int, max_bytes: int) -> bytes:
        """Up to ``max_bytes`` of a snapshot that there is, from ``position`` on. They are not verified."""
        with self._guard("read a snapshot of"):
            return self._quorum_snapshots.read(snapshot_id, position, max_bytes)

    @property
    def _quorum_snapshots(self) -> LogSnapshots:
        assert self._snapshots is not None, f"{self._path} is a partition's log: it has no snapshots"
        return self._snapshots

    # --- reading ----------------------------------------------------------------------------------------------------

    def read(self, start_offset: Offset, end_offset: Offset, max_bytes: int) -> bytes:
        """Whole batches, back to back, from the one that holds ``start_offset``.

        At least one, further ones while the sum stays within ``max_bytes``, none that ends above ``end_offset``;
        nothing if ``start_offset`` is the log's end. What comes from the disk is verified: damage is a StorageError
        that names file and position, and is never served. OffsetOutOfRangeError outside the log.
        """
        with self._state_lock, self._guard("read"):
            if not self.log_start_offset <= start_offset <= self._log_end_offset:
                raise self._out_of_range("read", start_offset)
            bound = min(end_offset, self._log_end_offset)
            if start_offset >= bound:
                return b""
            found = self._tail.batches(start_offset, bound, max_bytes)
            if found is None:
                found = self._segments.read(start_offset, bound, max_bytes)
            return b"".join(batch.data for batch in found)

    def batch_start(self, offset: Offset) -> Offset:
        """Where the batch begins that holds ``offset``. OffsetOutOfRangeError outside the log."""
        with self._state_lock, self._guard("search"):
            if not self.log_start_offset <= offset < self._log_end_offset:
                raise self._out_of_range("search", offset)
            return next(self._segments.batches_from(offset, wanted_bytes=1)).base_offset

    def offset_for_timestamp(self, timestamp_ms: int, end_offset: Offset) -> tuple[Offset, Epoch] | None:
        """Offset and leader epoch of the first record below ``end_offset`` that is not older; absent if all are."""
        with self._state_lock, self._guard("search"):
            return offset_for_timestamp(self._segments, timestamp_ms, end_offset)

    def retention_start(
        self, high_watermark: Offset, retention_ms: int | None, retention_bytes: int | None, now_ms: int | None
    ) -> Offset:
        """Where the log may begin by its age and size, at most at ``high_watermark``; nothing is changed."""
        retention = Retention(now_ms=now_ms, retention_ms=retention_ms, retention_bytes=retention_bytes)
        with self._state_lock, self._guard("apply the retention to"):
            return retention_start(self._segments, high_watermark, retention)

    def scan_producers(self) -> tuple[ProducerEntry, ...]:
        """The idempotent producers of a partition's log, the one that has been idle longest first.

        After a truncation the log is read for it, from the newest snapshot that is left.
        """
        with self._state_lock, self._guard("scan"):
            return self._producers.scan(self._log_end_offset)

    # --- checkpoints and end ----------------------------------------------------------------------------------------

    def note_recovery_point(self) -> None:
        """Note, for the directory to store, below what recovery never cuts; not of a log that is closed or damaged."""
        with self._sync_lock:
            if not self._is_over and self._late_files is None:
                with suppress(DamagedLogError), self._guard("note the recovery point of"):
                    self._directory.recovery_points.note(self._topic_partition, self._flushed_end_offset)

    def note_log_start(self) -> None:
        """Note where the log begins, unless its first segment says the same."""
        with self._sync_lock:
            if not self._is_over:
                with suppress(DamagedLogError), self._guard("note the start of"):
                    self._note_log_start()

    def _note_log_start(self) -> None:
        with self._state_lock:
            offset = self.log_start_offset if self.log_start_offset > self._segments.first.base_offset else None
        self._directory.log_starts.note(self._topic_partition, offset)

    def close(self, *, clean: bool) -> None:
        """Give the files back; with ``clean``, flush first and make the directory's clean-shutdown marker true.

        What the directory is to store of the log is noted: its own close stores it, before it leaves the marker.
        Closing twice does nothing. StorageError only with ``clean``; the files are given back in every case.
        """
        with self._sync_lock, self._state_lock:
            if self._closed:
                return
            try:
                if clean:
                    with self._guard("close"):
                        self._close_cleanly()
            finally:
                self._closed = True
                self._tail.clear()
                for segment in self._segments:
                    segment.close()

    def _close_cleanly(self) -> None:
        end_offset = self._flush()
        if self._late_files is None:
            self._producers.store_end(end_offset)
            self._directory.recovery_points.note(self._topic_partition, end_offset)
            self._note_log_start()
            for segment in self._segments:
                segment.store_indexes()
        self._directory.log_closed_cleanly(self._topic_partition)

    # --- failure ----------------------------------------------------------------------------------------------------

    @property
    def is_damaged(self) -> bool:
        """Whether a reader has come upon damage: then only ``close`` without a promise is left to do."""
        return isinstance(self._failure, DamagedLogError)

    @property
    def _is_over(self) -> bool:
        """Whether the log was closed in good order, or is damaged: then nobody is owed anything of it."""
        return self.is_damaged or (self._closed and self._failure is None)

    @contextmanager
    def _guard(self, action: str) -> Iterator[None]:
        """Refuse to begin after a failure or a close; turn what fails inside into the failure of the whole store."""
        if self._failure is not None:
            raise self._failure
        if self._closed:
            raise StorageError(f"cannot {action} log {self._path}: it is closed")
        try:
            yield
        except OSError as error:
            self._failure = self._directory.refused(self._topic_partition, f"cannot {action} log {self._path}", error)
            raise self._failure from error
        except (OffsetOutOfRangeError, OutOfDescriptorsError):
            raise
        except StorageError as error:
            self._failure = error
            if self._is_partition and isinstance(error, DamagedSegmentError):
                # Segments are read before anything is changed: what is written is as it was.
                self._failure = DamagedLogError(self._topic_partition, str(error), offset=error.offset)
            raise self._failure from error.__cause__

    def _out_of_range(self, action: str, offset: Offset) -> OffsetOutOfRangeError:
        held = f"[{self.log_start_offset}, {self._log_end_offset}]"
        return OffsetOutOfRangeError(f"cannot {action} {self._path} at offset {offset}: it holds {held}")
