"""What a replica remembers of idempotent producers, so that a batch sent twice is appended once.

Owns each producer's newest epoch and its newest batches in it, by which a leader tells a new batch from one that it has
already, and from one that comes too early. The memory is a function of the log: every replica notes what it appends,
whoever sent it, and after a truncation the log is read again (``ScanProducers``), because batches that had been pushed
out of the memory by those that are gone now count again. So a new leader recognises what its predecessor appended.

Source: Kafka ``ProducerStateManager``, ``ProducerStateEntry``, ``ProducerAppendInfo``; KIP-98.
"""

from __future__ import annotations

from collections.abc import Iterable

from msgspec import Struct

from replica.core.config import PRODUCER_IDS_MAX
from replica.core.log.recovered import PRODUCER_BATCHES_KEPT, ProducerBatch, ProducerEntry
from replica.core.rules.partition import PartitionRules
from replica.errors import ErrorCode
from replica.ids import Offset
from replica.records import NO_PRODUCER_ID, RecordBatch, increment_sequence


class Duplicate(Struct, frozen=True, kw_only=True):
    """The batch is in the log already, at these offsets; it counts as written once they are committed."""

    base_offset: Offset
    end_offset: Offset


class ProducerStates:
    """All producers that one log knows, the one that has been idle longest first.

    At most ``ids_max`` are remembered. One that has appended nothing for ``expiration_ms`` is forgotten, counted on
    this replica's own clock from when it was last seen: a batch's timestamp is its producer's word, and may be missing.
    Nothing else makes room: where there is none, a leader takes no batch of a new producer (``has_room_for``), or else
    whoever comes with many ids would have the others forgotten, and what they repeat written twice. A follower may know
    more than its leader, which has forgotten some; then it drops those that have been idle longest, and they are all
    among those: whom a leader knows, it knows to be among the last ``ids_max`` that have written.
    """

    def __init__(
        self,
        entries: Iterable[ProducerEntry],
        *,
        expiration_ms: int,
        ids_max: int,
        rules: PartitionRules | None = None,
    ) -> None:
        self.expiration_ms = expiration_ms
        self._ids_max = ids_max
        self._rules = rules or PartitionRules()
        self._entries = {entry.producer_id: entry for entry in entries}
        self._idle_since_ms: dict[int, int] = {}
        """When ``expire`` first saw a producer after its last batch."""
        self._scans_awaited = 0
        self._scan_end_offset = Offset(0)
        """Where the log ended when the last scan was asked for."""
        self._drop_surplus()

    @property
    def entries(self) -> tuple[ProducerEntry, ...]:
        """All producers, the one that has been idle longest first."""
        return tuple(self._entries.values())

    @property
    def awaits_scan(self) -> bool:
        """Whether the log was cut and has not been read again yet: what is known is right, but not all of it."""
        return self._scans_awaited > 0

    def check(self, batch: RecordBatch, now_ms: int) -> Duplicate | ErrorCode | None:
        """Decide what a leader does with a producer's batch: append it (None), answer as before, or refuse it."""
        if batch.producer_id == NO_PRODUCER_ID:
            return None
        if batch.producer_id < 0 or batch.producer_epoch < 0 or batch.base_sequence < 0:
            return ErrorCode.INVALID_RECORD
        self.expire(now_ms)
        entry = self._entries.get(batch.producer_id)
        duplicate = None if entry is None else _find_duplicate(entry, batch)
        if duplicate is not None:
            return duplicate
        if self.awaits_scan:
            # The older batches of this producer may be unknown for a moment: neither "new" nor "out of order" is sure.
            return ErrorCode.THROTTLING_QUOTA_EXCEEDED
        return self._rules.sequence_error(
            known_epoch=None if entry is None else entry.producer_epoch,
            next_sequence=0 if entry is None else increment_sequence(entry.batches[-1].last_sequence, 1),
            producer_epoch=batch.producer_epoch,
            base_sequence=batch.base_sequence,
        )

    def has_room_for(self, producer_id: int) -> bool:
        """Whether a leader may take a batch of this producer; of one that is known, always."""
        return self._rules.may_take_producer(
            is_known=producer_id in self._entries, producers=len(self._entries), ids_max=self._ids_max
        )

    def note(self, batch: RecordBatch) -> None:
        """Remember a batch that stands in the log now. Nothing is validated: a follower appends what it gets."""
        if _has_sequence(batch):
            self._note(batch.producer_id, batch.producer_epoch, _as_producer_batch(batch))

    def truncate_to(self, end_offset: Offset) -> None:
        """Forget what stood at and above ``end_offset``; the log is to be scanned for what stands below."""
        self._await_scan(end_offset)
        if not self._rules.producer_states_follow_log():
            return
        kept = {}
        for producer_id, entry in self._entries.items():
            batches = tuple(batch for batch in entry.batches if batch.end_offset <= end_offset)
            if batches:
                kept[producer_id] = ProducerEntry(
                    producer_id=producer_id, producer_epoch=entry.producer_epoch, batches=batches
                )
        self._entries = kept

    def start_at(self, offset: Offset) -> None:
        """Forget everything: the log is empty and begins at ``offset``. It is to be scanned all the same."""
        self._await_scan(offset)
        if self._rules.producer_states_follow_log():
            self._entries = {}

    def replace_all(self, entries: Iterable[ProducerEntry]) -> None:
        """Take what a scan has found, if it is the last that was asked for: the others saw a log that was cut since.

        What was noted since that scan was asked for stands behind it in the log, and stays.
        """
        assert self._scans_awaited > 0, "nobody asked for a scan"
        self._scans_awaited -= 1
        if self.awaits_scan or not self._rules.producer_states_follow_log():
            return
        noted = self._entries
        self._idle_since_ms.clear()  # In another order now: who is idle is counted anew, rather late than early.
        self._entries = {entry.producer_id: entry for entry in entries}
        for entry in noted.values():
            for batch in entry.batches:
                if batch.base_offset >= self._scan_end_offset:
                    self._note(entry.producer_id, entry.producer_epoch, batch)
        self._drop_surplus()

    def expire(self, now_ms: int) -> None:
        """Forget producers that have been idle for too long."""
        for producer_id in reversed(self._entries):
            if producer_id in self._idle_since_ms:
                break
            self._idle_since_ms[producer_id] = now_ms
        while self._entries:
            longest_idle = next(iter(self._entries))
            if now_ms - self._idle_since_ms[longest_idle] < self.expiration_ms:
                break
            self._forget(longest_idle)

    def _note(self, producer_id: int, producer_epoch: int, batch: ProducerBatch) -> None:
        entry = self._entries.pop(producer_id, None)  # Out and in again: it is idle no more, so it moves to the end.
        self._idle_since_ms.pop(producer_id, None)
        self._entries[producer_id] = _with_batch(entry, producer_id, producer_epoch, batch)
        self._drop_surplus()

    def _drop_surplus(self) -> None:
        while len(self._entries) > self._ids_max:
            self._forget(next(iter(self._entries)))

    def _forget(self, producer_id: int) -> None:
        del self._entries[producer_id]
        self._idle_since_ms.pop(producer_id, None)

    def _await_scan(self, end_offset: Offset) -> None:
        self._scans_awaited += 1
        self._scan_end_offset = end_offset


class ProducerScan:
    """The idempotent producers of a log as its batches go by, the one that has been idle longest first.

    It may begin with what an earlier scan has found. At most ``PRODUCER_IDS_MAX`` are remembered.
    """

    def __init__(self, entries: Iterable[ProducerEntry] = ()) -> None:
        self._entries = {entry.producer_id: entry for entry in entries}

    @property
    def entries(self) -> tuple[ProducerEntry, ...]:
        """What was found so far."""
        return tuple(self._entries.values())

    def note(self, batch: RecordBatch) -> None:
        """Take the next batch of the log."""
        if not _has_sequence(batch):
            return
        entry = self._entries.pop(batch.producer_id, None)
        self._entries[batch.producer_id] = _with_batch(
            entry, batch.producer_id, batch.producer_epoch, _as_producer_batch(batch)
        )
        if len(self._entries) > PRODUCER_IDS_MAX:
            del self._entries[next(iter(self._entries))]


def scan(batches: Iterable[RecordBatch]) -> tuple[ProducerEntry, ...]:
    """Find the idempotent producers of a log from its batch headers, the one that has been idle longest first."""
    producers = ProducerScan()
    for batch in batches:
        producers.note(batch)
    return producers.entries


def _has_sequence(batch: RecordBatch) -> bool:
    return batch.producer_id >= 0 and batch.base_sequence >= 0 and not batch.is_control


def _as_producer_batch(batch: RecordBatch) -> ProducerBatch:
    return ProducerBatch(
        base_sequence=batch.base_sequence,
        last_sequence=batch.last_sequence,
        base_offset=batch.base_offset,
        end_offset=batch.end_offset,
        max_timestamp_ms=batch.max_timestamp_ms,
    )


def _with_batch(
    entry: ProducerEntry | None, producer_id: int, producer_epoch: int, batch: ProducerBatch
) -> ProducerEntry:
    """The producer after one more batch; with one of another epoch it begins anew."""
    earlier = () if entry is None or entry.producer_epoch != producer_epoch else entry.batches
    return ProducerEntry(
        producer_id=producer_id,
        producer_epoch=producer_epoch,
        batches=(*earlier, batch)[-PRODUCER_BATCHES_KEPT:],
    )


def _find_duplicate(entry: ProducerEntry, batch: RecordBatch) -> Duplicate | None:
    """Find the kept batch that has exactly these sequence numbers in the same epoch."""
    if entry.producer_epoch != batch.producer_epoch:
        return None
    for kept in entry.batches:
        if (kept.base_sequence, kept.last_sequence) == (batch.base_sequence, batch.last_sequence):
            return Duplicate(base_offset=kept.base_offset, end_offset=kept.end_offset)
    return None
