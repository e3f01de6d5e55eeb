"""The steps of a schedule as lines that a person reads and writes: ``1.5 inject 0 kill leader draw=123``.

Owns the grammar: the second, the action, then what the action needs. A fault is its kind, whom it is about, and its
other fields as ``key=value`` where they are not the usual ones. Writing and reading are inverse to one another.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, assert_never

from nemesis.faults.catalogue import FAULTS, fault_from_json
from nemesis.faults.fault import TARGETS, Fault, choices, hints
from nemesis.faults.targets import NAME_SIGN, Role, Target
from nemesis.schedules.schedule import Action, AwaitLeader, Heal, Inject, Name, Step


def line_of(step: Step) -> str:
    """The step as one line."""
    return " ".join((number_text(step.at_s), *_action_words(step.action)))


def step_of(line: str) -> Step:
    """Read what ``line_of`` wrote. Raises ``ValueError`` that says what would be right."""
    match line.split():
        case [at_s, "inject", fault_id, kind, *rest]:
            return Step(at_s=_second(at_s), action=_inject(fault_id, kind, rest))
        case [at_s, "heal", fault_id]:
            return Step(at_s=_second(at_s), action=Heal(fault_id=whole_number(fault_id, "the number of a fault")))
        case [at_s, "name", name, target, *rest]:
            draw = _fields(rest, _STEP_FIELDS).get("draw", 0)
            return Step(at_s=_second(at_s), action=Name(name=name, target=target_of(target), draw=draw))
        case [at_s, "await-leader", target, limit]:
            at_most_s = _fields([limit], {"at_most_s": _second})["at_most_s"]
            return Step(at_s=_second(at_s), action=AwaitLeader(target=target_of(target), at_most_s=at_most_s))
        case _:
            raise ValueError(f"{line!r} is no step: write such as '1.5 inject 0 kill leader' or '2.7 heal 0'")


def number_text(number: float) -> str:
    """The shortest text that is read as the same number."""
    return f"{int(number)}" if number == int(number) else repr(number)


def whole_number(text: str, what: str) -> int:
    """Read a number without a fraction."""
    try:
        return int(text)
    except ValueError:
        raise ValueError(f"{text!r} is not {what}: give a whole number") from None


def _second(text: str) -> float:
    try:
        second = float(text)
    except ValueError:
        second = math.nan
    if not 0 <= second < math.inf:
        raise ValueError(f"{text!r} is no time: give seconds from the start of the run, such as 1.5")
    return second


# --- actions --------------------------------------------------------------------------------------------------------


def _action_words(action: Action) -> Sequence[str]:
    match action:
        case Inject(fault_id=fault_id, fault=fault, draw=draw):
            return ("inject", f"{fault_id}", *_fault_words(fault), *_draw_words(draw))
        case Heal(fault_id=fault_id):
            return "heal", f"{fault_id}"
        case Name(name=name, target=target, draw=draw):
            return ("name", name, target, *_draw_words(draw))
        case AwaitLeader(target=target, at_most_s=at_most_s):
            return "await-leader", target, f"at_most_s={number_text(at_most_s)}"
        case _:
            assert_never(action)


def _draw_words(draw: int) -> Sequence[str]:
    return (f"draw={draw}",) if draw else ()


def _fault_words(fault: Fault) -> Sequence[str]:
    usual = _usual(fault.kind)
    fields = {name: value for name, value in fault.to_json().items() if usual.get(name) != value}
    words = [fields.pop("kind"), *([fields.pop("target")] if "target" in fields else [])]
    return [*words, *(f"{name}={value}" for name, value in fields.items())]


def _usual(kind: str) -> dict[str, Any]:
    """The fields of a kind of fault that need not be given, with their values then."""
    fields = dataclasses.fields(FAULTS[kind])
    return {field.name: field.default for field in fields if field.default is not dataclasses.MISSING}


def _inject(fault_id: str, kind: str, rest: Sequence[str]) -> Inject:
    if kind not in FAULTS:
        raise ValueError(f"{kind!r} is no fault: give one of {', '.join(FAULTS)}")
    words = [word for word in rest if "=" not in word]
    known = _reading(FAULTS[kind])
    names = tuple(known)
    keyed = {name: read for name, read in known.items() if name != "target"}
    fields = _fields([word for word in rest if "=" in word], {**keyed, **_STEP_FIELDS})
    if len(words) > ("target" in names):
        raise ValueError(f"{words[-1]!r} is one word too many for {kind}: give its other fields as key=value")
    draw = fields.pop("draw", 0)
    if words:
        fields["target"] = target_of(words[0])
    missing = [name for name in names if name not in fields and name not in _usual(kind)]
    if missing:
        raise ValueError(f"{kind} lacks its {missing[0]}: write such as '{_example(kind)}'")
    fault = fault_from_json({"kind": kind, **fields})
    return Inject(fault_id=whole_number(fault_id, "the number of a fault"), fault=fault, draw=draw)


def _example(kind: str) -> str:
    fault = FAULTS[kind]
    names = [name for name in hints(fault) if name not in _usual(kind) and name != "target"]
    words = {name: choices(fault).get(name, ("leader" if name in TARGETS else "10",))[0] for name in names}
    target = [Role.LEADER.value] if "target" in hints(fault) else []
    return " ".join((kind, *target, *(f"{name}={word}" for name, word in words.items())))


# --- fields ---------------------------------------------------------------------------------------------------------

Reading = Mapping[str, Callable[[str], Any]]
"""How the text of each field is read, by its name."""


def _reading(fault: type[Fault]) -> dict[str, Callable[[str], Any]]:
    return {name: _reader(fault, name, hint) for name, hint in hints(fault).items()}


def _reader(fault: type[Fault], name: str, hint: Any) -> Callable[[str], Any]:
    if name in TARGETS:
        return target_of
    if hint is int:
        return lambda text: whole_number(text, f"a {name}")
    words = {"True": True, "False": False} if hint is bool else {word: word for word in choices(fault)[name]}
    return lambda text: _one_of(words, text, name)


def _one_of(words: Mapping[str, Any], text: str, name: str) -> Any:
    if text not in words:
        raise ValueError(f"{text!r} is no {name}: give one of {', '.join(words)}")
    return words[text]


def _fields(words: Sequence[str], known: Reading) -> dict[str, Any]:
    fields: dict[str, Any] = {}
    for word in words:
        name, sign, text = word.partition("=")
        if name not in known or not sign:
            raise ValueError(f"{word!r} does not belong here: give {', '.join(f'{one}=' for one in known)} or nothing")
        fields[name] = known[name](text)
    return fields


def target_of(word: str) -> Target:
    """Read whom a fault is about."""
    if word.startswith(NAME_SIGN):
        return word
    if word not in tuple(Role):
        raise ValueError(f"{word!r} is no target: give {', '.join(Role)} or {NAME_SIGN}name")
    return Role(word)


_STEP_FIELDS: Reading = {"draw": lambda text: whole_number(text, "a draw")}
