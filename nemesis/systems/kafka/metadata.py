"""Who leads and who is in sync, by the word of one broker: one request and its answer in Kafka's protocol.

Owns the bytes of Metadata, version 7: the first that tells leader epochs, and one that every broker since 2.1 knows.
Client libraries ask whom they like and tell the newest that they have heard; the harness must ask this one broker now.
Source: Kafka's protocol guide, "Metadata API".
"""

from __future__ import annotations

import asyncio
import struct
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TypeVar

from nemesis.faults.breakable import PartitionState

METADATA, VERSION = 3, 7
CLIENT_ID = b"nemesis"
ANSWER_BYTES_MAX = 1 << 20
ENTRIES_MAX = 10_000
NO_LEADER = -1
EntryT = TypeVar("EntryT")


class MalformedError(Exception):
    """The answer is not one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Told:
    """What a broker tells: the ids of those that are alive, and the partitions by name."""

    brokers: frozenset[int]
    partitions: Mapping[str, PartitionState]


async def ask_metadata(address: str) -> Told:
    """Ask one broker of all topics. Raises OSError, EOFError or MalformedError; the caller bounds the time."""
    host, _, port = address.rpartition(":")
    reader, writer = await asyncio.open_connection(host, int(port))
    try:
        writer.write(request())
        (size,) = struct.unpack(">i", await reader.readexactly(4))
        if not 0 <= size <= ANSWER_BYTES_MAX:
            raise MalformedError(f"{address} announces an answer of {size} bytes")
        return parse(await reader.readexactly(size))
    finally:
        writer.close()


def request() -> bytes:
    """All topics, none of them to be created."""
    all_topics, may_create = -1, False
    header = struct.pack(">hhih", METADATA, VERSION, 1, len(CLIENT_ID)) + CLIENT_ID
    body = header + struct.pack(">i?", all_topics, may_create)
    return struct.pack(">i", len(body)) + body


def parse(answer: bytes) -> Told:
    """Read the answer behind its size. Raises MalformedError."""
    try:
        return _read(_Cursor(answer))
    except struct.error as error:
        raise MalformedError(f"the answer ends early: {error}") from error
    except UnicodeDecodeError as error:
        raise MalformedError(f"a text of the answer is no UTF-8: {error}") from error


class _Cursor:
    """The place in an answer up to which it was read."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._position = 0

    def number(self, form: str) -> int:
        """One number; ``form`` as for ``struct``."""
        (value,) = struct.unpack_from(f">{form}", self._data, self._position)
        self._position += struct.calcsize(form)
        return int(value)

    def text(self) -> str:
        """A string; absent ones read as empty."""
        length = max(0, self.number("h"))
        text = self._data[self._position : self._position + length]
        self._position += length
        return text.decode()

    def array(self, entry: Callable[[], EntryT]) -> list[EntryT]:
        """An array of entries."""
        length = self.number("i")
        if length > ENTRIES_MAX:
            raise MalformedError(f"an array of {length} entries")
        return [entry() for _ in range(length)]

    def numbers(self) -> tuple[int, ...]:
        """An array of ids."""
        return tuple(self.array(lambda: self.number("i")))


def _read(cursor: _Cursor) -> Told:
    cursor.number("i")  # the correlation id
    cursor.number("i")  # how long it was throttled
    brokers = cursor.array(lambda: _broker(cursor))
    cursor.text()  # the id of the cluster
    cursor.number("i")  # the controller: anyone, since brokers pass on what is meant for it
    topics = cursor.array(lambda: _topic(cursor))
    return Told(brokers=frozenset(brokers), partitions=dict(pair for topic in topics for pair in topic))


def _broker(cursor: _Cursor) -> int:
    broker = cursor.number("i")
    cursor.text()  # host
    cursor.number("i")  # port
    cursor.text()  # rack
    return broker


def _topic(cursor: _Cursor) -> list[tuple[str, PartitionState]]:
    cursor.number("h")  # error
    name = cursor.text()
    cursor.number("?")  # whether it is internal
    return [(f"{name}-{number}", state) for number, state in cursor.array(lambda: _partition(cursor))]


def _partition(cursor: _Cursor) -> tuple[int, PartitionState]:
    cursor.number("h")  # error: leadership may be in question, which shows below
    number, leader, epoch = (cursor.number("i") for _ in range(3))
    replicas, isr, _offline = (cursor.numbers() for _ in range(3))
    known = None if leader == NO_LEADER else leader
    return number, PartitionState(replicas=replicas, isr=isr, leader=known, leader_epoch=epoch)
