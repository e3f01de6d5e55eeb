"""Recorded and random histories of logs with known verdicts, where they are at hand beside the checkout."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.checks.histories import Row, append, judge, poll

FOLDER = Path(__file__).parents[2].parent / "shared" / "histories" / "adversarial"
FILES = sorted(FOLDER.glob("*log-*.jsonl"))


def operations_of(lines: list[dict[str, Any]]) -> list[Row]:
    """The operations of a history in which a fetch is [position, limit] and returns values from its position on."""
    open_lines: dict[int, Any] = {}
    rows: dict[int, Row] = {}
    for line in lines:
        if line["type"] == "invoke":
            open_lines[line["process"]] = line
            rows[line["index"]] = _row(line, None)
        else:
            invoked = open_lines.pop(line["process"])
            rows[invoked["index"]] = _row(invoked, line)
    return [rows[index] for index in sorted(rows)]


def _row(invoked: dict[str, Any], returned: dict[str, Any] | None) -> Row:
    span = (invoked["index"], None if returned is None else returned["index"])
    kind = "info" if returned is None else returned["type"]
    about = {"process": invoked["process"], "type": kind}
    if invoked["f"] == "append":
        offset = returned["value"][0] if returned is not None and kind == "ok" else None
        return append(span, invoked["value"], offset, **about)
    position, limit = invoked["value"]
    strict = not invoked.get("stale", False)
    if returned is None or kind != "ok":
        return poll(span, position, seek=True, strict=strict, records=None, **about)
    values = returned["value"]["values"]
    records = [(position + i, value) for i, value in enumerate(values)]
    return poll(span, position, *records, seek=True, strict=strict, limited=len(values) >= limit, **about)


@pytest.mark.parametrize("path", FILES or [None], ids=lambda path: path.name if path else "absent")
def test_known_verdict(path: Path | None) -> None:
    """A violation is found exactly where the history is known not to be that of one log."""
    if path is None:
        pytest.skip(f"no histories with known verdicts at {FOLDER}")
    expected = json.loads((FOLDER / "verdicts.json").read_text())[path.name]["linearizable"]
    rows = judge(operations_of([json.loads(line) for line in path.read_text().splitlines()]), gapless=True)
    violations = [row for row in rows if row["severity"] == "violation"]
    assert bool(violations) == (expected == 0), [row["detail"] for row in rows]
