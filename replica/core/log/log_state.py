"""What the core knows of one log without reading it: ends, epochs, snapshots, and the sizes of its youngest batches.

Owns log start, log end, flushed end and high watermark and keeps their order:
``log_start_offset <= high_watermark <= log_end_offset`` and ``flushed_end_offset <= log_end_offset``. The bytes are
with the storage; changes here are matched one to one by Append, Flush, Truncate and StoreEpochs effects. Of snapshots,
which quorum logs have, only ids and sizes are here. Where the log does not begin at 0, the oldest ends where it begins.

Source: Kafka ``UnifiedLog`` / ``ReplicatedLog`` (quorum form of ``endOffsetForEpoch`` and ``validateOffsetAndEpoch``).
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import deque
from collections.abc import Sequence
from operator import itemgetter

from replica.core.log.epoch_cache import LeaderEpochCache
from replica.core.log.recovered import RecoveredLog, StoredSnapshot
from replica.core.rules import Rules
from replica.ids import Epoch, EpochEndOffset, Offset, SnapshotId
from replica.records import RecordBatch

TAIL_BATCHES_MAX = 1024
"""How many of the youngest batches have their sizes remembered, to count the bytes a fetch could return."""

MARKS_MAX = 256
"""How many positions are remembered of the batches before those, one of as many: so of a quarter of a million."""

MANY_BYTES = 1 << 62
"""More than any reader waits for."""


class LogState:
    """The ends and the epochs of one log, kept in step with what storage is told."""

    def __init__(self, recovered: RecoveredLog, rules: Rules | None = None) -> None:
        self.log_start_offset = recovered.log_start_offset
        self.log_end_offset = recovered.log_end_offset
        self.flushed_end_offset = recovered.log_end_offset
        self.high_watermark: Offset | None = recovered.high_watermark
        """Everything below is committed; absent until it is known. In a quorum log it never falls."""
        self.epochs = LeaderEpochCache(recovered.epochs)
        self.snapshots = recovered.snapshots
        """Those that are on stable storage, oldest first."""
        self._rules = rules or Rules()
        if self.snapshots:
            self.high_watermark = self._rules.high_watermark_at_start(
                checkpointed=recovered.high_watermark, snapshot_end_offset=self.snapshots[-1].id.end_offset
            )
        self._tail: deque[tuple[Offset, Offset, int, int]] = deque(maxlen=TAIL_BATCHES_MAX)
        self._marks: deque[tuple[Offset, int]] = deque(maxlen=MARKS_MAX)
        """Where the first batch and one of every so many began, and the bytes before it by the same count as in the
        tail. So a fetch that waits at a batch of the tail is counted for when the tail has moved on."""
        self._unmarked = 0

    @property
    def last_epoch(self) -> Epoch | None:
        """The epoch of the last record, of the log or else of the snapshot at whose end it begins; absent without."""
        return self._rules.last_epoch_of_log(
            record_epoch=self.epochs.epoch_for_offset(Offset(self.log_end_offset - 1)),
            snapshot_epoch=None if self._start is None else self._start.epoch,
        )

    @property
    def first_epoch(self) -> Epoch | None:
        """The epoch of the first record; absent without."""
        start = self.log_start_offset
        return None if start == self.log_end_offset else self.epochs.epoch_for_offset(start)

    @property
    def _start(self) -> SnapshotId | None:
        """The snapshot at whose end the log begins; absent where it begins at 0, and in a partition."""
        if not self.snapshots or self.snapshots[0].id.end_offset != self.log_start_offset:
            return None
        return self.snapshots[0].id

    def epoch_below(self, end_offset: Offset) -> Epoch | None:
        """Name the epoch of the last record below an offset of the log; absent where there is none."""
        if end_offset == self.log_start_offset:
            return None if self._start is None else self._start.epoch
        return self.epochs.epoch_for_offset(Offset(end_offset - 1))

    @property
    def is_flushed(self) -> bool:
        """Whether every record of the log is on stable storage."""
        return self.flushed_end_offset == self.log_end_offset

    def append(self, batches: Sequence[RecordBatch]) -> bool:
        """Move the end past ``batches``; tell whether a new epoch began with one of them."""
        epochs_changed = False
        for batch in batches:
            assert batch.base_offset == self.log_end_offset, (batch.base_offset, self.log_end_offset)
            epochs_changed |= self.epochs.assign(batch.leader_epoch, batch.base_offset)
            self.log_end_offset = batch.end_offset
            before = self._tail[-1][3] if self._tail else 0
            self._tail.append((batch.base_offset, batch.end_offset, before, before + batch.size_bytes))
            self._unmarked += 1
            if not self._marks or self._unmarked >= TAIL_BATCHES_MAX:
                self._unmarked = 0
                self._marks.append((batch.base_offset, before))
        return epochs_changed

    def flushed(self, end_offset: Offset) -> None:
        """Note that everything below ``end_offset`` is on stable storage."""
        assert end_offset <= self.log_end_offset, (end_offset, self.log_end_offset)
        self.flushed_end_offset = max(self.flushed_end_offset, end_offset)

    def truncate_to(self, end_offset: Offset) -> None:
        """Drop what is at and above ``end_offset``. Only a log that is wholly flushed is ever truncated.

        (A flush in flight could otherwise report an end that meanwhile belongs to other records.)
        """
        assert self.is_flushed, (self.flushed_end_offset, self.log_end_offset)
        assert self.log_start_offset <= end_offset <= self.log_end_offset, (end_offset, self.log_end_offset)
        self.epochs.truncate_from_end(end_offset)
        self.log_end_offset = self.flushed_end_offset = end_offset
        if self.high_watermark is not None:  # Cut below it only where the rules allow that, and they do not.
            self.high_watermark = min(self.high_watermark, end_offset)
        while self._tail and self._tail[-1][0] >= end_offset:
            self._tail.pop()
        while self._marks and (not self._tail or self._marks[-1][0] >= end_offset):
            self._marks.pop()

    def is_batch_end(self, offset: Offset) -> bool:
        """Tell whether a batch is known to end at ``offset``, or an epoch to begin there; of old ones it is not."""
        known = offset == self.log_end_offset or any(base_offset == offset for base_offset, *_ in self._tail)
        return known or any(entry.start_offset == offset > self.log_start_offset for entry in self.epochs.entries)

    def advance_high_watermark(self, offset: Offset) -> None:
        """Raise the high watermark to ``offset``; a lower one leaves it where it is."""
        assert offset <= self.log_end_offset, (offset, self.log_end_offset)
        if self.high_watermark is None or offset > self.high_watermark:
            self.high_watermark = offset

    def set_high_watermark(self, offset: Offset) -> None:
        """Move the high watermark to ``offset``, up or down: a new leader of a partition may know of less."""
        assert self.log_start_offset <= offset <= self.log_end_offset, (
            self.log_start_offset,
            offset,
            self.log_end_offset,
        )
        self.high_watermark = offset

    def raise_log_start(self, offset: Offset) -> bool:
        """Forget what lies below ``offset``, which is committed; tell whether the epochs changed."""
        assert self.high_watermark is not None, offset
        assert self.log_start_offset <= offset <= self.high_watermark, (self.log_start_offset, offset)
        self.log_start_offset = offset
        return self.epochs.truncate_from_start(offset)

    def add_snapshot(self, snapshot: StoredSnapshot) -> bool:
        """Note a newer snapshot, which is stored, and let the log begin later; tell whether it does.

        Snapshots that end below the new start are forgotten.
        """
        assert not self.snapshots or self.snapshots[-1].id < snapshot.id, (self.snapshots, snapshot)
        self.snapshots = (*self.snapshots, snapshot)
        log_start_offset = self._rules.log_start_after_snapshot(
            snapshots=[known.id for known in self.snapshots], log_start_offset=self.log_start_offset
        )
        if log_start_offset == self.log_start_offset:
            return False
        self.raise_log_start(log_start_offset)
        self.snapshots = tuple(known for known in self.snapshots if known.id.end_offset >= log_start_offset)
        return True

    def start_after(self, snapshot: StoredSnapshot) -> None:
        """Forget everything: the log is empty and begins at the end of ``snapshot``, the only one it has."""
        self.start_at(snapshot.id.end_offset)
        self.snapshots = (snapshot,)

    def start_at(self, offset: Offset) -> None:
        """Forget everything: log start, log end and high watermark are all ``offset`` (KAFKA-9491)."""
        assert self.is_flushed, (self.flushed_end_offset, self.log_end_offset)
        self.epochs = LeaderEpochCache()
        self.log_start_offset = self.log_end_offset = self.flushed_end_offset = self.high_watermark = offset
        self._tail.clear()
        self._marks.clear()

    def count_bytes(self, start_offset: Offset, end_offset: Offset) -> int:
        """Count the bytes of the batches in ``[start_offset, end_offset)``.

        Only the youngest batches' sizes are remembered. Of older ones up to as many are left out; of those before all
        that is remembered there are taken to be more than anybody wants.
        """
        if start_offset >= end_offset:
            return 0
        if not self._marks or start_offset < self._marks[0][0]:
            return MANY_BYTES
        return max(1, self._bytes_before(end_offset) - self._bytes_before(start_offset))

    def _bytes_before(self, offset: Offset) -> int:
        """Count, by one look-up, what is before the batch that holds ``offset``; of an old one, before a later batch.

        Each fetch that waits asks this after each write.
        """
        if offset >= self._tail[0][0]:
            at = bisect_right(self._tail, offset, key=itemgetter(1))
            return self._tail[at][2] if at < len(self._tail) else self._tail[-1][3]
        at = bisect_left(self._marks, offset, key=itemgetter(0))
        youngest = self._tail[0][2]
        return min(self._marks[at][1], youngest) if at < len(self._marks) else youngest

    def end_offset_for_epoch(self, epoch: Epoch) -> EpochEndOffset:
        """Tell where an epoch ends in this log.

        One that is below all its records' ends at the log start, in the epoch of the snapshot there if there is one.
        """
        if self._start is not None and (not self.epochs.entries or epoch < self.epochs.entries[0].epoch):
            return EpochEndOffset(self._start.epoch, self.log_start_offset)
        return self._rules.epoch_end(
            epochs=self.epochs,
            epoch=epoch,
            log_start_offset=self.log_start_offset,
            log_end_offset=self.log_end_offset,
        )

    def end_offset_of_held(self, epoch: Epoch | None) -> EpochEndOffset | None:
        """Tell where an epoch ends in this log; absent where it cannot know.

        The epochs begin with the log, so that the first one's beginning says nothing of the end of those before it.
        """
        entries = self.epochs.entries
        if epoch is not None and entries and epoch < entries[0].epoch and self.log_start_offset > 0:
            return None
        return self.epochs.end_offset_for(epoch, self.log_end_offset)

    def diverging_epoch(self, fetch_offset: Offset, last_fetched_epoch: Epoch) -> EpochEndOffset | None:
        """Tell where a reader that holds ``fetch_offset`` records, the last of ``last_fetched_epoch``, left this log.

        Absent when its log is a prefix of this one.
        """
        if fetch_offset == self.log_start_offset == 0:
            return None
        end = self.end_offset_for_epoch(last_fetched_epoch)
        diverged = self._rules.has_diverged(end=end, fetch_offset=fetch_offset, last_fetched_epoch=last_fetched_epoch)
        return end if diverged else None

    def snapshot_instead(self, fetch_offset: Offset, last_fetched_epoch: Epoch) -> SnapshotId | None:
        """Name the newest snapshot to a follower that needs one: its log cannot go on from this one's records."""
        if not self.snapshots:
            return None
        needs = self._rules.needs_snapshot(
            fetch_offset=fetch_offset,
            last_fetched_epoch=last_fetched_epoch,
            log_start_offset=self.log_start_offset,
            oldest=self.snapshots[0].id,
        )
        return self.snapshots[-1].id if needs else None
