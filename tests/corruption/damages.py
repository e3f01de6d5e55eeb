"""Ways to damage a recorded run, each with the verdicts that it leaves possible of a run that was clean.

A damage changes the rows of a ``Recording``, or its files. Unless it says otherwise the mark of the end agrees with
what is left: as if the rest had never been recorded, so that the rows themselves must show what is missing.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

from tests.corruption.base import Recording, Row

VALID, INVALID, UNKNOWN, REFUSED = "valid", "invalid", "unknown", "refused"
HARMLESS = frozenset({VALID})
MISSING = frozenset({UNKNOWN})
A_LIE = frozenset({INVALID, UNKNOWN})
"""What is there contradicts itself: it may convict, and must not be valid."""
DOUBTFUL = frozenset({VALID, UNKNOWN})
"""Nothing that could show a violation is gone for sure."""
REFUSABLE = frozenset({REFUSED})
Change = Callable[[Recording], object]
Where = Callable[[Row], bool]


@dataclass(frozen=True, slots=True)
class Damage:
    """``words`` stand in one of the reasons for the verdict on a run that was clean."""

    name: str
    change: Change
    allowed: frozenset[str]
    words: str = ""
    counted_again: bool = True

    def __call__(self, run: Recording) -> Recording:
        """The run, damaged."""
        self.change(run)
        if self.counted_again and run.rows_told is not None:
            run.count()
        return run


def where(**wanted: Any) -> Where:
    """The rows that have these entries."""
    return lambda row: all(row.get(name) == entry for name, entry in wanted.items())


def drop(run: Recording, table: str, chosen: Where) -> None:
    """Take rows away; at least one."""
    rows = getattr(run, table)
    kept = [row for row in rows if not chosen(row)]
    assert len(kept) < len(rows)
    rows[:] = kept


def drop_one(run: Recording, table: str, chosen: Where) -> None:
    """Take the row in the middle of these away."""
    rows = getattr(run, table)
    rows.remove(_middle(rows, chosen))


def double(run: Recording, table: str, chosen: Where, **changed: Any) -> None:
    """Add the row in the middle of these once more, or another like it."""
    rows = getattr(run, table)
    row = _middle(rows, chosen)
    rows.insert(rows.index(row), row | changed)


def alter(run: Recording, table: str, chosen: Where, **changed: Any) -> None:
    """Change all of these; an entry that can be called makes the new one of the row."""
    rows = [row for row in getattr(run, table) if chosen(row)]
    assert rows
    for row in rows:
        row.update({name: new(row) if callable(new) else new for name, new in changed.items()})


def alter_one(run: Recording, table: str, chosen: Where, **changed: Any) -> None:
    """Change the row in the middle of these."""
    row = _middle(getattr(run, table), chosen)
    row.update({name: new(row) if callable(new) else new for name, new in changed.items()})


def _middle(rows: list[Row], chosen: Where) -> Row:
    found = [row for row in rows if chosen(row)]
    return found[len(found) // 2]


def numbered_again(change: Change) -> Change:
    """The change, and then indexes without gaps: those lines were never written."""

    def changed(run: Recording) -> None:
        change(run)
        numbers = {row["index"]: index for index, row in enumerate(run.history)}
        for row in run.history:
            row |= {"index": numbers[row["index"]], "invoked": numbers.get(row["invoked"])}

    return changed


def several(*changes: Change) -> Change:
    """One after the other."""
    return lambda run: [change(run) for change in changes]


def told(change: Callable[[dict[str, Any]], object], *, text: str | None = None) -> Callable[[Row], str]:
    """The detail of a row as it is when its JSON was changed."""

    def changed(row: Row) -> str:
        detail = json.loads(row["detail"])
        change(detail)
        return json.dumps(detail) if text is None else text

    return changed


DUMPED = where(f="dump", type="info")
ALL_DUMPS = partial(alter, table="history", chosen=DUMPED)
NO_ISR = partial(drop, table="events", chosen=where(event="final-isr"))
