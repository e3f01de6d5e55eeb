"""EDN as it is written in the wild: every value is understood, and what is none is refused with its line."""

from __future__ import annotations

from collections.abc import Iterable
from decimal import Decimal
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nemesis.formats.edn import forms_of
from nemesis.formats.errors import HistoryError
from nemesis.formats.limits import DIGITS_MAX, NESTING_MAX, STRING_CHARS_MAX
from nemesis.formats.values import Keyword, MapValue, Symbol, Tagged, Truth
from nemesis.linearizability.operations import Value

PATH = Path("history.edn")


def values(*chunks: str) -> list[Value]:
    """The values of a text that comes in these pieces."""
    return [form.value for form in forms_of(chunks, PATH)]


def a_map(entries: Iterable[tuple[Value, Value]]) -> MapValue:
    """A map of these entries."""
    return MapValue.of(entries)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("nil", None),
        ("true", Truth.TRUE),
        ("false", Truth.FALSE),
        ("0", 0),
        ("-7", -7),
        ("+7", 7),
        ("123456789012345678901234567890N", 123456789012345678901234567890),
        ("1.5", 1.5),
        ("-2e3", -2000.0),
        ("1.50M", Decimal("1.50")),
        ('""', ""),
        (r'"a\"b\\c\n\t\u00e9"', 'a"b\\c\n\té'),
        ('"two\nlines"', "two\nlines"),
        (r"\a", "a"),
        (r"\newline", "\n"),
        (r"\u00e9", "é"),
        (":read", Keyword("read")),
        (":jepsen.history/op", Keyword("jepsen.history/op")),
        (":1", Keyword("1")),
        (":final?", Keyword("final?")),
        ("x", Symbol("x")),
        ("-", Symbol("-")),
        ("[1 2]", (1, 2)),
        ("(1, 2)", (1, 2)),
        ("[]", ()),
        ("#{1 2}", frozenset({1, 2})),
        ("{:a 1, :b nil}", a_map([(Keyword("a"), 1), (Keyword("b"), None)])),
        ('#inst "2026"', Tagged("inst", "2026")),
        ("#a.b/C{:x 1}", Tagged("a.b/C", a_map([(Keyword("x"), 1)]))),
        ("#a #b 1", Tagged("a", Tagged("b", 1))),
        ("[1 #_2 3]", (1, 3)),
        ("[#_#_1 2 3]", (3,)),
        ("[#_#a 1 2]", (2,)),
        ("; nothing\n 1 ; at all", 1),
        ("[,1,,2,]", (1, 2)),
        ("[[[]]]", (((),),)),
    ],
)
def test_a_value_is_read(text: str, value: Value) -> None:
    """Each kind of value of the format is read as what it is, and of the type that it is."""
    [found] = values(text)

    assert found == value
    assert type(found) is type(value)


def test_a_boolean_is_no_number() -> None:
    """What was written true and read as 1 is not equal."""
    assert values("[true false]") != values("[1 0]")


@pytest.mark.parametrize(
    ("text", "line", "what"),
    [
        ("[1 2", 1, "has no end"),
        ("1\n[1\n2", 2, "has no end"),
        ('1\n"abc', 2, "has no end"),
        ("[1 2)", 1, "does not close"),
        ("\n]", 2, "closes nothing"),
        ('"two\nlines"\n]', 3, "closes nothing"),
        ("{:a}", 1, "key without a value"),
        ("{:a 1 :a 2}", 1, "one key twice"),
        ("#{1 1}", 1, "one element twice"),
        ("[#_]", 1, "does not close"),
        ("#tag", 1, "has no end"),
        ("##NaN", 1, "is no EDN|neither a number nor a name"),
        ("##Inf", 1, "is no EDN|neither a number nor a name"),
        ("1e999", 1, "inf where a number belongs"),
        ("007", 1, "begins like a number"),
        ("1/2", 1, "begins like a number"),
        ("12abc", 1, "begins like a number"),
        (":", 1, "neither a number nor a name"),
        ("::a", 1, "neither a number nor a name"),
        (r'"\q"', 1, "no escape"),
        (r'"\ud800"', 1, "surrogate"),
        (r"\noletter", 1, "no such character"),
        ("@x", 1, "is no EDN"),
        ("9" * (DIGITS_MAX + 11), 1, "DIGITS_MAX"),
        ("9" * 1_000_000, 1, "DIGITS_MAX"),
        ('"' + "x" * (STRING_CHARS_MAX + 1) + '"', 1, "STRING_CHARS_MAX"),
        (":" + "x" * (STRING_CHARS_MAX + 5), 1, "STRING_CHARS_MAX"),
        ("[" * (NESTING_MAX + 1), 1, "NESTING_MAX"),
        ("[" * 200_000 + "]" * 200_000, 1, "NESTING_MAX"),
        ("#_" * 200_000, 1, "NESTING_MAX"),
        ("#a " * 200_000, 1, "NESTING_MAX"),
    ],
)
def test_what_is_no_value_is_refused(text: str, line: int, what: str) -> None:
    """What cannot be understood ends in the one error, with the line and the reason."""
    with pytest.raises(HistoryError, match=what) as caught:
        values(text)

    assert caught.value.line == line


def test_the_deepest_nesting_that_is_allowed_is_read() -> None:
    """The limit itself is within the limit."""
    [value] = values("[" * NESTING_MAX + "]" * NESTING_MAX)

    assert isinstance(value, tuple)


TEXT = '{:a [1 -2.5 "x\\n y"], #{nil} #inst "2026"} ; done\n #_(1 2) :key \\newline true 77'


@given(cuts=st.lists(st.integers(0, len(TEXT)), max_size=6))
def test_where_the_text_is_cut_does_not_matter(cuts: list[int]) -> None:
    """A text in any pieces has the values of the whole."""
    places = sorted({0, len(TEXT), *cuts})
    pieces = [TEXT[start:end] for start, end in pairwise(places)]

    assert values(*pieces) == values(TEXT)


def test_a_list_of_events_is_taken_apart() -> None:
    """A history that is one vector has its elements as values, each with its own line."""
    forms = list(forms_of(["[1\n [2]\n 3]"], PATH, is_history=True))

    assert [(form.value, form.line) for form in forms] == [(1, 1), ((2,), 2), (3, 3)]


@pytest.mark.parametrize(
    ("text", "line", "what"),
    [
        ("[1 2", 1, "has no end"),
        ("[1] 2", 1, "follows the end"),
        ("[1)", 1, "does not close"),
        ("[1\n[2\n", 2, "has no end"),
    ],
)
def test_a_list_of_events_has_one_end(text: str, line: int, what: str) -> None:
    """A history that is one vector is whole, and nothing follows it."""
    with pytest.raises(HistoryError, match=what) as caught:
        list(forms_of([text], PATH, is_history=True))

    assert caught.value.line == line
