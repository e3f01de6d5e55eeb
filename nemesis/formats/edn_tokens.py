"""EDN as tokens: where each piece of the text begins and ends, and on which line.

Owns the grammar of single tokens and what is remembered of the text: one piece of the file and the token that was
cut by its end. Knows nothing of lists or maps. Source: the EDN format's specification.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from enum import StrEnum
from pathlib import Path
from typing import NamedTuple

from nemesis.formats.errors import HistoryError, excerpt, refuse
from nemesis.formats.limits import STRING_CHARS_MAX


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
