"""Which format a file has, by how it begins.

Owns the list of formats, and the rule of each. A rule looks at the first 64 KiB and is never sure: ``--format`` is
there for files that begin otherwise. Knows no format beyond its beginning.
"""

from __future__ import annotations

import re
from enum import StrEnum
from pathlib import Path

from nemesis.formats.errors import excerpt, refuse
from nemesis.formats.jepsen_log import operation_in
from nemesis.formats.source import head_of

HEAD_BYTES = 64 * 1024
PARQUET_MAGIC = b"PAR1"
_PORCUPINE = re.compile(r"\{:process [0-9]+, :type :(?:invoke|ok), :f :(?:get|put|append), :key \"")
_BLANK_OR_COMMENT = re.compile(r"(?:[\s,\ufeff]+|;[^\n]*(?:\n|$)|#_[^\s{}]+)*")


class Format(StrEnum):
    """The formats that can be read."""

    EDN = "edn"
    JEPSEN_LOG = "jepsen-log"
    JSON = "json"
    PORCUPINE_KV = "porcupine-kv"
    MAELSTROM = "maelstrom"
    PARQUET = "parquet"


def recognised(path: Path) -> Format:
    """The format of a file. Raises HistoryError where the file is empty, or begins like none of them."""
    head = head_of(path, HEAD_BYTES)
    if head.startswith(PARQUET_MAGIC):
        return Format.PARQUET
    text = head.decode("utf-8", errors="replace")
    begin = text[_end_of_blanks(text) :]
    if not begin:
        refuse(path, None, "the file is empty", "give a history with at least one operation")
    found = _format_of(begin)
    if found is not None:
        return found
    if any(operation_in(line) for line in text.splitlines()):
        return Format.JEPSEN_LOG
    remedy = f"name its format with --format: {', '.join(Format)}"
    return refuse(path, 1, f"the file begins with {excerpt(begin, 30)}, as no format that is known here", remedy)


def _format_of(begin: str) -> Format | None:
    inner = begin[1:].lstrip() if begin[0] in "[(" else begin
    if _PORCUPINE.match(inner):
        return Format.PORCUPINE_KV
    if (re.match(r"\{\s*\"", inner) and begin[0] != "(") or (begin[0] == "[" and inner.startswith("]")):
        return Format.JSON
    if re.match(r"\{[\s,]*:|#[A-Za-z]|\{[\s,]*\}|;", inner):
        return Format.EDN
    return None


def _end_of_blanks(text: str) -> int:
    match = _BLANK_OR_COMMENT.match(text)
    return 0 if match is None else match.end()
