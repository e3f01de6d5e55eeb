"""Histories written by hand: a few words per operation.

In ``sequence("0 write 1; 0 ok; 1 read; 1 ok 1")`` an invocation is a process, a name and what is asked; an end is a
process, ``ok``, ``fail`` or ``info``, and what came back.
"""

from __future__ import annotations

from ast import literal_eval

from nemesis.linearizability.operations import Operation, Outcome, Value


def sequence(events: str) -> list[Operation]:
    """The operations of ``events``, on one key; what has no end is unknown."""
    begun: dict[str, tuple[int, str, Value]] = {}
    done: list[Operation] = []
    for at, event in enumerate(events.split(";")):
        process, word, *rest = event.split(maxsplit=2)
        value: Value = literal_eval(rest[0]) if rest else None
        if word not in {"ok", "fail", "info"}:
            assert process not in begun, f"process {process} is not free for {event!r}"
            begun[process] = (at, word, value)
            continue
        done.append(_operation(process, begun.pop(process), Outcome(word), value, at))
    done += [_operation(process, asked, Outcome.INFO, None, 0) for process, asked in begun.items()]
    return sorted(done, key=lambda op: op.invoked)


def _operation(process: str, asked: tuple[int, str, Value], outcome: Outcome, result: Value, at: int) -> Operation:
    invoked, f, argument = asked
    return Operation(
        process=process,
        f=f,
        key=None,
        argument=argument,
        result=result,
        outcome=outcome,
        invoked=invoked,
        returned=None if outcome is Outcome.INFO else at,
        line=invoked + 1,
    )
