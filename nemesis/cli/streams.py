"""Standard output and standard error while a command runs: whoever reads them may leave, and nothing else ends by it.

Owns what happens when a pipe has no reader any more, as behind ``head``: what is told from then on goes nowhere, and
the command goes on to its verdict, to the files that it writes, and to its exit code. Knows no command. A full disk
behind a redirection is another matter: that stays an error.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any, TextIO, cast


class Outlet:
    """A text stream that is like the one it is made of, but for a reader who leaves: that is no error."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)

    def write(self, text: str) -> int:
        """Write, or drop it when nobody reads; the number of characters either way."""
        self._while_read(lambda: self._stream.write(text))
        return len(text)

    def flush(self) -> None:
        """Flush, or drop what was held back when nobody reads."""
        self._while_read(self._stream.flush)

    def _while_read(self, act: Callable[[], object]) -> None:
        try:
            act()
        except BrokenPipeError:
            self._turn_away()

    def _turn_away(self) -> None:
        """Let the stream's file end in nothing, so that what its buffer still holds is no error at the exit either."""
        with suppress(OSError):  # a stream in memory has no file
            nowhere = os.open(os.devnull, os.O_WRONLY)
            try:
                os.dup2(nowhere, self._stream.fileno())
            finally:
                os.close(nowhere)


@contextmanager
def heard_or_not() -> Iterator[None]:
    """Within, nobody who stops reading ends what is done here."""
    before = sys.stdout, sys.stderr
    sys.stdout, sys.stderr = (_outlet(stream) for stream in before)
    try:
        yield
    finally:
        for stream in filter(None, (sys.stdout, sys.stderr)):
            # What cannot be written for another reason, Python says at its end.
            with suppress(OSError):
                stream.flush()
        sys.stdout, sys.stderr = before


def _outlet(stream: TextIO | None) -> TextIO:
    """The stream; None, which Python has where the process was started without it, stays that."""
    return cast("TextIO", None if stream is None else Outlet(stream))
