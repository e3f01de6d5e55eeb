"""Which partition a record goes to: by its key, or without one where the last went, for a batch's worth of bytes.

Owns the hash, which must be Kafka's, so that equal keys meet in one partition whichever client wrote them; of a column
of keys it is computed in C where the installation has compiled it. Knows no
network; its dice are handed in. Source: MurmurHash2 by Austin Appleby (public domain); Kafka's ``Utils.murmur2`` for
the seed, ``BuiltInPartitioner``; KIP-480 and KIP-794 for records without a key.
"""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from ctypes import CDLL, byref
from itertools import pairwise
from random import Random

from replica.records import Column
from replica.records.walking import library

_SEED = 0x9747B28C
_MULTIPLIER = 0x5BD1E995
_SHIFT = 24
_MASK = 0xFFFFFFFF

STICKY_BYTES = 16_384
"""How much without a key goes to one partition before the next is drawn, if batches may be so large."""


def murmur2(data: bytes) -> int:
    """Hash ``data`` to a signed number of 32 bits."""
    whole = len(data) & ~3
    result = _SEED ^ len(data)
    for start in range(0, whole, 4):
        word = int.from_bytes(data[start : start + 4], "little") * _MULTIPLIER & _MASK
        word = (word ^ word >> _SHIFT) * _MULTIPLIER & _MASK
        result = result * _MULTIPLIER & _MASK ^ word
    if whole < len(data):
        result = (result ^ int.from_bytes(data[whole:], "little")) * _MULTIPLIER & _MASK
    result = (result ^ result >> 13) * _MULTIPLIER & _MASK
    result ^= result >> 15
    return result - (1 << 32) if result >> 31 else result


def partition_for_key(key: bytes, partition_count: int) -> int:
    """Return the partition of every record with this key, as long as the number of partitions stays the same."""
    assert partition_count > 0, f"{partition_count} partitions"
    return (murmur2(key) & 0x7FFFFFFF) % partition_count


def rows_by_partition(keys: Column, partition_count: int, keyless: int) -> list[array[int]]:
    """The rows of each partition that their keys lead to, in order; those without key go to partition ``keyless``.

    Raises ValueError for a column that is malformed.
    """
    native = library()
    if native is None:
        return rows_by_partition_in_python(keys, partition_count, keyless)
    return rows_by_partition_in_c(native, keys, partition_count, keyless)


def rows_by_partition_in_c(native: CDLL, keys: Column, partition_count: int, keyless: int) -> list[array[int]]:
    """The same by the library."""
    places, rows = array("i", bytes(4 * keys.count)), array("q", bytes(8 * keys.count))
    ends = array("q", bytes(8 * partition_count))
    addresses = [each.buffer_info()[0] for each in (places, rows, ends)]
    fault: bytes | None = native.keys_partition(byref(keys.struct()), keys.count, partition_count, keyless, *addresses)
    if fault is not None:
        raise ValueError(fault.decode())
    return [rows[begin:end] for begin, end in pairwise((0, *ends))]


def rows_by_partition_in_python(keys: Column, partition_count: int, keyless: int) -> list[array[int]]:
    """The same without the library."""
    found = [array("q") for _ in range(partition_count)]
    for row, key in enumerate(keys.rows):
        found[keyless if key is None else partition_for_key(key, partition_count)].append(row)
    return found


class Partitioner:
    """Chooses partitions of one topic for one producer, once it has been told of them.

    Records without key stick to one partition for ``sticky_bytes``, so that they fill
    batches; then another is drawn. Over time each partition gets as much as any other.
    """

    def __init__(self, random: Random, *, sticky_bytes: int) -> None:
        assert sticky_bytes > 0, f"{sticky_bytes} sticky bytes"
        self._random = random
        self._sticky_bytes = sticky_bytes
        self._sticky: int | None = None
        self._left_bytes = 0
        self._partition_count = 0
        self._candidates: Sequence[int] = ()

    def on_partitions(self, partition_count: int, available: Sequence[int] = ()) -> None:
        """The topic has so many partitions now; ``available`` are those that have a leader, as far as is known."""
        self._partition_count = partition_count
        self._candidates = available or range(partition_count)
        if self._sticky not in self._candidates:
            self._left_bytes = 0

    def partition_of(self, key: bytes | None, size_bytes: int) -> int:
        """Choose the partition of one record of ``size_bytes``.

        A record without key goes to one that is available, if any is. A key's partition does not depend on that. An
        empty key is a key.
        """
        if key is not None:
            return partition_for_key(key, self._partition_count)
        if self._left_bytes <= 0 or self._sticky is None:
            self._sticky, self._left_bytes = self._another(), self._sticky_bytes
        self._left_bytes -= size_bytes
        return self._sticky

    def _another(self) -> int:
        """Draw from all but the last, unless that is all there is."""
        others = [partition for partition in self._candidates if partition != self._sticky]
        return self._random.choice(others or self._candidates)
