"""Compressed batches: what comes back, what a server may know of them, and how damage inside a frame is refused."""

from __future__ import annotations

from contextlib import suppress
from struct import pack_into

import lz4.frame
import pytest
import zstandard
from hypothesis import given

from replica.ids import Epoch, Offset
from replica.records import (
    DECOMPRESSED_BYTES_MAX,
    HEADER_BYTES,
    Compression,
    CorruptRecordError,
    Record,
    RecordBatch,
    decode_records,
    encode_batch,
    parse_batches,
    scan_batches,
)
from replica.records.checksum import checksum
from tests.records.record_strategies import record_lists

CODECS = {Compression.LZ4: 3, Compression.ZSTD: 4}
BOTH = pytest.mark.parametrize("compression", CODECS)

RECORDS = [
    Record(offset=Offset(0), timestamp_ms=1000, key=b"k", value=b"v" * 50, headers=(("h", b"x"), ("h", None))),
    Record(offset=Offset(1), timestamp_ms=900, key=None, value=None),
]
BODY = encode_batch(RECORDS).data[HEADER_BYTES:]


def framed(compression: Compression, body: bytes) -> bytes:
    """Compress with the library itself, in the form that each writes by default."""
    if compression is Compression.LZ4:
        return bytes(lz4.frame.compress(body))
    return zstandard.ZstdCompressor().compress(body)


def sealed(compression: Compression, frame: bytes, *, record_count: int = 2) -> RecordBatch:
    """Build a batch by hand around ``frame``: its header and its CRC are right, whatever the frame is."""
    data = bytearray(encode_batch(RECORDS).data[:HEADER_BYTES] + frame)
    pack_into(">i", data, 8, len(data) - 12)
    pack_into(">h", data, 21, CODECS[compression])
    pack_into(">i", data, 23, record_count - 1)
    pack_into(">i", data, 57, record_count)
    pack_into(">I", data, 17, checksum(bytes(data[21:])))
    (batch,) = parse_batches(bytes(data))
    return batch


def bomb(compression: Compression, size_bytes: int) -> bytes:
    """Compress so many zeros, without a hint in the frame of how many they are."""
    if compression is Compression.LZ4:
        return bytes(lz4.frame.compress(bytes(size_bytes), store_size=False))
    return zstandard.ZstdCompressor(write_content_size=False).compress(bytes(size_bytes))


@pytest.mark.parametrize("compression", Compression)
@given(records=record_lists())
def test_compressed_records_round_trip(compression: Compression, records: list[Record]) -> None:
    """Keys, values, headers and each record's own time come back from a batch that says how it is compressed."""
    batch = encode_batch(records, compression=compression)
    assert parse_batches(batch.data) == (batch,)
    assert batch.compression is compression
    assert list(decode_records(batch)) == records


@BOTH
def test_a_compressed_batch_takes_less_room(compression: Compression) -> None:
    """A thousand equal values take a small part of their bytes, and as many offsets as ever."""
    batch = encode_batch([b"the same value"] * 1000, compression=compression)
    assert batch.size_bytes * 3 < encode_batch([b"the same value"] * 1000).size_bytes
    assert (batch.record_count, batch.last_offset) == (1000, 999)


@BOTH
def test_a_stamp_leaves_the_frame_alone(compression: Compression) -> None:
    """A leader stamps a compressed batch as any other, and its records move with it."""
    batch = encode_batch(RECORDS, compression=compression)
    stamped = batch.stamped(base_offset=Offset(70), leader_epoch=Epoch(3))
    assert stamped.data[16:] == batch.data[16:]
    assert [record.offset for record in decode_records(stamped)] == [70, 71]


@BOTH
def test_frames_as_the_libraries_write_them_are_read(compression: Compression) -> None:
    """Content sizes, checksums and linked blocks are a frame's own affair."""
    assert list(decode_records(sealed(compression, framed(compression, BODY)))) == RECORDS


@BOTH
def test_every_flipped_bit_of_a_frame_is_found_by_the_crc(compression: Compression) -> None:
    """The CRC covers the compressed bytes, so that a reader of headers finds the damage without decompressing."""
    batch = encode_batch(RECORDS, compression=compression)
    for bit in range(HEADER_BYTES * 8, batch.size_bytes * 8):
        damaged = bytearray(batch.data)
        damaged[bit // 8] ^= 0x80 >> bit % 8
        with pytest.raises(CorruptRecordError, match="CRC-32C mismatch"):
            parse_batches(bytes(damaged))


@BOTH
def test_a_frame_that_was_damaged_before_the_crc_raises_nothing_but_corrupt_record_error(
    compression: Compression,
) -> None:
    """Whichever bit of the frame is wrong under a right CRC, the records decode or are refused as corrupt."""
    frame = framed(compression, BODY)
    for bit in range(len(frame) * 8):
        damaged = bytearray(frame)
        damaged[bit // 8] ^= 0x80 >> bit % 8
        with suppress(CorruptRecordError):
            decode_records(sealed(compression, bytes(damaged)))


@BOTH
def test_every_truncated_frame_is_refused(compression: Compression) -> None:
    """A frame cut at any byte is refused, even where all records would be there."""
    frame = framed(compression, BODY)
    for length in range(len(frame)):
        with pytest.raises(CorruptRecordError):
            decode_records(sealed(compression, frame[:length]))


@BOTH
@pytest.mark.parametrize("size_bytes", [0, 1, 400_000], ids=["empty", "small", "long"])
def test_bytes_behind_a_frame_are_refused(compression: Compression, size_bytes: int) -> None:
    """One batch holds one frame: bytes behind it, another frame included, have no place, wherever the frame ends."""
    body = encode_batch([bytes(size_bytes)] * 2, timestamp_ms=1000).data[HEADER_BYTES:]
    frame = framed(compression, body)
    assert len(decode_records(sealed(compression, frame))) == 2
    for behind in (b"x", bytes(5000), frame):
        with pytest.raises(CorruptRecordError, match=f"{len(behind)} trailing bytes behind the {compression} frame"):
            decode_records(sealed(compression, frame + behind))


@BOTH
def test_a_frame_of_too_much_is_refused(compression: Compression) -> None:
    """A frame of a few bytes that holds more than the limit is refused at the limit; at the limit itself it is read."""
    batch = sealed(compression, framed(compression, BODY))
    assert len(decode_records(batch, limit_bytes=len(BODY))) == 2
    with pytest.raises(CorruptRecordError, match=f"more than {len(BODY) - 1} bytes"):
        decode_records(batch, limit_bytes=len(BODY) - 1)
    with pytest.raises(CorruptRecordError, match="decompresses to more than 1048576 bytes"):
        decode_records(sealed(compression, bomb(compression, 32 << 20)), limit_bytes=1 << 20)


@BOTH
def test_a_frame_is_not_believed_about_its_size(compression: Compression) -> None:
    """A frame that claims terabytes costs no memory: it is refused, and with nothing but ``CorruptRecordError``."""
    if compression is Compression.LZ4:
        frame = bytearray(lz4.frame.compress(BODY, store_size=True))
        pack_into("<Q", frame, 6, 1 << 42)
    else:
        frame = bytearray(b"\x28\xb5\x2f\xfd\xe0" + (1 << 42).to_bytes(8, "little") + b"\x01\x00\x00")
    with pytest.raises(CorruptRecordError):
        decode_records(sealed(compression, bytes(frame)))


@BOTH
def test_a_zero_byte_limit_admits_nothing(compression: Compression) -> None:
    """The limit is meant as it stands: no records fit into no bytes."""
    with pytest.raises(CorruptRecordError, match="more than 0 bytes"):
        decode_records(sealed(compression, framed(compression, BODY)), limit_bytes=0)


@BOTH
def test_a_count_that_only_decompressing_would_refute_is_left_to_the_reader(compression: Compression) -> None:
    """A header may promise more records than its compressed bytes seem to hold; who decodes them finds out."""
    batch = sealed(compression, framed(compression, BODY), record_count=1000)
    assert parse_batches(batch.data) == (batch,)
    with pytest.raises(CorruptRecordError):
        decode_records(batch)


@BOTH
def test_a_count_that_no_reader_would_decompress_is_refused_at_once(compression: Compression) -> None:
    """However well it is compressed, a batch holds no more records than fit into the reader's limit."""
    most = DECOMPRESSED_BYTES_MAX // 7
    assert sealed(compression, b"", record_count=most).record_count == most
    with pytest.raises(CorruptRecordError, match="cannot hold that many"):
        sealed(compression, b"", record_count=most + 1)


@BOTH
def test_a_server_takes_a_frame_as_it_is(compression: Compression) -> None:
    """Reading headers does not look into the frame: even one that nobody can read is a batch."""
    batch = sealed(compression, b"not a frame")
    assert list(scan_batches(batch.data)) == [batch]
    with pytest.raises(CorruptRecordError, match=f"the records are no {compression} frame"):
        decode_records(batch)


@BOTH
def test_the_encoder_writes_nothing_that_a_reader_would_refuse(compression: Compression) -> None:
    """Records above the reader's limit, and control records, are not compressed."""
    with pytest.raises(ValueError, match="split them"):
        encode_batch([bytes(DECOMPRESSED_BYTES_MAX)], compression=compression)
    with pytest.raises(ValueError, match="a control batch is compressed"):
        encode_batch([b""], compression=compression, is_control=True)
