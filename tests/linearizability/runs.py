"""The single kernels, and the single runs of the searches that they put together: each of them must be right alone.

Small histories are decided by the first run nearly always, so that the others would hardly be tested.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Sequence

from nemesis.linearizability.beam import Answer, Beam, Effort
from nemesis.linearizability.case import case_of
from nemesis.linearizability.evidence import explained
from nemesis.linearizability.forms import EVER, RegisterForm, RegisterKind
from nemesis.linearizability.judgement import Budget, KeyJudgement
from nemesis.linearizability.kernel import KERNELS
from nemesis.linearizability.model import Model, relevant
from nemesis.linearizability.operations import Operation, Outcome
from nemesis.linearizability.register_events import RegisterEvents, encode
from nemesis.linearizability.register_search import START, RegisterWalker, outline_run, relaxed_run
from nemesis.linearizability.search import ModelWalker
from nemesis.linearizability.slots import ordered_events
from nemesis.verdict import Verdict

ROOM = 200_000
WIDTHS = (1, 2, 3, 128)
VERDICTS = {Answer.YES: Verdict.VALID, Answer.NO: Verdict.INVALID}


def verdicts_of_runs(history: Sequence[Operation], model: Model) -> Iterator[tuple[str, Verdict]]:
    """Every run that decides ``history``, of one object, and its verdict."""
    operations = relevant(history, model)
    events = ordered_events(operations)
    for width in WIDTHS[:2]:
        walker = ModelWalker(operations, model, events, Effort(room=ROOM))
        beam = Beam(walker=walker, events=events, stop=len(events), width=width)
        if (answer := beam.walk((model.initial(), 0, 0)).answer) is not Answer.UNDECIDED:
            yield f"model-beam-{width}", VERDICTS[answer]
    for spare, enough in ((None, 1), (None, 3), (0, EVER), (1, EVER), (None, EVER)):
        walker = ModelWalker(operations, model, events, Effort(room=ROOM, held_max=20), spare, enough)
        beam = Beam(walker=walker, events=events, stop=len(events), width=1, forgets=2)
        if (answer := beam.walk((model.initial(), 0, 0)).answer) is not Answer.UNDECIDED:
            yield f"model-lossy-{spare}-{enough}", VERDICTS[answer]
    arrays = register_events(operations, model)
    if arrays is None:
        return
    if (answer := relaxed_run(arrays, Effort(room=ROOM)).answer) is not Answer.UNDECIDED:
        yield "relaxed", VERDICTS[answer]
    if (answer := outline_run(arrays, Effort(room=ROOM)).answer) is not Answer.UNDECIDED:
        yield "outline", VERDICTS[answer]
    for width in WIDTHS:
        register_walker = RegisterWalker(arrays, Effort(room=ROOM))
        register_beam = Beam(walker=register_walker, events=arrays.events, stop=len(arrays.events), width=width)
        if (answer := register_beam.walk(START).answer) is not Answer.UNDECIDED:
            yield f"register-beam-{width}", VERDICTS[answer]
    for enough, forgets in ((1, 15), (2, 15), (8, 15), (EVER, 0)):
        register_walker = RegisterWalker(arrays, Effort(room=ROOM, held_max=20), enough)
        register_beam = Beam(
            walker=register_walker, events=arrays.events, stop=len(arrays.events), width=1, forgets=forgets
        )
        if (answer := register_beam.walk(START).answer) is not Answer.UNDECIDED:
            yield f"register-lossy-{enough}", VERDICTS[answer]


def register_events(operations: Sequence[Operation], model: Model) -> RegisterEvents | None:
    """The arrays of a register's history; None if it is none of a register."""
    told = register_forms(operations, model)
    return None if told is None else encode(*told, model.register_initial())


def register_forms(operations: Sequence[Operation], model: Model) -> tuple[list[Operation], list[RegisterForm]] | None:
    """What says something in a register's history, and what it does; None if it is none of a register."""
    kept: list[Operation] = []
    forms: list[RegisterForm] = []
    for operation in operations:
        form = model.form(operation)
        if not isinstance(form, RegisterForm):
            return None
        if operation.outcome is Outcome.OK or form.kind in {RegisterKind.WRITE, RegisterKind.CAS}:
            kept.append(operation)
            forms.append(form)
    return kept, forms


def judge_by(
    kernel: str,
    key: Hashable,
    operations: Sequence[Operation],
    model: Model,
    budget: Budget | None = None,
    *,
    accelerated: bool = True,
) -> KeyJudgement:
    """The judgement of one object by the kernel of this name, one of ``KERNELS``.

    Raises InapplicableError if it cannot decide this history.
    """
    budget = budget or Budget()
    found = KERNELS[kernel](case_of(key, operations, model, budget, accelerated))
    [told_why] = explained([found], {key: operations}, model, budget, accelerated=accelerated)
    return told_why
