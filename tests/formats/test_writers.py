"""What is written is read back equal: EDN with all its values, JSON with those that it has."""

from __future__ import annotations

import io
import json
from decimal import Decimal
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nemesis.formats.edn import forms_of
from nemesis.formats.edn_text import edn_text
from nemesis.formats.events import Event, EventColumns
from nemesis.formats.json_writer import json_value
from nemesis.formats.kafka_edn import edn_of_event, write_edn
from nemesis.formats.keyed import KeyPairs, split_keys
from nemesis.formats.reading import READERS
from nemesis.formats.recognise import Format
from nemesis.formats.values import Keyword, MapValue, Symbol, Tagged, Truth, freeze
from nemesis.history.events import EventType
from nemesis.linearizability.operations import Value

texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=12)
names = st.from_regex(r"[a-z][a-z0-9.?*-]{0,8}(/[a-z]{1,3})?", fullmatch=True)
numbers = st.integers(-(10**30), 10**30) | st.floats(allow_nan=False, allow_infinity=False)
plain = st.none() | st.sampled_from(Truth) | numbers | texts
decimals = st.decimals(allow_nan=False, allow_infinity=False, min_value=-(10**9), max_value=10**9, places=3)
symbols = names.filter(lambda name: name not in {"nil", "true", "false"}).map(Symbol)
atoms = plain | decimals | names.map(Keyword) | symbols


def _json_deeper(inner: st.SearchStrategy[Value]) -> st.SearchStrategy[Value]:
    return st.lists(inner, max_size=3).map(tuple) | st.dictionaries(texts, inner, max_size=3).map(
        lambda entries: MapValue.of(entries.items())
    )


def _edn_deeper(inner: st.SearchStrategy[Value]) -> st.SearchStrategy[Value]:
    maps = st.dictionaries(inner, inner, max_size=3).map(lambda entries: MapValue.of(entries.items()))
    tagged = st.builds(Tagged, names, inner)
    return st.lists(inner, max_size=3).map(tuple) | st.frozensets(inner, max_size=3) | maps | tagged


json_values: st.SearchStrategy[Value] = plain | _json_deeper(plain | _json_deeper(plain))
edn_values: st.SearchStrategy[Value] = atoms | _edn_deeper(atoms | _edn_deeper(atoms))


@st.composite
def events(draw: st.DrawFn, values: st.SearchStrategy[Value]) -> list[Event]:
    """Events in order of their indexes, as a file has them with one a line."""
    return [
        Event(
            line=place + 1,
            index=place * 3,
            process=draw(st.integers(0, 5) | names.filter(lambda name: name != "nemesis")),
            type=draw(st.sampled_from(EventType)),
            f=draw(names | texts.filter(bool)),
            key=draw(values),
            value=draw(values),
            time=draw(st.none() | st.integers(0, 2**63 - 1)),
            error=draw(values),
            extra=draw(st.dictionaries(st.sampled_from(["stale", "final?", "x y"]), plain.filter(_is_there))),
        )
        for place in range(draw(st.integers(1, 4)))
    ]


def _is_there(value: Value) -> bool:
    return value is not None


def read_back(text: str, known: Format, folder: Path) -> list[Event]:
    """The events of a file with this text."""
    path = folder / "history"
    path.write_text(text, encoding="utf-8", newline="")
    return [event for event in READERS[known](path) if event is not None]


@given(value=edn_values)
def test_every_value_survives_edn(value: Value) -> None:
    """What is written as EDN is read as an equal value of the same type, and stands on one line."""
    text = edn_text(value)

    [form] = forms_of([text], Path("history.edn"))

    assert "\n" not in text
    assert form.value == value
    assert type(form.value) is type(value)


@given(value=json_values)
def test_every_value_that_json_has_survives_json(value: Value) -> None:
    """What is written as JSON is read as an equal value."""
    assert freeze(json.loads(json.dumps(json_value(value)))) == value


@given(given_events=events(edn_values))
def test_every_event_survives_edn(tmp_path_factory: pytest.TempPathFactory, given_events: list[Event]) -> None:
    """What is written as EDN, with keys in the values, is read as equal events once the keys are taken out."""
    keyed = [event for event in given_events if event.key is not None]
    out = io.StringIO()
    write_edn(keyed, out)

    found = read_back(out.getvalue(), Format.EDN, tmp_path_factory.mktemp("written"))

    renumbered = [(event.index, event.process, event.key, event.value, event.error, event.extra) for event in keyed]
    again, _ = split_keys(EventColumns(Path("history"), found), Path("history"), KeyPairs.YES)
    assert [(event.index, event.process, event.key, event.value, event.error, event.extra) for event in again] == (
        renumbered
    )


def test_an_event_as_jepsen_writes_it() -> None:
    """The fields stand in the order of Jepsen's, with names as keywords."""
    event = Event(line=1, process=3, type=EventType.OK, f="cas", key="x", value=(1, Decimal("2.5")), time=17)

    assert edn_of_event(event, 4) == '{:index 4, :time 17, :type :ok, :process 3, :f :cas, :value ["x" [1 2.5M]]}'


def test_what_json_has_no_value_for() -> None:
    """Keywords and symbols become texts, sets lists, keys of maps texts; a tag is dropped."""
    value = (Keyword("a"), Symbol("b"), frozenset({2, 1}), MapValue.of([(1, Truth.TRUE)]), Tagged("t", Decimal("0.5")))

    assert json_value(value) == ["a", "b", [1, 2], {"1": True}, 0.5]
