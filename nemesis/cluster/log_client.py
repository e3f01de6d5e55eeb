"""The workload's client over ours: values as decimal digits, outcomes in the words of a run.

Owns the translation of our client's errors into *definitely not done* and *unknown*. Each process of the workload has a
client of its own, with its own connections and its own opinion of who leads: after a partition some still talk to the
old leader, as long as that one answers.
"""

from __future__ import annotations

from collections.abc import Mapping

from nemesis.cluster.system import UNREADABLE_VALUE, Appended, NotDoneError, Polled, UnknownOutcomeError
from replica.client import NotWrittenError, OutcomeUnknownError, ReadFailedError, ReplicaClient
from replica.ids import ReplicaId

POLL_BYTES_MAX = 64 << 10
POLL_WAIT_MS = 20
"""A poll at the end of the log comes back soon: a process that waits does not append."""


class ReplicaLogClient:
    """One process's client of topic ``log``. ``timeout_ms`` bounds an append, and a poll, with all their retries."""

    def __init__(self, addresses: Mapping[int, str], *, cluster_id: str, timeout_ms: int) -> None:
        self._client = ReplicaClient(
            {ReplicaId(node): address for node, address in addresses.items()},
            cluster_id=cluster_id,
            request_timeout_ms=timeout_ms,
        )
        self._timeout_ms = timeout_ms

    async def append(self, value: int) -> Appended:
        """Append one value with ``acks=all``."""
        try:
            done = await self._client.produce([encode_value(value)], timeout_ms=self._timeout_ms)
        except NotWrittenError as error:
            raise NotDoneError(str(error)) from error
        except OutcomeUnknownError as error:
            raise UnknownOutcomeError(str(error)) from error
        return Appended(offset=done.base_offset, leader_epoch=done.leader_epoch, node=done.leader_id)

    async def poll(self, offset: int) -> Polled:
        """Read on from ``offset``."""
        try:
            done = await self._client.fetch(offset, max_wait_ms=POLL_WAIT_MS, max_bytes=POLL_BYTES_MAX)
        except ReadFailedError as error:
            raise NotDoneError(str(error)) from error
        return Polled(
            records=tuple((record.offset, decode_value(record.value)) for record in done.records),
            high_watermark=done.high_watermark,
            next_offset=done.next_offset,
            node=done.leader_id,
        )

    async def close(self) -> None:
        """Give the connections back."""
        await self._client.close()


def encode_value(value: int) -> bytes:
    """Decimal digits, so that a person who dumps a log can read it."""
    return b"%d" % value


def decode_value(data: bytes | None) -> int:
    """The value; ``UNREADABLE_VALUE`` for what ``encode_value`` never made."""
    return int(data) if data is not None and data.isdigit() else UNREADABLE_VALUE
