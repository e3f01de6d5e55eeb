"""A file as lines or as pieces of text: decompressed, decoded, and never more of it in memory than asked for.

Owns the limits on bytes and what is said of files that are damaged below the level of their format. Knows no format.
"""

from __future__ import annotations

import codecs
import gzip
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO, cast

from nemesis.formats.errors import HistoryError
from nemesis.formats.limits import FILE_BYTES_MAX, LINE_BYTES_MAX

GZIP_MAGIC = b"\x1f\x8b"
CHUNK_BYTES = 64 * 1024
_BOM = "\ufeff"


@contextmanager
def opened(path: Path) -> Iterator[BinaryIO]:
    """The file's bytes, decompressed where it is compressed by gzip.

    Raises HistoryError where the file or its compression cannot be read, now or while it is.
    """
    try:
        with path.open("rb") as raw:
            is_compressed = raw.read(2) == GZIP_MAGIC
            raw.seek(0)
            if is_compressed:
                with gzip.open(raw) as plain:
                    yield cast(BinaryIO, plain)
            else:
                yield raw
    except (EOFError, zlib.error) as error:
        raise HistoryError(
            path, None, f"the compressed file is cut off or damaged ({error})", "copy it again"
        ) from error
    except OSError as error:
        raise HistoryError(
            path, None, f"the file cannot be read ({error})", "check that it is there and whole"
        ) from error


def lines_of(path: Path) -> Iterator[tuple[int, str, bool]]:
    """Each line with its number, counted from 1, without its end; and whether it had an end. No line is skipped."""
    read = 0
    with opened(path) as file:
        number = 0
        while line := file.readline(LINE_BYTES_MAX + 1):
            number += 1
            read += len(line)
            if len(line) > LINE_BYTES_MAX:
                raise HistoryError(
                    path, number, f"the line is longer than LINE_BYTES_MAX, {LINE_BYTES_MAX}", "write one event a line"
                )
            _check_size(path, read)
            text = _decoded(path, number, line)
            yield number, text.removeprefix(_BOM) if number == 1 else text, line.endswith(b"\n")


def _decoded(path: Path, number: int, line: bytes) -> str:
    try:
        return line.decode("utf-8").rstrip("\r\n")
    except UnicodeDecodeError as error:
        raise _not_utf8(path, number, error) from error


def chunks_of(path: Path) -> Iterator[str]:
    """The text in pieces of about ``CHUNK_BYTES``, cut anywhere between two characters."""
    decoder = codecs.getincrementaldecoder("utf-8")()
    read, line, is_first = 0, 1, True
    with opened(path) as file:
        while True:
            piece = file.read(CHUNK_BYTES)
            read += len(piece)
            _check_size(path, read)
            try:
                text = decoder.decode(piece, final=not piece)
            except UnicodeDecodeError as error:
                raise _not_utf8(path, line + error.object[: error.start].count(b"\n"), error) from error
            line += text.count("\n")
            if text:
                yield text.removeprefix(_BOM) if is_first else text
                is_first = False
            if not piece:
                return


def head_of(path: Path, length: int) -> bytes:
    """The first bytes, decompressed; fewer where the file is shorter."""
    with opened(path) as file:
        return file.read(length)


def _not_utf8(path: Path, line: int, error: UnicodeDecodeError) -> HistoryError:
    byte = error.object[error.start]
    return HistoryError(path, line, f"byte 0x{byte:02x} is not UTF-8", "write the file in UTF-8")


def _check_size(path: Path, read: int) -> None:
    if read > FILE_BYTES_MAX:
        raise HistoryError(
            path, None, f"the file has more than FILE_BYTES_MAX, {FILE_BYTES_MAX} bytes", "cut the history into several"
        )
