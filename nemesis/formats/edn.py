"""A reader of EDN: text in, one value after the other out, with the line that each begins on.

Owns lists, maps, sets, tags and discards, and what single atoms mean. It keeps its own stack, so that no nesting can
overflow Python's. A file that is one vector is handed out element by element, as if each stood alone. Source: the EDN
format's specification; tags that mean something to Jepsen are ``jepsen_edn``'s.

EDN as tokens: where each piece of the text begins and ends, and on which line.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from decimal import Decimal
from enum import StrEnum
from functools import lru_cache
from pathlib import Path
from typing import NamedTuple, assert_never

from nemesis.formats.errors import HistoryError, excerpt, refuse
from nemesis.formats.limits import DIGITS_MAX, NESTING_MAX, STRING_CHARS_MAX, VALUES_MAX
from nemesis.formats.values import BadValueError, Keyword, MapValue, Symbol, Tagged, Truth, checked_float, checked_text
from nemesis.linearizability.operations import Value

_CLOSES = {"(": ")", "[": "]", "{": "}", "#{": "}"}
_CONSTANTS: dict[str, Value] = {"nil": None, "true": Truth.TRUE, "false": Truth.FALSE}
_INT = re.compile(r"([+-]?(?:0|[1-9][0-9]*))N?")
_FLOAT = re.compile(r"([+-]?(?:0|[1-9][0-9]*)(?:\.[0-9]*)?(?:[eE][+-]?[0-9]{1,4})?)(M?)")
_NAME = re.compile(r"[^0-9#:'][^#:]*(?:[#:][^#:]+)*")
_ESCAPE = re.compile(r"\\(?:u([0-9a-fA-F]{4})|([0-7]{1,3})|(.))", re.DOTALL)
_ESCAPED = {"t": "\t", "r": "\r", "n": "\n", "b": "\b", "f": "\f", "\\": "\\", '"': '"'}
_CHARACTERS = {"newline": "\n", "return": "\r", "space": " ", "tab": "\t", "formfeed": "\f", "backspace": "\b"}


@dataclass(frozen=True, slots=True)
class Form:
    """A value of the file, and the line on which it begins."""

    value: Value
    line: int


@dataclass(slots=True)
class _Open:
    """What was begun and is not ended: a list, map or set, or a tag or discard that waits for its value."""

    token: Token
    items: list[Value] = field(default_factory=list)


def forms_of(chunks: Iterable[str], path: Path, *, is_history: bool = False) -> Iterator[Form]:
    """The values of a text that comes in pieces. Raises HistoryError.

    With ``is_history`` a file that begins with a vector or list is that list: its elements are handed out, and nothing
    may follow it.
    """
    return _Reader(path, is_history).read(tokens_of(chunks, path))


class _Reader:
    """The stack of what is open, from the outermost on."""

    def __init__(self, path: Path, is_history: bool) -> None:
        self._path = path
        self._stack: list[_Open] = []
        self._may_unwrap = is_history
        self._outer: Token | None = None
        self._is_over = False
        self._values = 0

    def read(self, tokens: Iterable[Token]) -> Iterator[Form]:
        for token in tokens:
            if self._is_over:
                refuse(self._path, token.line, "something follows the end of the list of events", "remove it")
            if self._may_unwrap and token.text in ("[", "("):
                self._outer = token
            elif self._outer is not None and not self._stack and token.kind is Kind.CLOSE:
                self._check_closes(self._outer, token)
                self._is_over = True
            elif (form := self._taken(token)) is not None:
                yield form
            self._may_unwrap = False
        self._check_end()

    def _taken(self, token: Token) -> Form | None:
        """Take a token in; the value that it ends, if that is part of no other."""
        match token.kind:
            case Kind.ATOM | Kind.TEXT | Kind.CHARACTER:
                return self._given(self._atom(token), token.line)
            case Kind.CLOSE:
                if not self._stack:
                    refuse(self._path, token.line, f"{token.text} closes nothing", "remove it, or open what it closes")
                opened = self._stack.pop()
                self._check_closes(opened.token, token)
                return self._given(self._built(opened), opened.token.line)
            case Kind.OPEN | Kind.TAG | Kind.DISCARD:
                if len(self._stack) >= NESTING_MAX:
                    problem = f"lists lie deeper in one another than NESTING_MAX, {NESTING_MAX}"
                    refuse(self._path, token.line, problem, "no history needs that: look at what wrote it")
                self._stack.append(_Open(token))
                return None
            case _:
                assert_never(token.kind)

    def _given(self, value: Value, line: int) -> Form | None:
        """Hand a finished value to whatever waits for it; it comes back if nothing does."""
        while self._stack:
            top = self._stack[-1]
            if top.token.kind is Kind.OPEN:
                top.items.append(value)
                self._values += 1
                if self._values > VALUES_MAX:
                    problem = f"more than VALUES_MAX, {VALUES_MAX}, values lie in one another"
                    refuse(self._path, line, problem, "no history needs that: look at what wrote it")
                return None
            self._stack.pop()
            if top.token.kind is Kind.DISCARD:
                return None
            value, line = Tagged(top.token.text[1:], value), top.token.line
        self._values = 0
        return Form(value, line)

    def _built(self, opened: _Open) -> Value:
        items, line = opened.items, opened.token.line
        if opened.token.text in ("(", "["):
            return tuple(items)
        if opened.token.text == "#{":
            if len(set(items)) < len(items):
                refuse(self._path, line, "a set holds one element twice", "write each element once")
            return frozenset(items)
        if len(items) % 2:
            refuse(self._path, line, "a map has a key without a value", "write keys and values in pairs")
        entries = dict(zip(items[::2], items[1::2], strict=True))
        if 2 * len(entries) < len(items):
            refuse(self._path, line, "a map holds one key twice", "write each key once")
        return MapValue.of(entries.items())

    def _atom(self, token: Token) -> Value:
        try:
            return _known_atom(token.kind, token.text) if len(token.text) <= _CHARS_KEPT else atom_of(*token[:2])
        except (BadValueError, ValueError) as error:
            problem = f"{excerpt(token.text)} is no value ({error})"
            raise HistoryError(self._path, token.line, problem, "write it as EDN does") from error

    def _check_closes(self, opened: Token, token: Token) -> None:
        if opened.kind is not Kind.OPEN or _CLOSES[opened.text] != token.text:
            problem = f"{token.text} does not close the {excerpt(opened.text)} of line {opened.line}"
            refuse(self._path, token.line, problem, "close what is open, in order")

    def _check_end(self) -> None:
        unclosed = self._stack[0].token if self._stack else None
        if unclosed is None and self._outer is not None and not self._is_over:
            unclosed = self._outer
        if unclosed is not None:
            problem = f"what begins here with {excerpt(unclosed.text)} has no end: the file was cut off"
            refuse(self._path, unclosed.line, problem, "copy or record it again; or remove what was cut, and close it")


def atom_of(kind: Kind, text: str) -> Value:
    """The value of a token that stands alone. Raises BadValueError, or another ValueError of Python's own."""
    match kind:
        case Kind.TEXT:
            return checked_text(_ESCAPE.sub(_unescaped, text[1:-1]) if "\\" in text else text[1:-1])
        case Kind.CHARACTER:
            return _character(text[1:])
    if text in _CONSTANTS:
        return _CONSTANTS[text]
    if text[0] in "+-0123456789" and (text[-1].isascii() and any(character.isdigit() for character in text[:2])):
        return _number(text)
    if (text[0] == ":" and _NAME.fullmatch(text, 1)) or (text[0] == ":" and text[1:].isalnum()):
        return Keyword(text[1:])
    if _NAME.fullmatch(text):
        return Symbol(text)
    raise BadValueError("it is neither a number nor a name")


_known_atom = lru_cache(maxsize=10_000)(atom_of)
"""Few names and numbers make up most of a history."""
_CHARS_KEPT = 40


def _number(text: str) -> Value:
    if len(text) > DIGITS_MAX + 10:
        raise BadValueError(f"it has more than {DIGITS_MAX} digits (DIGITS_MAX)")
    if match := _INT.fullmatch(text):
        return int(match[1])
    if match := _FLOAT.fullmatch(text):
        return Decimal(match[1]) if match[2] else checked_float(float(match[1]))
    raise BadValueError("it begins like a number")


def _character(name: str) -> str:
    if len(name) == 1:
        return checked_text(name)
    if name in _CHARACTERS:
        return _CHARACTERS[name]
    if re.fullmatch(r"u[0-9a-fA-F]{4}", name):
        return checked_text(chr(int(name[1:], 16)))
    raise BadValueError("there is no such character")


def _unescaped(match: re.Match[str]) -> str:
    if match[1]:
        return chr(int(match[1], 16))
    if match[2]:
        return chr(int(match[2], 8))
    if match[3] not in _ESCAPED:
        raise BadValueError(f"there is no escape \\{match[3]}")
    return _ESCAPED[match[3]]


class Kind(StrEnum):
    """What a token is; blanks and comments are none."""

    OPEN = "open"
    CLOSE = "close"
    TEXT = "text"
    DISCARD = "discard"
    TAG = "tag"
    CHARACTER = "character"
    ATOM = "atom"


class Token(NamedTuple):
    """One token as it stands in the file, and its line, counted from 1."""

    kind: Kind
    text: str
    line: int


_ATOM = r"""[^\s\x00-\x1f\x7f,;"()\[\]{}\\@^`~]"""
_BLANKS = re.compile(r"[\s,]*")
_TOKEN = re.compile(
    rf"""[\s,]*+(?:
    (?P<atom>(?!\#){_ATOM}+)
    |(?P<text>"[^"\\]*(?:\\.[^"\\]*)*")
    |(?P<open>\#?\{{|\(|\[)
    |(?P<close>[)\]}}])
    |(?P<comment>;[^\n]*)
    |(?P<discard>\#_)
    |(?P<tag>\#[A-Za-z]{_ATOM}*)
    |(?P<character>\\(?:[A-Za-z0-9]+|\S))
    )""",
    re.VERBOSE | re.DOTALL,
)
_COMMENT = "comment"
_KINDS = {kind.value: kind for kind in Kind}
_MAY_GO_ON = frozenset({_COMMENT, "tag", "character", "atom"})
"""Tokens that the end of a piece may have cut, though what is there is a token too."""
_LENGTH_MAX = STRING_CHARS_MAX + 2


def tokens_of(chunks: Iterable[str], path: Path, line: int = 1) -> Iterator[Token]:
    """The tokens of a text that comes in pieces, the first of them at ``line``. Raises HistoryError."""
    waiting = iter(chunks)
    text, at, is_end = "", 0, False
    while True:
        match = _TOKEN.match(text, at)
        if match is None or (not is_end and match.end() == len(text) and match.lastgroup in _MAY_GO_ON):
            blanks = _end_of_blanks(text, at)
            line += text.count("\n", at, blanks)
            if is_end:
                if blanks < len(text):
                    raise _not_edn(text[blanks:], path, line)
                return
            _check_length(len(text) - blanks, path, line)
            # As much as is there already, so that a long token is not looked at from its start once for each piece.
            more = _at_least(waiting, len(text) - blanks)
            text, at, is_end = text[blanks:] + more, 0, not more
            continue
        name = str(match.lastgroup)
        start, end = match.span(name)
        if start > at:
            line += text.count("\n", at, start)
        if end - start > _LENGTH_MAX:
            _check_length(end - start, path, line)
        if name != _COMMENT:
            yield Token(_KINDS[name], text[start:end], line)
        if name == Kind.TEXT:
            line += text.count("\n", start, end)
        at = end


def _end_of_blanks(text: str, at: int) -> int:
    match = _BLANKS.match(text, at)
    return at if match is None else match.end()


def _at_least(chunks: Iterator[str], length: int) -> str:
    pieces: list[str] = []
    gathered = 0
    for chunk in chunks:
        pieces.append(chunk)
        gathered += len(chunk)
        if gathered >= length:
            break
    return "".join(pieces)


def _check_length(length: int, path: Path, line: int) -> None:
    if length > _LENGTH_MAX:
        problem = f"a text or name is longer than STRING_CHARS_MAX, {STRING_CHARS_MAX} characters"
        refuse(path, line, problem, "end it, or write a shorter one")


def _not_edn(rest: str, path: Path, line: int) -> HistoryError:
    if rest.startswith('"'):
        return HistoryError(path, line, "the text that begins here has no end: the file was cut off", "record it again")
    return HistoryError(path, line, f"{excerpt(rest, 20)} is no EDN", "write the file as EDN, or name its --format")
