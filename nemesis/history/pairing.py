"""Which completion belongs to which invocation: said once, where an operation is recorded, and read by all others.

Owns the rule for recording (``Pairing``) and the one for reading (``pairs``). Knows nothing of outcomes.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
from msgspec.structs import replace

from nemesis.history.events import APPEND, FINAL_READ, POLL, EventType, HistoryEvent

Ints = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]

UNRETURNED = -1
"""The row of the completion of an operation that never returned."""
ECHOES = {APPEND: "value", POLL: "offset", FINAL_READ: "offset"}
"""What a completion repeats of its invocation."""
_NOBODY = int(np.iinfo(np.int64).min)


class Pairing:
    """Says of each event of a history, as it is recorded, which invocation it completes.

    A process does one thing of a kind at a time: the nemesis may do several, of different kinds.
    """

    def __init__(self) -> None:
        self._pending: dict[tuple[int, str], int] = {}

    def invoked(self, index: int, process: int, type: EventType, f: str) -> int | None:
        """The index of the invocation that this event completes; None for one that completes nothing."""
        if type is EventType.INVOKE:
            self._pending[process, f] = index
            return None
        return self._pending.pop((process, f), None)


def paired(events: Iterable[HistoryEvent]) -> list[HistoryEvent]:
    """The events of a history from its beginning, each with the invocation that it completes."""
    pairing = Pairing()
    return [
        replace(event, invoked=pairing.invoked(event.index, event.process, event.type, event.f)) for event in events
    ]


def pairs(history: pa.Table) -> tuple[Ints, Ints]:
    """The rows of all invocations, ascending, and the row of the completion of each, or ``UNRETURNED``.

    ``history`` has the columns of ``HISTORY_SCHEMA``. A completion must be of the same process, ask for the same kind
    of operation on the same log or object, and repeat the value of an append and the position of a poll, if it repeats
    them, as they were; else it completes something that is missing, and is left out as one without an invocation is.
    """
    index, process, invoked = (_ints(history, name) for name in ("index", "process", "invoked"))
    is_begin = np.asarray(pc.equal(history.column("type"), EventType.INVOKE.value).to_numpy(), np.bool_)
    operation = np.where(is_begin, index, invoked)
    log = history.column("topic_partition").fill_null("").combine_chunks().dictionary_encode().indices.to_numpy()
    order = np.lexsort((index, ~is_begin, operation, process, log))
    first, second = order[:-1], order[1:]
    same = is_begin[first] & ~is_begin[second]
    same &= (process[first] == process[second]) & (operation[first] == operation[second])
    same &= _asks_the_same(history, first, second)
    end = np.full(len(index), UNRETURNED)
    end[first[same]] = second[same]
    begins = np.flatnonzero(is_begin)
    return begins, end[begins]


def _asks_the_same(history: pa.Table, first: Ints, second: Ints) -> Bools:
    this, other = (history.select(_ASKED).take(pa.array(rows)) for rows in (first, second))
    same = pc.and_(
        pc.equal(this.column("f"), other.column("f")),
        pc.equal(this.column("topic_partition").fill_null(""), other.column("topic_partition").fill_null("")),
    )
    for f, column in ECHOES.items():
        differs = pc.not_equal(this.column(column), other.column(column)).fill_null(False)
        same = pc.and_(same, pc.invert(pc.and_(pc.equal(this.column("f"), f), differs)))
    return np.asarray(same.to_numpy(), np.bool_)


_ASKED = ["f", "topic_partition", "value", "offset"]


def _ints(table: pa.Table, name: str) -> Ints:
    return np.asarray(table.column(name).fill_null(_NOBODY).to_numpy(), np.int64)
