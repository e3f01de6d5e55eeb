"""What the beginning of a run proves about the whole of it.

Owns which rows of a prefix may be told because the whole must have them or what they imply (``checks.check``), and
what makes two rows, of a shorter and of a longer prefix, the same anomaly. A prefix is all events of the history up to
one of them, some of the replicas' events, and no replica's log: those are read at the end.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from nemesis.checks.anomalies import row_order
from nemesis.checks.check import Row
from nemesis.checks.registry import BY_NAME
from nemesis.checks.schemas import Severity
from nemesis.history.events import APPEND, EventType


def final(rows: Iterable[Row]) -> list[Row]:
    """The rows of a prefix that convict the whole: what the earliest operations show first."""
    return sorted(filter(_is_final, rows), key=lambda row: (max(row["op_indexes"], default=-1), row_order(row)))


def _is_final(row: Row) -> bool:
    if row["severity"] != Severity.VIOLATION or not BY_NAME[row["anomaly"]].implies:
        return False
    evidence = json.loads(row["evidence"])
    return "more" not in evidence and all(map(_has_ended, _operations(evidence)))


def _operations(evidence: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    seen = [entry["operation"] for entry in evidence.get("seen", ()) if "operation" in entry]
    return [*seen, *evidence.get("operations", ())]


def _has_ended(operation: Mapping[str, Any]) -> bool:
    """Whether nothing can become of an operation any more, which may be that it failed; and that a poll is ok.

    What a poll returned that did not succeed is believed by some checks only.
    """
    return "return_index" in operation and (operation["f"] == APPEND or operation["type"] == EventType.OK)


class Told:
    """The anomalies of one run that were told already."""

    def __init__(self) -> None:
        self._known: set[tuple[Any, ...]] = set()

    def new(self, rows: Iterable[Row]) -> Iterator[Row]:
        """Of the rows of a prefix, those that are final and were not told before; the earliest first."""
        for row in final(rows):
            if (about := BY_NAME[row["anomaly"]].identify(row)) not in self._known:
                self._known.add(about)
                yield row
