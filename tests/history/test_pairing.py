"""Which completion belongs to which invocation: as it is recorded, and as it is read again."""

from __future__ import annotations

from typing import Any

import pytest

from nemesis.history import NEMESIS_PROCESS, EventType, HistoryEvent
from nemesis.history.pairing import UNRETURNED, paired, pairs
from nemesis.history.schemas import Kind
from nemesis.history.tables import table_of

Line = tuple[int, str, str, dict[str, Any]]


def line(process: int, type: str, f: str, **fields: Any) -> Line:
    """An event of a history."""
    return process, type, f, fields


def recorded(*lines: Line) -> list[HistoryEvent]:
    """The events in this order, as a writer records them."""
    return paired(
        HistoryEvent(index=index, time_ns=index, process=process, type=EventType(type), f=f, **fields)
        for index, (process, type, f, fields) in enumerate(lines)
    )


def read(*events: HistoryEvent) -> dict[int, int | None]:
    """The index of each invocation, and that of its completion."""
    begins, ends = pairs(table_of(Kind.HISTORY, events))
    index = [event.index for event in events]
    return {
        index[begin]: None if end == UNRETURNED else index[end]
        for begin, end in zip(begins.tolist(), ends.tolist(), strict=True)
    }


INTERLEAVED = recorded(
    line(1, "invoke", "read"),
    line(2, "invoke", "append", value=7),
    line(NEMESIS_PROCESS, "invoke", "kill"),
    line(2, "info", "append", value=7),
    line(NEMESIS_PROCESS, "invoke", "partition"),
    line(1, "ok", "read", value=3),
    line(NEMESIS_PROCESS, "info", "kill"),
    line(1, "invoke", "read"),
    line(NEMESIS_PROCESS, "info", "partition"),
    line(1, "ok", "read", value=4),
    line(3, "invoke", "read"),
)


def test_each_completion_names_its_invocation() -> None:
    """Whoever does what meanwhile; the nemesis may do several things at once."""
    assert [event.invoked for event in INTERLEAVED] == [None, None, None, 1, None, 0, 2, None, 4, 7, None]
    assert read(*INTERLEAVED) == {0: 5, 1: 3, 2: 6, 4: 8, 7: 9, 10: None}


def test_the_order_of_lines_does_not_matter() -> None:
    """Shards may be read in any order."""
    assert read(*reversed(INTERLEAVED)) == read(*INTERLEAVED)


def test_what_is_missing_is_not_mended() -> None:
    """Where the end of a read and the begin of the next are gone, the end that is left completes nothing."""
    assert read(*(event for event in INTERLEAVED if event.index not in (5, 7)))[0] is None


def test_nothing_completes_what_was_never_begun() -> None:
    """A completion without an invocation has none, also where its process has begun something else."""
    assert [event.invoked for event in recorded(line(1, "invoke", "read"), line(1, "ok", "write"))] == [None, None]
    assert recorded(line(1, "ok", "read"))[0].invoked is None


@pytest.mark.parametrize(
    ("begin", "end", "is_pair"),
    [
        (line(1, "invoke", "append", value=7), line(1, "ok", "append", value=7, offset=3), True),
        (line(1, "invoke", "append", value=7), line(1, "ok", "append", offset=3), True),
        (line(1, "invoke", "append", value=7), line(1, "ok", "append", value=8, offset=3), False),
        (line(1, "invoke", "poll", offset=7), line(1, "ok", "poll", offset=7), True),
        (line(1, "invoke", "poll", offset=7), line(1, "ok", "poll", offset=8), False),
        (line(1, "invoke", "read", topic_partition="x"), line(1, "ok", "read", topic_partition="y"), False),
    ],
)
def test_a_completion_asks_for_the_same(begin: Line, end: Line, is_pair: bool) -> None:
    """One that was changed since it was recorded completes nothing."""
    assert read(*recorded(begin, end)) == {0: 1 if is_pair else None}
