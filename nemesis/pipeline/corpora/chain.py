"""The windows of one hot object after the other: what it may be in where one ends is carried to the next.

Owns the stream of rows, which are sorted by (object, invoked), and how much of it is held: one window, and what the
``Link`` carries. A link knows a kind of object: where its history may be cut, how a window is judged, what is carried.
After a window that is not *valid* nothing is judged, and the rest of the rows is counted in. Where a history cannot be
cut before the window is as much as one call takes, it is *unknown* from there on.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from itertools import groupby
from operator import itemgetter
from typing import Any

import numpy as np
import pyarrow as pa

from nemesis.linearizability.arrays.columns import Ending, starts_of
from nemesis.pipeline.corpora.encoding import ints, weights_of
from nemesis.pipeline.corpora.schemas import JUDGEMENT_ROWS
from nemesis.verdict import Verdict

Row = dict[str, Any]
"""One row of ``JUDGEMENT_ROWS``, but for the object and the window."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Judged:
    """A window: its ``row``, how many of the rows that were offered are behind it, and why no window can follow.

    ``obstacle`` is None where one can.
    """

    row: Row
    taken: int
    obstacle: str | None = None


class Link(ABC):
    """One kind of object, and what is carried from window to window of one of them."""

    asked: int
    """How many rows and records a window should have, at most at first."""

    @abstractmethod
    def window(self, rows: pa.Table) -> Judged | None:
        """The judgement of a window that begins with ``rows`` and ends before the last of them.

        None if the history cannot be cut there: it is asked again, with more rows.
        """

    @abstractmethod
    def rest(self, rows: pa.Table) -> Row:
        """The judgement of the last window, which has all of ``rows``."""


def chained(
    batches: Iterable[pa.RecordBatch], link_of: Callable[[int], Link], call_operations_max: int
) -> Iterator[pa.Table]:
    """The judgements (``JUDGEMENT_ROWS``) of the windows of each object, in their order."""
    for number, pieces in groupby(_pieces(batches), key=itemgetter(0)):
        chain = _Chain(link_of(number), call_operations_max)
        found = [row for _, piece in pieces for row in chain.add(piece)] + chain.close()
        rows = [row | {"object": number, "window": window} for window, row in enumerate(found)]
        yield pa.Table.from_pylist(rows, schema=JUDGEMENT_ROWS)


def _pieces(batches: Iterable[pa.RecordBatch]) -> Iterator[tuple[int, pa.Table]]:
    """The rows, taken apart by their objects."""
    for batch in batches:
        table = pa.Table.from_batches([batch])
        objects = ints(table, "object", 0)
        starts = starts_of(objects).tolist()
        for begin, end in zip(starts, [*starts[1:], len(objects)], strict=True):
            yield int(objects[begin]), _open_ended(table.slice(begin, end - begin))


def _open_ended(rows: pa.Table) -> pa.Table:
    """The rows, where what nobody knows the end of has none."""
    absent = (ints(rows, "ending", 0) == Ending.INFO) | rows.column("returned").is_null().to_numpy()
    place = rows.schema.get_field_index("returned")
    returned = pa.array(ints(rows, "returned", 0), pa.int64(), mask=absent)
    return rows.set_column(place, rows.schema.field(place), returned)


class _Chain:
    """One object's rows, held until there are enough for a window."""

    def __init__(self, link: Link, most: int) -> None:
        self._link, self._most, self._asked = link, most, link.asked
        self._held: pa.Table | None = None
        self._last: Row | None = None
        self._obstacle: str | None = None
        self._dropped: Row = dict.fromkeys(("operations", "unknown_outcomes", "judged"), 0)
        self._undecided = 0

    def add(self, rows: pa.Table) -> list[Row]:
        """The judgements of the windows that are complete with ``rows``."""
        found: list[Row] = []
        self._held = rows if self._held is None else pa.concat_tables([self._held, rows])
        while self._obstacle is None and (row := self._window()) is not None:
            found.append(row)
        if self._obstacle is not None:
            self._drop()
        return found

    def _window(self) -> Row | None:
        """The next window, if there are enough rows for it."""
        assert self._held is not None, "a window of nothing"
        ends = np.cumsum(weights_of(self._held))
        while len(ends) and ends[-1] > self._asked:
            count = max(1, int(np.searchsorted(ends, self._asked, side="right")))
            if count == len(ends):
                return None
            judged = self._link.window(self._held.slice(0, count + 1).combine_chunks())
            if judged is not None:
                self._held, self._asked = self._held.slice(judged.taken), self._link.asked
                return self._kept(judged)
            if self._asked >= self._most:
                self._obstacle = f"there is no moment in {self._most} operations and records at which it can be cut"
                return None
            self._asked = min(self._most, max(self._asked + 1, self._asked * 5 // 4))
        return None

    def _kept(self, judged: Judged) -> Row | None:
        """The row, unless it is the last one: that waits for the rest of the object's rows."""
        if judged.row["verdict"] == Verdict.VALID:
            self._obstacle = judged.obstacle
            self._undecided += judged.row["judged"] - judged.row["decided"]
            return judged.row
        self._last, self._obstacle = judged.row, "it is decided"
        return None

    def _drop(self) -> None:
        """Nothing is judged any more: count."""
        assert self._held is not None, "nothing to drop"
        ending = ints(self._held, "ending", 0)
        self._dropped["operations"] += len(ending)
        self._dropped["unknown_outcomes"] += int((ending == Ending.INFO).sum())
        self._dropped["judged"] += int((ending != Ending.FAIL).sum())
        self._held = self._held.slice(0, 0)

    def close(self) -> list[Row]:
        """The last window, or what was not judged."""
        assert self._held is not None, "an object without rows"
        if self._obstacle is None:
            return [self._decided(self._link.rest(self._held.combine_chunks()))]
        if self._last is not None:
            return [self._last | {name: self._last[name] + count for name, count in self._dropped.items()}]
        return [unknown(self._obstacle) | self._dropped] if self._dropped["operations"] else []

    def _decided(self, row: Row) -> Row:
        """The last window's row: if that is valid all is decided, also what was pending at the ends of those before."""
        if row["verdict"] != Verdict.VALID:
            return row
        return row | {"decided": row["judged"] + self._undecided}


def unknown(reason: str) -> Row:
    """A row that says that nothing is known; no operation is counted in it."""
    counts = dict.fromkeys(("operations", "unknown_outcomes", "judged", "decided", "configurations"), 0)
    return {**counts, "kernel": "", "verdict": Verdict.UNKNOWN.value, "reason": reason}
