"""What becomes of records that were handed over: one object per batch knows it, and each record has a look at that.

Owns the outcomes, which are of three kinds and never a guess: written, certainly not written, unknown. A record's
``Delivery`` is two references and no future: nothing is made for it until somebody awaits it before its batch is
settled. Knows nothing of how batches travel.
"""

from __future__ import annotations

import asyncio
from array import array
from collections.abc import Awaitable, Callable, Generator
from functools import partial
from typing import Any

from replica.client.failures import WriteError
from replica.client.producer_values import BatchId
from replica.client.values import RecordMetadata
from replica.ids import Epoch, Offset, TopicPartition

OnDelivery = Callable[[RecordMetadata | WriteError], None]
_metadata: Callable[[tuple[Any, ...]], RecordMetadata] = partial(tuple.__new__, RecordMetadata)
"""Makes one of its fields, in half the time of a call of the class: there is one for every record."""


class BatchDelivery:
    """What becomes of one batch. It is settled once, by ``written`` or ``failed``; what is told later is ignored."""

    __slots__ = (
        "_callbacks",
        "_is_looked_at",
        "_loop",
        "_waiters",
        "base_offset",
        "batch_id",
        "error",
        "is_settled",
        "leader_epoch",
        "timestamps_ms",
        "topic_partition",
    )

    def __init__(self, batch_id: BatchId | None, topic_partition: TopicPartition) -> None:
        self.batch_id = batch_id
        """Absent where a record still waits for its topic to be known."""
        self.topic_partition = topic_partition
        self.timestamps_ms = array("q")
        """The times of its records, in order."""
        self.is_settled = False
        self.base_offset: Offset | None = None
        self.leader_epoch: Epoch | None = None
        self.error: WriteError | None = None
        """Absent where the batch is written."""
        self._is_looked_at = False
        self._loop: asyncio.AbstractEventLoop | None = None
        self._waiters: list[asyncio.Future[None]] = []
        self._callbacks: list[Callable[[], None]] = []

    def written(self, base_offset: Offset | None, leader_epoch: Epoch | None) -> None:
        """The batch is in the log; without ``base_offset`` nobody knows where."""
        if not self.is_settled:
            self.base_offset, self.leader_epoch = base_offset, leader_epoch
            self._settle()

    def failed(self, error: WriteError) -> None:
        """The batch is not written, or that is unknown: the error's class says which."""
        if not self.is_settled:
            self.error = error
            self._settle()

    def settled_like(self, outcome: RecordMetadata | WriteError) -> None:
        """The batch, of one record, has become a part of another, whose outcome this is."""
        if isinstance(outcome, WriteError):
            self.failed(outcome)
        else:
            self.topic_partition = outcome.topic_partition
            self.written(outcome.offset, outcome.leader_epoch)

    def _settle(self) -> None:
        self.is_settled = True
        self._loop = asyncio.get_running_loop()
        for waiter in self._waiters:
            if not waiter.done():
                waiter.set_result(None)
        for callback in self._callbacks:
            self._loop.call_soon(callback)
        self._waiters, self._callbacks = [], []

    def outcome(self, position: int) -> RecordMetadata | WriteError:
        """What has become of the record at ``position`` of a settled batch."""
        assert self.is_settled, f"batch {self.batch_id} is not settled"
        self._is_looked_at = True
        if self.error is not None:
            return self.error
        base_offset = self.base_offset
        offset = None if base_offset is None else base_offset + position
        return _metadata((self.topic_partition, offset, self.leader_epoch, self.timestamps_ms[position]))

    def tell(self, callback: Callable[[], None]) -> None:
        """Have the event loop call ``callback`` as soon as the batch is settled."""
        self._is_looked_at = True
        if self.is_settled:
            asyncio.get_running_loop().call_soon(callback)
        else:
            self._callbacks.append(callback)

    def waiter(self) -> asyncio.Future[None]:
        """What is done once the batch is settled, which it is not yet. To cancel it takes nothing back."""
        assert not self.is_settled, f"batch {self.batch_id} is settled"
        self._is_looked_at = True
        waiter: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiters.append(waiter)
        return waiter

    def __del__(self) -> None:
        """Have the event loop tell of a failure that nobody has looked at, as of a future's."""
        if self.error is not None and not self._is_looked_at and self._loop is not None:
            count, where = len(self.timestamps_ms), self.topic_partition
            message = f"{count} records for {where} are not acknowledged, and nobody has asked what became of them"
            self._loop.call_exception_handler({"message": message, "exception": self.error})


class Delivery(Awaitable[RecordMetadata]):
    """One record that was handed over. Awaited, it gives the RecordMetadata.

    Raises NotWrittenError or OutcomeUnknownError. It may be awaited several times, and by several tasks; one that is
    cancelled while it waits takes nothing back.
    """

    __slots__ = ("batch", "position")

    def __init__(self, batch: BatchDelivery, position: int) -> None:
        self.batch = batch
        self.position = position

    def __await__(self) -> Generator[Any, None, RecordMetadata]:
        if not self.batch.is_settled:
            yield from self.batch.waiter()
        outcome = self.batch.outcome(self.position)
        if isinstance(outcome, WriteError):
            raise outcome.with_traceback(None)
        return outcome

    def done(self) -> bool:
        """Whether the outcome is there."""
        return self.batch.is_settled

    def tell(self, callback: OnDelivery) -> None:
        """Have the event loop call ``callback`` with the outcome, as soon as there is one."""
        self.batch.tell(lambda: callback(self.batch.outcome(self.position)))
