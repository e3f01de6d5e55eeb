"""The events of a file in columns: as many as a file may have take a tenth of what one object each would.

Owns how they are kept, and the limit on what their values take. Knows no format.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from copy import copy
from pathlib import Path
from types import MappingProxyType
from typing import overload

from nemesis.formats.errors import refuse
from nemesis.formats.events import Event
from nemesis.formats.limits import HELD_BYTES_MAX
from nemesis.history.events import EventType
from nemesis.linearizability.operations import Value
from nemesis.linearizability.packed import Column, Room, TooLargeError

_TYPES = tuple(EventType)
_PLACES = {kind: place for place, kind in enumerate(_TYPES)}
_NOTHING: Mapping[str, Value] = MappingProxyType({})


class EventColumns(Sequence[Event]):
    """The events of the clients in ``path``, in order. Each is made when it is asked for."""

    def __init__(self, path: Path, events: Iterable[Event] = ()) -> None:
        self._path = path
        room = Room(HELD_BYTES_MAX)
        self._types = bytearray()
        self._line, self._process, self._f, self._key, self._value = (Column(room) for _ in range(5))
        self._time, self._index, self._error, self._extra = (Column(room) for _ in range(4))
        for event in events:
            self.append(event)

    def append(self, event: Event) -> None:
        """Put an event behind the others. Raises HistoryError where their values take more than HELD_BYTES_MAX."""
        self._types.append(_PLACES[event.type])
        try:
            self._line.append(event.line)
            self._process.append(event.process)
            self._f.append(event.f)
            self._key.append(event.key)
            self._value.append(event.value)
            self._time.append(event.time)
            self._index.append(event.index)
            self._error.append(event.error)
            self._extra.append(event.extra or None)
        except TooLargeError:
            size = self._path.stat().st_size
            problem = f"the values of this file of {size} bytes take more than HELD_BYTES_MAX, {HELD_BYTES_MAX} bytes"
            refuse(self._path, event.line, problem, "cut the history into several, or write shorter values")

    def with_keys(self, keyed: Iterable[tuple[Value, Value]]) -> EventColumns:
        """The same events with these keys and values."""
        other = copy(self)
        other._key, other._value = Column(), Column()
        for key, value in keyed:
            other._key.append(key)
            other._value.append(value)
        return other

    @property
    def invocations(self) -> int:
        """How many of them begin an operation."""
        return self._types.count(_PLACES[EventType.INVOKE])

    @property
    def processes(self) -> int:
        """How many processes there are."""
        return len({self._process[place] for place in range(len(self))})

    def __len__(self) -> int:
        return len(self._types)

    @overload
    def __getitem__(self, place: int) -> Event: ...
    @overload
    def __getitem__(self, place: slice) -> list[Event]: ...
    def __getitem__(self, place: int | slice) -> Event | list[Event]:
        if isinstance(place, slice):
            return [self._at(one) for one in range(len(self))[place]]
        return self._at(range(len(self))[place])

    def __iter__(self) -> Iterator[Event]:
        return map(self._at, range(len(self)))

    def _at(self, place: int) -> Event:
        return Event(
            line=self._line[place],
            process=self._process[place],
            type=_TYPES[self._types[place]],
            f=self._f[place],
            key=self._key[place],
            value=self._value[place],
            time=self._time[place],
            index=self._index[place],
            error=self._error[place],
            extra=self._extra[place] or _NOTHING,
        )
