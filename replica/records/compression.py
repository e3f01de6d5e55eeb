"""The compressed part of a record batch: everything behind the header, as one frame of LZ4 or Zstandard.

Owns the codecs, their numbers in a batch's attributes, and the limit on what a frame may decompress to. Knows nothing
of what is inside. The libraries are imported on first use: who meets no compressed batch needs none. Source: Kafka's
``CompressionType``, KIP-57 (LZ4 as interoperable frames of independent blocks), KIP-110 (Zstandard).
"""

from __future__ import annotations

from enum import StrEnum
from typing import assert_never

from replica.records.errors import CorruptRecordError

DECOMPRESSED_BYTES_MAX = 64 << 20
"""The most that the records of a compressed batch may take uncompressed: the default of readers, the writer's limit."""

_ZSTD_WINDOW_BYTES_MIN = 8 << 20
"""Every decoder of Zstandard should accept windows up to this size (RFC 8878, 3.1.1.1.2)."""

_ZSTD_EXPANSION_MAX = 1 << 15
"""One byte of a Zstandard frame gives at most so many: four bytes can stand for a block of 128 KiB."""

_ZSTD_STEP_BYTES_MIN = 128


class Compression(StrEnum):
    """How the records of a batch are compressed. Kafka's other codecs, gzip and snappy, are refused."""

    NONE = "none"
    LZ4 = "lz4"
    ZSTD = "zstd"


CODECS = {0: Compression.NONE, 3: Compression.LZ4, 4: Compression.ZSTD}
"""The codecs by their numbers in a batch's attributes."""

CODEC_NUMBERS = {compression: number for number, compression in CODECS.items()}


def compress(compression: Compression, data: bytes | bytearray) -> bytes:
    """Compress ``data`` into one frame; the same bytes for ``NONE``."""
    match compression:
        case Compression.NONE:
            return bytes(data)
        case Compression.LZ4:
            import lz4.frame

            # Kafka's own reader knows neither linked blocks nor content checksums, and the batch has its CRC.
            return bytes(lz4.frame.compress(data, block_linked=False, content_checksum=False, store_size=False))
        case Compression.ZSTD:
            import zstandard

            return zstandard.ZstdCompressor().compress(data)
    assert_never(compression)


def decompress(compression: Compression, data: bytes, *, limit_bytes: int, position: int) -> bytes:
    """Decompress ``data``, exactly one whole frame; the same bytes for ``NONE``, whatever the limit.

    Raises ``CorruptRecordError`` at ``position`` for anything else, and for a frame that holds more than
    ``limit_bytes``. What the frame says of its own size is not believed: memory is bounded by the limit.
    """
    match compression:
        case Compression.NONE:
            return data
        case Compression.LZ4:
            return _decompress_lz4(data, limit_bytes, position)
        case Compression.ZSTD:
            return _decompress_zstd(data, limit_bytes, position)
    assert_never(compression)


def _decompress_lz4(data: bytes, limit_bytes: int, position: int) -> bytes:
    import lz4.frame

    decompressor = lz4.frame.LZ4FrameDecompressor()
    try:
        whole = bytes(decompressor.decompress(data, max_length=limit_bytes + 1))
    except RuntimeError as error:  # the library's only class of error
        raise CorruptRecordError(position, f"the records are no lz4 frame: {error}") from error
    _check_size(Compression.LZ4, len(whole), limit_bytes, position)
    _check_whole(Compression.LZ4, decompressor.eof, decompressor.unused_data or b"", position)
    return whole


def _decompress_zstd(data: bytes, limit_bytes: int, position: int) -> bytes:
    """Feed the decompressor in steps, since its output has no limit of its own.

    A step is small enough to pass the limit by no more than a few blocks, whatever it holds.
    """
    import zstandard

    window_bytes = max(limit_bytes, _ZSTD_WINDOW_BYTES_MIN)
    decompressor = zstandard.ZstdDecompressor(max_window_size=window_bytes).decompressobj()
    whole = bytearray()
    start = 0
    while start < len(data) and not decompressor.eof:
        step = max(_ZSTD_STEP_BYTES_MIN, (limit_bytes - len(whole)) // _ZSTD_EXPANSION_MAX)
        try:
            whole += decompressor.decompress(data[start : start + step])
        except zstandard.ZstdError as error:
            raise CorruptRecordError(position, f"the records are no zstd frame: {error}") from error
        _check_size(Compression.ZSTD, len(whole), limit_bytes, position)
        start += step
    _check_whole(Compression.ZSTD, decompressor.eof, decompressor.unused_data + data[start:], position)
    return bytes(whole)


def _check_size(compression: Compression, size_bytes: int, limit_bytes: int, position: int) -> None:
    if size_bytes > limit_bytes:
        raise CorruptRecordError(position, f"the {compression} frame decompresses to more than {limit_bytes} bytes")


def _check_whole(compression: Compression, ended: bool, behind: bytes, position: int) -> None:
    if not ended:
        raise CorruptRecordError(position, f"the {compression} frame ends too early")
    if behind:
        raise CorruptRecordError(position, f"{len(behind)} trailing bytes behind the {compression} frame")
