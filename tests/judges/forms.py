"""Every model with every form of the values that it takes: what the judges of many objects are fuzzed with.

A history is drawn with small numbers, right or spoiled, and then written in its form: an operation by an operation, so
that the oracle and the judges see the same. A kind is a model and a form; a test holds that every model is there.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from random import Random
from typing import Any

from nemesis.formats.values import Keyword, Truth
from nemesis.linearizability.model import Model
from nemesis.linearizability.models.registry import load_model
from nemesis.linearizability.operations import Operation, Outcome, Value
from tests.linearizability.histories import ASK, Shape, random_history
from tests.linearizability.oracle import SPECS, linearizable

Form = Callable[[Operation, Random], Operation]
Renaming = Callable[[Value], Value]
FIRST = 9
"""What a register begins with that does not begin with nil."""
HUGE = (0, -(2**63), 2**63, -(2**63) + 1, 2**70, 2**63 - 1, -(2**70), -1)
ODD: tuple[Value, ...] = (0, Truth.TRUE, Keyword("a"), "a", 1, "1", "", Truth.FALSE, 0.5)
OPERATIONS = (4, 10)


def of_values(rename: Renaming, *, read: Renaming | None = None) -> Form:
    """The form in which every value is what ``rename`` makes of it; ``read`` does so with what a register returns."""

    def form(op: Operation, random: Random) -> Operation:
        argument, result = _renamed(op.f, op.argument, op.result, rename)
        if read is not None and op.f == "read" and op.outcome is Outcome.OK:
            result = read(op.result)
        return replace(op, argument=argument, result=result)

    return form


def _renamed(f: str, argument: Any, result: Any, rename: Renaming) -> tuple[Value, Value]:
    def told(value: Any) -> Value:
        return tuple(map(told, value)) if isinstance(value, tuple) else rename(value)

    match f:
        case "cas-version":
            return (argument[0], told(argument[1])), None if result is None else (told(result[0]), result[1])
        case "get-versioned":
            return argument, None if result is None else (told(result[0]), result[1])
        case "append":
            return told(argument), result
        case "fetch":
            return argument, told(result)
        case "txn":
            return tuple((a, name, told(value)) for a, name, value in argument), result and tuple(
                (a, name, told(value)) for a, name, value in result
            )
        case "increment":
            return argument, result
        case _:
            return told(argument), told(result)


def _of_number(rename: Callable[[int], Value]) -> Form:
    return of_values(lambda value: rename(value) if isinstance(value, int) else value)


def acknowledged(op: Operation, random: Random) -> Operation:
    """An append's offset with what was appended, or the first of that, be the offset unknown."""
    if op.f != "append" or op.outcome is not Outcome.OK or random.random() < 0.3:
        return op
    is_first_told = isinstance(op.argument, tuple) and random.random() < 0.5
    told = op.argument[0] if is_first_told and isinstance(op.argument, tuple) else op.argument
    return replace(op, result=(op.result, told))


def acknowledged_texts(op: Operation, random: Random) -> Operation:
    """The same of texts, nil and numbers."""
    return acknowledged(FORMS["some-nil"](FORMS["some-texts"](op, random), random), random)


def acknowledged_as_another(op: Operation, random: Random) -> Operation:
    """The same, and now and then of a record that was not appended."""
    told = acknowledged(op, random)
    return replace(told, result=(op.result, 99)) if told is not op and random.random() < 0.2 else told


def acknowledged_as_other_texts(op: Operation, random: Random) -> Operation:
    """The same of texts, nil and numbers."""
    return acknowledged_as_another(FORMS["some-nil"](FORMS["some-texts"](op, random), random), random)


def cut_short(op: Operation, random: Random) -> Operation:
    """A fetch lacks its last record now and then: that may be the end of a batch, or what nobody has acknowledged."""
    is_cut = op.f == "fetch" and isinstance(op.result, tuple) and random.random() < 0.3
    return replace(op, result=op.result[:-1]) if is_cut and isinstance(op.result, tuple) else op


def by_words(op: Operation, random: Random) -> Operation:
    """Processes with names, of which one is a number."""
    names = (0, "1", Keyword("worker"), "b", None, 5.5)
    process = int(str(op.process))
    return replace(op, process=names[process] if process < len(names) else f"p{process}")


def fractions(op: Operation, random: Random) -> Operation:
    """Now and then a number is told as one with a fraction, which is equal."""
    return _of_number(lambda value: float(value) if random.random() < 0.5 else value)(op, random)


def nothing_as_nil(op: Operation, random: Random) -> Operation:
    """A read of nothing returns nil now and then."""
    return replace(op, result=None) if op.result in ((), "") and random.random() < 0.7 else op


def as_sets(op: Operation, random: Random) -> Operation:
    """A read returns a set, where that can tell the same."""
    result = op.result
    is_told = isinstance(result, tuple) and len(set(result)) == len(result)
    return replace(op, result=frozenset(result)) if is_told and isinstance(result, tuple) else op


def empty_fails(op: Operation, random: Random) -> Operation:
    """A dequeue of nothing fails, and says so; another one that fails says nothing."""
    if op.f != "dequeue" or op.result is not None or op.outcome is not Outcome.OK:
        return op
    return replace(op, outcome=Outcome.FAIL, result="empty")


def scaled(op: Operation, random: Random) -> Operation:
    """A counter's numbers beyond 64 bits."""
    return replace(op, argument=_scaled(op.argument), result=_scaled(op.result))


def _scaled(value: Any) -> Value:
    return value if value is None else value * 2**62


def ones_untold(op: Operation, random: Random) -> Operation:
    """An amount of one is not told."""
    return replace(op, argument=None) if op.argument == 1 else op


FORMS: Mapping[str, Form] = {
    "numbers": of_values(lambda value: value),
    "texts": _of_number(lambda value: f"t{value}"),
    "some-texts": _of_number(lambda value: f"t{value}" if value % 2 else value),
    "some-nil": of_values(lambda value: None if value in (1, "t1") else value),
    "huge": _of_number(lambda value: HUGE[value] if 0 <= value < len(HUGE) else value),
    "odd": _of_number(lambda value: ODD[value] if 0 <= value < len(ODD) else value),
    "twice": _of_number(lambda value: value % 3),
    "fractions": fractions,
    "words": by_words,
    "acknowledged": acknowledged,
    "acknowledged-texts": acknowledged_texts,
    "acknowledged-as-another": acknowledged_as_another,
    "acknowledged-as-other-texts": acknowledged_as_other_texts,
    "cut-short": cut_short,
    "nothing-as-nil": nothing_as_nil,
    "sets": as_sets,
    "empty-fails": empty_fails,
    "scaled": scaled,
    "ones-untold": ones_untold,
    "begins-with-a-number": of_values(lambda value: value, read=lambda value: FIRST if value is None else value),
    "begins-with-a-text": of_values(lambda value: value, read=lambda value: str(FIRST) if value is None else value),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Kind:
    """A model and a form. ``workload`` draws the history; ``options`` are the model's."""

    model: str
    name: str
    form: str
    workload: str
    read: float | None = None
    options: Mapping[str, Any] = field(default_factory=dict)

    def __str__(self) -> str:
        return f"{self.model}/{self.name}"

    def judge(self) -> Model:
        """The model of the judges."""
        return load_model(self.model, **self.options)

    def is_right(self, history: list[Operation]) -> bool:
        """What the oracle says."""
        strict, initial = self.options.get("failed_cas_is_read", False), self.options.get("initial")
        return linearizable(history, self.model, strict_cas=strict, initial=initial)

    def history(self, seed: int, number: int) -> list[Operation]:
        """The history of this number, of object ``number``."""
        random = Random(f"{self} {seed} {number}")
        shape = _shape(random)
        shape = shape if self.read is None else replace(shape, read=self.read)
        drawn = random_history(self.workload, random, shape)
        slower = random.choice((1, 1, 1, 2, 4))
        form = FORMS[self.form]
        return [
            replace(
                form(op, random),
                key=number,
                line=line,
                invoked=op.invoked // slower,
                returned=None if op.returned is None else op.returned // slower,
            )
            for line, op in enumerate(drawn, 1)
        ]


def _shape(random: Random) -> Shape:
    return Shape(
        operations=random.randint(*OPERATIONS),
        processes=random.randint(1, 4),
        values=random.choice((0, 0, 2, 3)),
        unknown=random.choice((0, 0, 0.1, 0.3)),
        failed=random.choice((0, 0, 0.15)),
        spoiled=random.choice((0, 1)),
        begin=random.choice((0.1, 0.3, 0.6)),
        read=random.choice((0, 0.2)),
        late=random.choice((0.5, 0.9)),
    )


_VALUES = ("numbers", "texts", "some-texts", "some-nil", "huge", "odd", "fractions", "words")
_ACKNOWLEDGED = ("acknowledged", "acknowledged-texts", "acknowledged-as-another", "acknowledged-as-other-texts")
_BEGINNINGS = {"begins-with-a-number": FIRST, "begins-with-a-text": str(FIRST)}
_PLAIN = {
    "register": _VALUES,
    "cas-register": _VALUES,
    "multi-register": ("numbers", "texts", "some-nil", "huge", "odd", "words"),
    "kv": ("numbers", "texts", "some-nil", "huge", "fractions", "words"),
    "text-kv": ("numbers", "nothing-as-nil", "words"),
    "mutex": ("numbers", "words"),
    "lock": ("numbers", "words"),
    "queue": ("numbers", "texts", "some-texts", "huge", "odd", "fractions", "words", "empty-fails"),
    "set": (*_VALUES, "nothing-as-nil", "sets"),
    "counter": ("numbers", "scaled", "ones-untold", "words"),
    "list": (*_VALUES, "nothing-as-nil", "twice"),
    "log": (*_VALUES, *_ACKNOWLEDGED, "twice"),
}


def _kinds() -> list[Kind]:
    kinds = [
        Kind(model=model, name=form, form=form, workload=model) for model, forms in _PLAIN.items() for form in forms
    ]
    for model in ("register", "cas-register"):
        for form, first in _BEGINNINGS.items():
            kinds.append(Kind(model=model, name=form, form=form, workload=model, options={"initial": first}))
    strict = {"failed_cas_is_read": True}
    kinds += [
        Kind(model="cas-register", name="misses-tell", form="numbers", workload="cas-register", options=strict),
        Kind(model="cas-register", name="misses-tell-texts", form="texts", workload="cas-register", options=strict),
        Kind(model="cas-register", name="wild", form="numbers", workload="cas-register-wild"),
        Kind(model="cas-register", name="wild-texts", form="some-texts", workload="cas-register-wild"),
        Kind(model="kv", name="misses-tell", form="numbers", workload="kv", options=strict),
        Kind(model="kv", name="simple", form="numbers", workload="kv-simple"),
        Kind(model="kv", name="simple-texts", form="some-texts", workload="kv-simple"),
    ]
    for workload in ("log-unseen", "log-batches", "log-wild", "log-batches-wild"):
        name = workload.removeprefix("log-")
        kinds += [
            Kind(model="log", name=name, form="numbers", workload=workload),
            *(Kind(model="log", name=f"{name}-{form}", form=form, workload=workload) for form in _ACKNOWLEDGED),
        ]
    kinds += [
        Kind(model="log", name="batches-words", form="words", workload="log-batches"),
        Kind(model="log", name="batches-twice", form="twice", workload="log-batches"),
        Kind(model="log", name="cut-short", form="cut-short", workload="log-batches", read=0.3),
        Kind(model="log", name="read-whole", form="numbers", workload="log-batches", read=0.6),
        Kind(model="log", name="read-whole-texts", form="some-texts", workload="log-batches", read=0.6),
    ]
    return kinds


KINDS: Mapping[str, Kind] = {str(kind): kind for kind in _kinds()}
assert set(SPECS) == {kind.model for kind in KINDS.values()}, "every specification is drawn"
assert {kind.workload for kind in KINDS.values()} <= set(ASK), "every workload is known"
