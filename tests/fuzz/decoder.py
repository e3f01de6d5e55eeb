"""What is fuzzed, as a value: a decoder, inputs that are right, and what may become of those that are not.

A decoder reads what others have written: a file, a message, an option. Whatever the bytes, one of two things happens:
it takes them, or it raises one of its refusals, soon and in little memory. Everything else is a finding.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from random import Random

MEMORY_BYTES = 1 << 20
"""What any decoder may take beside what it takes for each byte."""


class SaidNoError(Exception):
    """The refusal of a decoder that refuses by what it returns."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Decoder:
    """One decoder. ``decode`` is given the input and a folder of its own, for what must be a file.

    ``right`` makes inputs that are taken, by the encoders of the project. ``refusals`` are the documented errors; there
    are none where every input is taken. ``reseal`` makes lengths and checksums fit again, so that what lies behind them
    is reached. ``words`` are what the format is made of, where it is text. An input may take ``memory_bytes``, and
    ``memory_per_byte`` for each of its bytes. ``may_kill`` says that native code could end the process: it is run in
    one of its own. ``cost`` is about how many times as long as the others' one input takes.
    """

    name: str
    decode: Callable[[bytes, Path], object]
    right: Callable[[], Sequence[bytes]]
    refusals: tuple[type[Exception], ...] = ()
    reseal: Callable[[bytearray, Random], None] | None = None
    words: tuple[bytes, ...] = ()
    memory_bytes: int = MEMORY_BYTES
    memory_per_byte: int = 100
    may_kill: bool = False
    cost: int = 1

    def memory_max(self, size: int) -> int:
        """How many bytes an input of this size may take."""
        return self.memory_bytes + self.memory_per_byte * size


def of_bytes(function: Callable[[bytes], object]) -> Callable[[bytes, Path], object]:
    """A decoder of bytes, which needs no folder."""
    return lambda content, _: function(content)


def of_text(function: Callable[[str], object]) -> Callable[[bytes, Path], object]:
    """A decoder of text as the command line hands it out: what is no UTF-8 is there as it is."""
    return lambda content, _: function(content.decode("utf-8", "surrogateescape").replace("\0", ""))


def of_file(name: str, function: Callable[[Path], object]) -> Callable[[bytes, Path], object]:
    """A decoder of a file of this name."""

    def decode(content: bytes, folder: Path) -> object:
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
        return function(path)

    return decode


def there(value: object) -> object:
    """The value, where its absence is how a decoder refuses. Raises SaidNoError."""
    if value is None:
        raise SaidNoError
    return value
