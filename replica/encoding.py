"""Values as bytes, and back: what commands, replies, entries and snapshots are written with.

Owns the codecs for numbers, bytes and text, and those that put them together: optional values, sequences, structs,
one of several classes. Equal values are equal bytes, on every machine and in every process. Reading is strict: what
ends too early, goes on behind its end, or holds a number that its field cannot have raises ``MalformedError``, and
nothing else does. Knows nothing of what the values mean.

Numbers are of fixed width, the highest byte first. A length stands before bytes, a count before a sequence, a tag of
one byte before one of several dataclasses, and a version of one byte before the whole.
"""

from __future__ import annotations

import struct
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from enum import StrEnum
from io import BytesIO
from typing import Any, Generic, TypeVar, cast

from msgspec.structs import fields

T = TypeVar("T")
EnumT = TypeVar("EnumT", bound=StrEnum)

INT64_MIN = -(1 << 63)
INT64_MAX = (1 << 63) - 1
PIECE_BYTES = 256 << 10
"""How much is copied at once. While one call of C copies, no other thread of the process has a turn."""


class MalformedError(ValueError):
    """The bytes are not what they should be; ``position`` is where that shows, counted from their start."""

    def __init__(self, position: int, reason: str) -> None:
        super().__init__(position, reason)
        self.position = position
        self.reason = reason

    def __str__(self) -> str:
        return f"byte {self.position}: {self.reason}"


def pieces_of(data: bytes | bytearray) -> Iterator[memoryview]:
    """Cut large data into pieces, each to be copied by itself."""
    with memoryview(data) as whole:
        for start in range(0, len(data), PIECE_BYTES):
            yield whole[start : start + PIECE_BYTES]


def joined(*parts: bytes | bytearray) -> bytes:
    """Put parts together, which may be hundreds of megabytes: piece by piece, so that others have their turn."""
    if sum(map(len, parts)) <= PIECE_BYTES:
        return b"".join(parts)
    out = BytesIO()
    for part in parts:
        for piece in pieces_of(part):
            out.write(piece)
    return out.getvalue()  # Which copies nothing: it is what was written.


class Reader:
    """Bytes, and how far they have been read."""

    __slots__ = ("data", "position")

    def __init__(self, data: bytes) -> None:
        self.data = data
        self.position = 0

    def left(self) -> int:
        """How many bytes have not been read."""
        return len(self.data) - self.position

    def take(self, size: int) -> bytes:
        """Read so many bytes. Raises MalformedError if there are fewer."""
        end = self.position + size
        if end > len(self.data):
            raise MalformedError(self.position, f"{size} bytes are due, {self.left()} are left")
        taken = self.data[self.position : end]
        self.position = end
        return taken


class Codec(ABC, Generic[T]):
    """How one kind of value is written and read."""

    @abstractmethod
    def write(self, out: bytearray, value: T) -> None:
        """Append ``value``. A value that does not fit is our own mistake: AssertionError."""

    @abstractmethod
    def read(self, reader: Reader) -> T:
        """Read one value. Raises MalformedError."""


class Integer(Codec[int]):
    """A number from ``minimum`` to ``maximum``, both inclusive."""

    def __init__(self, layout: str, *, minimum: int, maximum: int) -> None:
        self._struct = struct.Struct(layout)
        self._minimum = minimum
        self._maximum = maximum

    def write(self, out: bytearray, value: int) -> None:
        assert self._minimum <= value <= self._maximum, (value, self._minimum, self._maximum)
        out += self._struct.pack(value)

    def read(self, reader: Reader) -> int:
        position = reader.position
        value: int = self._struct.unpack(reader.take(self._struct.size))[0]
        if not self._minimum <= value <= self._maximum:
            raise MalformedError(position, f"{value} is not from {self._minimum} to {self._maximum}")
        return value


UINT8 = Integer(">B", minimum=0, maximum=(1 << 8) - 1)
UINT32 = Integer(">I", minimum=0, maximum=(1 << 32) - 1)
SIGNED = Integer(">q", minimum=INT64_MIN, maximum=INT64_MAX)
"""Any number of 64 bits."""
COUNT = Integer(">q", minimum=0, maximum=INT64_MAX)
"""A number from 0 up: an offset, a time, a length."""
POSITIVE = Integer(">q", minimum=1, maximum=INT64_MAX)
"""A number from 1 up: a revision, an id."""


class Flag(Codec[bool]):
    """True or false, as one byte: 1 or 0."""

    def write(self, out: bytearray, value: bool) -> None:
        out.append(1 if value else 0)

    def read(self, reader: Reader) -> bool:
        position = reader.position
        byte = UINT8.read(reader)
        if byte > 1:
            raise MalformedError(position, f"{byte} is neither 0 nor 1")
        return byte == 1


class Bytes(Codec[bytes]):
    """Bytes behind their length."""

    def __init__(self, length: Codec[int]) -> None:
        self._length = length

    def write(self, out: bytearray, value: bytes) -> None:
        self._length.write(out, len(value))
        if len(value) <= PIECE_BYTES:
            out += value
        else:
            for piece in pieces_of(value):
                out += piece

    def read(self, reader: Reader) -> bytes:
        return reader.take(self._length.read(reader))


FLAG = Flag()
BYTES = Bytes(UINT32)
BLOB = Bytes(COUNT)
"""Bytes that may be more than 4 GiB."""


class Text(Codec[str]):
    """Text in UTF-8 behind its length in bytes."""

    def write(self, out: bytearray, value: str) -> None:
        BYTES.write(out, value.encode())

    def read(self, reader: Reader) -> str:
        position = reader.position
        try:
            return BYTES.read(reader).decode()
        except UnicodeDecodeError:
            raise MalformedError(position, "the text is not UTF-8") from None


TEXT = Text()


class Enumeration(Codec[EnumT]):
    """A member of a closed set, by its number in the order of the class: members are added at the end only."""

    def __init__(self, kind: type[EnumT]) -> None:
        self._members = tuple(kind)

    def write(self, out: bytearray, value: EnumT) -> None:
        UINT8.write(out, self._members.index(value))

    def read(self, reader: Reader) -> EnumT:
        position = reader.position
        number = UINT8.read(reader)
        if number >= len(self._members):
            raise MalformedError(position, f"there is no member {number} of {len(self._members)}")
        return self._members[number]


class Optional(Codec[T | None]):
    """A flag, and the value if there is one."""

    def __init__(self, codec: Codec[T]) -> None:
        self._codec = codec

    def write(self, out: bytearray, value: T | None) -> None:
        FLAG.write(out, value is not None)
        if value is not None:
            self._codec.write(out, value)

    def read(self, reader: Reader) -> T | None:
        return self._codec.read(reader) if FLAG.read(reader) else None


class Absent(Codec[None]):
    """Nothing, in no bytes: what an earlier version of a format did not have."""

    def write(self, out: bytearray, value: None) -> None:  # noqa: ARG002 - there is nothing to append
        assert value is None, value

    def read(self, reader: Reader) -> None:  # noqa: ARG002 - nor to read
        return


class Row(Codec[tuple[T, ...]]):
    """A count, and so many values."""

    def __init__(self, codec: Codec[T]) -> None:
        self._codec = codec

    def write(self, out: bytearray, value: Sequence[T]) -> None:
        UINT32.write(out, len(value))
        for item in value:
            self._codec.write(out, item)

    def read(self, reader: Reader) -> tuple[T, ...]:
        position = reader.position
        count = UINT32.read(reader)
        if count > reader.left():  # each takes a byte or more: no need to begin
            raise MalformedError(position, f"{count} values are due, {reader.left()} bytes are left")
        return tuple(self._codec.read(reader) for _ in range(count))


class Fields(Codec[T]):
    """A struct: its fields, one behind the other. The codecs are given in the order of the class, none left out."""

    def __init__(self, kind: type[T], **codecs: Codec[Any]) -> None:
        names = tuple(each.name for each in fields(cast(Any, kind)))
        assert tuple(codecs) == names, (kind, tuple(codecs))
        self.kind = kind
        self._codecs = tuple(codecs.items())

    def write(self, out: bytearray, value: T) -> None:
        for name, codec in self._codecs:
            codec.write(out, getattr(value, name))

    def read(self, reader: Reader) -> T:
        position = reader.position
        values = {name: codec.read(reader) for name, codec in self._codecs}
        try:
            return self.kind(**values)
        except MalformedError:
            raise
        except ValueError as error:
            raise MalformedError(position, str(error)) from error


class OneOf(Codec[T]):
    """A tag, and the class that it stands for. Tags are never given away twice."""

    def __init__(self, codecs: Mapping[int, Fields[Any]]) -> None:
        self._codecs = dict(codecs)
        self._tags = {codec.kind: tag for tag, codec in codecs.items()}
        assert len(self._tags) == len(self._codecs), self._tags

    def write(self, out: bytearray, value: T) -> None:
        tag = self._tags[type(value)]
        UINT8.write(out, tag)
        self._codecs[tag].write(out, value)

    def read(self, reader: Reader) -> T:
        position = reader.position
        tag = UINT8.read(reader)
        codec = self._codecs.get(tag)
        if codec is None:
            raise MalformedError(position, f"unknown tag {tag}")
        value: T = codec.read(reader)
        return value


class Format(Generic[T]):
    """A whole value with its version in front."""

    def __init__(self, codec: Codec[T], *, version: int = 0) -> None:
        self._codec = codec
        self._version = version

    def encode(self, value: T) -> bytes:
        """Write the value."""
        out = bytearray()
        UINT8.write(out, self._version)
        self._codec.write(out, value)
        return joined(out)

    def decode(self, data: bytes) -> T:
        """Read the value, all of ``data``. Raises MalformedError."""
        reader = Reader(data)
        version = UINT8.read(reader)
        if version != self._version:
            raise MalformedError(0, f"version {version} is unknown; only {self._version} is known")
        value = self._codec.read(reader)
        if reader.left():
            raise MalformedError(reader.position, f"{reader.left()} trailing bytes")
        return value
