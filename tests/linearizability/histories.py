"""Random histories of each object, right ones and spoiled ones, for the fuzzers and the tests.

A right one is a simulation: each operation takes effect on one object, of the oracle's kind, at a random moment between
its invocation and its return. Some never return, some of those never take effect, some fail. A spoiled one has some of
its answers or moments changed, and may or may not be right.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from random import Random
from typing import Any

from nemesis.linearizability.operations import Operation, Outcome, Value
from tests.linearizability.oracle import SPECS, CannotBeError

Asked = tuple[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Shape:
    """What random histories look like: probabilities, and how many values there are (0: each is written once).

    ``begin`` is the probability that the next event is an invocation, which makes for concurrency. ``read`` is that of
    an operation to be a read, beyond its share, and ``late`` that of an unknown operation to take effect at all.
    """

    operations: int
    processes: int
    values: int
    unknown: float
    failed: float
    spoiled: float
    begin: float = 0.4
    read: float = 0.0
    late: float = 0.5


def random_shape(random: Random, operations_max: int = 7) -> Shape:
    """A shape that is small enough for the oracle."""
    return Shape(
        operations=random.choice((random.randint(1, operations_max), operations_max)),
        processes=random.randint(1, 6),
        values=random.choice((0, 1, 2, 2, 3)),
        unknown=random.choice((0, 0.15, 0.4)),
        failed=random.choice((0, 0, 0.15)),
        spoiled=random.choice((0, 1, 1)),
        begin=random.choice((0.2, 0.4, 0.7)),
        read=random.choice((0, 0.2, 0.4)),
        late=random.choice((0.5, 0.9)),
    )


def large_shape(random: Random) -> Shape:
    """A shape that is too large for the oracle, and small enough for every search."""
    return Shape(
        operations=random.randint(40, 150),
        processes=random.randint(2, 6),
        values=random.choice((0, 2, 3, 5)),
        unknown=random.choice((0, 0.02, 0.1)),
        failed=random.choice((0, 0.1)),
        spoiled=random.choice((0, 1)),
    )


class _Values:
    """What is written: a few values, or each its own."""

    def __init__(self, random: Random, count: int) -> None:
        self._random, self._count, self._last = random, count, 0

    def fresh(self) -> int:
        self._last += 1
        return self._random.randint(1, self._count) if self._count else self._last

    def known(self) -> int:
        return self._random.randint(1, self._count or self._last or 1)

    def unique(self) -> int:
        self._last += 1
        return self._last


def _ask_register(random: Random, values: _Values) -> Asked:
    return random.choice((("read", None), ("write", values.fresh())))


def _ask_cas_register(random: Random, values: _Values) -> Asked:
    return random.choice((("read", None), ("write", values.fresh()), ("cas", (values.known(), values.fresh()))))


def _ask_multi_register(random: Random, values: _Values) -> Asked:
    micros = [(random.choice("rw"), random.choice("ab"), values.fresh()) for _ in range(random.randint(1, 2))]
    return "txn", tuple((a, name, value if a == "w" else None) for a, name, value in micros)


def _ask_key_value(random: Random, values: _Values) -> Asked:
    f = random.choice(("get", "put", "get-versioned", "cas", "cas-version", "delete", "increment"))
    match f:
        case "put":
            return f, values.fresh()
        case "cas":
            return f, (values.known(), values.fresh())
        case "cas-version":
            return f, (random.randint(0, 2), values.fresh())
        case "increment":
            return f, random.randint(1, 2)
        case _:
            return f, None


def _ask_text_store(random: Random, values: _Values) -> Asked:
    f = random.choice(("get", "put", "append"))
    return f, None if f == "get" else str(values.fresh())


def _ask_simple_key_value(random: Random, values: _Values) -> Asked:
    f, argument = _ask_key_value(random, values)
    return (f, argument) if f in {"get", "put", "cas", "delete"} else ("get", None)


def _ask_mutex(random: Random, values: _Values) -> Asked:
    return random.choice((("acquire", None), ("release", None)))


def _ask_queue(random: Random, values: _Values) -> Asked:
    return random.choice((("enqueue", values.fresh()), ("dequeue", None)))


def _ask_set(random: Random, values: _Values) -> Asked:
    return random.choice((("add", values.fresh()), ("read", None)))


def _ask_unique_set(random: Random, values: _Values) -> Asked:
    return random.choice((("add", values.unique()), ("read", None)))


def _ask_counter(random: Random, values: _Values) -> Asked:
    return random.choice((("add", random.choice((-1, 1, 2))), ("increment", random.randint(1, 2)), ("read", None)))


def _ask_log(random: Random, values: _Values) -> Asked:
    if random.random() < 0.5:
        return "append", values.unique()
    stale = (True,) if random.random() < 0.3 else ()
    return "fetch", (random.randint(0, 3), random.choice((1, 2, 10, None)), *stale)


def _ask_batched_log(random: Random, values: _Values) -> Asked:
    if random.random() < 0.3:
        return "append", tuple(values.unique() for _ in range(random.randint(1, 3)))
    return _ask_log(random, values)


def _ask_list(random: Random, values: _Values) -> Asked:
    return random.choice((("append", values.unique()), ("read", None)))


ASK: dict[str, tuple[str, Callable[[Random, _Values], Asked]]] = {
    "register": ("register", _ask_register),
    "cas-register": ("cas-register", _ask_cas_register),
    "cas-register-wild": ("cas-register", _ask_cas_register),
    "multi-register": ("multi-register", _ask_multi_register),
    "kv": ("kv", _ask_key_value),
    "kv-simple": ("kv", _ask_simple_key_value),
    "text-kv": ("text-kv", _ask_text_store),
    "mutex": ("mutex", _ask_mutex),
    "lock": ("lock", _ask_mutex),
    "queue": ("queue", _ask_queue),
    "set": ("set", _ask_set),
    "set-unique": ("set", _ask_unique_set),
    "counter": ("counter", _ask_counter),
    "log": ("log", _ask_log),
    "log-unseen": ("log", _ask_log),
    "log-batches": ("log", _ask_batched_log),
    "log-wild": ("log", _ask_log),
    "log-batches-wild": ("log", _ask_batched_log),
    "list": ("list", _ask_list),
}
"""By the name of a workload: its model, and what a client asks next."""
UNSEEN = frozenset({"log-unseen", "log-batches"})
"""Workloads in which some acknowledged appends do not tell their offset."""


def random_history(workload: str, random: Random, shape: Shape) -> list[Operation]:
    """One history, in the order of invocations, with one key."""
    if workload == "cas-register-wild":
        return _wild_register_history(random, shape.operations)
    if workload in {"log-wild", "log-batches-wild"}:
        return _wild_log_history(random, shape.operations, records_max=3 if "batches" in workload else 1)
    operations = _Simulation(workload, random, shape).run()
    if random.random() < shape.spoiled:
        for _ in range(random.randint(1, 4)):
            _spoil(operations, random)
    return sorted(operations, key=lambda op: op.invoked)


def _wild_register_history(random: Random, count: int) -> list[Operation]:
    """Operations at any time with any answer of very few: hardly any is right, and all kinds of wrong ones are there.

    What a search may and may not leave out shows where much is pending and values come again.
    """
    times = list(range(2 * count))
    if random.random() < 0.5:
        random.shuffle(times)
    else:  # more of them one after another
        times.sort(key=lambda time: time + random.uniform(0, 6))
    values = random.choice((2, 2, 3))
    unknown = random.choice((0, 0.2, 0.35))
    operations: list[Operation] = []
    for process in range(count):
        invoked, returned = sorted(times[2 * process : 2 * process + 2])
        f = random.choice(("read", "read", "write", "write", "cas"))
        value, new = random.randint(1, values), random.randint(1, values)
        outcome = Outcome.INFO if f != "read" and random.random() < unknown else Outcome.OK
        if f == "cas" and random.random() < 0.2:
            outcome = Outcome.FAIL
        operations.append(
            Operation(
                process=process,
                f=f,
                key=None,
                argument={"read": None, "write": value, "cas": (value, new)}[f],
                result=value if f == "read" else None,
                outcome=outcome,
                invoked=invoked,
                returned=None if outcome is Outcome.INFO else returned,
                line=invoked + 1,
            )
        )
    return sorted(operations, key=lambda op: op.invoked)


def _wild_log_history(random: Random, count: int, records_max: int) -> list[Operation]:
    """Operations on one log, whose offsets few are told, at about the time at which they took effect, or at any.

    There are holes beside appends of unknown offset, which may stand in them or not.
    """
    times = list(range(2 * count))
    times.sort(key=lambda time: time + random.uniform(0, random.choice((0, 6, 100))))
    told, unknown, reads = random.choice((0.2, 0.5)), random.choice((0, 0.2, 0.4)), random.choice((0.2, 0.4))
    log: list[Value] = []
    values = 1
    operations: list[Operation] = []
    argument: Value
    result: Value
    for process in range(count):
        invoked, returned = sorted(times[2 * process : 2 * process + 2])
        base = len(log)
        if random.random() < reads:
            first, limit = random.randint(0, base + 1), random.choice((1, 2, None))
            f, argument = "fetch", (first, limit)
            result = tuple(log[first : None if limit is None else first + limit])
            outcome = Outcome.OK
        else:
            records = tuple(range(values, values + random.randint(1, records_max)))
            values += len(records)
            f, argument = "append", records if len(records) > 1 else records[0]
            outcome = Outcome.INFO if random.random() < unknown else Outcome.OK
            result = base if outcome is Outcome.OK and random.random() < told else None
            if outcome is Outcome.OK or random.random() < 0.7:
                log += records
        operations.append(
            Operation(
                process=process,
                f=f,
                key=None,
                argument=argument,
                result=result,
                outcome=outcome,
                invoked=invoked,
                returned=None if outcome is Outcome.INFO else returned,
                line=invoked + 1,
            )
        )
    return sorted(operations, key=lambda op: op.invoked)


class _Simulation:
    def __init__(self, workload: str, random: Random, shape: Shape) -> None:
        self._model, self._ask = ASK[workload]
        self._spec, self._state = SPECS[self._model]
        self._random, self._shape = random, shape
        self._values = _Values(random, shape.values)
        self._untold = {"increment", "append"} if workload in UNSEEN else {"increment"}
        self._now = 0
        self._free = list(range(shape.processes))
        self._next_process = shape.processes
        self._pending: list[dict[str, Any]] = []
        self._done: list[Operation] = []

    def run(self) -> list[Operation]:
        left = self._shape.operations
        while left or self._pending:
            if left and self._free and (not self._pending or self._random.random() < self._shape.begin):
                left -= 1
                self._invoke()
            elif self._pending:
                self._move(self._random.choice(self._pending))
        return self._done

    def _tick(self) -> int:
        self._now += 1
        return self._now - 1

    def _invoke(self) -> None:
        f, argument = self._ask(self._random, self._values)
        if self._random.random() < self._shape.read:
            f, argument = self._read(f, argument)
        process = self._free.pop(self._random.randrange(len(self._free)))
        dice = self._random.random()
        fate = Outcome.INFO if dice < self._shape.unknown else Outcome.OK
        if 1 - dice < self._shape.failed:
            fate = Outcome.FAIL
        lost = fate is Outcome.FAIL or (fate is Outcome.INFO and self._random.random() >= self._shape.late)
        self._pending.append(
            {
                "process": process,
                "f": f,
                "argument": argument,
                "fate": fate,
                "at": self._tick(),
                "lost": lost,
                "r": None,
            }
        )

    def _read(self, f: str, argument: Any) -> Asked:
        """A read in the place of another operation, of objects that have plain ones."""
        match self._model:
            case "register" | "cas-register" | "set" | "counter" | "list":
                return "read", None
            case "kv" | "text-kv":
                return "get", None
            case "log":
                return "fetch", (0, None)
            case _:
                return f, argument

    def _move(self, op: dict[str, Any]) -> None:
        """One thing happens to ``op``: it takes effect, or it ends."""
        if not op["lost"]:
            op["lost"] = True
            try:
                self._state, op["r"] = self._spec(self._state, op["f"], op["argument"], op["process"])
            except CannotBeError:
                op["fate"] = Outcome.INFO if op["fate"] is Outcome.INFO else Outcome.FAIL
                seen = op["f"].startswith("cas") and self._random.random() < 0.5
                op["r"] = self._seen(op["f"]) if seen else None
            return
        self._pending.remove(op)
        unknown = op["fate"] is Outcome.INFO
        self._done.append(
            Operation(
                process=op["process"],
                f=op["f"],
                key=None,
                argument=op["argument"],
                result=None if unknown else self._result(op),
                outcome=op["fate"],
                invoked=op["at"],
                returned=None if unknown else self._tick(),
                line=op["at"] + 1,
            )
        )
        if unknown:
            self._next_process += 1
        self._free.append(self._next_process if unknown else op["process"])

    def _seen(self, f: str) -> Value:
        if isinstance(self._state, tuple):
            value, version = self._state
            return (value, version) if f == "cas-version" else value
        state: Value = self._state
        return state

    def _result(self, op: dict[str, Any]) -> Value:
        """What the client is told; sometimes not the offset or the new number."""
        result: Value = tuple(sorted(op["r"])) if isinstance(op["r"], frozenset) else op["r"]
        if op["f"] == "fetch" and len(op["argument"]) == 3 and isinstance(result, tuple):
            return result[: self._random.randint(0, len(result))]
        if op["f"] in self._untold and self._random.random() < 0.3:
            return None
        return result


def _spoil(operations: list[Operation], random: Random) -> None:
    """Change one thing: an answer, what was asked, how it ended, or when."""
    place = random.randrange(len(operations))
    op = operations[place]
    match random.randrange(5):
        case 0 | 1 if op.outcome is Outcome.OK:
            operations[place] = replace(op, result=_other(op.f, op.result, random))
        case 2 if op.outcome is Outcome.OK and op.f not in {"read", "get", "fetch", "txn", "dequeue", "get-versioned"}:
            operations[place] = replace(op, outcome=Outcome.FAIL, result=None)
        case 3 if op.returned is not None:
            _swap_times(operations, place, random)
        case _:
            other = random.choice(operations)
            if other.f == op.f and other.outcome is op.outcome is Outcome.OK and _asked_alike(op, other):
                operations[place] = replace(op, result=other.result)


def _asked_alike(op: Operation, other: Operation) -> bool:
    """Whether the answer to one could be the answer to the other: transactions repeat what was asked."""
    return op.f != "txn" or op.argument == other.argument


def _swap_times(operations: list[Operation], place: int, random: Random) -> None:
    """Two operations of the same outcome happen at each other's time."""
    op, at = operations[place], random.randrange(len(operations))
    other = operations[at]
    if other.returned is not None and at != place:
        operations[place] = replace(op, invoked=other.invoked, returned=other.returned)
        operations[at] = replace(other, invoked=op.invoked, returned=op.returned)


def _other(f: str, result: Value, random: Random) -> Value:
    match result:
        case int():
            return max(0, result + random.choice((-1, 1)))
        case tuple() if f == "txn":
            return tuple((a, n, random.randint(1, 3) if a == "r" else value) for a, n, value in result)
        case tuple() if f == "get-versioned":
            return (result[0], random.randint(0, 3))
        case tuple() if result:
            items = list(result)
            match random.randrange(3):
                case 0:
                    items.pop(random.randrange(len(items)))
                case 1:
                    items[random.randrange(len(items))] = random.randint(1, 4)
                case _:
                    random.shuffle(items)
            return tuple(items)
        case str():
            return random.choice((result[:-1], f"{result}1", result[::-1]))
        case None if f in {"read", "get", "dequeue"}:
            return random.randint(1, 3)
        case _:
            return result
