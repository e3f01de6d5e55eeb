"""Rows that are handed over in one call: which batches they are in, and what becomes of all of them.

Owns the one future of such a call, and the account of its rows: each is written, certainly not written, or unknown.
Knows nothing of partitions and room: ``producer`` feeds the batches. Nothing is made for a row alone.
"""

from __future__ import annotations

import asyncio
from array import array
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeAlias

from replica.client.delivery import BatchDelivery
from replica.client.failures import NotWrittenError, OutcomeUnknownError, WriteError
from replica.ids import Epoch, Offset, TopicPartition

RowNumbers: TypeAlias = "range | array[int]"
"""Which of the rows that were handed over, from 0, in the order in which they stand in the log."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RowsOutcome:
    """What has become of rows that travelled together.

    Without ``error`` they are written, one behind the other from ``base_offset`` on; ``acks`` NONE leaves that unknown.
    Else the error's class says whether they are not, or may be. Rows that never got into a batch have no partition.
    """

    rows: RowNumbers
    topic_partition: TopicPartition | None
    base_offset: Offset | None
    leader_epoch: Epoch | None
    error: WriteError | None


@dataclass(frozen=True, slots=True, kw_only=True)
class ManyWritten:
    """All rows are written: ``batches`` say where, in the order in which they were handed over within a partition."""

    record_count: int
    batches: tuple[RowsOutcome, ...]

    def offsets(self) -> array[int]:
        """The offset of each row; -1 where ``acks`` NONE leaves it unknown."""
        found = array("q", [-1]) * self.record_count
        for batch in self.batches:
            if batch.base_offset is not None:
                for delta, row in enumerate(batch.rows):
                    found[row] = batch.base_offset + delta
        return found

    def partitions(self) -> array[int]:
        """The partition of each row."""
        found = array("i", [-1]) * self.record_count
        for batch in self.batches:
            if batch.topic_partition is not None:
                for row in batch.rows:
                    found[row] = batch.topic_partition.partition
        return found


class NotAllWrittenError(OutcomeUnknownError):
    """Of the rows of one call some may be in the log and others not; to send all of them again may write some twice.

    ``written``, ``not_written`` and ``unknown`` say exactly which: each row is in one of them.
    """

    def __init__(self, message: str, outcomes: Sequence[RowsOutcome]) -> None:
        failed = [outcome.error for outcome in outcomes if outcome.error is not None]
        super().__init__(f"{message}: {failed[0]}", error=failed[0].error)
        self.written = tuple(each for each in outcomes if each.error is None)
        self.not_written = tuple(each for each in outcomes if isinstance(each.error, NotWrittenError))
        self.unknown = tuple(each for each in outcomes if isinstance(each.error, OutcomeUnknownError))


class Many:
    """One call's account, from the first batch to the last outcome."""

    def __init__(self, record_count: int) -> None:
        self.future: asyncio.Future[ManyWritten] = asyncio.get_running_loop().create_future()
        self._record_count = record_count
        self._outcomes: list[RowsOutcome | None] = []
        self._open = 0
        self._is_fed = False

    def travels(self, rows: RowNumbers, batch: BatchDelivery) -> None:
        """These rows are in this batch."""
        place = len(self._outcomes)
        self._outcomes.append(None)
        self._open += 1
        batch.tell(lambda: self._on_settled(place, rows, batch))

    def failed(self, rows: RowNumbers, error: WriteError) -> None:
        """These rows got into no batch."""
        self._outcomes.append(
            RowsOutcome(rows=rows, topic_partition=None, base_offset=None, leader_epoch=None, error=error)
        )

    def fed(self) -> None:
        """All rows were told of."""
        self._is_fed = True
        self._maybe_settle()

    def give_up(self, error: WriteError) -> None:
        """Nothing was fed, and nothing will be."""
        if not self._is_fed:
            self.failed(range(self._record_count), error)
            self.fed()

    def _on_settled(self, place: int, rows: RowNumbers, batch: BatchDelivery) -> None:
        self._outcomes[place] = RowsOutcome(
            rows=rows,
            topic_partition=batch.topic_partition,
            base_offset=batch.base_offset,
            leader_epoch=batch.leader_epoch,
            error=batch.error,
        )
        self._open -= 1
        self._maybe_settle()

    def _maybe_settle(self) -> None:
        if not self._is_fed or self._open or self.future.done():
            return
        outcomes = [outcome for outcome in self._outcomes if outcome is not None]
        assert sum(len(outcome.rows) for outcome in outcomes) == self._record_count, "rows are missing"
        error = self._error(outcomes)
        if error is None:
            self.future.set_result(ManyWritten(record_count=self._record_count, batches=tuple(outcomes)))
        else:
            self.future.set_exception(error)

    def _error(self, outcomes: Sequence[RowsOutcome]) -> WriteError | None:
        failed = [outcome.error for outcome in outcomes if outcome.error is not None]
        if not failed:
            return None
        if len(failed) == len(outcomes) and all(isinstance(error, NotWrittenError) for error in failed):
            return NotWrittenError(
                f"none of {self._record_count} records is written: {failed[0]}", error=failed[0].error
            )
        return NotAllWrittenError(f"not all of {self._record_count} records are acknowledged", outcomes)
