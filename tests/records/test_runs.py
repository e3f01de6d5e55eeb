"""The walk over batches that plainly follow one another: it takes all that are well, and stops at whatever is not."""

from __future__ import annotations

from array import array
from ctypes import CDLL

import pytest

from replica.ids import Epoch, Offset
from replica.records import EVER, LENGTH_PREFIX_BYTES, Compression, RecordBatch, encode_batch
from replica.records.batch import ATTRIBUTES_AT, CRC_AT, HEADER
from replica.records.checksum import checksum
from replica.records.runs import Expected, LastMark, Run, Runs
from tests.records.compiled import compiled, needs_compiler

pytestmark = needs_compiler

EPOCH = Epoch(7)
NOWHERE = Offset((1 << 63) - 1)
START = LastMark(base_offset=Offset(10), position=0, newest_ms=EVER)
FIELDS = {"length": 1, "epoch": 2, "magic": 3, "attributes": 5, "last_delta": 6, "count": 12}
"""Where the fields of a header stand in ``HEADER``."""


@pytest.fixture(scope="module", params=["cc", "cc -DCRC_BY_TABLES"])
def native(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> CDLL:
    """The walk in C, with and without a processor that computes CRCs."""
    with pytest.MonkeyPatch.context() as environment:
        environment.setenv("CC", request.param)
        return compiled(tmp_path_factory.mktemp("native"))


def batch(base_offset: int, *, producer: tuple[int, int, int] = (-1, -1, -1), timestamp_ms: int = 5) -> RecordBatch:
    """A batch of two records in the epoch that is expected."""
    return encode_batch(
        [b"value"] * 2,
        base_offset=base_offset,
        leader_epoch=EPOCH,
        timestamp_ms=timestamp_ms,
        producer_id=producer[0],
        producer_epoch=producer[1],
        base_sequence=producer[2],
    )


def run_in(
    native: CDLL,
    data: bytes,
    *,
    stop_offset: Offset = NOWHERE,
    last_mark: LastMark = START,
    mark_bytes: int = 4096,
    batch_bytes_max: int = 1000,
    file_position: int = 0,
) -> Run:
    """The run at the beginning of ``data``, from offset 10 on."""
    expected = Expected(next_offset=Offset(10), epoch=EPOCH, stop_offset=stop_offset, keeps_producers=True)
    runs = Runs(native, batch_bytes_max=batch_bytes_max, mark_bytes=mark_bytes)
    return runs.first(data, 0, file_position=file_position, expected=expected, last_mark=last_mark)


def altered(found: RecordBatch, **others: int) -> bytes:
    """The batch with other values in its header, and a CRC that is right for it."""
    values = list(HEADER.unpack_from(found.data))
    for field, value in others.items():
        values[FIELDS[field]] = value
    data = bytearray(HEADER.pack(*values) + found.data[HEADER.size :])
    size = values[FIELDS["length"]] + LENGTH_PREFIX_BYTES
    data[CRC_AT:ATTRIBUTES_AT] = checksum(bytes(data[ATTRIBUTES_AT : max(size, ATTRIBUTES_AT)])).to_bytes(4, "big")
    return bytes(data)


def test_every_flipped_bit_ends_the_run(native: CDLL) -> None:
    """Whichever bit of a batch flips, in the CRC or outside of it, the batches before are taken and it is not."""
    first, second, third = (batch(offset).data for offset in (10, 12, 14))
    assert run_in(native, first + second + third).end_offset == 16
    for bit in range(8 * len(second)):
        damaged = bytearray(second)
        damaged[bit // 8] ^= 1 << bit % 8
        run = run_in(native, first + damaged + third)
        assert (run.size_bytes, run.end_offset) == (len(first), 12), f"bit {bit}"


def test_what_is_cut_is_not_taken(native: CDLL) -> None:
    """Of a batch of which bytes are missing, however many, nothing is taken."""
    first, second = batch(10).data, batch(12).data
    for size in range(len(second)):
        assert run_in(native, first + second[:size]).size_bytes == len(first)


@pytest.mark.parametrize(
    "others",
    [
        *[{"length": value} for value in (-1, 0, 48, 1 << 30)],
        *[{"length": value, "attributes": 3} for value in (37, 48)],
        *[{"epoch": value} for value in (-1, 6, 8)],
        *[{"magic": value} for value in (0, 1, 3)],
        *[{"attributes": value} for value in (1, 2, 5, 0x10, 0x20, 0x40, 0x80, 0x100, -0x8000)],
        *[{"last_delta": value} for value in (-1, 0, 2)],
        *[{"count": value} for value in (-1, 0, 1, 3)],
        *[{"count": value, "last_delta": value - 1} for value in (-1, 0, 5)],
        {"count": 10_000_000, "last_delta": 9_999_999, "attributes": 3},
    ],
    ids=str,
)
def test_what_is_odd_behind_a_right_checksum_is_not_taken(others: dict[str, int], native: CDLL) -> None:
    """A header that Python refuses, or has to look at, ends the run although its CRC is right."""
    first = batch(10)
    assert run_in(native, first.data + altered(batch(12), **others)).size_bytes == first.size_bytes


@pytest.mark.parametrize("compression", Compression)
def test_compressed_batches_are_taken(compression: Compression, native: CDLL) -> None:
    """Every codec that is known here is plain."""
    found = encode_batch([b"value"] * 9, base_offset=10, leader_epoch=EPOCH, compression=compression)
    assert run_in(native, found.data).end_offset == 19


def test_no_batch_is_taken_beyond_where_to_stop(native: CDLL) -> None:
    """A batch that ends above the offset ends the run, and so does one that is longer than batches may be."""
    data = batch(10).data + batch(12).data
    ends = [run_in(native, data, stop_offset=Offset(stop)).end_offset for stop in range(10, 16)]
    assert ends == [10, 10, 12, 12, 14, 14]
    assert run_in(native, data, batch_bytes_max=batch(10).size_bytes - 1).size_bytes == 0


@pytest.mark.parametrize("far", [0, 1])
def test_offsets_that_no_index_holds_are_not_taken(far: int, native: CDLL) -> None:
    """A batch whose offset or position in its segment has more than 32 bits is for Python to refuse."""
    last_mark = LastMark(base_offset=Offset(11 - (1 << 32) - far), position=0, newest_ms=EVER)
    found = batch(10).data
    assert run_in(native, found, last_mark=last_mark).size_bytes == (0 if far else len(found))
    assert run_in(native, found, file_position=(1 << 32) - 1 + far).size_bytes == (0 if far else len(found))


def test_marks_stand_where_an_index_has_its_entries(native: CDLL) -> None:
    """Each is the first batch at least so many bytes behind the last, with the newest time of those in between."""
    found = [batch(10 + 2 * at, timestamp_ms=time_ms) for at, time_ms in enumerate((3, 9, 4, 8, 1))]
    size = found[0].size_bytes
    run = run_in(native, b"".join(each.data for each in found), mark_bytes=2 * size)
    assert array("I", run.mark_offsets).tolist() == [4, 8]
    assert array("I", run.mark_positions).tolist() == [2 * size, 4 * size]
    assert array("q", run.newest_ms).tolist() == [9, 8]
    assert run.open_ms == 1


def test_the_last_batches_of_each_producer_are_kept(native: CDLL) -> None:
    """Of each producer and epoch the last five, in order, and of two that share a place in the table all that count."""
    writers = [(1, 0), *[(2, 0)] * 7, *[(4097, 0)] * 6, (1, 0), (2, 1), (-1, -1)]
    found = [batch(10 + 2 * at, producer=(*writer, at if writer[0] > 0 else -1)) for at, writer in enumerate(writers)]
    run = run_in(native, b"".join(each.data for each in found))
    assert [each.base_offset for each in run.produced] == [10, *range(16, 26, 2), *range(28, 42, 2)]
    assert run.produced[0] == found[0]
