"""A judge that tries every order: what the kernels are compared with.

Owns its own small specification of each object, written apart from the models, and the plainest search there is: take
any operation that nothing else precedes, see whether the object would have answered so, go on. It shares nothing but
``Operation`` with what it checks. For histories of up to about 12 operations. Source: Wing and Gong, "Testing and
verifying concurrent objects" (1993).
"""

from __future__ import annotations

import operator
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Any

from nemesis.linearizability.operations import Operation, Outcome

Spec = Callable[[Any, str, Any, Any], tuple[Any, Any]]
"""(state, f, argument, process) -> (state afterwards, what is returned); what cannot be raises ``CannotBeError``."""


class CannotBeError(Exception):
    """The object would not do this now."""


def register(state: Any, f: str, argument: Any, process: Any) -> tuple[Any, Any]:
    """Register and cas-register; a failed compare-and-set returns what it saw."""
    if f == "read":
        return state, state
    if f == "write":
        return argument, None
    assert f == "cas", f
    if state != argument[0]:
        raise CannotBeError
    return argument[1], None


def multi_register(state: Any, f: str, argument: Any, process: Any) -> tuple[Any, Any]:
    """Transactions over registers a, b, ...; the state is a dict as sorted items."""
    values = dict(state)
    result = []
    for action, name, value in argument:
        if action == "w":
            values[name] = value
        result.append((action, name, values.get(name)))
    return tuple(sorted(values.items())), tuple(result)


def key_value(state: Any, f: str, argument: Any, process: Any) -> tuple[Any, Any]:
    """One entry; the state is (value, version)."""
    value, version = state
    if f == "get":
        return state, value
    if f == "get-versioned":
        return state, state
    if f == "increment":
        if not isinstance(value, int | float | None):
            raise CannotBeError
        value = (value or 0) + (1 if argument is None else argument)
        return (value, version + 1), value
    if f.startswith("cas") and argument[0] != (value if f == "cas" else version):
        raise CannotBeError
    new = {"delete": None, "put": argument}.get(f, argument[1] if f.startswith("cas") else None)
    return ((None, 0) if new is None else (new, version + 1)), None


def text_store(state: Any, f: str, argument: Any, process: Any) -> tuple[Any, Any]:
    """A text, which is replaced or grows."""
    return {"get": state, "put": argument, "append": f"{state}{argument}"}[f], state if f == "get" else None


def mutex(state: Any, f: str, argument: Any, process: Any) -> tuple[Any, Any]:
    """Anyone may release."""
    if (f == "acquire") == state:
        raise CannotBeError
    return not state, None


def lock(state: Any, f: str, argument: Any, process: Any) -> tuple[Any, Any]:
    """Only the owner may release, whose name may be nil as well."""
    if state != (() if f == "acquire" else (process,)):
        raise CannotBeError
    return ((process,) if f == "acquire" else ()), None


def queue(state: Any, f: str, argument: Any, process: Any) -> tuple[Any, Any]:
    """First in, first out; an empty one gives None."""
    if f == "enqueue":
        return (*state, argument), None
    return state[1:], state[0] if state else None


def grow_set(state: Any, f: str, argument: Any, process: Any) -> tuple[Any, Any]:
    """Nothing is ever taken out."""
    return (state | {argument}, None) if f == "add" else (state, state)


def counter(state: Any, f: str, argument: Any, process: Any) -> tuple[Any, Any]:
    """Adds return nothing, increments the new number."""
    if f == "read":
        return state, state
    state += 1 if argument is None else argument
    return state, state if f == "increment" else None


def log(state: Any, f: str, argument: Any, process: Any) -> tuple[Any, Any]:
    """What a stale fetch may return is for ``_explained``."""
    if f == "append":
        return (*state, *(argument if isinstance(argument, tuple) else (argument,))), len(state)
    return state, state[argument[0] :][: argument[1]]


def append_list(state: Any, f: str, argument: Any, process: Any) -> tuple[Any, Any]:
    """Read whole."""
    return ((*state, argument), None) if f == "append" else (state, state)


SPECS: dict[str, tuple[Spec, Any]] = {
    "register": (register, None),
    "cas-register": (register, None),
    "multi-register": (multi_register, ()),
    "kv": (key_value, (None, 0)),
    "text-kv": (text_store, ""),
    "mutex": (mutex, False),
    "lock": (lock, ()),
    "queue": (queue, ()),
    "set": (grow_set, frozenset()),
    "counter": (counter, 0),
    "log": (log, ()),
    "list": (append_list, ()),
}
"""Each object's specification, and its first state."""


def linearizable(
    operations: Iterable[Operation],
    model: str,
    *,
    strict_cas: bool = False,
    initial: Any = None,
    few_unknown: bool = False,
) -> bool:
    """Whether some order explains every answer; ``strict_cas``: a failed compare-and-set saw another value.

    ``initial`` is the first state, if it is not that of the specification. With ``few_unknown`` orders with few of the
    unknown operations are tried before those with more: where most are unknown and states are few, there is an end.
    """
    spec, state = SPECS[model]
    asked = [op for op in operations if _counts(op, strict_cas)]
    return _search(spec, state if initial is None else initial, asked, few_unknown=few_unknown)


def states(operations: Iterable[Operation], model: str, *, strict_cas: bool = False) -> list[Any]:
    """Every state in which the object may be after ``operations``, perhaps more than once."""
    spec, state = SPECS[model]
    return list(_states(spec, state, [op for op in operations if _counts(op, strict_cas)]))


def prefix(operations: Iterable[Operation], end: int) -> list[Operation]:
    """What was known after the event at ``end``: what had not ended is unknown, unless it fails in the end."""
    begun = [op for op in operations if op.invoked <= end]
    ended = [op for op in begun if op.returned is not None and op.returned <= end]
    return ended + [
        replace(op, outcome=Outcome.INFO, result=None, returned=None)
        for op in begun
        if op not in ended and op.outcome is not Outcome.FAIL
    ]


def first_refuted(operations: Sequence[Operation], model: str, *, strict_cas: bool = False) -> int | None:
    """Where the shortest prefix ends that is not linearizable, of all of them; None if the whole is."""
    ends = sorted(op.returned for op in operations if op.returned is not None)
    return next((end for end in ends if not linearizable(prefix(operations, end), model, strict_cas=strict_cas)), None)


def _counts(op: Operation, strict_cas: bool) -> bool:
    return op.outcome is not Outcome.FAIL or _says_something(op, strict_cas)


def _says_something(op: Operation, strict_cas: bool) -> bool:
    if op.f == "dequeue":
        return op.result == "empty"
    return op.f.startswith("cas") and (strict_cas or op.result is not None)


def _search(spec: Spec, state: Any, asked: Sequence[Operation], *, few_unknown: bool) -> bool:
    """Whether all that is known to have happened can have.

    What was reached before with some of the unknown operations is not tried again with these and more.
    """
    unknown = sum(1 << k for k, op in enumerate(asked) if op.outcome is Outcome.INFO)
    tried: dict[tuple[int, Any], list[int]] = {}
    todo = deque([(state, 0)])
    while todo:
        state, done = todo.popleft()
        before = tried.setdefault((done & ~unknown, state), [])
        if any(used & done == used for used in before):
            continue
        before.append(done & unknown)
        left = [k for k in range(len(asked)) if not done >> k & 1]
        first_return = min((end for k in left if (end := asked[k].returned) is not None), default=None)
        if first_return is None:
            return True
        for k in reversed(left):
            if asked[k].invoked <= first_return:
                after = _after(spec, state, asked[k])
                if after is not None and few_unknown and unknown >> k & 1:
                    todo.append((after[0], done | 1 << k))
                elif after is not None:
                    todo.appendleft((after[0], done | 1 << k))
    return False


def _states(spec: Spec, state: Any, left: Sequence[Operation]) -> Iterator[Any]:
    if all(op.outcome is Outcome.INFO for op in left):
        yield state
    first_return = min((op.returned for op in left if op.returned is not None), default=None)
    for place, op in enumerate(left):
        if first_return is None or op.invoked < first_return:
            after = _after(spec, state, op)
            if after is not None:
                yield from _states(spec, after[0], [*left[:place], *left[place + 1 :]])


def _after(spec: Spec, state: Any, op: Operation) -> tuple[Any] | None:
    """The state after ``op``, in a tuple of one; None if it cannot have ended as it did."""
    if op.outcome is Outcome.FAIL:
        return (state,) if _failure_explained(state, op) else None
    try:
        after, result = spec(state, op.f, op.argument, op.process)
    except CannotBeError:
        return None
    if op.outcome is Outcome.INFO or _explained(op, result):
        return (after,)
    return None


def _explained(op: Operation, result: Any) -> bool:
    argument: Any = op.argument
    told: Any = op.result
    match op.f:
        case "append":
            offset, *record = told if isinstance(told, tuple) else (told,)
            batch = argument if isinstance(argument, tuple) else (argument,)
            is_own = record == [argument] or (all(map(operator.eq, record, batch)) and len(record) <= len(batch))
            return is_own and (offset is None or bool(offset == result))
        case "fetch" if len(argument) == 3 and argument[2]:
            return bool(result[: len(told)] == told)
        case "increment" if op.result is None:
            return True
        case "read" if told is None and result in ((), frozenset()):
            return True
        case "get" if told is None and result == "":
            return True
        case "read" if isinstance(result, frozenset):
            return told is not None and set(told) == result and len(told) == len(result)
        case _:
            return bool(result == op.result)


def _failure_explained(state: Any, op: Operation) -> bool:
    asked: Any = op.argument
    if op.f == "dequeue":
        return not state
    if op.f == "cas-version":
        return bool(state == op.result) if op.result is not None else bool(state[1] != asked[0])
    value = state[0] if isinstance(state, tuple) else state
    return bool(value == op.result) if op.result is not None else bool(value != asked[0])
