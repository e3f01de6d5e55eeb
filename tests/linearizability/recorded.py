"""Recorded histories with known verdicts, read from a directory beside the checkout where there is one.

Owns a reader that is just good enough for them: lines of Jepsen's log, and JSON lines with one event each.
"""

from __future__ import annotations

import gzip
import json
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from nemesis.linearizability.operations import Operation, Outcome, Value

DIRECTORY = Path(__file__).resolve().parents[3] / "shared" / "histories"
_LOG_LINE = re.compile(r"INFO\s+jepsen\.util - (\S+)\s+:(\w+)\s+:(\w+)\s+(.*)")


@dataclass(frozen=True, slots=True, kw_only=True)
class Recorded:
    """One history and what is known of it."""

    name: str
    model: str
    linearizable: bool
    strict_cas: bool
    path: Path

    def operations(self) -> list[Operation]:
        """The operations, in the order of their invocations."""
        events = _log_events(self.path) if self.path.suffix == ".log" else _json_events(self.path)
        return sorted(_paired(events), key=lambda op: op.invoked)


def recorded(kind: str) -> list[Recorded]:
    """All histories of ``kind`` (adversarial, etcd, perf); none if the directory is not there."""
    verdicts = DIRECTORY / kind / "verdicts.json"
    if not verdicts.exists():
        return []
    return [
        Recorded(
            name=name,
            model=known["model"],
            linearizable=bool(known["linearizable"]),
            strict_cas=bool(known.get("failcas_strict", False)),
            path=DIRECTORY / kind / name,
        )
        for name, known in json.loads(verdicts.read_text()).items()
    ]


def _log_events(path: Path) -> Iterator[dict[str, Any]]:
    for line in path.read_text().splitlines():
        match = _LOG_LINE.match(line)
        if match is None:
            continue
        process, kind, f, value = match.groups()
        numbers = [int(number) for number in re.findall(r"-?\d+", value)]
        if value == ":timed-out" and f == "read":
            kind = "info"
        known: Value = tuple(numbers) if value.startswith("[") else numbers[0] if numbers else None
        yield {"process": process, "type": kind, "f": f, "value": known, "key": None}


def _json_events(path: Path) -> Iterator[dict[str, Any]]:
    with gzip.open(path, "rt") if path.suffix == ".gz" else path.open() as lines:
        for line in lines:
            yield json.loads(line)


def _paired(events: Iterable[dict[str, Any]]) -> Iterator[Operation]:
    begun: dict[object, tuple[int, dict[str, Any]]] = {}
    for at, event in enumerate(events):
        if event["type"] == "invoke":
            begun[event["process"]] = (at, event)
            continue
        yield _operation(*begun.pop(event["process"]), event, at)
    for at, event in begun.values():
        yield _operation(at, event, {"type": "info", "value": None}, at)


def _operation(at: int, asked: dict[str, Any], ended: dict[str, Any], end: int) -> Operation:
    outcome = Outcome(ended["type"])
    argument, result = _frozen(asked["value"]), _frozen(ended["value"])
    if asked["f"] == "fetch":
        argument = (*asked["value"], asked.get("stale", False))
    if asked["f"] == "read":
        argument = None
    if outcome is not Outcome.OK or asked["f"] in {"write", "cas"} or (asked["f"] == "append" and result == argument):
        result = None
    return Operation(
        process=asked["process"],
        f=asked["f"],
        key=asked["key"],
        argument=argument,
        result=result,
        outcome=outcome,
        invoked=at,
        returned=None if outcome is Outcome.INFO else end,
        line=at + 1,
    )


def _frozen(value: Any) -> Value:
    if isinstance(value, dict):
        return tuple(value["values"])
    frozen: Value = tuple(value) if isinstance(value, list) else value
    return frozen
