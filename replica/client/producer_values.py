"""What goes into a producer's accumulator and what comes out, one frozen class each."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NewType

from replica.client.failures import NotWrittenError
from replica.ids import TopicPartition
from replica.records import RecordBatch

BatchId = NewType("BatchId", int)
"""One batch of one accumulator, from its first record until it is acknowledged or given up."""


class RecordTooLargeError(NotWrittenError):
    """The record alone would make a batch above the limit; it was not taken."""


class BufferFullError(NotWrittenError):
    """There is no room for the record until earlier ones are acknowledged or given up; it was not taken."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ProducerIdentity:
    """What InitProducerId has given to this producer, and to no other."""

    producer_id: int
    producer_epoch: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadyBatch:
    """A batch to send now. ``attempt`` counts from 1; the bytes of later attempts are the same.

    One exception: a batch that is certainly not written may come again with another epoch and sequence number.
    """

    batch_id: BatchId
    topic_partition: TopicPartition
    attempt: int
    batch: RecordBatch


@dataclass(frozen=True, slots=True, kw_only=True)
class GivenUp:
    """A batch that will not be sent again; ``may_be_written`` is false only if it certainly is not in the log."""

    batch_id: BatchId
    topic_partition: TopicPartition
    may_be_written: bool
