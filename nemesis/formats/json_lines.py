"""Histories as JSON: one object a line, or one array of such objects.

Owns the fields' names (those of ``jepsen.history``: index, process, type, f, key, value, time, error) and what JSON
allows that a history does not: numbers that are none, a name that stands twice in one object. Source: RFC 8259; both
forms are those of elle-cli.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import NoReturn

from nemesis.formats.errors import HistoryError, excerpt, refuse
from nemesis.formats.events import Event, event_of
from nemesis.formats.limits import DIGITS_MAX, DOCUMENT_BYTES_MAX, LINE_BYTES_MAX
from nemesis.formats.source import chunks_of, head_of, lines_of
from nemesis.formats.values import BadValueError, ValueTooDeepError, freeze
from nemesis.linearizability.operations import Value

_BLANK = re.compile(r"[ \t\r\n]*")


def read_json(path: Path) -> Iterator[Event | None]:
    """The events in order, None for each that is no client's; of an array or of lines. Raises HistoryError."""
    if head_of(path, 4096).removeprefix(b"\xef\xbb\xbf").lstrip().startswith(b"["):
        return _read_array(path)
    return _read_lines(path)


def _read_lines(path: Path) -> Iterator[Event | None]:
    for number, line, is_ended in lines_of(path):
        if not line.strip():
            continue
        value, end = _decoded(line, len(line) - len(line.lstrip()), path, number, is_cut=not is_ended)
        if line[end:].strip():
            refuse(path, number, f"{excerpt(line[end:])} follows the object", "write one object a line")
        yield _event(value, path, number)


def _read_array(path: Path) -> Iterator[Event | None]:
    text = _document(path)
    at = _next(text, _next(text, 0) + 1)
    line = 1 + text.count("\n", 0, at)
    if text[at : at + 1] == "]":
        _check_end(text, at, path, line)
        return
    while True:
        value, end = _element(text, at, path, line)
        yield _event(value, path, line)
        separator = _next(text, end)
        line += text.count("\n", at, separator)
        match text[separator : separator + 1]:
            case ",":
                at = _next(text, separator + 1)
                line += text.count("\n", separator, at)
            case "]":
                _check_end(text, separator, path, line)
                return
            case "":
                refuse(path, line, "the array has no end: the file was cut off", "copy or record it again, or close it")
            case found:
                refuse(path, line, f"{excerpt(found)} stands between two objects", "separate them by commas")


def _element(text: str, at: int, path: Path, line: int) -> tuple[object, int]:
    """The value that begins at ``at``: as little is looked at as holds it, and no more than a line may have."""
    length = _PIECE_CHARS
    while length < LINE_BYTES_MAX and at + length < len(text):
        with suppress(json.JSONDecodeError, BadValueError, RecursionError):
            value, end = _DECODER.raw_decode(text[at : at + length])
            if isinstance(value, dict):
                return value, at + end
        length *= 4
    if len(text) - at <= LINE_BYTES_MAX:
        return _decoded(text, at, path, line, is_cut=True)
    try:
        value, end = _decoded(text[at : at + LINE_BYTES_MAX], 0, path, line, is_cut=False)
    except HistoryError as error:
        problem = f"{error.problem}; or the event is longer than LINE_BYTES_MAX, {LINE_BYTES_MAX}"
        raise HistoryError(path, error.line, problem, error.remedy) from error
    return value, at + end


def _document(path: Path) -> str:
    pieces: list[str] = []
    size = 0
    for piece in chunks_of(path):
        size += len(piece)
        if size > DOCUMENT_BYTES_MAX:
            problem = f"the array is longer than DOCUMENT_BYTES_MAX, {DOCUMENT_BYTES_MAX}"
            refuse(path, None, problem, "write one object a line instead")
        pieces.append(piece)
    return "".join(pieces)


def _next(text: str, at: int) -> int:
    match = _BLANK.match(text, at)
    return at if match is None else match.end()


def _check_end(text: str, at: int, path: Path, line: int) -> None:
    if _next(text, at + 1) < len(text):
        refuse(path, line, "something follows the end of the array", "remove it")


def _decoded(text: str, at: int, path: Path, line: int, *, is_cut: bool) -> tuple[object, int]:
    """The JSON value that begins at ``at``, and where it ends."""
    try:
        return _DECODER.raw_decode(text, at)
    except json.JSONDecodeError as error:
        problem = f"this is no JSON ({error.msg} at column {error.colno})"
        if is_cut and error.pos >= len(text.rstrip()) - 1:
            problem += ": the file seems to be cut off"
        place = line + text.count("\n", at, error.pos)
        raise HistoryError(path, place, problem, "complete it, remove it, or name the --format") from error
    except (BadValueError, RecursionError) as error:
        problem = "lists lie too deep in one another" if isinstance(error, RecursionError) else str(error)
        raise HistoryError(path, line, problem, "no history needs that: look at what wrote it") from error


def _event(value: object, path: Path, line: int) -> Event | None:
    if not isinstance(value, dict):
        refuse(path, line, f"{excerpt(json.dumps(value))} is no object", "write each event as an object")
    return event_of(frozen_fields(value, path, line), path, line)


def frozen_fields(fields: Mapping[str, object], path: Path, line: int) -> dict[str, Value]:
    """The fields with their values as kernels take them."""
    try:
        return {name: value if type(value) in _FROZEN else freeze(value) for name, value in fields.items()}
    except (BadValueError, ValueTooDeepError) as error:
        raise HistoryError(path, line, str(error), "no history needs that: look at what wrote it") from error


def parsed_value(text: str, path: Path, line: int) -> object:
    """The one JSON value that is the whole of ``text``."""
    value, end = _decoded(text, _next(text, 0), path, line, is_cut=False)
    if _next(text, end) < len(text):
        refuse(path, line, f"{excerpt(text[end:])} follows the value", "give one JSON value")
    return value


def _int(text: str) -> int:
    if len(text) > DIGITS_MAX + 1:
        raise BadValueError(f"a number has more than {DIGITS_MAX} digits (DIGITS_MAX)")
    return int(text)


def _no_number(text: str) -> NoReturn:
    raise BadValueError(f"{text} stands where a number belongs")


def _object(pairs: list[tuple[str, object]]) -> dict[str, object]:
    fields = dict(pairs)
    if len(fields) < len(pairs):
        raise BadValueError("a name stands twice in one object")
    return fields


_PIECE_CHARS = 4096
"""How much of an array is tried first for one event: more than most take."""
_FROZEN = frozenset({int, type(None)})
"""Types of values that are what they are: numbers were counted as they were read."""
_DECODER = json.JSONDecoder(parse_int=_int, parse_constant=_no_number, object_pairs_hook=_object)
