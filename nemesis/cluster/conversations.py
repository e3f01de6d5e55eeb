"""Where the answers are in the bytes of one connection: of HTTP/2, or of any protocol in which one asks first.

Owns the little of HTTP/2 that tells an answer from what a server says anyway (settings, windows, pings): frames begin
with nine bytes, and an answer begins with the first headers or data of a stream on which something was asked since the
last one. Source: RFC 9113, sections 3.4, 4.1, 6.1 and 6.2.
"""

from __future__ import annotations

from collections.abc import Iterator

PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
_HEADER_BYTES = 9
_DATA, _HEADERS = 0, 1


class Conversation:
    """Listens to both sides of one connection, from its beginning."""

    def __init__(self) -> None:
        self._began = b""
        self._asks = _Frames()
        self._answers = _Frames()
        self._asked: set[int] = set()
        """The streams on which something was asked that no answer to has begun."""

    def on_asked(self, chunk: bytes) -> None:
        """The source said this."""
        preface = chunk[: len(PREFACE) - len(self._began)]
        self._began += preface
        if PREFACE.startswith(self._began):
            self._asked.update(stream for _, stream in self._asks.begun(chunk[len(preface) :]))

    def on_answered(self, chunk: bytes) -> list[int]:
        """The destination said this: where in it answers begin, each of them told once.

        Without HTTP/2 there is one answer in each chunk, once something was asked.
        """
        if not PREFACE.startswith(self._began):
            return [0]
        starts = []
        for start, stream in self._answers.begun(chunk):
            if stream in self._asked:
                self._asked.discard(stream)
                starts.append(start)
        return starts


class _Frames:
    """The frames of one side, which chunks cut anywhere."""

    def __init__(self) -> None:
        self._header = b""
        self._bytes_left = 0

    def begun(self, chunk: bytes) -> Iterator[tuple[int, int]]:
        """Frames of headers and data in a chunk: where each begins, at 0 if that has gone already, and its stream."""
        position = 0
        while position < len(chunk):
            if self._bytes_left:
                passed = min(self._bytes_left, len(chunk) - position)
                self._bytes_left -= passed
                position += passed
                continue
            start = position - len(self._header)
            taken = chunk[position : position + _HEADER_BYTES - len(self._header)]
            self._header += taken
            position += len(taken)
            if len(self._header) == _HEADER_BYTES:
                if self._header[3] in (_DATA, _HEADERS):
                    yield max(0, start), int.from_bytes(self._header[5:], "big")
                self._bytes_left = int.from_bytes(self._header[:3], "big")
                self._header = b""
