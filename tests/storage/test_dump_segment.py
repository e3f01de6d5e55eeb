"""Dumping a segment file, sound and damaged."""

from __future__ import annotations

from pathlib import Path

import pytest

from replica.storage import StorageError
from replica.storage.dump import DumpedBatch, dump_segment
from tests.storage.disks import batch

BATCHES = [batch(0, count=2), batch(2, epoch=3), batch(3, epoch=3)]
CONTENT = b"".join(found.data for found in BATCHES)
SECOND = BATCHES[0].size_bytes
THIRD = SECOND + BATCHES[1].size_bytes


def dumped(path: Path, content: bytes) -> list[DumpedBatch]:
    path.write_bytes(content)
    return list(dump_segment(path))


def flipped(position: int) -> bytes:
    content = bytearray(CONTENT)
    content[position] ^= 0x10
    return bytes(content)


def test_a_sound_segment(tmp_path: Path) -> None:
    """One row per batch, with position, offsets, epoch, size and record count."""
    rows = dumped(tmp_path / "segment", CONTENT)
    assert [(row.position, row.base_offset, row.last_offset, row.leader_epoch, row.record_count) for row in rows] == [
        (0, 0, 1, 1, 2),
        (SECOND, 2, 2, 3, 1),
        (THIRD, 3, 3, 3, 1),
    ]
    assert all(row.crc_ok and row.error is None and not row.is_control for row in rows)
    assert [row.size for row in rows] == [found.size_bytes for found in BATCHES]


def test_the_dump_goes_on_behind_a_crc_mismatch(tmp_path: Path) -> None:
    """A damaged batch is shown as such, and the ones behind it are still found."""
    rows = dumped(tmp_path / "segment", flipped(THIRD - 1))
    assert [row.crc_ok for row in rows] == [True, False, True]
    assert rows[1].base_offset == 2
    assert "CRC-32C mismatch" in str(rows[1].error)


def test_the_dump_goes_on_behind_a_header_that_is_none(tmp_path: Path) -> None:
    """Where only the length can be believed, the row says what is wrong and the next batch is found."""
    rows = dumped(tmp_path / "segment", flipped(SECOND + 16))
    assert [row.position for row in rows] == [0, SECOND, THIRD]
    assert (rows[1].base_offset, rows[1].crc_ok) == (None, False)
    assert "magic" in str(rows[1].error)


def test_a_batch_out_of_place_is_pointed_out(tmp_path: Path) -> None:
    """An offset that does not continue the batch before is an error of a batch whose CRC is right."""
    rows = dumped(tmp_path / "segment", flipped(SECOND + 7))
    assert rows[1].crc_ok
    assert "is not the log end offset 2" in str(rows[1].error)


@pytest.mark.parametrize("cut", [1, 11, 12, 60, BATCHES[2].size_bytes - 1])
def test_a_torn_tail_is_the_last_row(tmp_path: Path, cut: int) -> None:
    """A file that ends inside a batch ends the dump with a described row."""
    rows = dumped(tmp_path / "segment", CONTENT[: THIRD + cut])
    assert [row.position for row in rows] == [0, SECOND, THIRD]
    assert rows[-1].size == 0
    assert f"holds {cut} bytes" in str(rows[-1].error)


def test_an_impossible_length_is_the_last_row(tmp_path: Path) -> None:
    """Behind a length that cannot be, nothing is guessed."""
    rows = dumped(tmp_path / "segment", CONTENT[:SECOND] + bytes(100))
    assert [row.size for row in rows] == [SECOND, 0]
    assert "batch length 0" in str(rows[-1].error)


def test_an_empty_file_has_no_rows(tmp_path: Path) -> None:
    """No batches, no rows."""
    assert dumped(tmp_path / "segment", b"") == []


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    """A path that cannot be opened is one clear error."""
    with pytest.raises(StorageError, match=r"cannot read .*missing\.log"):
        list(dump_segment(tmp_path / "missing.log"))
