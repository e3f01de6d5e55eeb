"""Millions of values and operations in little memory: columns instead of one Python object for each.

Owns how they are kept. A number takes nine bytes; a pair is kept as its two values; what stands there again and again,
such as the name of an operation, is kept once. Whatever else there is stays the object that it is. What comes back is
equal to what was put in, and is made when it is asked for. Knows no file and no model.
"""

from __future__ import annotations

import sys
from array import array
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from enum import Enum
from typing import Any, overload

from nemesis.linearizability.operations import Operation, Outcome

_NONE, _NUMBER, _OBJECT, _PAIR = range(4)
_NUMBERS = range(-(2**63), 2**63)
_KNOWN_MAX = 65_536
"""So many different texts are looked out for, in case they come again."""
_NEVER = -1
_OUTCOMES = tuple(Outcome)


class TooLargeError(Exception):
    """What is to be kept takes more bytes than there are for it."""


class Room:
    """How many bytes objects may take that are no plain numbers; more is a TooLargeError."""

    def __init__(self, bytes_max: int) -> None:
        self.bytes_max = bytes_max
        self.bytes = 0

    def take(self, value: object) -> None:
        """Count a value, and what is in it."""
        self.bytes += size_of(value)
        if self.bytes > self.bytes_max:
            raise TooLargeError(f"more than {self.bytes_max} bytes")


def size_of(value: object) -> int:
    """About how many bytes a value takes, and what is in it."""
    size = sys.getsizeof(value)
    if isinstance(value, tuple | frozenset):
        return size + sum(map(size_of, value))
    if isinstance(value, Mapping):
        return size + sum(map(size_of, value.items()))
    if isinstance(value, Enum):
        return 0
    return size + sum(size_of(getattr(value, name)) for name in getattr(type(value), "__slots__", ()))


class Column:
    """Values in order. One that has nothing but None takes nothing; the objects in it count against ``room``."""

    __slots__ = ("_absent", "_kinds", "_known", "_numbers", "_objects", "_pairs", "_room")

    def __init__(self, room: Room | None = None) -> None:
        self._room = room
        self._absent = 0
        self._kinds = bytearray()
        self._numbers = array("q")
        self._objects: list[Any] = []
        self._known: dict[str | Enum, int] = {}
        self._pairs: tuple[Column, Column] | None = None

    def append(self, value: Any) -> None:
        """Put a value behind the others. Raises TooLargeError."""
        if value is None and not self._kinds:
            self._absent += 1
            return
        if self._absent:
            self._kinds, self._numbers = bytearray(self._absent), array("q", bytes(8 * self._absent))
            self._absent = 0
        kind, number = (_NUMBER, value) if type(value) is int and value in _NUMBERS else self._kept(value)
        self._numbers.append(number)
        self._kinds.append(kind)

    def _kept(self, value: Any) -> tuple[int, int]:
        if value is None:
            return _NONE, 0
        if type(value) is tuple and len(value) == 2:
            first, second = self._pairs = self._pairs or (Column(self._room), Column(self._room))
            first.append(value[0])
            second.append(value[1])
            return _PAIR, len(second) - 1
        if isinstance(value, str | Enum):
            if (known := self._known.get(value)) is None:
                known = self._new(value)
                if len(self._known) < _KNOWN_MAX:
                    self._known[value] = known
            return _OBJECT, known
        return _OBJECT, self._new(value)

    def _new(self, value: object) -> int:
        if self._room is not None:
            self._room.take(value)
        self._objects.append(value)
        return len(self._objects) - 1

    def __len__(self) -> int:
        return self._absent or len(self._kinds)

    def __getitem__(self, place: int) -> Any:
        if self._absent:
            return None
        kind, number = self._kinds[place], self._numbers[place]
        if kind == _NUMBER:
            return number
        if kind == _NONE:
            return None
        if kind == _OBJECT:
            return self._objects[number]
        assert self._pairs is not None, "a pair was put in"
        return self._pairs[0][number], self._pairs[1][number]


class PackedOperations(Sequence[Operation]):
    """Operations in columns. Each is made when it is asked for, so that they are equal and never the same."""

    def __init__(self, operations: Iterable[Operation] = ()) -> None:
        self._process, self._f, self._key, self._argument, self._result = (Column() for _ in range(5))
        self._outcome = bytearray()
        self._invoked, self._returned, self._line = (array("q") for _ in range(3))
        self._order: array[int] | None = None
        for operation in operations:
            self.append(operation)

    def append(self, operation: Operation) -> None:
        """Put an operation behind the others."""
        assert self._order is None, "the operations are in order"
        self._process.append(operation.process)
        self._f.append(operation.f)
        self._key.append(operation.key)
        self._argument.append(operation.argument)
        self._result.append(operation.result)
        self._outcome.append(_OUTCOMES.index(operation.outcome))
        self._invoked.append(operation.invoked)
        self._returned.append(_NEVER if operation.returned is None else operation.returned)
        self._line.append(operation.line)

    def sort(self) -> None:
        """Put them in the order of their invocations."""
        order = sorted(range(len(self)), key=self._invoked.__getitem__)
        self._order = array("q", order)

    def by_key(self) -> dict[Hashable, Sequence[Operation]]:
        """The operations of each object, in their order, made when they are asked for."""
        places: dict[Hashable, array[int]] = {}
        for place in range(len(self)):
            own = self._key[place if self._order is None else self._order[place]]
            places.setdefault(own, array("q")).append(place)
        return {key: _Part(self, own) for key, own in places.items()}

    def __len__(self) -> int:
        return len(self._line)

    @overload
    def __getitem__(self, place: int) -> Operation: ...
    @overload
    def __getitem__(self, place: slice) -> list[Operation]: ...
    def __getitem__(self, place: int | slice) -> Operation | list[Operation]:
        if isinstance(place, slice):
            return [self._at(one) for one in range(len(self))[place]]
        return self._at(range(len(self))[place])

    def __iter__(self) -> Iterator[Operation]:
        return map(self._at, range(len(self)))

    def _at(self, number: int) -> Operation:
        place = number if self._order is None else self._order[number]
        returned = self._returned[place]
        return Operation(
            process=self._process[place],
            f=self._f[place],
            key=self._key[place],
            argument=self._argument[place],
            result=self._result[place],
            outcome=_OUTCOMES[self._outcome[place]],
            invoked=self._invoked[place],
            returned=None if returned == _NEVER else returned,
            line=self._line[place],
        )


class _Part(Sequence[Operation]):
    """Those of the operations that stand at these places."""

    def __init__(self, whole: PackedOperations, places: array[int]) -> None:
        self._whole = whole
        self._places = places

    def __len__(self) -> int:
        return len(self._places)

    @overload
    def __getitem__(self, place: int) -> Operation: ...
    @overload
    def __getitem__(self, place: slice) -> list[Operation]: ...
    def __getitem__(self, place: int | slice) -> Operation | list[Operation]:
        if isinstance(place, slice):
            return [self._whole[one] for one in self._places[place]]
        return self._whole[self._places[place]]

    def __iter__(self) -> Iterator[Operation]:
        return map(self._whole.__getitem__, self._places)
