"""One event of a history that was recorded by whatever harness: an operation begins or ends.

Owns the value that every reader hands out and every writer takes, and what its fields may hold. Knows no format.
Source: ``jepsen.history``.

The events of a file in columns: as many as a file may have take a tenth of what one object each would.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from copy import copy
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import overload

from nemesis.formats.edn_text import edn_text
from nemesis.formats.errors import excerpt, refuse
from nemesis.formats.limits import EVENTS_MAX, HELD_BYTES_MAX, NAME_CHARS_MAX, TIME_MAX
from nemesis.formats.values import Keyword
from nemesis.history.events import HARNESS_PROCESS, NEMESIS_PROCESS, EventType
from nemesis.linearizability.operations import Value
from nemesis.linearizability.packed import Column, Room, TooLargeError

NOT_CLIENTS: frozenset[Value] = frozenset({"nemesis", NEMESIS_PROCESS, HARNESS_PROCESS})
"""Processes whose events are no operations of a client: Jepsen's nemesis, and this harness's own."""
CAS = "cas"
"""Compare-and-set; its value is ``[old new]``."""
_TYPES = {word.value: word for word in EventType}
_OWN_FIELDS = frozenset({"index", "process", "type", "f", "key", "value", "time", "error"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    """One event.

    ``line`` is where it stands in its file, counted from 1. ``index`` and ``time`` (nanoseconds) are what the file says
    of them, None where it is silent; the order of events is that of the file. ``key`` names the object, None where
    there is but one. ``value`` is what was asked, or what came back. ``extra`` has whatever else the file tells, by
    name, such as ``stale`` of a read that may lag.
    """

    line: int
    process: Hashable
    type: EventType
    f: str
    key: Value = None
    value: Value = None
    time: int | None = None
    index: int | None = None
    error: Value = None
    extra: Mapping[str, Value] = field(default_factory=dict)


def event_of(fields: Mapping[str, Value], path: Path, line: int) -> Event | None:
    """The event that a file's ``fields`` describe; None if its process is no client. Raises HistoryError."""
    for name in ("process", "type", "f"):
        if fields.get(name) is None:
            refuse(path, line, f"the event has no {name}", "give each event its process, type, f and value")
    process = _process(fields["process"], path, line)
    if process in NOT_CLIENTS:
        return None
    return Event(
        line=line,
        process=process,
        type=_type(fields["type"], path, line),
        f=_name("f", fields["f"], path, line),
        key=fields.get("key"),
        value=fields.get("value"),
        time=_count("time", fields.get("time"), path, line),
        index=_count("index", fields.get("index"), path, line),
        error=fields.get("error"),
        extra={name: value for name, value in fields.items() if name not in _OWN_FIELDS},
    )


def checked(events: Iterable[Event | None], path: Path) -> Iterator[Event | None]:
    """The same events, one after the other.

    Raises HistoryError where there are too many, or none of a client, and where their indexes say that the file is not
    in the order in which things happened.
    """
    last = -1
    has_clients = False
    for place, event in enumerate(events):
        if place >= EVENTS_MAX:
            problem = f"the file has more than EVENTS_MAX, {EVENTS_MAX} events"
            refuse(path, None, problem, "cut the history into several")
        if event is not None:
            has_clients = True
            if event.index is not None and event.index <= last:
                problem = f"index {event.index} follows index {last}"
                refuse(path, event.line, problem, "sort the events by their index, and give each its own")
            last = last if event.index is None else event.index
        yield event
    if not has_clients:
        refuse(path, None, "the file holds no operation of a client", "give a file with at least one invocation")


def _process(value: Value, path: Path, line: int) -> Hashable:
    if isinstance(value, int):
        if value in NOT_CLIENTS or 0 <= value <= TIME_MAX:
            return value
        refuse(path, line, f"process {value} is no process", "number the processes from 0")
    return _name("process", value, path, line)


def _type(value: Value, path: Path, line: int) -> EventType:
    word = _name("type", value, path, line)
    if word not in _TYPES:
        refuse(path, line, f"an event of type {excerpt(word)}", f"use one of {', '.join(_TYPES)}")
    return _TYPES[word]


def _name(what: str, value: Value, path: Path, line: int) -> str:
    text = value.name if isinstance(value, Keyword) else value
    if not isinstance(text, str) or not text:
        refuse(path, line, f"the {what} is {excerpt(edn_text(value))}, which is no name", f"give the {what} as a word")
    if len(text) > NAME_CHARS_MAX:
        refuse(path, line, f"the {what} is longer than NAME_CHARS_MAX, {NAME_CHARS_MAX}", "give it a shorter one")
    return text


def _count(what: str, value: Value, path: Path, line: int) -> int | None:
    if value is None:
        return None
    if not isinstance(value, int):
        refuse(path, line, f"the {what} is {excerpt(edn_text(value))}", f"give the {what} as a whole number")
    if not 0 <= value <= TIME_MAX:
        refuse(path, line, f"the {what} is {excerpt(str(value))}", f"give a {what} from 0 to {TIME_MAX} (TIME_MAX)")
    return value


_TYPES_BY_NUMBER = tuple(EventType)
_PLACES = {kind: place for place, kind in enumerate(_TYPES_BY_NUMBER)}
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
            type=_TYPES_BY_NUMBER[self._types[place]],
            f=self._f[place],
            key=self._key[place],
            value=self._value[place],
            time=self._time[place],
            index=self._index[place],
            error=self._error[place],
            extra=self._extra[place] or _NOTHING,
        )
