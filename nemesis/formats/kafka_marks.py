"""What this harness knows of an operation and Jepsen has no word for, beside the operation in an exported history.

Owns those fields: a map ``:highwater`` in the invocation and in the completion. Jepsen's checkers look at none of it.
With it an exported run is judged as the run itself, as far as its operations go; what the replicas held and told is not
in it.

The operations of a Kafka workload: each invocation with its completion, whatever they are of.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from nemesis.formats.edn_text import edn_text
from nemesis.formats.errors import excerpt, refuse
from nemesis.formats.events import Event
from nemesis.formats.pairing import paired
from nemesis.formats.values import Keyword, MapValue, Truth
from nemesis.history.events import APPEND, FINAL_READ, POLL, EventType
from nemesis.linearizability.operations import Value

MARKS = "highwater"
_NUMBERS = ("process", "position", "acks", "node", "offset", "high_watermark", "leader_epoch")
_TRUTHS = ("limited", "strict", "seek")
_WORDS = ("f", "type", "topic_partition")
_F = (APPEND, POLL, FINAL_READ)


def marks_of(row: Mapping[str, Any]) -> MapValue:
    """The map of one row of a history; what is absent there is absent here."""
    is_invocation = row["type"] == EventType.INVOKE
    fields: dict[str, Any] = {name: row.get(name) for name in ("node", "high_watermark", "leader_epoch", *_TRUTHS)}
    if is_invocation:
        fields |= {name: row.get(name) for name in ("process", "f", "topic_partition", "acks")}
        fields["position"] = None if row["f"] == APPEND else row.get("offset")
    else:
        fields |= {"type": EventType(row["type"]).value}
        fields["offset"] = row.get("offset") if row["f"] == APPEND else None
    return MapValue.of((_name(name), _edn(value)) for name, value in fields.items() if value is not None)


def _name(name: str) -> Keyword:
    return Keyword(name.replace("_", "-"))


def _edn(value: Any) -> Value:
    if isinstance(value, bool):
        return Truth.TRUE if value else Truth.FALSE
    return value  # type: ignore[no-any-return]  # a number or a text: the columns of a history have no others


def row_of_marks(pair: Pair, rows: Sequence[Mapping[str, Any]], path: Path) -> dict[str, Any]:
    """The operation as it was recorded, from its marks and from what its one micro-operation says (``rows``).

    Raises HistoryError for marks that this harness does not write.
    """
    begin = _fields(pair.invocation.extra[MARKS], path, pair.invocation.line)
    end: dict[str, Any] = {}
    if pair.completion is not None:
        end = _fields(pair.completion.extra.get(MARKS), path, pair.completion.line)
    if begin.get("f") not in _F or len(rows) > 1 or begin.get("process") is None:
        problem = f"the marks {excerpt(edn_text(pair.invocation.extra[MARKS]))} fit no operation of this harness"
        refuse(path, pair.invocation.line, problem, "export the run again, or remove the marks")
    row = _base(pair, begin, end)
    is_append = begin["f"] == APPEND
    if is_append:
        told = rows[0]["offset"] if rows else None
        row |= {"value": rows[0]["value"] if rows else None, "offset": end.get("offset") if told is None else told}
    elif row["type"] == EventType.OK:
        row |= {"records": rows[0]["records"] if rows else []}
    return row


def _base(pair: Pair, begin: Mapping[str, Any], end: Mapping[str, Any]) -> dict[str, Any]:
    completion = pair.completion
    error = None if completion is None or completion.error is None else completion.error
    return {
        "run_id": "history",
        "topic_partition": begin.get("topic_partition", ""),
        "process": begin["process"],
        "f": begin["f"],
        "type": end.get("type", EventType.INFO.value),
        "invoke_index": pair.invoked_at,
        "return_index": pair.returned_at,
        "invoke_ns": pair.invocation.time or 0,
        "return_ns": None if completion is None else completion.time,
        "value": None,
        "offset": None,
        "position": begin.get("position"),
        "records": None,
        "high_watermark": end.get("high_watermark"),
        "leader_epoch": end.get("leader_epoch"),
        "node": end.get("node", begin.get("node")),
        "acks": begin.get("acks"),
        "limited": end.get("limited", begin.get("limited", False)),
        "strict": begin.get("strict", end.get("strict", False)),
        "seek": begin.get("seek", end.get("seek", False)),
        "error": error if error is None or isinstance(error, str) else edn_text(error),
        "place": 0,
        "committed": False,
        "subscribed": False,
        "rebalanced": False,
    }


def _fields(marks: Value, path: Path, line: int) -> dict[str, Any]:
    entries = marks.items if isinstance(marks, MapValue) else frozenset()
    fields: dict[str, Any] = {}
    for key, value in entries:
        name = (key.name if isinstance(key, Keyword) else str(key)).replace("-", "_")
        plain = value.name if isinstance(value, Keyword) else value
        is_right = (
            (name in _NUMBERS and isinstance(plain, int) and abs(plain) < 2**63)
            or (name in _TRUTHS and isinstance(plain, Truth))
            or (name in _WORDS and isinstance(plain, str))
        )
        if not is_right or (name == "type" and plain not in ("ok", "fail", "info")):
            problem = f"the mark {excerpt(edn_text(key))} is {excerpt(edn_text(value))}"
            refuse(path, line, problem, "export the run again, or remove the marks")
        fields[name] = plain is Truth.TRUE if isinstance(plain, Truth) else plain
    return fields


_NEVER = -1


@dataclass(frozen=True, slots=True, kw_only=True)
class Pair:
    """One operation; ``completion`` and ``returned_at`` are None where it never ended."""

    process: int
    invocation: Event
    invoked_at: int
    completion: Event | None
    returned_at: int | None

    @property
    def type(self) -> EventType:
        """How it ended; what did not is of unknown outcome."""
        return EventType.INFO if self.completion is None else self.completion.type


def pairs_of(events: Sequence[Event], path: Path) -> Iterator[Pair]:
    """The operations in the order of their invocations, each made when it is asked for.

    Raises HistoryError before the first of them.
    """
    is_indexed = all(event.index is not None for event in events)
    moments = array("q", (event.index or 0 if is_indexed else place for place, event in enumerate(events)))
    begins, ends = array("q"), array("q")
    for invoked_at, _, completed_at, _ in paired(_numbered(events, path), path):
        begins.append(invoked_at)
        ends.append(_NEVER if completed_at is None else completed_at)
    for k in sorted(range(len(begins)), key=lambda k: moments[begins[k]]):
        invocation, has_end = events[begins[k]], ends[k] != _NEVER
        yield Pair(
            process=_process(invocation, path),
            invocation=invocation,
            invoked_at=moments[begins[k]],
            completion=events[ends[k]] if has_end else None,
            returned_at=moments[ends[k]] if has_end else None,
        )


def _numbered(events: Iterable[Event], path: Path) -> Iterator[Event]:
    for event in events:
        _process(event, path)
        yield event


def _process(event: Event, path: Path) -> int:
    if not isinstance(event.process, int):
        problem = f"process {excerpt(edn_text(event.process))} has no number"
        refuse(path, event.line, problem, "number the clients from 0")
    return event.process
