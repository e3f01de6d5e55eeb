"""Kafka's Metadata, version 7: the bytes that are sent, and what is read from those that come back."""

from __future__ import annotations

import struct

import pytest

from nemesis.faults.breakable import PartitionState
from nemesis.systems.kafka.metadata import MalformedError, Told, parse, request


def text(value: str) -> bytes:
    """A string with its length."""
    return struct.pack(">h", len(value)) + value.encode()


def numbers(*values: int) -> bytes:
    """An array of 32-bit numbers."""
    return struct.pack(f">i{len(values)}i", len(values), *values)


def partition(number: int, leader: int, epoch: int) -> bytes:
    """Three replicas, of which two are in sync."""
    return struct.pack(">hiii", 0, number, leader, epoch) + numbers(1, 2, 3) + numbers(3, 1) + numbers()


ANSWER = b"".join(
    [
        struct.pack(">ii", 1, 0),
        struct.pack(">i", 2),
        *(struct.pack(">i", node) + text("10.77.0.1") + struct.pack(">ih", 9092, -1) for node in (1, 3)),
        text("cluster"),
        struct.pack(">i", 3),
        struct.pack(">ih", 1, 0) + text("topic1") + struct.pack(">?i", False, 2),
        partition(0, 3, 5),
        partition(1, -1, 6),
    ]
)


def test_the_request_asks_for_all_topics_and_makes_none() -> None:
    """Size, key, version, correlation, the client's name, a null array, and no creation."""
    assert request() == bytes.fromhex("0000 0016 0003 0007 0000 0001 0007".replace(" ", "")) + b"nemesis" + (
        b"\xff\xff\xff\xff\x00"
    )


def test_an_answer_tells_brokers_and_partitions() -> None:
    """Who is alive, who leads in which epoch, who is in sync; a leader of -1 is nobody."""
    assert parse(ANSWER) == Told(
        brokers=frozenset({1, 3}),
        partitions={
            "topic1-0": PartitionState(replicas=(1, 2, 3), isr=(3, 1), leader=3, leader_epoch=5),
            "topic1-1": PartitionState(replicas=(1, 2, 3), isr=(3, 1), leader=None, leader_epoch=6),
        },
    )


@pytest.mark.parametrize("length", range(0, len(ANSWER), 5))
def test_an_answer_that_ends_early_is_malformed(length: int) -> None:
    """A part of an answer is never taken for one."""
    with pytest.raises(MalformedError):
        parse(ANSWER[:length])


def test_an_array_beyond_all_measure_is_malformed() -> None:
    """A length that would take all memory is refused before anything is read for it."""
    with pytest.raises(MalformedError, match="an array of"):
        parse(struct.pack(">iii", 1, 0, 2**31 - 1))
