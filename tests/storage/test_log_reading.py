"""Reading from an open log: whole batches, bounds, and damage that is never served."""

from __future__ import annotations

import pytest

from nemesis.disks.simulated_files import SimulatedFiles
from replica.ids import Offset
from replica.storage import LogConfig, OffsetOutOfRangeError, StorageError
from tests.storage.disks import (
    BATCH_BYTES,
    FIRST_SEGMENT,
    IN_MEMORY,
    ONE_SEGMENT,
    SMALL,
    append,
    batch,
    flip,
    formatted,
    held,
    offsets,
    open_log,
)

BOTH = pytest.mark.parametrize("config", [SMALL, IN_MEMORY, LogConfig()], ids=["disk", "short tail", "all in memory"])


@BOTH
def test_what_is_appended_is_read(config: LogConfig) -> None:
    """Batches come back byte for byte, across segments, from disk and from memory."""
    _, log, _ = open_log(formatted(), config)
    batches = [batch(0), batch(1, count=3), batch(4, epoch=2), batch(5, epoch=2, value=b"x" * 500), batch(6, epoch=2)]
    log.append(batches[:2])
    log.append(batches[2:])
    assert held(log) == batches
    assert log.log_end_offset == 7


@BOTH
def test_read_starts_with_the_batch_that_holds_the_offset(config: LogConfig) -> None:
    """An offset inside a batch, in whichever segment, yields that batch first."""
    _, log, _ = open_log(formatted(), config)
    for base_offset in range(0, 40, 4):
        log.append([batch(base_offset, count=4)])
    for offset in range(40):
        assert offsets(log.read(Offset(offset), Offset(40), 1)) == [offset // 4 * 4]


@BOTH
def test_read_with_too_small_max_length(config: LogConfig) -> None:
    """At least one whole batch is returned, further ones only while the sum stays within the limit."""
    _, log, _ = open_log(formatted(), config)
    append(log, count=12)
    assert offsets(log.read(Offset(2), Offset(12), 1)) == [2]
    assert offsets(log.read(Offset(2), Offset(12), 3 * BATCH_BYTES - 1)) == [2, 3]
    assert offsets(log.read(Offset(2), Offset(12), 3 * BATCH_BYTES)) == [2, 3, 4]
    assert offsets(log.read(Offset(9), Offset(12), 1 << 20)) == [9, 10, 11]


@BOTH
def test_read_stops_at_the_end_bound(config: LogConfig) -> None:
    """No batch that reaches beyond the bound is returned, not even as the first."""
    _, log, _ = open_log(formatted(), config)
    log.append([batch(0, count=3), batch(3, count=3), batch(6, count=3)])
    assert offsets(log.read(Offset(0), Offset(6), 1 << 20)) == [0, 3]
    assert offsets(log.read(Offset(0), Offset(5), 1 << 20)) == [0]
    assert log.read(Offset(3), Offset(5), 1 << 20) == b""


@BOTH
def test_read_out_of_range(config: LogConfig) -> None:
    """Reading at the log's end gives nothing; beyond it is an error of the caller, and the store stays usable."""
    _, log, _ = open_log(formatted(), config)
    append(log, count=5)
    assert log.read(Offset(5), Offset(5), 100) == b""
    for offset in (Offset(6), Offset(-1)):
        with pytest.raises(OffsetOutOfRangeError, match=rf"at offset {offset}: it holds \[0, 5\]"):
            log.read(offset, Offset(5), 100)
    assert offsets(log.read(Offset(4), Offset(5), 100)) == [4]


@pytest.mark.parametrize("at", [0, 8, 12, 16, 17, 21, 57, BATCH_BYTES - 1])
def test_damage_on_disk_is_never_served(files: SimulatedFiles, at: int) -> None:
    """A batch that was damaged under a running replica is an error with file and position, not an answer."""
    _, log, _ = open_log(files, ONE_SEGMENT)
    append(log, count=5, value=b"payload")
    log.flush()
    content = bytearray(files.content(FIRST_SEGMENT))
    position = len(content) // 5 * 2
    content[position + at] ^= 0x40
    files.overwrite(FIRST_SEGMENT, bytes(content))
    assert offsets(log.read(Offset(0), Offset(2), 1 << 20)) == [0, 1]
    with pytest.raises(StorageError, match=f"{FIRST_SEGMENT} at byte {position} "):
        log.read(Offset(2), Offset(5), 1 << 20)


@pytest.mark.parametrize("position", [*range(7, 8), *range(15, 16)], ids=["base offset", "leader epoch"])
@pytest.mark.parametrize("count", [1, 3])
def test_damage_outside_the_checksum_is_never_served(files: SimulatedFiles, position: int, count: int) -> None:
    """A bit of the base offset or the epoch, which the CRC does not cover, is missed by no read from the disk."""
    _, log, _ = open_log(files)
    log.append([batch(0, count=count), batch(count, epoch=20, count=count), batch(2 * count, epoch=20, count=count)])
    second = batch(0, count=count).size_bytes
    flip(files, FIRST_SEGMENT, second + position)
    with pytest.raises(StorageError, match=f"at byte {second}"):
        log.read(Offset(count), Offset(2 * count), 1)
