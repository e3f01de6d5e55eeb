"""Jepsen's ``history.edn``: one map for each event, alone on its line or all in one vector.

Owns the names of Jepsen's fields and the tags of its records. Events of the nemesis are no client's and are left out.
Source: ``jepsen.history``, ``jepsen.independent``.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path

from nemesis.formats.edn import Form, forms_of
from nemesis.formats.edn_text import edn_text
from nemesis.formats.errors import excerpt, refuse
from nemesis.formats.events import Event, event_of
from nemesis.formats.source import chunks_of
from nemesis.formats.values import Keyword, MapValue, Tagged
from nemesis.linearizability.operations import Value


def read_jepsen_edn(path: Path) -> Iterator[Event | None]:
    """The events in order, None for each that is no client's. Raises HistoryError."""
    return events_of_forms(forms_of(chunks_of(path), path, is_history=True), path)


def events_of_forms(forms: Iterable[Form], path: Path) -> Iterator[Event | None]:
    """The events that EDN maps describe."""
    for form in forms:
        yield event_of(fields_of(form, path), path, form.line)


def fields_of(form: Form, path: Path) -> dict[str, Value]:
    """The fields of one event by name. A record's tag, such as ``#jepsen.history.Op``, says nothing more."""
    value = form.value.value if isinstance(form.value, Tagged) else form.value
    if not isinstance(value, MapValue):
        problem = f"{excerpt(edn_text(value))} is no map"
        refuse(path, form.line, problem, "write each event as a map, {:process 0, :type :invoke, :f :read, :value nil}")
    fields: dict[str, Value] = {}
    for key, item in value.items:
        if not isinstance(key, Keyword | str):
            refuse(
                path, form.line, f"a field is named {excerpt(edn_text(key))}", "name fields by keywords, such as :type"
            )
        name = key.name if isinstance(key, Keyword) else key
        if name in fields:
            refuse(path, form.line, f"the field {excerpt(name)} is there twice", "write each field once")
        fields[name] = item
    return fields
