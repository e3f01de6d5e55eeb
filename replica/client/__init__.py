"""The clients: they write to and read from replicated logs, and never claim more than they know.

Read in this order. ``values`` and ``failures`` are what calls return and raise, and what each says about a write.
``connections`` dial by ``replica.rpc``, ``cluster_view`` knows who leads what, ``clock`` is time, ``asking`` asks again
until somebody answers, and ``leader_calls`` finds who leads a partition; on these stand

- ``admin``, by ``controller_calls``: topics, settings, leaders, replicas;
- ``producer``: ``producer_config``, ``partitioner``, ``backlog`` (what waits for its topic), ``accumulator`` with its
  ``partition_queue`` (a record's way into a batch, values in and out), ``delivery`` (what becomes of a batch and of its
  records), ``attempts`` (the table that judges an attempt), ``sender`` (who carries batches); for many records in one
  call ``arrow_columns``, ``feeding`` (who goes where) and ``many`` (one outcome for all);
- ``consumer``: ``consumer_config``, ``reading`` (a position and whether the log still agrees with it, values in and
  out), ``polled`` (records as columns) and ``arrow_records``, ``fetcher`` (who brings records);
- ``copying``: whole batches out of a partition and into one, and ``replacing``: one broker in the place of another;
- ``sync``: the first three for scripts, by plain calls;
- ``groups``: replicated state machines, the key-value store among them.
"""

from __future__ import annotations

from replica.client.admin import Admin
from replica.client.cluster_view import ViewConfig
from replica.client.consumer import Consumer
from replica.client.consumer_config import ConsumerConfig
from replica.client.delivery import Delivery
from replica.client.failures import (
    AdminError,
    ClientError,
    ClusterUnreachableError,
    LogTruncatedError,
    NoOffsetError,
    NotAuthorizedError,
    NotWrittenError,
    OffsetOutOfRangeError,
    OutcomeUnknownError,
    ReadFailedError,
    UnknownTopicError,
    UnreadableBatchError,
    WriteError,
)
from replica.client.groups.client import GroupClient
from replica.client.groups.config import GroupConfig
from replica.client.groups.failures import (
    CommandRefusedError,
    QueryRefusedError,
    SessionExpiredError,
    UnknownGroupError,
)
from replica.client.groups.key_value import KeyValueClient, ReadFrom
from replica.client.groups.key_value_failures import KeyValueRejectedError, RevisionCompactedError
from replica.client.groups.queries import Node, QueryReply
from replica.client.groups.watch import WatchConfig
from replica.client.many import ManyWritten, NotAllWrittenError, RowsOutcome
from replica.client.polled import PolledRecords
from replica.client.producer import Producer
from replica.client.producer_config import Acks, ProducerConfig
from replica.client.producer_values import BufferFullError, RecordTooLargeError
from replica.client.reading import OffsetReset
from replica.client.values import ConsumerRecord, OffsetAndEpoch, RecordMetadata

__all__ = [
    "Acks",
    "Admin",
    "AdminError",
    "BufferFullError",
    "ClientError",
    "ClusterUnreachableError",
    "CommandRefusedError",
    "Consumer",
    "ConsumerConfig",
    "ConsumerRecord",
    "Delivery",
    "GroupClient",
    "GroupConfig",
    "KeyValueClient",
    "KeyValueRejectedError",
    "LogTruncatedError",
    "ManyWritten",
    "NoOffsetError",
    "Node",
    "NotAllWrittenError",
    "NotAuthorizedError",
    "NotWrittenError",
    "OffsetAndEpoch",
    "OffsetOutOfRangeError",
    "OffsetReset",
    "OutcomeUnknownError",
    "PolledRecords",
    "Producer",
    "ProducerConfig",
    "QueryRefusedError",
    "QueryReply",
    "ReadFailedError",
    "ReadFrom",
    "RecordMetadata",
    "RecordTooLargeError",
    "RevisionCompactedError",
    "RowsOutcome",
    "SessionExpiredError",
    "UnknownGroupError",
    "UnknownTopicError",
    "UnreadableBatchError",
    "ViewConfig",
    "WatchConfig",
    "WriteError",
]
