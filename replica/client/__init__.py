"""The client: appends to and reads from a replicated log, and never claims more than it knows.

Read in this order: ``values`` (what calls return), ``failures`` (what they raise, and what each says about a write),
``outcomes`` (the table that judges one attempt), ``leadership`` (whom to ask next), ``client`` (the calls).
Connections are the server package's: both sides dial through the same transport.
"""

from __future__ import annotations

from replica.client.client import ReplicaClient, Transport
from replica.client.failures import (
    ClientError,
    NotWrittenError,
    OffsetOutOfRangeError,
    OutcomeUnknownError,
    ReadFailedError,
)
from replica.client.values import DumpedLog, Fetched, ListedOffset, Produced

__all__ = [
    "ClientError",
    "DumpedLog",
    "Fetched",
    "ListedOffset",
    "NotWrittenError",
    "OffsetOutOfRangeError",
    "OutcomeUnknownError",
    "Produced",
    "ReadFailedError",
    "ReplicaClient",
    "Transport",
]
