"""Which operations are asked for: a condition as SQL has it behind ``WHERE``, of a table of operations.

Owns the few words that there are, and says what is wrong with a condition: comparisons of a column with a value,
``like``, ``in``, ``is null``, and ``and``, ``or``, ``not`` and brackets between them. Nothing else can be asked, and
nothing is ever executed. As in SQL, a comparison with what is absent is neither true nor false.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

CONDITION_CHARACTERS_MAX = 2_000
DEPTH_MAX = 50
"""So many brackets and ``not`` may stand within each other."""
COMPARISONS: Mapping[str, Callable[[Any, Any], Any]] = {
    "=": pc.equal,
    "==": pc.equal,
    "!=": pc.not_equal,
    "<>": pc.not_equal,
    "<": pc.less,
    "<=": pc.less_equal,
    ">": pc.greater,
    ">=": pc.greater_equal,
}
_NUMBERS = 1 << 63
KEYWORDS = frozenset({"and", "or", "not", "in", "is", "null", "like"})
_TOKEN = re.compile(
    r"\s*(?:(?P<number>-?\d+(?:\.\d+)?)|(?P<text>'(?:[^']|'')*'|\"[^\"]*\")|(?P<word>[A-Za-z_]\w*)"
    r"|(?P<sign>==|!=|<>|<=|>=|[=<>(),]))"
)


class ConditionError(ValueError):
    """A condition that cannot be understood, and why."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Token:
    kind: str
    text: str

    @property
    def keyword(self) -> str:
        """The word in small letters where it is one of ours, or the sign; else nothing."""
        lower = self.text.lower()
        return lower if self.kind == "sign" or (self.kind == "word" and lower in KEYWORDS) else ""

    @property
    def value(self) -> int | float | str:
        """What a number or a text stands for."""
        if self.kind == "text":
            return self.text[1:-1].replace("''", "'")
        return float(self.text) if "." in self.text else int(self.text)


_END = _Token(kind="end", text="the end")


def where(table: pa.Table, condition: str, *, also: Mapping[str, str] | None = None) -> pa.Table:
    """The rows of ``table`` for which the condition holds. ``also`` has further names of columns.

    Raises ``ConditionError``, with the columns that there are where one is asked for that is none.
    """
    mask = _Condition(table, _tokens(condition), also or {}).mask()
    return table.filter(pc.fill_null(mask, False))


def _tokens(condition: str) -> list[_Token]:
    if len(condition) > CONDITION_CHARACTERS_MAX:
        raise ConditionError(f"the condition has more than {CONDITION_CHARACTERS_MAX} characters")
    found, position, text = [], 0, condition.rstrip()
    while position < len(text):
        match = _TOKEN.match(text, position)
        if match is None:
            raise ConditionError(f"{text[position:].strip()[:20]!r} is not understood")
        assert match.lastgroup is not None, match
        found.append(_Token(kind=match.lastgroup, text=match[match.lastgroup]))
        position = match.end()
    return [*found, _END]


class _Condition:
    """One condition, read from left to right; each part becomes a truth value for each row at once."""

    def __init__(self, table: pa.Table, tokens: Sequence[_Token], also: Mapping[str, str]) -> None:
        self._table = table
        self._tokens = tokens
        self._also = also
        self._at = 0
        self._depth = 0

    def mask(self) -> pa.ChunkedArray:
        """True, false or null for each row."""
        found = self._either()
        if self._next is not _END:
            raise ConditionError(f"{self._next.text!r} is not expected: join conditions by and or or")
        return found

    @property
    def _next(self) -> _Token:
        return self._tokens[self._at]

    def _take(self) -> _Token:
        token = self._next
        self._at += token is not _END
        return token

    def _taken(self, *keywords: str) -> str:
        """The keyword that comes next and is one of these, which is behind us then; else nothing."""
        return self._take().keyword if self._next.keyword in keywords else ""

    def _expect(self, keyword: str) -> None:
        if not self._taken(keyword):
            raise ConditionError(f"{keyword!r} is expected where {self._next.text!r} stands")

    def _either(self) -> pa.ChunkedArray:
        found = self._both()
        while self._taken("or"):
            found = pc.or_kleene(found, self._both())
        return found

    def _both(self) -> pa.ChunkedArray:
        found = self._one()
        while self._taken("and"):
            found = pc.and_kleene(found, self._one())
        return found

    def _one(self) -> pa.ChunkedArray:
        self._depth += 1
        if self._depth > DEPTH_MAX:
            raise ConditionError(f"more than {DEPTH_MAX} brackets stand within each other")
        if self._taken("not"):
            found = pc.invert(self._one())
        elif self._taken("("):
            found = self._either()
            self._expect(")")
        else:
            found = self._comparison()
        self._depth -= 1
        return found

    def _comparison(self) -> pa.ChunkedArray:
        if self._next.kind in ("number", "text"):
            return self._in_list(self._take())
        name = self._name()
        if self._taken("is"):
            is_not = bool(self._taken("not"))
            self._expect("null")
            return pc.is_valid(self._table.column(name)) if is_not else pc.is_null(self._table.column(name))
        is_not = bool(self._taken("not"))
        found = self._against_values(name)
        return pc.invert(found) if is_not else found

    def _against_values(self, name: str) -> pa.ChunkedArray:
        column = self._table.column(name)
        if self._taken("in"):
            self._expect("(")
            values = [self._value(name)]
            while self._taken(","):
                values.append(self._value(name))
            self._expect(")")
            masks = [pc.equal(column, value) for value in values]
            for mask in masks[1:]:
                masks[0] = pc.or_kleene(masks[0], mask)
            return masks[0]
        if self._taken("like"):
            pattern = self._value(name)
            if not isinstance(pattern, str):
                raise ConditionError(f"like is for texts, and {name} holds numbers")
            return pc.match_like(column, pattern)
        sign = self._taken(*COMPARISONS)
        if not sign:
            raise ConditionError(f"behind {name} stands {self._next.text!r}: {', '.join(COMPARISONS)}, in, like or is")
        return COMPARISONS[sign](column, self._value(name))

    def _name(self) -> str:
        token = self._take()
        name = self._also.get(token.text.lower(), token.text.lower())
        if token.kind != "word" or token.keyword:
            raise ConditionError(f"a column is expected where {token.text!r} stands: {self._columns()}")
        if name not in self._table.column_names:
            raise ConditionError(f"there is no column {token.text!r}: {self._columns()}")
        return name

    def _columns(self) -> str:
        return f"the columns are {', '.join(self._table.column_names)}"

    def _value(self, name: str) -> int | float | str:
        """The value that comes next, which must be of the kind that the column holds."""
        token = self._take()
        if token.kind not in ("number", "text"):
            raise ConditionError(f"a number or a text in quotes is expected where {token.text!r} stands")
        held = self._table.schema.field(name).type
        if pa.types.is_list(held):
            raise ConditionError(f"{name} is a list: ask for one value in it, such as 5 in {name}")
        if pa.types.is_string(held) != (token.kind == "text"):
            kind = "texts, which stand in quotes" if pa.types.is_string(held) else "numbers, which have no quotes"
            raise ConditionError(f"{name} holds {kind}; {token.text} is none")
        value = _held(token)
        return float(value) if pa.types.is_floating(held) else value

    def _in_list(self, token: _Token) -> pa.ChunkedArray:
        """``5 in records``: rows whose list has that value."""
        is_not = bool(self._taken("not"))
        self._expect("in")
        name = self._name()
        column = self._table.column(name).combine_chunks()
        if not pa.types.is_list(column.type):
            raise ConditionError(f"{name} is no list: a column stands first, such as {name} = {token.text}")
        if token.kind != "number":
            raise ConditionError(f"{name} holds numbers, which have no quotes; {token.text} is none")
        wanted = _held(token)
        rows = np.asarray(pc.list_parent_indices(column).to_numpy(zero_copy_only=False), np.int64)
        values = np.asarray(pc.list_flatten(column).field("value").to_numpy(zero_copy_only=False), np.int64)
        found = np.zeros(self._table.num_rows, np.bool_)
        found[rows[values == wanted]] = True
        mask = pc.if_else(pc.is_valid(column), pa.array(found), None)
        return pc.invert(mask) if is_not else mask


def _held(token: _Token) -> int | float | str:
    """The value of a token, if a column can hold it."""
    value = token.value
    if isinstance(value, int) and not -_NUMBERS <= value < _NUMBERS:
        raise ConditionError(f"{token.text[:30]} is no number of 64 bits, which is what columns hold")
    if isinstance(value, str) and not value.isascii() and any("\ud800" <= sign <= "\udfff" for sign in value):
        raise ConditionError("a text is no UTF-8")
    return value
