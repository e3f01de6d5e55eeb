"""One partition's batches on their way out: in order, numbered, and each at most once in the log.

Owns when a batch may be sent, its sequence numbers, and what becomes of those behind a batch that failed. Knows
neither clock nor network. Source: KIP-98, KIP-360; Kafka's ``RecordAccumulator``, ``TransactionManager``,
``TxnPartitionEntry``.

A leader takes a producer's batches only in the order of their sequence numbers, and answers a repetition of the last
five without writing it again. Hence these rules:

- A batch gets its numbers when it is first sent and keeps them: sent again it is the same bytes.
- A repetition is sent only from the front, so that it never waits for one behind it.
- A batch that is given up leaves a **hole** in the numbers: the leader refuses all that follow. New batches wait until
  every numbered one is acknowledged, given up, or certainly not written. Then the producer's epoch for this partition
  grows by one and the numbers start again at 0.
- A batch that may be written is never numbered anew: the leader could not tell that it is the same.
- Under each identity the first batch goes alone. A leader that does not know a producer takes any number as its first,
  and would take the second batch for it if the first were lost.

Epochs are per partition here, unlike in Kafka's client, since a leader compares them within a partition only.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from replica.client.delivery import BatchDelivery
from replica.client.producer_config import ProducerConfig
from replica.client.producer_values import BatchId, GivenUp, ProducerIdentity, ReadyBatch
from replica.ids import TopicPartition
from replica.records import (
    HEADER_BYTES,
    PRODUCER_EPOCH_MAX,
    Column,
    ColumnEncoder,
    Compression,
    EncodedRecords,
    Header,
    RecordBatch,
    RecordColumns,
    encode_headers,
    increment_sequence,
)


@dataclass(slots=True, kw_only=True, eq=False)
class QueuedBatch:
    """A batch from its first record on, as columns until it is encoded: then as ``records``.

    ``keys`` and ``headers`` are those of the records that have any, by their positions. ``encoded`` is there from the
    first time it is sent, its numbers with it.

    ``was_first`` tells whether no other numbered batch stood before it when it was last sent.
    """

    batch_id: BatchId
    created_ms: int
    delivery: BatchDelivery
    values: list[bytes | None] = field(default_factory=list)
    keys: dict[int, bytes] = field(default_factory=dict)
    headers: dict[int, tuple[Header, ...]] = field(default_factory=dict)
    records: EncodedRecords | None = None
    size_bytes: int = HEADER_BYTES
    is_closed: bool = False
    is_in_flight: bool = False
    attempts: int = 0
    retry_at_ms: int | None = None
    may_be_written: bool = False
    was_first: bool = False
    encoded: RecordBatch | None = None

    def encode(self, compression: Compression) -> EncodedRecords:
        """Encode its records, once: they stay the same whatever header comes in front."""
        if self.records is None:
            headers = {position: encode_headers(each) for position, each in self.headers.items()}
            columns = RecordColumns(
                values=Column.of(self.values),
                keys=self._column(self.keys),
                headers=self._column(headers),
                timestamps_ms=self.delivery.timestamps_ms,
            )
            self.records = ColumnEncoder(columns, compression=compression).encode(0, self.size_bytes)
            assert self.records.record_count == len(self.values), f"{self.records.record_count} of {len(self.values)}"
            self.values, self.keys, self.headers = [], {}, {}
        return self.records

    def _column(self, present: Mapping[int, bytes]) -> Column | None:
        """Lay out what some records have; absent where none has it."""
        return Column.of(list(map(present.get, range(len(self.values))))) if present else None

    def send_at_ms(self, linger_ms: int) -> int:
        """Tell when it is this batch's time, if nothing else holds it back."""
        if self.retry_at_ms is not None:
            return self.retry_at_ms
        return self.created_ms if self.is_closed else self.created_ms + linger_ms


class PartitionQueue:
    """The batches of one partition that are not settled yet, oldest first. ``identity`` is absent until it is known."""

    def __init__(
        self, topic_partition: TopicPartition, config: ProducerConfig, identity: ProducerIdentity | None
    ) -> None:
        self.topic_partition = topic_partition
        self._config = config
        self._batches: list[QueuedBatch] = []
        self.open_batch: QueuedBatch | None = None
        """The batch that takes records, if there is one."""
        self._identity: ProducerIdentity | None = None
        self._next_sequence = 0
        self._is_known = False
        self._has_hole = False
        if identity is not None:
            self.adopt(identity)

    @property
    def is_empty(self) -> bool:
        """Whether all its batches are settled."""
        return not self._batches

    @property
    def wants_identity(self) -> bool:
        """Whether batches wait for a producer id."""
        return self._config.is_idempotent and self._identity is None and bool(self._batches)

    @property
    def send_at_ms(self) -> int | None:
        """When the next batch is to be sent; absent while nothing may be, however long one waits.

        Only while another is in flight does a batch linger for company: its own would come too late otherwise.
        """
        candidate = self._candidate()
        if candidate is None:
            return None
        is_idle = not any(batch.is_in_flight for batch in self._batches)
        return candidate.send_at_ms(0 if is_idle else self._config.linger_ms)

    @property
    def expire_at_ms(self) -> int | None:
        """When the oldest batch is given up; absent without one."""
        return self._batches[0].created_ms + self._config.delivery_timeout_ms if self._batches else None

    def adopt(self, identity: ProducerIdentity) -> None:
        """Number what follows from 0 under ``identity``, unless numbers are being given under another one."""
        if self._identity is None and self._config.is_idempotent:
            self._identity, self._next_sequence, self._is_known = identity, 0, False

    def open(self, batch: QueuedBatch) -> None:
        """Put a new batch at the end, and close the one before it."""
        self.close()
        self._batches.append(batch)
        self.open_batch = batch

    def close(self) -> None:
        """Let the open batch go out without waiting for more."""
        if self.open_batch is not None:
            self.open_batch.is_closed = True
            self.open_batch = None

    def send(self) -> ReadyBatch:
        """Take the next batch to be sent; it is in flight from now on."""
        batch = self._candidate()
        assert batch is not None, f"nothing of {self.topic_partition} may be sent"
        if batch.encoded is None:
            batch.encoded = self._numbered(batch)
        if batch is self.open_batch:
            self.close()
        batch.is_in_flight = True
        batch.was_first = batch is self._batches[0]
        batch.attempts += 1
        batch.retry_at_ms = None
        return ReadyBatch(
            batch_id=batch.batch_id, topic_partition=self.topic_partition, attempt=batch.attempts, batch=batch.encoded
        )

    def on_written(self, batch: QueuedBatch) -> None:
        """``batch`` is in the log: by this attempt or by an earlier one."""
        batch.is_in_flight = False
        self._is_known = True
        self._batches.remove(batch)
        self._maybe_start_again()

    def on_retriable(self, batch: QueuedBatch, *, may_be_written: bool, now_ms: int) -> GivenUp | None:
        """Send ``batch`` again after a pause, or give it up if that could write it twice."""
        batch.is_in_flight = False
        batch.may_be_written |= may_be_written
        if batch.may_be_written and not self._config.is_idempotent:
            return self.give_up(batch)
        backoff_ms = self._config.retry_backoff_ms << min(batch.attempts - 1, 16)
        batch.retry_at_ms = now_ms + min(backoff_ms, self._config.retry_backoff_max_ms)
        self._maybe_start_again()
        return None

    def on_out_of_order(self, batch: QueuedBatch, *, now_ms: int) -> GivenUp | None:
        """The leader misses a number before those of ``batch``, so it has not written this attempt.

        If an earlier batch was still under way, that explains it, and this one is sent again behind it. If none was,
        the leader has lost what it had acknowledged, or an earlier attempt of this one: nobody can mend that.
        """
        if batch.was_first or batch.may_be_written:
            return self.on_refused(batch, may_be_written=False)
        return self.on_retriable(batch, may_be_written=False, now_ms=now_ms)

    def on_refused(self, batch: QueuedBatch, *, may_be_written: bool) -> GivenUp:
        """Drop ``batch`` after an attempt whose end is known."""
        batch.is_in_flight = False
        batch.may_be_written |= may_be_written
        return self.give_up(batch)

    def give_up(self, batch: QueuedBatch) -> GivenUp:
        """Drop ``batch``. While it is in flight it may be written, whatever was known before."""
        if batch is self.open_batch:
            self.close()
        self._batches.remove(batch)
        self._has_hole |= batch.encoded is not None and batch.encoded.is_idempotent
        self._maybe_start_again()
        return GivenUp(
            batch_id=batch.batch_id,
            topic_partition=self.topic_partition,
            may_be_written=batch.may_be_written or batch.is_in_flight,
        )

    def expire(self, now_ms: int) -> Iterable[GivenUp]:
        """Give up every batch whose time is over."""
        over = [batch for batch in self._batches if now_ms - batch.created_ms >= self._config.delivery_timeout_ms]
        return [self.give_up(batch) for batch in over]

    def _candidate(self) -> QueuedBatch | None:
        """Return the one batch that may be sent next, as soon as its time has come."""
        in_flight = 0
        for batch in self._batches:
            if batch.is_in_flight:
                in_flight += 1
            elif batch.encoded is None:
                return batch if self._takes_new(in_flight) else None
            elif not self._has_hole or batch.may_be_written:
                return batch if in_flight == 0 else None
        return None

    def _takes_new(self, in_flight: int) -> bool:
        if not self._config.is_idempotent:
            return in_flight < self._config.max_in_flight_requests_per_connection
        if self._identity is None or self._has_hole:
            return False
        return in_flight < (self._config.max_in_flight_requests_per_connection if self._is_known else 1)

    def _numbered(self, batch: QueuedBatch) -> RecordBatch:
        records = batch.encode(self._config.compression)
        if self._identity is None:
            return records.batch()
        sequence = self._next_sequence
        self._next_sequence = increment_sequence(sequence, records.record_count)
        return records.batch(
            producer_id=self._identity.producer_id,
            producer_epoch=self._identity.producer_epoch,
            base_sequence=sequence,
        )

    def _maybe_start_again(self) -> None:
        """Close a hole by a new epoch, once nothing with an old number can be in the log or get there."""
        numbered = [batch for batch in self._batches if batch.encoded is not None]
        if not self._has_hole or any(batch.is_in_flight or batch.may_be_written for batch in numbered):
            return
        for batch in numbered:
            batch.encoded = None
        self._has_hole = False
        last, self._identity = self._identity, None
        assert last is not None, f"{self.topic_partition} has a hole without an identity"
        if last.producer_epoch < PRODUCER_EPOCH_MAX:
            self.adopt(ProducerIdentity(producer_id=last.producer_id, producer_epoch=last.producer_epoch + 1))
