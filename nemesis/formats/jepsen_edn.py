"""Jepsen's ``history.edn``: one map for each event, alone on its line or all in one vector.

Owns the names of Jepsen's fields and the tags of its records. Events of the nemesis are no client's and are left out.
Source: ``jepsen.history``, ``jepsen.independent``.

Maelstrom's workload ``lin-kv`` leaves the same, with ``[key value]`` throughout. Histories of key-value stores as
Porcupine's tests have them are maps with other keys: ``{:process 0, :type :invoke, :f :get, :key "5"}``.
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
from nemesis.history.events import EventType
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


OPERATIONS = ("read", "write", "cas")


def read_maelstrom(path: Path) -> Iterator[Event | None]:
    """The events in order, None for each that is no client's. Raises HistoryError."""
    for event in read_jepsen_edn(path):
        if event is not None and event.f not in OPERATIONS:
            remedy = f"give one of {', '.join(OPERATIONS)}, as the workload lin-kv does; or name another --format"
            refuse(path, event.line, f"the operation {excerpt(event.f)} is none of lin-kv", remedy)
        yield event


PORCUPINE_OPERATIONS = ("get", "put", "append")


def read_porcupine_kv(path: Path) -> Iterator[Event | None]:
    """The events in order. Raises HistoryError."""
    for event in events_of_forms(forms_of(chunks_of(path), path), path):
        if event is not None:
            _check(event, path)
        yield event


def _check(event: Event, path: Path) -> None:
    if event.f not in PORCUPINE_OPERATIONS:
        remedy = f"give one of {', '.join(PORCUPINE_OPERATIONS)}; or name the --format if this is Jepsen's EDN"
        refuse(path, event.line, f"the operation {excerpt(event.f)} is none of a key-value store", remedy)
    if event.key is None:
        refuse(path, event.line, "the event has no key", "give each event the :key that it is about")
    is_read = event.f == "get" and event.type is EventType.OK
    is_write = event.f != "get" and event.type is EventType.INVOKE
    if (is_write or (is_read and event.value is not None)) and not isinstance(event.value, str):
        refuse(path, event.line, f"the value is {excerpt(edn_text(event.value))}", "give the :value as a text")
