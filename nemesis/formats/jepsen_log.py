"""What Jepsen prints: its ``history.txt``, and the operations among the lines of its ``jepsen.log``.

Owns what a line of an operation looks like: process, type, f, value and maybe an error, between blanks. All other lines
of a log are somebody else's and are skipped. Such lines have no brackets that would show that the last one was cut, so
a last line without an end is refused. Source: ``jepsen.util/op->str``.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path

from nemesis.formats.edn import forms_of
from nemesis.formats.errors import HistoryError, excerpt, refuse
from nemesis.formats.events import Event, event_of
from nemesis.formats.source import lines_of
from nemesis.formats.values import Keyword
from nemesis.linearizability.operations import Value

LOG_LINE = re.compile(
    r"(?:.*\bjepsen\.(?:util|core|history)\b[ ]*[-:][ ]*)?"
    r"(?P<process>:?[\w.-]+)[ \t]+:(?P<type>[a-z]+)[ \t]+(?P<rest>:.*)"
)
"""A line of an operation, alone or behind the logger's words."""
_BEGUN = re.compile(r".*\bjepsen\.util\b[ ]*[-:][ ]*(?:[0-9]+|:nemesis)[ \t]*(?:$|[ \t]:)")
"""A line that begins as one, whatever it goes on with."""
_PROCESS = re.compile(r"[0-9]{1,18}")
_FORMS_KEPT = 10_000


def read_jepsen_log(path: Path) -> Iterator[Event | None]:
    """The events in order, None for each that is no client's. Raises HistoryError."""
    for number, line, is_ended in lines_of(path):
        match = LOG_LINE.fullmatch(line)
        if match is None:
            if _BEGUN.match(line):
                problem = f"{excerpt(line)} begins as an operation and is none"
                refuse(path, number, problem, "give process, type, f and value, as Jepsen prints them")
            continue
        if not is_ended:
            refuse(path, number, "the last line has no end: it may have been cut off", "complete it, or remove it")
        yield _event(match, path, number)


def _event(match: re.Match[str], path: Path, number: int) -> Event | None:
    try:
        forms = _forms(match["rest"])
    except HistoryError as error:
        raise HistoryError(path, number, error.problem, error.remedy) from error
    if not 2 <= len(forms) <= 3:
        problem = f"{excerpt(match['rest'])} is not f, value and maybe an error"
        refuse(path, number, problem, "give process, type, f and value, as Jepsen prints them")
    value, reason = forms[1], forms[2] if len(forms) > 2 else None
    if match["type"] in ("fail", "info") and isinstance(value, Keyword) and reason is None:
        # Jepsen's first releases put the error in the place of the value: ``:info :write :timed-out``.
        value, reason = None, value
    process = match["process"]
    fields: dict[str, Value] = {
        "process": int(process) if _PROCESS.fullmatch(process) else process.removeprefix(":"),
        "type": match["type"],
        "f": forms[0],
        "value": value,
        "error": reason,
    }
    return event_of(fields, path, number)


@lru_cache(maxsize=_FORMS_KEPT)
def _forms(rest: str) -> tuple[Value, ...]:
    """What follows the type. Most lines of a log repeat a few of them."""
    return tuple(form.value for form in forms_of([rest], Path()))
