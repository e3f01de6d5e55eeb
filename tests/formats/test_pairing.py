"""What is asked of the order of events, and what completions say of results."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from nemesis.formats.errors import HistoryError
from nemesis.formats.events import Event
from nemesis.formats.pairing import operations_of
from nemesis.formats.values import Keyword, MapValue
from nemesis.history.events import EventType
from nemesis.linearizability.operations import Outcome, Value

PATH = Path("history")
INVOKE, OK, FAIL, INFO = EventType.INVOKE, EventType.OK, EventType.FAIL, EventType.INFO


def event(line: int, kind: EventType, f: str = "read", value: Value = None, **fields: Any) -> Event:
    """One event of process 0."""
    return Event(line=line, type=kind, f=f, value=value, **({"process": 0} | fields))


def test_what_never_completes_is_unknown() -> None:
    """An invocation without a completion has no end and no result."""
    [operation] = operations_of([event(1, INVOKE, "write", 5)], PATH)

    assert (operation.outcome, operation.returned, operation.argument) == (Outcome.INFO, None, 5)


def test_a_process_may_go_on_after_an_unknown_outcome() -> None:
    """An info ends what the process was doing, and bounds nothing."""
    events = [event(1, INVOKE, "write", 5), event(2, INFO, "write", 5), event(3, INVOKE), event(4, OK, value=5)]

    first, second = operations_of(events, PATH)

    assert (first.returned, second.invoked, second.returned) == (None, 2, 3)


def test_operations_stand_in_the_order_of_their_invocations() -> None:
    """Who returns first is not who began first."""
    events = [event(1, INVOKE), event(2, INVOKE, process=1), event(3, OK, process=1), event(4, OK)]

    assert [operation.line for operation in operations_of(events, PATH)] == [1, 2]


@pytest.mark.parametrize(
    ("events", "line", "what"),
    [
        ([event(1, OK)], 1, "has not invoked"),
        ([event(1, INVOKE), event(2, OK), event(3, OK)], 3, "completed before"),
        ([event(1, INVOKE), event(2, INFO), event(3, OK)], 3, "completed before"),
        ([event(1, INVOKE), event(2, INVOKE)], 2, "operation of line 1 is pending"),
        ([event(1, INVOKE), event(2, OK, process=1)], 2, "has not invoked"),
        ([event(1, INVOKE, "read"), event(2, OK, "write")], 2, "completes 'write' and has invoked 'read'"),
        ([event(1, INVOKE, key=1), event(2, OK, key=2)], 2, "another"),
        ([event(1, INVOKE, "fetch", (-1, 2))], 1, "offset or limit '-1'"),
        ([event(1, INVOKE, "fetch", (0, 10**30))], 1, "TIME_MAX"),
        ([event(1, INVOKE, "append", 1), event(2, OK, "append", (10**30, 1))], 2, "TIME_MAX"),
        (
            [event(1, INVOKE, "fetch", (0, 2)), event(2, OK, "fetch", MapValue.of([("from", 5), ("values", ())]))],
            2,
            "returns from '5'",
        ),
    ],
)
def test_impossible_orders_are_refused(events: list[Event], line: int, what: str) -> None:
    """Each thing that no process can have done is named, with its line."""
    with pytest.raises(HistoryError, match=what) as caught:
        operations_of(events, PATH)

    assert caught.value.line == line


@pytest.mark.parametrize(
    ("f", "asked", "kind", "value", "error", "result"),
    [
        ("read", None, OK, 5, None, 5),
        ("read", None, FAIL, None, Keyword("timeout"), None),
        ("write", 5, OK, 5, None, None),
        ("add", 5, OK, 5, None, None),
        ("increment", 5, OK, 12, None, 12),
        ("append", 5, OK, (0, 5), None, (0, 5)),
        ("append", 5, OK, 5, None, 5),
        ("append", "a", OK, "a", None, None),
        ("increment", 5, OK, 5, None, 5),
        ("cas", (1, 2), FAIL, (1, 2), None, None),
        ("cas", (1, 2), FAIL, 7, None, 7),
        ("cas", (1, 2), FAIL, 7, Keyword("precondition-failed"), None),
        ("dequeue", None, FAIL, None, Keyword("empty"), "empty"),
        ("dequeue", None, FAIL, Keyword("empty"), None, "empty"),
        ("dequeue", None, FAIL, Keyword("timeout"), None, None),
        ("dequeue", None, OK, 5, None, 5),
        ("txn", ((Keyword("r"), 1, None),), OK, ((Keyword("r"), 1, 3),), None, (("r", 1, 3),)),
        ("txn", None, OK, ((Keyword("write"), 1, 3),), None, (("w", 1, 3),)),
        ("fetch", (0, 5), OK, MapValue.of([(Keyword("from"), 0), (Keyword("values"), (1,))]), None, (1,)),
        ("fetch", (0, 5), OK, (1,), None, (1,)),
    ],
)
def test_what_came_back(f: str, asked: Value, kind: EventType, value: Value, error: Value, result: Value) -> None:
    """A completion that repeats what was asked says nothing; a failure says only what it saw."""
    [operation] = operations_of([event(1, INVOKE, f, asked), event(2, kind, f, value, error=error)], PATH)

    assert operation.result == result


@pytest.mark.parametrize(
    ("error", "value", "is_there"),
    [
        (None, (1, 2), True),
        (Keyword("precondition-failed"), (1, 2), True),
        ((Keyword("precondition-failed"), "expected 1"), (1, 2), True),
        ((22, "expected 1"), (1, 2), True),
        ((11, "no leader"), (1, 2), False),
        (Keyword("timed-out"), (1, 2), False),
        ("connection refused", (1, 2), False),
        (None, Keyword("timed-out"), False),
    ],
)
def test_a_failed_comparison_is_evidence_only_if_it_compared(error: Value, value: Value, is_there: bool) -> None:
    """A compare-and-set that failed for another reason is left out: to some models it would be a read."""
    events = [event(1, INVOKE, "cas", (1, 2)), event(2, FAIL, "cas", value, error=error)]

    assert bool(operations_of(events, PATH)) is is_there
