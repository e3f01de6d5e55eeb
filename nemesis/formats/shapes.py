"""What a file's values come to as arguments and results, in the shapes that the models of the harness know.

Owns the habits of those who write histories: a completion repeats what was asked, a failure has its reason in the place
of its value, a fetch answers with a map. Knows operations by their names, and no model. Source: Jepsen's workloads.
"""

from __future__ import annotations

from pathlib import Path

from nemesis.formats.edn_text import edn_text
from nemesis.formats.errors import excerpt, refuse
from nemesis.formats.events import CAS, Event
from nemesis.formats.limits import TIME_MAX
from nemesis.formats.values import Keyword, MapValue, Truth
from nemesis.history.events import EventType
from nemesis.linearizability.operations import Value

APPEND = "append"
FETCH = "fetch"
TRANSACTION = "txn"
DEQUEUE = "dequeue"
EMPTY = "empty"
COMPARISONS = (CAS, "cas-version")
REPEATED = frozenset({*COMPARISONS, APPEND, "write", "put", "add", "enqueue", "acquire", "release"})
"""Operations whose completion repeats what was asked, which tells nothing of what came back; but see ``_repeats``."""
_MICRO_NAMES: dict[Value, Value] = {"read": "r", "write": "w"}
"""Knossos spells out what Elle abbreviates."""
REFUSALS: frozenset[Value] = frozenset({"precondition-failed", "key-does-not-exist", "did-not-succeed", 20, 22})
"""Errors by which a compare-and-set says that it met another value; the numbers are Maelstrom's."""


def argument_of(invocation: Event, path: Path) -> Value:
    """What was asked. Raises HistoryError for offsets that are none."""
    value = invocation.value
    match invocation.f:
        case "txn":
            return _micro_operations(value)
        case "fetch" if isinstance(value, tuple):
            for offset in value:
                _check_offset(offset, invocation, path)
            if invocation.extra.get("stale") is Truth.TRUE:
                return (*value[:2], *([None] if len(value) == 1 else []), True)
            is_told = len(value) == 3 and isinstance(value[2], Truth)
            return (*value[:2], value[2] is Truth.TRUE) if is_told else value
        case _:
            return value


def result_of(invocation: Event, completion: Event | None, path: Path) -> Value:
    """What came back of what succeeded; of what failed, what it saw. Raises HistoryError for offsets that are none."""
    if completion is None or completion.type is EventType.INFO:
        return None
    if completion.type is EventType.FAIL:
        return _seen_by_failure(invocation, completion)
    value = completion.value
    if _repeats(invocation, value):
        return None
    match completion.f:
        case "cas" | "cas-version" if value is Truth.FALSE:
            problem = "a compare-and-set succeeded with false: an ok one found what it expected"
            refuse(path, completion.line, problem, "complete one that met another value as fail")
        case "txn":
            return _micro_operations(value)
        case "fetch":
            return _fetched(invocation, completion, path)
        case "append" if isinstance(value, int):
            return _check_offset(value, completion, path)
        case "append" if isinstance(value, tuple) and value and isinstance(value[0], int):
            _check_offset(value[0], completion, path)
            return value
        case _:
            return value


def _repeats(invocation: Event, value: Value) -> bool:
    """Whether a completion repeats what was asked. A number that comes back from an append is its offset."""
    if invocation.f not in REPEATED or value != invocation.value:
        return False
    return not (invocation.f == APPEND and isinstance(value, int) and 0 <= value <= TIME_MAX)


def is_cas_without_evidence(completion: Event | None) -> bool:
    """Whether this is a compare-and-set that failed for a reason other than the value that it met.

    It had no effect and says nothing of the value. To a model that takes a failed one for a read it would be a lie.
    """
    if completion is None or completion.type is not EventType.FAIL or completion.f not in COMPARISONS:
        return False
    error = completion.value if completion.error is None else completion.error
    if completion.error is None and not isinstance(error, Keyword):
        return False
    reason = error[0] if isinstance(error, tuple) and error else error
    return _word(reason) not in REFUSALS


def _seen_by_failure(invocation: Event, completion: Event) -> Value:
    """What a failure came back with: other than what was asked, and without an error that would explain it."""
    if completion.f == DEQUEUE and EMPTY in (_word(completion.value), _word(completion.error)):
        return EMPTY
    if completion.error is not None or completion.value == invocation.value:
        return None
    return None if isinstance(completion.value, Keyword) else completion.value


def _fetched(invocation: Event, completion: Event, path: Path) -> Value:
    """The records, of a list of them or of a map with ``from`` and ``values``."""
    value = completion.value
    if not isinstance(value, MapValue):
        return value
    fields = {_word(key): item for key, item in value.items}
    start = fields.get("from")
    asked = invocation.value[0] if isinstance(invocation.value, tuple) and invocation.value else None
    if start is not None and start != asked:
        where = f"line {invocation.line} asks from {excerpt(edn_text(asked))}"
        problem = f"{where}, and the fetch returns from {excerpt(edn_text(start))}"
        refuse(path, completion.line, problem, "give the records from the offset that was asked for")
    return fields.get("values", fields.get("records"))


def _micro_operations(value: Value) -> Value:
    """The operations of a transaction, with their names as texts of one letter where they have one."""
    if not isinstance(value, tuple):
        return value
    return tuple(
        (_MICRO_NAMES.get(_word(micro[0]), _word(micro[0])), *micro[1:])
        if isinstance(micro, tuple) and micro
        else micro
        for micro in value
    )


def _check_offset(offset: Value, event: Event, path: Path) -> Value:
    if isinstance(offset, int) and not 0 <= offset <= TIME_MAX:
        problem = f"the offset or limit {excerpt(str(offset))} is none"
        refuse(path, event.line, problem, f"give one from 0 to {TIME_MAX} (TIME_MAX)")
    return offset


def _word(value: Value) -> Value:
    return value.name if isinstance(value, Keyword) else value
