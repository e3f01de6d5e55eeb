"""What a poll hands out of one partition: records as columns, and out of those as objects or as Arrow's arrays.

Owns the three forms of the same records. pyarrow is imported by whoever asks for its arrays.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import repeat
from typing import TYPE_CHECKING

from replica.client.values import ConsumerRecord
from replica.ids import Epoch, Offset, TopicPartition
from replica.records import DecodedRecords

if TYPE_CHECKING:
    import pyarrow as pa


@dataclass(frozen=True, slots=True, kw_only=True)
class PolledRecords:
    """Committed records of one partition, in order, one at least: rows ``start`` up to ``stop`` of ``columns``.

    ``last_offset + 1`` and ``last_epoch`` are what to keep in order to go on behind them.
    """

    topic_partition: TopicPartition
    columns: DecodedRecords
    start: int
    stop: int

    def __len__(self) -> int:
        return self.stop - self.start

    @property
    def first_offset(self) -> Offset:
        """The offset of the first record."""
        return Offset(self.columns.offsets[self.start])

    @property
    def last_offset(self) -> Offset:
        """The offset of the last record (inclusive)."""
        return Offset(self.columns.offsets[self.stop - 1])

    @property
    def last_epoch(self) -> Epoch:
        """The leader epoch of the last record."""
        return Epoch(self.columns.leader_epochs[self.stop - 1])

    def below(self, end_offset: int) -> PolledRecords | None:
        """Those of them below an offset; absent without any."""
        stop = self.stop
        while stop > self.start and self.columns.offsets[stop - 1] >= end_offset:
            stop -= 1
        if stop == self.start:
            return None
        return PolledRecords(topic_partition=self.topic_partition, columns=self.columns, start=self.start, stop=stop)

    def records(self) -> list[ConsumerRecord]:
        """Each as an object."""
        columns, start, stop = self.columns, self.start, self.stop
        parts: Iterator[Iterable[object]] = zip(
            repeat(self.topic_partition, stop - start),
            columns.offsets[start:stop],
            columns.leader_epochs[start:stop],
            columns.timestamps_ms[start:stop],
            columns.keys.rows(start, stop),
            columns.values.rows(start, stop),
            columns.headers(start, stop) if len(columns.names) else repeat((), stop - start),
            strict=True,
        )
        return list(map(ConsumerRecord._make, parts))

    def to_arrow(self) -> pa.RecordBatch:
        """As columns of Arrow, by ``arrow_records.RECORDS_SCHEMA``."""
        from replica.client.arrow_records import batch_of

        return batch_of(self)
