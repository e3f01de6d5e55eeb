"""Opening one log: believing a clean shutdown, or finding out what an unclean one has left.

Owns the rule that decides between a torn tail and a lost promise. After an unclean stop every batch is read and checked
(CRC, offset continuity, epoch order). Damage at or above the recovery point is what a crash may leave: the log is cut
there. Damage or absence below it means that flushed data, perhaps acknowledged and counted on by others, is gone:
then nothing is modified and the replica does not start. So it is with a leader epoch, which lies outside the CRC: below
the recovery point it must be the one that was stored before its batch was appended. Whatever remains is fsynced before
it is reported, because a batch found in the page cache is not yet on the platter. The epoch cache is rebuilt from the
batch headers, since a checkpoint can be ahead of the log that survived, and indexes are rebuilt beside it. So can the
stored voters be: those whose record did not survive are forgotten, durably. The producers of a partition are in its
newest snapshot and the batches behind that.

A log may begin above 0. It begins where its checkpoint says, or at its first segment if that is higher. Segments
wholly below are what an interrupted deletion has left, and are not looked at. A log that ends below its beginning, with
nothing promised above that, is begun anew there. A quorum log goes on from a snapshot that ends where it begins; it is
refused without, and begun anew at its newest snapshot where that contains what the log does not.
Source: Kafka's ``LogLoader``, ``UnifiedLog.rebuildLeaderEpochCache``; stricter than Kafka below the recovery point.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from msgspec import Struct
from msgspec.structs import replace

from replica.core.effects import QuorumState
from replica.core.log.epoch_cache import LeaderEpochCache
from replica.core.log.recovered import ProducerEntry, RecoveredLog
from replica.core.rules.log import LogRules
from replica.ids import Epoch, EpochEntry, Offset, SnapshotId, TopicId, TopicPartition
from replica.records import RecordBatch
from replica.storage.batch_reader import DamagedBatchError
from replica.storage.checkpoints import read_epochs, write_epochs
from replica.storage.config import LogConfig
from replica.storage.directory import DataDirectory
from replica.storage.errors import CorruptCheckpointError, CorruptLogError
from replica.storage.files import TEMPORARY_SUFFIX, Files, fsync_file
from replica.storage.late_files import LateFiles
from replica.storage.log_scan import LogScan
from replica.storage.partition_metadata import FILE_NAME as METADATA_FILE
from replica.storage.partition_metadata import read_partition_metadata
from replica.storage.producer_snapshots import SNAPSHOT_SUFFIX, ProducerSnapshots, begin_scan, read_on
from replica.storage.quorum_state_file import QUORUM_STATE_FILE
from replica.storage.segment import INDEX_SUFFIX, LOG_SUFFIX, TIME_INDEX_SUFFIX, Segment, base_offset_of
from replica.storage.segments import begin_anew
from replica.storage.snapshots import LogSnapshots
from replica.storage.trash import is_deleted_file
from replica.storage.voter_files import QUORUM_VOTERS_FILE, read_voter_entries, write_voter_entries
from replica.voters import VoterEntry

EPOCH_FILE = "leader-epoch-checkpoint"

_NOWHERE = Offset((1 << 63) - 1)
"""Above all offsets: where a log ends is not known yet."""


class LoadedLog(Struct, frozen=True, kw_only=True):
    """A log ready for use: at least one segment, the last one takes appends; all of it on stable storage.

    ``topic_id`` and ``producer_snapshots`` are absent, and ``producers`` are not looked for, in a quorum log;
    ``snapshots`` are absent, and there are no ``voters``, in a partition's.
    """

    segments: tuple[Segment, ...]
    log_start_offset: Offset
    log_end_offset: Offset
    epochs: tuple[EpochEntry, ...]
    topic_id: TopicId | None
    producers: tuple[ProducerEntry, ...]
    producer_snapshots: ProducerSnapshots | None
    snapshots: LogSnapshots | None
    voters: tuple[VoterEntry, ...]
    late_files: LateFiles | None = None
    """Where a log is that was just created."""

    def recovered(self, quorum_state: QuorumState | None, high_watermark: Offset | None) -> RecoveredLog:
        """What the core is to know of it; ``high_watermark`` as it was stored. May raise OSError."""
        return RecoveredLog(
            log_start_offset=self.log_start_offset,
            log_end_offset=self.log_end_offset,
            epochs=self.epochs,
            quorum_state=quorum_state,
            topic_id=self.topic_id,
            high_watermark=self._within(high_watermark),
            producers=self.producers,
            snapshots=() if self.snapshots is None else self.snapshots.stored,
            snapshot=b"" if self.snapshots is None else self.snapshots.read_newest(),
            voters=self.voters,
        )

    def _within(self, high_watermark: Offset | None) -> Offset | None:
        """The high watermark that was stored, if any, brought into the log that is there."""
        if high_watermark is None:
            return None
        return min(max(high_watermark, self.log_start_offset), self.log_end_offset)


def load_log(
    directory: DataDirectory,
    topic_partition: TopicPartition,
    config: LogConfig,
    rules: LogRules,
    late_files: LateFiles | None = None,
) -> LoadedLog:
    """Open a log by these rules, creating it if the directory has never had it.

    A partition's log that has just been created is in ``late_files``, and has no recovery point as long as it is.

    CorruptLogError or CorruptCheckpointError if the log must not be used; OSError if the disk refuses.
    """
    path = directory.log_path(topic_partition)
    files = late_files or directory.files
    topic_id = read_partition_metadata(files, path / METADATA_FILE)
    clean = directory.is_clean(topic_partition)
    directory.log_opened(topic_partition)
    log = _Log(
        files=files,
        path=path,
        config=config,
        rules=rules,
        topic_id=topic_id,
        log_start_offset=directory.log_starts.get(topic_partition) or Offset(0),
        recovery_point=directory.recovery_points.get(topic_partition),
        lower_recovery_point=lambda offset: directory.recovery_points.lower(topic_partition, offset),
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
    if late_files is not None:
        return replace(loaded, late_files=late_files)
    directory.log_recovered(topic_partition, loaded.log_end_offset)
    return loaded


@dataclass(slots=True, kw_only=True)
class _Log:
    """The log while it is being opened. ``recovery_point`` is absent if its creation was never finished."""

    files: Files
    path: Path
    config: LogConfig
    rules: LogRules
    topic_id: TopicId | None
    log_start_offset: Offset
    recovery_point: Offset | None
    lower_recovery_point: Callable[[Offset], None]
    segments: list[Segment] = field(default_factory=list)
    stored_epochs: tuple[EpochEntry, ...] = ()
    stored_voters: tuple[VoterEntry, ...] = ()
    producer_snapshots: ProducerSnapshots | None = None
    snapshots: LogSnapshots | None = None

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
        if self.topic_id is not None:
            fsync_file(self.files, self.path / METADATA_FILE)
        if self._has_epochs():
            fsync_file(self.files, self.path / EPOCH_FILE)
        else:
            write_epochs(self.files, self.path / EPOCH_FILE, ())
        if self.topic_id is None and not self.files.exists(self.path / QUORUM_VOTERS_FILE):
            write_voter_entries(self.files, self.path / QUORUM_VOTERS_FILE, ())

    def _has_epochs(self) -> bool:
        """Tell whether the epochs can be read; those of a log that was never flushed may not have come to the disk."""
        try:
            read_epochs(self.files, self.path / EPOCH_FILE)
        except CorruptCheckpointError:
            return False
        return True

    def _base_offsets(self) -> list[Offset]:
        names = self.files.names(self.path)
        return [base for name in names if (base := base_offset_of(name, LOG_SUFFIX)) is not None]

    def open_segments(self) -> None:
        """Open what is there and read the epochs, or refuse a log of which a part is gone."""
        if not self.files.exists(self.path):
            raise self._lost(self.path, position=0, offset=self.log_start_offset, reason="is missing")
        self.stored_epochs = read_epochs(self.files, self.path / EPOCH_FILE)
        if self.topic_id is None:
            self.snapshots = LogSnapshots(self.files, self.path)
            self.stored_voters = self._read_voters()
        else:
            self.producer_snapshots = ProducerSnapshots(self.files, self.path)
        base_offsets = self._base_offsets()
        # A deletion that was cut short may have left any of the segments below the log start: none of them counts.
        below = [base_offset for base_offset in base_offsets if base_offset <= self.log_start_offset]
        for base_offset in base_offsets[max(0, len(below) - 1) :]:
            self.segments.append(Segment.open(self.files, self.path, base_offset, self.config))
        if not self.segments:
            raise self._lost(self.path, position=0, offset=self.log_start_offset, reason="holds no segment")
        first = self.segments[0]
        start_offset, self.log_start_offset = self.log_start_offset, max(first.base_offset, self.log_start_offset)
        if self.snapshots is None:
            return
        if self.log_start_offset > 0 and not self.snapshots.has_end(self.log_start_offset):
            reason = f"is where the log starts at offset {self.log_start_offset}, and no snapshot ends there"
            raise self._lost(first.path, position=0, offset=start_offset, reason=reason)
        quorum_state = self.path / QUORUM_STATE_FILE
        has_records = any(segment.size for segment in self.segments) or self.snapshots.newest is not None
        if self.config.quorum_state_required and has_records and not self.files.exists(quorum_state):
            raise CorruptCheckpointError(quorum_state, "the file is missing although the log holds records")

    def _read_voters(self) -> tuple[VoterEntry, ...]:
        path = self.path / QUORUM_VOTERS_FILE
        entries = read_voter_entries(self.files, path)
        if entries is None and self.topic_id is None:
            raise CorruptCheckpointError(path, "the file is missing, so that nobody knows who votes")
        return entries or ()

    def load_clean(self) -> LoadedLog | None:
        """Believe the files; None if they do not bear out that they were closed cleanly, and must be searched.

        Only the end is read, and of a partition what comes after the newest snapshot of its producers.
        """
        try:
            for segment in self.segments:
                if not segment.load_indexes():
                    self._scan_from(segment.base_offset).search_segment(segment)
            scan = self._scan_from(self.segments[0].base_offset)
            scan.search_ends(self.segments)
            producers = self._producers(scan)
        except DamagedBatchError:
            return None
        epochs = _cut(self.stored_epochs, self.log_start_offset, scan.end_offset)
        last_epochs = [_last_epoch(_cut(scan.epochs, self.log_start_offset, scan.end_offset)), _last_epoch(epochs)]
        is_whole = scan.end_offset == self.recovery_point and scan.end_offset >= self.log_start_offset
        if not is_whole or last_epochs[0] != last_epochs[1] or self._snapshot_beyond(scan.end_offset, epochs):
            return None
        if self._remove_leftovers(scan.end_offset):
            self.files.fsync_directory(self.path)
        return self._finish(scan, epochs, producers)

    def recover(self) -> LoadedLog:
        """Read everything, refuse what flushed data has lost, cut what a crash may have torn."""
        scan = self._search()
        if self.log_start_offset < (self.recovery_point or 0) > scan.end_offset:
            self._refuse(scan)
        snapshot_id = self._snapshot_beyond(scan.end_offset, scan.epochs)
        if snapshot_id is not None:
            scan = self._begin_anew(snapshot_id.end_offset)
        elif scan.end_offset < self.log_start_offset:
            # Nothing that was promised lies at or above the log start, and nothing below is wanted.
            scan = self._begin_anew(self.log_start_offset)
        self._cut_to(scan)
        producers = self._producers(scan)
        self._remove_leftovers(scan.end_offset)
        for segment in self.segments:
            segment.fsync()
        self.files.fsync_directory(self.path)
        for segment in self.segments[:-1]:
            segment.store_indexes()
        found = [entry for entry in scan.epochs if self.rules.epoch_is_recovered(epoch=entry.epoch)]
        return self._finish(scan, _cut(found, self.log_start_offset, scan.end_offset), producers)

    def _search(self) -> LogScan:
        first_offset = self.segments[0].base_offset
        scan = self._scan_from(first_offset)
        if self.producer_snapshots is not None:
            scan.producers_from, scan.producers = begin_scan(self.producer_snapshots, first_offset, _NOWHERE)
        scan.search(self.segments)
        return scan

    def _scan_from(self, offset: Offset) -> LogScan:
        return LogScan(
            config=self.config,
            log_start_offset=self.log_start_offset,
            recovery_point=self.recovery_point or Offset(0),
            written_in=LeaderEpochCache(self.stored_epochs),
            end_offset=offset,
        )

    def _snapshot_beyond(self, end_offset: Offset, epochs: Sequence[EpochEntry]) -> SnapshotId | None:
        """The newest snapshot, if it was installed for want of its records in this log; the log has to go then.

        It ends beyond the log, or the record below its end is of another epoch: the log has gone astray before that,
        so that nothing behind is committed.
        """
        newest = None if self.snapshots is None else self.snapshots.newest
        if newest is None or newest.end_offset <= self.log_start_offset:
            return None
        below = [entry for entry in epochs if entry.start_offset < newest.end_offset]
        is_held = newest.end_offset <= end_offset and _last_epoch(below) == newest.epoch
        return None if is_held else newest

    def _begin_anew(self, offset: Offset) -> LogScan:
        # First the recovery point: if this is cut short, the next start finds less than there is now.
        self.lower_recovery_point(Offset(min(self.segments[0].base_offset, offset)))
        forget = self._remove_producer_snapshots
        self.segments = [begin_anew(self.files, self.path, self.config, self.segments, offset, forget)]
        self.log_start_offset = offset
        scan = self._scan_from(offset)
        scan.kept = 1
        return scan

    def _remove_producer_snapshots(self) -> None:
        if self.producer_snapshots is not None:
            self.producer_snapshots.remove_all()

    def _cut_to(self, scan: LogScan) -> None:
        while len(self.segments) > scan.kept:
            # From the end, so that a crash in between leaves no hole.
            self.segments.pop().delete()
        if self.segments[-1].size != scan.kept_bytes:
            self.segments[-1].cut_tail(scan.kept_bytes)

    def _producers(self, scan: LogScan) -> tuple[ProducerEntry, ...]:
        if self.producer_snapshots is None:
            return ()
        if scan.producers is not None and scan.producers_from <= scan.end_offset:
            return scan.producers.entries
        first_offset = self.segments[0].base_offset
        return read_on(
            self.producer_snapshots, self._batches_from, first_offset=first_offset, end_offset=scan.end_offset
        ).entries

    def _batches_from(self, offset: Offset) -> Iterator[RecordBatch]:
        reaching = bisect_right(self.segments, offset, key=lambda segment: segment.base_offset) - 1
        for segment in self.segments[reaching:]:
            yield from (batch for _, batch in segment.batches_from(offset))

    def _refuse(self, scan: LogScan) -> None:
        if scan.damage is None:
            last = self.segments[-1]
            raise self._lost(last.path, position=last.size, offset=scan.end_offset, reason="ends")
        path, error = scan.damage
        raise self._lost(path, position=error.position, offset=scan.end_offset, reason=error.reason) from error

    def _lost(self, path: Path, *, position: int, offset: Offset, reason: str) -> CorruptLogError:
        floor = Offset(max(self.recovery_point or 0, self.log_start_offset))
        return CorruptLogError(path, position=position, offset=offset, recovery_point=floor, reason=reason)

    def _remove_leftovers(self, end_offset: Offset) -> bool:
        """Remove what crashes and deletions have left beside the segments; tell whether there was anything."""
        if self.producer_snapshots is not None:
            self.producer_snapshots.keep_needed({segment.base_offset for segment in self.segments}, end_offset)
        if self.snapshots is not None:
            self.snapshots.drop_below(self.log_start_offset)
        leftovers = [name for name in self.files.names(self.path) if self._is_leftover(name)]
        for name in leftovers:
            self.files.unlink(self.path / name)
        return bool(leftovers)

    def _is_leftover(self, name: str) -> bool:
        if name.endswith(TEMPORARY_SUFFIX) or is_deleted_file(name):
            return True
        base_offsets = [base_offset_of(name, suffix) for suffix in (LOG_SUFFIX, INDEX_SUFFIX, TIME_INDEX_SUFFIX)]
        kept = {segment.base_offset for segment in self.segments}
        producers_at = base_offset_of(name, SNAPSHOT_SUFFIX)
        if self.producer_snapshots is not None and producers_at is not None:
            return producers_at not in self.producer_snapshots.offsets
        return any(base_offset is not None and base_offset not in kept for base_offset in base_offsets)

    def _finish(self, scan: LogScan, epochs: tuple[EpochEntry, ...], producers: tuple[ProducerEntry, ...]) -> LoadedLog:
        if self.producer_snapshots is not None and producers and scan.end_offset == self.log_start_offset:
            # The next segment may begin just here, and would be taken for the first one: with it, this is kept.
            self.producer_snapshots.store_missing(scan.end_offset, lambda: producers)
        if epochs != self.stored_epochs:
            write_epochs(self.files, self.path / EPOCH_FILE, epochs)
        voters = tuple(entry for entry in self.stored_voters if entry.offset < scan.end_offset)
        if voters != self.stored_voters:
            # An entry is stored before its record. 1. The record is lost in a crash. 2. Another takes its offset.
            # 3. With the entry still there, the next start would take that one for the voters' record.
            write_voter_entries(self.files, self.path / QUORUM_VOTERS_FILE, voters)
        return LoadedLog(
            segments=tuple(self.segments),
            log_start_offset=self.log_start_offset,
            log_end_offset=scan.end_offset,
            epochs=epochs,
            topic_id=self.topic_id,
            producers=producers,
            producer_snapshots=self.producer_snapshots,
            snapshots=self.snapshots,
            voters=voters,
        )

    def close(self) -> None:
        """Give all handles back."""
        for segment in self.segments:
            segment.close()


def _last_epoch(entries: Sequence[EpochEntry]) -> Epoch | None:
    return entries[-1].epoch if entries else None


def _cut(entries: Sequence[EpochEntry], log_start_offset: Offset, log_end_offset: Offset) -> tuple[EpochEntry, ...]:
    """Cut an epoch cache to ``[log_start_offset, log_end_offset)``; the entry in force at the start begins there."""
    below_end: Iterable[EpochEntry] = [entry for entry in entries if entry.start_offset < log_end_offset]
    before = [entry for entry in below_end if entry.start_offset <= log_start_offset]
    after = [entry for entry in below_end if entry.start_offset > log_start_offset]
    if before and log_end_offset > log_start_offset:
        after.insert(0, EpochEntry(before[-1].epoch, log_start_offset))
    return tuple(after)
