"""The single runs of the searches, which the kernels put together: each of them must be right alone.

Small histories are decided by the first run nearly always, so that the others would hardly be tested.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from nemesis.checks.verdict import Verdict
from nemesis.linearizability.beam import Answer, Beam
from nemesis.linearizability.forms import RegisterForm, RegisterKind
from nemesis.linearizability.model import Model, relevant
from nemesis.linearizability.operations import Operation, Outcome
from nemesis.linearizability.register_events import RegisterEvents, encode
from nemesis.linearizability.register_search import START, RegisterWalker, relaxed_run
from nemesis.linearizability.search import ModelWalker
from nemesis.linearizability.slots import ordered_events

ROOM = 200_000
WIDTHS = (1, 2, 3, 128)
VERDICTS = {Answer.YES: Verdict.VALID, Answer.NO: Verdict.INVALID}


def verdicts_of_runs(history: Sequence[Operation], model: Model) -> Iterator[tuple[str, Verdict]]:
    """Every run that decides ``history``, of one object, and its verdict."""
    operations = relevant(history, model)
    events = ordered_events(operations)
    for width in WIDTHS[:2]:
        walker = ModelWalker(operations, model, events, ROOM)
        beam = Beam(walker=walker, events=events, stop=len(events), width=width, room=ROOM, waiting_max=ROOM)
        if (answer := beam.walk((model.initial(), 0, 0)).answer) is not Answer.UNDECIDED:
            yield f"model-beam-{width}", VERDICTS[answer]
    arrays = register_events(operations, model)
    if arrays is None:
        return
    if (answer := relaxed_run(arrays, ROOM).answer) is not Answer.UNDECIDED:
        yield "relaxed", VERDICTS[answer]
    for width in WIDTHS:
        beam_of_register = Beam(
            walker=RegisterWalker(arrays, ROOM),
            events=arrays.events,
            stop=len(arrays.events),
            width=width,
            room=ROOM,
            waiting_max=ROOM,
        )
        if (answer := beam_of_register.walk(START).answer) is not Answer.UNDECIDED:
            yield f"register-beam-{width}", VERDICTS[answer]


def register_events(operations: Sequence[Operation], model: Model) -> RegisterEvents | None:
    """The arrays of a register's history; None if it is none of a register."""
    kept: list[Operation] = []
    forms: list[RegisterForm] = []
    for operation in operations:
        form = model.form(operation)
        if not isinstance(form, RegisterForm):
            return None
        if operation.outcome is Outcome.OK or form.kind in {RegisterKind.WRITE, RegisterKind.CAS}:
            kept.append(operation)
            forms.append(form)
    return encode(kept, forms, model.register_initial())
