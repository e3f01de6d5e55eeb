"""What the newest batches of logs take of the memory."""

from __future__ import annotations

import tracemalloc

import pytest

from replica.ids import Offset
from replica.records import RecordBatch, parse_batches
from replica.storage import LogConfig
from replica.storage.tail import BATCH_OVERHEAD_BYTES, TAILS_BYTES_MAX, Tail, Tails
from tests.storage.disks import append, batch, formatted, open_log


def _parsed(offset: int, value: bytes) -> RecordBatch:
    """A batch of one record as a log has it: with data of its own."""
    (one,) = parse_batches(bytes(bytearray(batch(offset, value=value).data)))
    return one


@pytest.mark.parametrize("value_bytes", [1, 100, 10_000])
def test_a_tail_takes_no_more_of_the_memory_than_it_may(value_bytes: int) -> None:
    """However small the batches are, what Python has allocated for them is within what is counted, and most of it."""
    value = b"v" * value_bytes
    shared = Tails()
    tail = Tail(1 << 20, shared)
    tail.append([_parsed(0, value)])
    tracemalloc.start()
    try:
        for number in range(2_000_000 // (BATCH_OVERHEAD_BYTES + value_bytes)):
            tail.append([_parsed(1_000_000 + number, value)])
        taken, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert 0.7 * shared.total_bytes < taken <= shared.total_bytes <= 1 << 20


def test_the_tails_of_all_logs_share_a_bound() -> None:
    """With too much in all, the tail goes to which nothing was added for longest; the others stay as they are."""
    one = _parsed(0, b"v" * 1000)
    probe = Tails()
    Tail(1 << 20, probe).append([one])
    size = probe.total_bytes
    shared = Tails(3 * size)
    tails = [Tail(1 << 20, shared) for _ in range(4)]
    for tail in tails[:3]:
        tail.append([one])
    tails[0].append([_parsed(1, b"")])
    assert [tail.holds(Offset(0)) for tail in tails] == [True, False, True, False]
    tails[3].append([one])
    assert [tail.holds(Offset(0)) for tail in tails] == [True, False, False, True]
    assert 2 * size < shared.total_bytes <= shared.bytes_max
    tails[1].append([_parsed(5, b"")])
    assert tails[1].batches(Offset(4), Offset(6), 1 << 20) is None
    assert tails[1].batches(Offset(5), Offset(6), 1 << 20) == [_parsed(5, b"")]


def test_a_tail_that_is_larger_than_all_may_have_is_bounded_by_its_own_limit() -> None:
    """The tail that is being written is never the one that goes."""
    shared = Tails(1)
    tail = Tail(1 << 20, shared)
    tail.append([_parsed(0, b"v")])
    assert tail.holds(Offset(0))


def test_what_lies_below_the_start_of_a_log_is_not_kept() -> None:
    """Raising the start, starting anew and closing give back the memory of the batches that nobody may read."""
    directory, log, _ = open_log(formatted(), LogConfig(segment_bytes=400, index_interval_bytes=100))
    assert directory.tails.bytes_max == TAILS_BYTES_MAX
    sizes = []
    for _ in range(10):
        append(log)
        sizes.append(directory.tails.total_bytes)
    log.flush()
    log.raise_log_start(Offset(7))
    assert directory.tails.total_bytes == sizes[9] - sizes[6]
    assert log.is_in_memory(Offset(7))
    assert not log.is_in_memory(Offset(6))
    log.start_at(Offset(20))
    assert directory.tails.total_bytes == 0
    append(log)
    log.close(clean=False)
    assert directory.tails.total_bytes == 0
