"""Where records go: the hash against Kafka's own values, and the way of records without a key."""

from __future__ import annotations

from collections import Counter
from ctypes import CDLL
from itertools import pairwise
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from replica.client.partitioner import (
    Partitioner,
    murmur2,
    partition_for_key,
    rows_by_partition_in_c,
    rows_by_partition_in_python,
)
from replica.records import Column
from tests.records.compiled import compiled, needs_compiler


@pytest.mark.parametrize(
    ("data", "hashed"),
    [
        (b"21", -973932308),
        (b"foobar", -790332482),
        (b"a-little-bit-long-string", -985981536),
        (b"a-little-bit-longer-string", -1486304829),
        (b"lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8", -58897971),
        (b"abc", 479470107),
    ],
)
def test_murmur2(data: bytes, hashed: int) -> None:
    """The hash gives the values that Kafka's UtilsTest expects: lengths of each remainder by four, either sign."""
    assert murmur2(data) == hashed


@given(st.binary(max_size=40))
def test_every_hash_is_a_signed_number_of_32_bits(data: bytes) -> None:
    """No intermediate result leaks out of its 32 bits."""
    assert -(2**31) <= murmur2(data) < 2**31


@pytest.mark.parametrize(
    ("key", "partition_count", "partition"),
    [(b"abc", 1, 0), (b"abc", 10, 7), (b"21", 10, 0), (b"foobar", 100, 66), (b"21", 2**31 - 1, 1173551340)],
)
def test_a_negative_hash_loses_its_sign_bit(key: bytes, partition_count: int, partition: int) -> None:
    """The partition is the lower 31 bits of the hash modulo the number of partitions, as Kafka's toPositive has it."""
    assert partition_for_key(key, partition_count) == partition


@pytest.fixture(scope="module")
def native(tmp_path_factory: pytest.TempPathFactory) -> CDLL:
    """The hash in C."""
    return compiled(tmp_path_factory.mktemp("native"))


@needs_compiler
@given(st.lists(st.none() | st.binary(max_size=40), max_size=60), st.integers(1, 50), st.data())
def test_a_column_of_keys_is_divided_alike(
    native: CDLL, keys: list[bytes | None], partition_count: int, data: st.DataObject
) -> None:
    """In C and in Python rows go where their keys lead, in order, and those without key to one partition."""
    column, keyless = Column.of(keys), data.draw(st.integers(0, partition_count - 1))
    found = rows_by_partition_in_c(native, column, partition_count, keyless)
    assert found == rows_by_partition_in_python(column, partition_count, keyless)
    assert all(list(rows) == sorted(rows) for rows in found)
    assert all(partition == keyless for partition, rows in enumerate(found) for row in rows if keys[row] is None)
    assert sorted(row for rows in found for row in rows) == list(range(len(keys)))


@given(st.binary(max_size=20), st.integers(1, 50), st.integers(0, 2**32))
def test_a_key_decides_alone(key: bytes, partition_count: int, seed: int) -> None:
    """Neither dice nor the partitions that are available move a key, an empty one included."""
    partitioner = Partitioner(Random(seed), sticky_bytes=10)
    partitioner.on_partitions(partition_count, [0])
    chosen = partitioner.partition_of(key, 99)
    assert chosen == partition_for_key(key, partition_count)
    assert 0 <= chosen < partition_count


def partitioner_of(seed: int, *, sticky_bytes: int, partition_count: int = 4) -> Partitioner:
    partitioner = Partitioner(Random(seed), sticky_bytes=sticky_bytes)
    partitioner.on_partitions(partition_count)
    return partitioner


def keyless(partitioner: Partitioner) -> int:
    return partitioner.partition_of(None, 10)


def test_records_without_key_stick_until_a_batch_is_full() -> None:
    """Ten records of ten bytes go to one partition, the next ten to another."""
    partitioner = partitioner_of(1, sticky_bytes=100)
    runs = [[keyless(partitioner) for _ in range(10)] for _ in range(8)]
    assert all(len(set(run)) == 1 for run in runs)
    assert all(before[0] != after[0] for before, after in pairwise(runs))


def test_keyed_records_do_not_wear_out_the_choice() -> None:
    """Only bytes of records without key count."""
    partitioner = partitioner_of(3, sticky_bytes=20)
    first = keyless(partitioner)
    partitioner.partition_of(b"k", 1000)
    assert keyless(partitioner) == first


def test_all_partitions_get_their_share() -> None:
    """Over many batches no partition is left out or preferred."""
    partitioner = partitioner_of(4, sticky_bytes=1)
    shares = Counter(keyless(partitioner) for _ in range(4000))
    assert all(800 < shares[partition] < 1200 for partition in range(4))


def test_a_partition_that_is_not_available_is_left_at_once() -> None:
    """Records without key go where there is a leader, before the batch is full; with none known, anywhere."""
    partitioner = partitioner_of(5, sticky_bytes=1000)
    first = keyless(partitioner)
    others = [partition for partition in range(4) if partition != first]
    partitioner.on_partitions(4, others[:1])
    moved = keyless(partitioner)
    assert moved == others[0]
    partitioner.on_partitions(4)
    assert keyless(partitioner) == moved


def test_a_lone_partition_is_drawn_again() -> None:
    """With one partition there is no other to go to."""
    partitioner = partitioner_of(6, sticky_bytes=1, partition_count=1)
    assert {keyless(partitioner) for _ in range(5)} == {0}
