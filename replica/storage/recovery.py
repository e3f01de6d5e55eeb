"""Opening one log: believing a clean shutdown, or finding out what an unclean one has left.

Owns the rule that decides between a torn tail and a lost promise. After an unclean stop every batch is read and checked
(CRC, offset continuity, epoch order). Damage at or above the recovery point is what a crash may leave: the log is cut
there. Damage or absence below it means that flushed data, perhaps acknowledged and counted on by others, is gone:
then nothing is modified and the replica does not start. Whatever remains is fsynced before it is reported, because a
batch found in the page cache is not yet on the platter. The epoch cache is rebuilt from the batch headers, since a
checkpoint can be ahead of the log that survived, and indexes are rebuilt beside it.
Source: Kafka's ``LogLoader``, ``UnifiedLog.rebuildLeaderEpochCache``; stricter than Kafka below the recovery point.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from replica.ids import EpochEntry, Offset, TopicPartition
from replica.records import RecordBatch
from replica.storage.batch_reader import DamagedBatchError, check_next, read_batches
from replica.storage.checkpoints import read_epochs, write_epochs
from replica.storage.config import LogConfig
from replica.storage.directory import DataDirectory
from replica.storage.errors import CorruptCheckpointError, CorruptLogError
from replica.storage.files import TEMPORARY_SUFFIX, Files
from replica.storage.segment import INDEX_SUFFIX, LOG_SUFFIX, Segment, base_offset_of

EPOCH_FILE = "leader-epoch-checkpoint"
QUORUM_STATE_FILE = "quorum-state"


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadedLog:
    """A log ready for use: at least one segment, the last one takes appends; all of it on stable storage."""

    segments: tuple[Segment, ...]
    log_start_offset: Offset
    log_end_offset: Offset
    epochs: tuple[EpochEntry, ...]


def load_log(directory: DataDirectory, topic_partition: TopicPartition, config: LogConfig) -> LoadedLog:
    """Open a log, creating it if the directory has never had it.

    CorruptLogError or CorruptCheckpointError if the log must not be used; OSError if the disk refuses.
    """
    clean = directory.is_clean(topic_partition)
    directory.log_opened(topic_partition)
    log = _Log(
        files=directory.files,
        path=directory.log_path(topic_partition),
        config=config,
        log_start_offset=directory.log_starts.get(topic_partition) or Offset(0),
        recovery_point=directory.recovery_points.get(topic_partition),
    )
    log.maybe_create()
    try:
        log.open_segments()
        loaded = (log.load_clean() if clean else None) or log.recover()
    except (CorruptLogError, CorruptCheckpointError):
        # Refused, hence untouched: it is as clean as it was found.
        log.close()
        if clean:
            directory.log_closed_cleanly(topic_partition)
        raise
    except BaseException:
        log.close()
        raise
    directory.recovery_points.put(topic_partition, loaded.log_end_offset)
    return loaded


@dataclass(slots=True, kw_only=True)
class _Scan:
    """How far a log is sound. ``kept`` counts the segments that stay; the last of them is cut to ``kept_bytes``."""

    end_offset: Offset
    kept: int = 0
    kept_bytes: int = 0
    epochs: list[EpochEntry] = field(default_factory=list)
    damage: tuple[Path, DamagedBatchError] | None = None

    def take(self, position: int, batch: RecordBatch) -> None:
        """Add the next batch, or raise DamagedBatchError if it does not continue the log."""
        last_epoch = self.epochs[-1].epoch if self.epochs else None
        check_next(position, batch, expected_offset=self.end_offset, last_epoch=last_epoch)
        if batch.leader_epoch != last_epoch:
            self.epochs.append(EpochEntry(batch.leader_epoch, batch.base_offset))
        self.end_offset = batch.end_offset
        self.kept_bytes = position + batch.size_bytes


@dataclass(slots=True, kw_only=True)
class _Log:
    """The log while it is being opened. ``recovery_point`` is absent if its creation was never finished."""

    files: Files
    path: Path
    config: LogConfig
    log_start_offset: Offset
    recovery_point: Offset | None
    segments: list[Segment] = field(default_factory=list)
    stored_epochs: tuple[EpochEntry, ...] = ()

    def maybe_create(self) -> None:
        """Make what a new log consists of; harmless on one whose creation was cut short.

        What it makes is durable once the log is recovered, and only then does the log get its recovery point.
        """
        if self.recovery_point is not None:
            return
        if not self.files.exists(self.path):
            self.files.mkdir(self.path)
        self.files.fsync_directory(self.path.parent)
        if not self._base_offsets():
            Segment.create(self.files, self.path, self.log_start_offset, self.config).close()
        if not self.files.exists(self.path / EPOCH_FILE):
            write_epochs(self.files, self.path / EPOCH_FILE, ())

    def _base_offsets(self) -> list[Offset]:
        names = self.files.names(self.path)
        return [base for name in names if (base := base_offset_of(name, LOG_SUFFIX)) is not None]

    def open_segments(self) -> None:
        """Open what is there and read the epochs, or refuse a log of which a part is gone."""
        if not self.files.exists(self.path):
            raise self._lost(self.path, position=0, offset=self.log_start_offset, reason="is missing")
        self.stored_epochs = read_epochs(self.files, self.path / EPOCH_FILE)
        for base_offset in self._base_offsets():
            self.segments.append(Segment.open(self.files, self.path, base_offset, self.config))
        if not self.segments:
            raise self._lost(self.path, position=0, offset=self.log_start_offset, reason="holds no segment")
        first = self.segments[0]
        if first.base_offset > self.log_start_offset:
            reason = f"is the first segment although the log starts at offset {self.log_start_offset}"
            raise self._lost(first.path, position=0, offset=self.log_start_offset, reason=reason)
        quorum_state = self.path / QUORUM_STATE_FILE
        has_batches = any(segment.size for segment in self.segments)
        if self.config.quorum_state_required and has_batches and not self.files.exists(quorum_state):
            raise CorruptCheckpointError(quorum_state, "the file is missing although the log holds records")

    def load_clean(self) -> LoadedLog | None:
        """Believe the files; None if they do not bear out that they were closed cleanly, and must be searched."""
        scan = _Scan(end_offset=self.segments[-1].base_offset)
        try:
            for segment in self.segments:
                if not segment.load_index():
                    self._rebuild_index(segment)
            for last in (segment for segment in reversed(self.segments) if segment.size):
                self._take_last_batches(scan, last)
                break
        except DamagedBatchError:
            return None
        epochs = _cut(self.stored_epochs, self.log_start_offset, scan.end_offset)
        last_epochs = [entries[-1].epoch if entries else None for entries in (scan.epochs, epochs)]
        if scan.end_offset != self.recovery_point or last_epochs[0] != last_epochs[1]:
            return None
        return self._finish(scan, epochs)

    def _rebuild_index(self, segment: Segment) -> None:
        for position, batch in read_batches(segment.window(), 0, batch_bytes_max=self.config.batch_bytes_max):
            segment.index.maybe_add(batch.base_offset, position)

    def _take_last_batches(self, scan: _Scan, last: Segment) -> None:
        _, start = last.index.last_before(Offset(last.base_offset + (1 << 32)))
        for position, batch in read_batches(last.window(), start, batch_bytes_max=self.config.batch_bytes_max):
            if position == start:
                scan.end_offset = batch.base_offset
            scan.take(position, batch)
        if scan.end_offset != self.segments[-1].base_offset and last is not self.segments[-1]:
            raise DamagedBatchError(last.size, "does not reach the next segment")

    def recover(self) -> LoadedLog:
        """Read everything, refuse what flushed data has lost, cut what a crash may have torn."""
        scan = self._scan()
        floor = max(self.recovery_point or 0, self.log_start_offset)
        if scan.end_offset < floor:
            self._refuse(scan)
        while len(self.segments) > scan.kept:
            # From the end, so that a crash in between leaves no hole.
            self.segments.pop().delete()
        if self.segments[-1].size != scan.kept_bytes:
            self.segments[-1].truncate(scan.kept_bytes)
        self._remove_leftovers()
        for segment in self.segments:
            segment.fsync()
        self.files.fsync_directory(self.path)
        for segment in self.segments[:-1]:
            segment.store_index()
        return self._finish(scan, _cut(tuple(scan.epochs), self.log_start_offset, scan.end_offset))

    def _scan(self) -> _Scan:
        scan = _Scan(end_offset=self.segments[0].base_offset)
        for segment in self.segments:
            if segment.base_offset != scan.end_offset:
                reason = f"begins at offset {segment.base_offset} instead"
                scan.damage = (segment.path, DamagedBatchError(0, reason))
                break
            scan.kept, scan.kept_bytes = scan.kept + 1, 0
            try:
                self._scan_segment(scan, segment)
            except DamagedBatchError as error:
                scan.damage = (segment.path, error)
                break
        return scan

    def _scan_segment(self, scan: _Scan, segment: Segment) -> None:
        segment.reset_index()
        for position, batch in read_batches(segment.window(), 0, batch_bytes_max=self.config.batch_bytes_max):
            scan.take(position, batch)
            segment.index.maybe_add(batch.base_offset, position)

    def _refuse(self, scan: _Scan) -> None:
        if scan.damage is None:
            last = self.segments[-1]
            raise self._lost(last.path, position=last.size, offset=scan.end_offset, reason="ends")
        path, error = scan.damage
        raise self._lost(path, position=error.position, offset=scan.end_offset, reason=error.reason) from error

    def _lost(self, path: Path, *, position: int, offset: Offset, reason: str) -> CorruptLogError:
        floor = Offset(max(self.recovery_point or 0, self.log_start_offset))
        return CorruptLogError(path, position=position, offset=offset, recovery_point=floor, reason=reason)

    def _remove_leftovers(self) -> None:
        kept = {segment.base_offset for segment in self.segments}
        for name in self.files.names(self.path):
            base_offset = base_offset_of(name, INDEX_SUFFIX)
            if name.endswith(TEMPORARY_SUFFIX) or (base_offset is not None and base_offset not in kept):
                self.files.unlink(self.path / name)

    def _finish(self, scan: _Scan, epochs: tuple[EpochEntry, ...]) -> LoadedLog:
        if epochs != self.stored_epochs:
            write_epochs(self.files, self.path / EPOCH_FILE, epochs)
        return LoadedLog(
            segments=tuple(self.segments),
            log_start_offset=self.log_start_offset,
            log_end_offset=scan.end_offset,
            epochs=epochs,
        )

    def close(self) -> None:
        """Give all handles back."""
        for segment in self.segments:
            segment.close()


def _cut(entries: Sequence[EpochEntry], log_start_offset: Offset, log_end_offset: Offset) -> tuple[EpochEntry, ...]:
    """Cut an epoch cache to ``[log_start_offset, log_end_offset)``; the entry in force at the start begins there."""
    below_end: Iterable[EpochEntry] = [entry for entry in entries if entry.start_offset < log_end_offset]
    before = [entry for entry in below_end if entry.start_offset <= log_start_offset]
    after = [entry for entry in below_end if entry.start_offset > log_start_offset]
    if before and log_end_offset > log_start_offset:
        after.insert(0, EpochEntry(before[-1].epoch, log_start_offset))
    return tuple(after)
