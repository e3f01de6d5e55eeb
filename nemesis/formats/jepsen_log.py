"""What Jepsen prints: its ``history.txt``, and the operations among the lines of its ``jepsen.log``.

Owns what a line of an operation looks like: process, type, f, value and maybe an error, between blanks. Other lines of
a log are somebody else's and are skipped, unless they may be operations that are not understood. Lines of operations
have no brackets that would show that the last one was cut, so a last line without an end is refused. Source:
``jepsen.util/op->str``.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path
from typing import NoReturn

from nemesis.formats.edn import forms_of
from nemesis.formats.errors import HistoryError, excerpt, refuse
from nemesis.formats.events import Event, event_of
from nemesis.formats.source import lines_of
from nemesis.formats.values import Keyword
from nemesis.linearizability.operations import Value

_LOGGER = re.compile(r"\bjepsen\.(?:util|core|history)\b *[-:] *")
"""The words before an operation in a log."""
_OPERATION = re.compile(r"(?P<process>:?[\w.-]+)[ \t]+:(?P<type>[a-z]+)[ \t]+(?P<rest>:.*)")
_PRINTER = "jepsen.util"
"""The part of Jepsen that prints operations, and hardly anything else."""
_MAY_BE = re.compile(r"\t|(?<!\S):(?:invoke|ok|fail|info)(?!\S)|(?:[0-9]+|:nemesis)[ \t]*$")
"""What an operation has that was written or cut in another way; other words of the printer have none of it."""
_MAY_BE_ALONE = re.compile(r"[ \t]:?(?:invoke|ok|fail|info)[ \t]+:")
_PROCESS = re.compile(r"[0-9]{1,18}")
_FORMS_KEPT = 10_000


def operation_in(line: str) -> re.Match[str] | None:
    """The operation on a line, alone or behind the first of the logger's words; None if there is none."""
    words = _LOGGER.search(line)
    return _OPERATION.fullmatch(line, 0 if words is None else words.end())


def read_jepsen_log(path: Path) -> Iterator[Event | None]:
    """The events in order, None for each that is no client's. Raises HistoryError.

    A file in which the logger has no words is a history.txt: all its lines are operations.
    """
    has_logger = False
    strange: tuple[int, str] | None = None
    for number, line, is_ended in lines_of(path):
        words = _LOGGER.search(line)
        has_logger = has_logger or words is not None
        match = _OPERATION.fullmatch(line, 0 if words is None else words.end())
        if match is None:
            if _may_be_operation(line, words):
                _refuse_line(path, number, line)
            if strange is None and line.strip():
                strange = (number, line)
            continue
        if not is_ended:
            refuse(path, number, "the last line has no end: it may have been cut off", "complete it, or remove it")
        yield _event(match, path, number)
    if strange is not None and not has_logger:
        _refuse_line(path, *strange)


def _may_be_operation(line: str, words: re.Match[str] | None) -> bool:
    """Whether a line that is no operation was perhaps meant to be one."""
    if words is not None and words[0].startswith(_PRINTER):
        return _MAY_BE.search(line, words.end()) is not None
    return _MAY_BE_ALONE.search(line, 0 if words is None else words.end()) is not None


def _refuse_line(path: Path, number: int, line: str) -> NoReturn:
    problem = f"{excerpt(line)} may be an operation and is none"
    refuse(path, number, problem, "give process, type, f and value, as Jepsen prints them, or remove the line")


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
