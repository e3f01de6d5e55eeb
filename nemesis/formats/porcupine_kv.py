"""Histories of key-value stores as Porcupine's tests have them: ``{:process 0, :type :invoke, :f :get, :key "5"}``.

Owns what differs from Jepsen: the key stands beside the value, the operations are get, put and append of texts, and a
key that was never written reads as the empty text. Source: the key-value model of Porcupine's tests.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from nemesis.formats.edn import forms_of
from nemesis.formats.edn_text import edn_text
from nemesis.formats.errors import excerpt, refuse
from nemesis.formats.events import Event
from nemesis.formats.jepsen_edn import events_of_forms
from nemesis.formats.source import chunks_of
from nemesis.history.events import EventType

OPERATIONS = ("get", "put", "append")


def read_porcupine_kv(path: Path) -> Iterator[Event | None]:
    """The events in order. Raises HistoryError."""
    for event in events_of_forms(forms_of(chunks_of(path), path), path):
        if event is not None:
            _check(event, path)
        yield event


def _check(event: Event, path: Path) -> None:
    if event.f not in OPERATIONS:
        remedy = f"give one of {', '.join(OPERATIONS)}; or name the --format if this is Jepsen's EDN"
        refuse(path, event.line, f"the operation {excerpt(event.f)} is none of a key-value store", remedy)
    if event.key is None:
        refuse(path, event.line, "the event has no key", "give each event the :key that it is about")
    is_read = event.f == "get" and event.type is EventType.OK
    is_write = event.f != "get" and event.type is EventType.INVOKE
    if (is_write or (is_read and event.value is not None)) and not isinstance(event.value, str):
        refuse(path, event.line, f"the value is {excerpt(edn_text(event.value))}", "give the :value as a text")
