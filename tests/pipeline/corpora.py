"""A folder of histories of several formats, as other systems leave them."""

from __future__ import annotations

import json
from pathlib import Path
from random import Random

from nemesis.linearizability.operations import Operation, Outcome
from tests.linearizability.histories import Shape, random_history


def lines(history: list[Operation], key: int) -> list[dict[str, object]]:
    """The events of a history of one object, in their order."""
    events: list[tuple[int, dict[str, object]]] = []
    for op in history:
        plain = {"process": op.process, "f": op.f, "key": key}
        asked = list(op.argument) if isinstance(op.argument, tuple) else op.argument
        events.append((op.invoked, plain | {"type": "invoke", "value": asked}))
        if op.returned is not None:
            is_read = op.f == "read" and op.outcome is Outcome.OK
            events.append((op.returned, plain | {"type": op.outcome.value, "value": op.result if is_read else asked}))
    return [event for _, event in sorted(events, key=lambda event: event[0])]


def write_corpus(folder: Path) -> list[Path]:
    """Twelve files of JSON Lines, one in EDN, and one that breaks off; they are right, wrong or broken by turns."""
    shape = Shape(operations=14, processes=3, values=0, unknown=0.05, failed=0.0, spoiled=0.3)
    for number in range(12):
        history = random_history("cas-register", Random(f"corpus {number}"), shape)
        events = [dict(event, process=f"{event['process']}-{key}") for key in (1, 2) for event in lines(history, key)]
        text = "".join(json.dumps(event) + "\n" for event in events)
        (folder / f"history-{number:02}.jsonl").write_text(text, encoding="utf-8")
    edn = "{:process 0 :type :invoke :f :write :value 1}{:process 0 :type :ok :f :write :value 1}"
    (folder / "other.edn").write_text(edn, encoding="utf-8")
    (folder / "broken.jsonl").write_text('{"process": 0, "type": "invoke", "f": "wri', encoding="utf-8")
    (folder / "notes.md").write_text("no history", encoding="utf-8")
    return sorted(path for path in folder.iterdir() if path.suffix != ".md")
