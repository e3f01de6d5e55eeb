"""One partition as a consumer reads it: where it is, what it holds ready, and whether that still is what the log says.

Owns the position and the epochs of what was read, by which a truncation is found: the leader tells where an epoch ends
in its log, and if that is below what was read in it, the log was cut and may have been written anew. Knows neither
clock nor network. Source: KIP-320; Kafka's ``SubscriptionState``. Kafka's consumer remembers the last epoch only and
compares offsets; with the epochs of all that was read, a log that was cut and has grown beyond the position is found
out too, and so is the very offset up to which the two agree.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from dataclasses import replace
from enum import StrEnum

from replica.client.failures import ReadFailedError, UnreadableBatchError
from replica.client.polled import PolledRecords
from replica.core.log.epoch_cache import LeaderEpochCache
from replica.ids import Epoch, EpochEndOffset, EpochEntry, Offset, ReplicaId, TopicId, TopicPartition
from replica.records import ColumnDecoder, CorruptRecordError, RecordBatch
from replica.records.walking import library

EPOCHS_MAX = 100
"""How many changes of leader a consumer remembers: older ones are beyond what a truncation reaches."""

COLUMNS_BYTES_MAX = 256 << 20
"""Columns take no further batch from so many bytes on: their offsets have 32 bits."""


class OffsetReset(StrEnum):
    """Where to begin without a position, and after one that is not in the log any more."""

    EARLIEST = "earliest"
    LATEST = "latest"
    NONE = "none"


class Reading:
    """The state of one assigned partition. ``offset`` is the next record's; absent until it is known where to begin."""

    def __init__(self, topic_partition: TopicPartition) -> None:
        self.topic_partition = topic_partition
        self.offset: Offset | None = None
        self.reset: OffsetReset | None = None
        """Where the user wants to begin; absent where the consumer's policy decides."""
        self.topic_id: TopicId | None = None
        """The topic in which the position was taken; absent until it is known."""
        self.generation = 0
        """Counts seeks: an answer to what was asked before the last one is of no use."""
        self.is_busy = False
        self.retry_at_ms = 0
        self.failing_since_ms: int | None = None
        self.error: ReadFailedError | None = None
        self.preferred: ReplicaId | None = None
        """The follower that the leader would rather have asked; until when, the next says."""
        self.preferred_until_ms = 0
        self.leader_only_until_ms = 0
        self._validated_epoch: Epoch | None = None
        self._epochs = LeaderEpochCache()
        self._ready: deque[PolledRecords] = deque()
        self._ready_end = Offset(0)

    # --- moving -----------------------------------------------------------------------------------------------------

    def seek(self, offset: Offset, leader_epoch: Epoch | None, topic_id: TopicId | None = None) -> None:
        """Go to ``offset``; ``leader_epoch`` is that of the record just below, if the reader remembers it.

        So is ``topic_id``: the topic in which the offset was taken.
        """
        if leader_epoch is None or offset == 0:
            self._move(offset, [])
        else:
            self._move(offset, [EpochEntry(leader_epoch, Offset(offset - 1))])
        self.topic_id = topic_id

    def forget_position(self, reset: OffsetReset) -> None:
        """Have the position looked up, by ``reset``."""
        self._move(None, [])
        self.reset = reset

    def go_back(self, offset: Offset) -> None:
        """Go back to where the log and what was read of it still agree."""
        kept = [entry for entry in self._epochs.entries if entry.start_offset < offset]
        self._move(offset, kept)

    def read_again(self, offset: Offset) -> None:
        """Go back to what was handed out and is wanted once more: the log is still the one that was read."""
        topic_id = self.topic_id
        self.go_back(offset)
        self.topic_id = topic_id

    def _move(self, offset: Offset | None, epochs: list[EpochEntry]) -> None:
        self.offset, self._epochs = offset, LeaderEpochCache(epochs)
        self._ready.clear()
        self.generation += 1
        self.is_busy, self.error, self.topic_id, self._validated_epoch = False, None, None, None
        self.retry_at_ms = 0

    # --- records ----------------------------------------------------------------------------------------------------

    @property
    def is_empty(self) -> bool:
        """Whether nothing is ready to be handed out."""
        return not self._ready

    def add(self, batches: Iterable[RecordBatch]) -> None:
        """Take what was fetched from the position, up to the first batch that cannot be read.

        Raises UnreadableBatchError only where that one stands at the position: what is good before it comes first. So
        is a CorruptRecordError of ``batches`` passed on.
        """
        assert self.offset is not None, self.topic_partition
        assert self.is_empty, self.topic_partition
        self._ready_end = self.offset
        decoder = ColumnDecoder(library())
        try:
            for batch in batches:
                if decoder.size_bytes >= COLUMNS_BYTES_MAX:
                    self._hold(decoder)
                    decoder = ColumnDecoder(library())
                self._add_batch(decoder, batch, self.offset)
        except (CorruptRecordError, UnreadableBatchError):
            if self._ready_end == self.offset:
                raise
        self._hold(decoder)
        if len(self._epochs.entries) > EPOCHS_MAX:
            self._epochs = LeaderEpochCache(self._epochs.entries[-EPOCHS_MAX:])
        if self.is_empty:
            self.offset = self._ready_end

    def _add_batch(self, decoder: ColumnDecoder, batch: RecordBatch, start: Offset) -> None:
        """Take what is at or behind ``start``; nothing of the protocol's own batches."""
        try:
            if not batch.is_control and batch.end_offset > start:
                decoder.add(batch, start)
        except CorruptRecordError as error:
            raise UnreadableBatchError(self.topic_partition, batch.base_offset, batch.end_offset, str(error)) from error
        if batch.end_offset > start:
            self._epochs.assign(batch.leader_epoch, max(batch.base_offset, start))
        self._ready_end = max(self._ready_end, batch.end_offset)

    def _hold(self, decoder: ColumnDecoder) -> None:
        """Hold what was decoded ready, if it is anything."""
        columns = decoder.finish()
        if columns:
            name = self.topic_partition
            self._ready.append(PolledRecords(topic_partition=name, columns=columns, start=0, stop=len(columns)))

    def take(self, count: int) -> PolledRecords:
        """Hand out records, up to ``count`` of those that are ready; the position moves behind them."""
        assert count > 0, count
        ready = self._ready.popleft()
        taken = replace(ready, stop=min(ready.stop, ready.start + count))
        if taken.stop < ready.stop:
            self._ready.appendleft(replace(ready, start=taken.stop))
        self.offset = self._ready_end if self.is_empty else Offset(taken.last_offset + 1)
        return taken

    # --- truncation -------------------------------------------------------------------------------------------------

    @property
    def last_epoch(self) -> Epoch | None:
        """The epoch of the record just below the position, if it is known."""
        latest = self._epochs.latest
        return None if latest is None else latest.epoch

    def believed_from(self, leader_epoch: Epoch) -> Epoch:
        """The epoch in which a replica must be to be asked about the position: no older than that of what was read.

        A leader in an older epoch may lack records that its successor has committed.
        """
        return leader_epoch if self.last_epoch is None else max(leader_epoch, self.last_epoch)

    def is_validated(self, leader_epoch: Epoch) -> bool:
        """Whether the leader of this epoch has said that it has what was read."""
        return self._validated_epoch == leader_epoch

    def on_validated(self, leader_epoch: Epoch) -> None:
        """The leader of this epoch has what was read."""
        self._validated_epoch = leader_epoch

    def divergence(self, end: EpochEndOffset) -> Offset | None:
        """Tell up to where the log is what was read, after its leader said where our last epoch ends in it.

        Absent where the log has all that was read.
        """
        assert self.offset is not None, self.topic_partition
        own = self._epochs.end_offset_for(end.epoch, self.offset)
        divergence = end.end_offset if own is None else min(end.end_offset, own.end_offset)
        return Offset(divergence) if divergence < self.offset else None
