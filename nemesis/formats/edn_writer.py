"""Events as EDN, as Jepsen's own tools read a ``history.edn``: one map a line.

Owns which field is written how. A key goes into the value, ``[key value]``, as ``jepsen.independent`` has it. Source:
``jepsen.history``.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TextIO

from nemesis.formats.edn_text import edn_text, name_of
from nemesis.formats.events import Event
from nemesis.formats.values import Keyword
from nemesis.linearizability.operations import Value


def write_edn(events: Iterable[Event], out: TextIO) -> int:
    """Write one map a line; returns how many. Events without an index get their place as one."""
    written = 0
    for place, event in enumerate(events):
        out.write(edn_of_event(event, place) + "\n")
        written += 1
    return written


def edn_of_event(event: Event, place: int) -> str:
    """One event as a map, in the order of Jepsen's own fields."""
    value = event.value if event.key is None else (event.key, event.value)
    process = event.process if isinstance(event.process, int) else name_of(str(event.process))
    fields: dict[str, Value] = {
        "index": place if event.index is None else event.index,
        "time": event.time,
        "type": Keyword(event.type.value),
        "process": process,
        "f": name_of(event.f),
        "value": value,
        "error": event.error,
        **dict(sorted(event.extra.items())),
    }
    absent_if_none = ("time", "error")
    kept = ((name, item) for name, item in fields.items() if item is not None or name not in absent_if_none)
    return "{" + ", ".join(f"{edn_text(name_of(name))} {edn_text(item)}" for name, item in kept) + "}"
