"""Where the answers are in the bytes of one connection: of HTTP/2, or of any protocol in which one asks first.

Owns the little of HTTP/2 that tells an answer from what a server says anyway (settings, windows, pings): frames begin
with nine bytes, and the headers of a stream begin its answer. Source: RFC 9113, sections 3.4, 4.1 and 6.2.
"""

from __future__ import annotations

from collections.abc import Iterator

PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
_HEADER_BYTES = 9
_DATA, _HEADERS, _RST_STREAM = 0, 1, 3
_END_STREAM = 1


class Conversation:
    """Listens to both sides of one connection, from its beginning."""

    def __init__(self) -> None:
        self._began = b""
        self._header = b""
        self._frame_bytes_left = 0
        self._answering: set[int] = set()

    def on_asked(self, chunk: bytes) -> None:
        """The source said this."""
        self._began += chunk[: len(PREFACE) - len(self._began)]

    def on_answered(self, chunk: bytes) -> list[int]:
        """The destination said this: where in it answers begin, each of them told once.

        Without HTTP/2 there is one answer in each chunk, once something was asked.
        """
        if PREFACE.startswith(self._began):
            return list(self._answers(chunk))
        return [0]

    def _answers(self, chunk: bytes) -> Iterator[int]:
        """The frames that begin an answer; one whose own beginning has gone already begins at 0."""
        position = 0
        while position < len(chunk):
            if self._frame_bytes_left:
                passed = min(self._frame_bytes_left, len(chunk) - position)
                self._frame_bytes_left -= passed
                position += passed
                continue
            start = position - len(self._header)
            taken = chunk[position : position + _HEADER_BYTES - len(self._header)]
            self._header += taken
            position += len(taken)
            if len(self._header) == _HEADER_BYTES:
                if self._begins_answer(self._header):
                    yield max(0, start)
                self._frame_bytes_left = int.from_bytes(self._header[:3], "big")
                self._header = b""

    def _begins_answer(self, header: bytes) -> bool:
        """Whether it is the first of a stream's headers; the second ones end it."""
        kind, flags, stream = header[3], header[4], int.from_bytes(header[5:], "big")
        is_first = kind == _HEADERS and stream not in self._answering
        if kind == _RST_STREAM or (kind in (_DATA, _HEADERS) and flags & _END_STREAM):
            self._answering.discard(stream)
        elif kind == _HEADERS:
            self._answering.add(stream)
        return is_first
