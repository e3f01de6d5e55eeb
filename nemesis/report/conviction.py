"""Why one object's history is not linearizable, as values to be drawn: lanes of operations, an order, and its end.

Owns what is shown: the operations that contradict each other, with those around them, at most ``BARS_MAX``; one order
of all before the return that nothing explains, and of each operation that could be next why it explains nothing. Knows
nothing of HTML. Source: Porcupine's visualisation, which shows partial orders of all operations.

The page of a history of another system: the verdict, and a picture of each object that is not linearizable.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from nemesis.formats.operation_text import cut, described, shown
from nemesis.formats.operation_text import shown as value_shown
from nemesis.linearizability.counterexample import until
from nemesis.linearizability.evidence import EVIDENCE_MAX, clearest
from nemesis.linearizability.judgement import Counterexample, KeyJudgement
from nemesis.linearizability.model import REFUSED, Model, relevant
from nemesis.linearizability.operations import Operation, Outcome, Value
from nemesis.linearizability.orders import Step, order_of
from nemesis.report.template import VERDICT_WORDS, environment
from nemesis.verdict import Verdict

BARS_MAX = 120
NEXT_MAX = 20
STEPS_SHOWN_MAX = 60


@dataclass(frozen=True, slots=True, kw_only=True)
class Bar:
    """One operation in a ``row`` of the drawing: the first of its columns, and the first behind it.

    ``step`` counts its place in the order from 1, which takes effect at column ``point``; both None if it has none.
    ``role`` is *last* (what nothing explains), *told* (what contradicts it) or *other*.
    """

    line: int
    process: str
    text: str
    outcome: Outcome
    role: str
    row: int
    begin: int
    end: int
    step: int | None
    point: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Lane:
    """A process, and the rows of the drawing that are its own."""

    process: str
    row: int
    rows: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """A line of a table: an operation, and what comes of it."""

    line: int
    process: str
    text: str
    outcome: str
    says: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Conviction:
    """One object. ``columns`` is the width of the drawing; ``left_out`` operations of ``operations`` are not drawn.

    ``order`` is empty where none was found in time; of a long one ``order_begins`` says how many steps are not shown.
    """

    name: str
    reason: str
    kernel: str
    operations: int
    is_minimal: bool
    lanes: Sequence[Lane]
    bars: Sequence[Bar]
    columns: int
    left_out: int
    told: Sequence[Line]
    order: Sequence[Line]
    order_begins: int
    order_is_of_told: bool
    next: Sequence[Line]


def conviction_of(judgement: KeyJudgement, recorded: Iterable[Operation], model: Model, name: str) -> Conviction:
    """What is shown of an object that is *invalid*; ``recorded`` are all operations on it."""
    example = judgement.counterexample
    assert example is not None, f"{name} is not convicted"
    assert example.last.returned is not None, f"line {example.last.line} never returned"
    end = example.last.returned
    history = sorted((op for op in recorded if op.invoked <= end), key=lambda op: op.invoked)
    order, of_told = _order(history, example.last, end, model), False
    if order is None:
        order, of_told = _order(example.operations, example.last, end, model), True
    steps = {step.operation.invoked: number for number, step in enumerate(order or (), 1)}
    drawn = _drawn(history, example, end)
    bars, lanes, columns = _laid_out(drawn, example, end, steps)
    shown = (order or ())[-STEPS_SHOWN_MAX:]
    return Conviction(
        name=name,
        reason=example.reason,
        kernel=judgement.kernel,
        operations=judgement.operations,
        is_minimal=example.is_minimal,
        lanes=lanes,
        bars=bars,
        columns=columns,
        left_out=len(history) - len(drawn),
        told=[_line(operation, "") for operation in example.operations],
        order=[_line(step.operation, cut(model.describe_state(step.state))) for step in shown],
        order_begins=len(order or ()) - len(shown),
        order_is_of_told=of_told,
        next=[] if order is None else _next(example.operations if of_told else history, order, example, model),
    )


def _order(asked: Sequence[Operation], last: Operation, end: int, model: Model) -> tuple[Step, ...] | None:
    """An order of what was asked before ``end``: without the last operation, unless others saw that it took effect."""
    before = relevant(until(asked, end - 1), model)
    order = order_of([op for op in before if op.invoked != last.invoked], model)
    return order_of(before, model) if order is None else order


def _drawn(history: Sequence[Operation], example: Counterexample, end: int) -> list[Operation]:
    """What contradicts itself, and of the rest what went on nearest to that."""
    told = {operation.invoked for operation in example.operations}
    moments = sorted({moment for op in example.operations for moment in (op.invoked, op.returned or end)})

    def distance(operation: Operation) -> tuple[int, int]:
        over = end if operation.returned is None else min(operation.returned, end)
        inside = any(operation.invoked <= moment <= over for moment in moments)
        nearest = min(min(abs(moment - operation.invoked), abs(moment - over)) for moment in moments)
        return (0, 0) if operation.invoked in told else (1, 0 if inside and operation.returned else nearest)

    return sorted(sorted(history, key=distance)[:BARS_MAX], key=lambda op: op.invoked)


def _laid_out(
    drawn: Sequence[Operation], example: Counterexample, end: int, steps: dict[int, int]
) -> tuple[list[Bar], list[Lane], int]:
    """Bars in the lanes of their processes; an operation that runs while its process begins another has its own row."""
    moments = {op.invoked for op in drawn} | {op.returned for op in drawn if op.returned is not None}
    column = {moment: number for number, moment in enumerate(sorted(moment for moment in moments if moment <= end))}
    columns = len(column)
    points = _points(drawn, steps, column)
    told = {operation.invoked for operation in example.operations}
    free: dict[str, list[int]] = {}
    places: list[tuple[str, int, int]] = []
    for op in drawn:
        rows = free.setdefault(shown(op.process), [])
        over = columns if op.returned is None else column.get(op.returned, columns - 1) + 1
        row = next((row for row, taken in enumerate(rows) if taken <= column[op.invoked]), len(rows))
        rows[row : row + 1] = [over]
        places.append((shown(op.process), row, over))
    lanes: list[Lane] = []
    for process, rows in free.items():
        lanes.append(Lane(process=process, row=sum(lane.rows for lane in lanes), rows=len(rows)))
    first = {lane.process: lane.row for lane in lanes}
    bars = [
        Bar(
            line=op.line,
            process=process,
            text=described(op),
            outcome=op.outcome,
            role="last" if op.invoked == example.last.invoked else "told" if op.invoked in told else "other",
            row=first[process] + row,
            begin=column[op.invoked],
            end=over,
            step=steps.get(op.invoked),
            point=points.get(op.invoked),
        )
        for op, (process, row, over) in zip(drawn, places, strict=True)
    ]
    return bars, lanes, columns


def _points(drawn: Sequence[Operation], steps: dict[int, int], column: dict[int, int]) -> dict[int, float]:
    """Where each operation takes effect: behind all that did before it and before the next event."""
    ordered = sorted((op for op in drawn if op.invoked in steps), key=lambda op: steps[op.invoked])
    groups: dict[int, list[int]] = {}
    reached = 0
    for op in ordered:
        reached = max(reached, column[op.invoked])
        groups.setdefault(reached, []).append(op.invoked)
    return {
        invoked: begin + (place + 1) / (len(group) + 1)
        for begin, group in groups.items()
        for place, invoked in enumerate(group)
    }


def _next(history: Sequence[Operation], order: Sequence[Step], example: Counterexample, model: Model) -> list[Line]:
    """What has begun and is not in the order, first the last operation: why it cannot be next."""
    states = [model.initial(), *(step.state for step in order)]
    place = {step.operation.invoked: number for number, step in enumerate(order)}
    last = example.last
    assert last.returned is not None, f"line {last.line} never returned"
    left = [op for op in relevant(until(history, last.returned), model) if op.invoked not in place]
    left.sort(key=lambda op: (op.invoked != last.invoked, op.returned is None, -op.invoked))
    said = [_line(op, _why_not(op, states[-1], last, model)) for op in left[:NEXT_MAX]]
    if last.invoked in place:
        then = cut(model.describe_state(states[place[last.invoked]]))
        seen = f"took effect in step {place[last.invoked] + 1}, for others saw it"
        said.insert(0, _line(last, f"{seen}; what it returned cannot be there: the state was {then}"))
    return said[:NEXT_MAX]


def _why_not(operation: Operation, state: Value, last: Operation, model: Model) -> str:
    here = cut(model.describe_state(state))
    after = model.step(state, operation)
    if after is REFUSED:
        return f"cannot be: the state is {here}"
    if operation.invoked == last.invoked:
        return f"could be here, where the state is {here}, but no order of the others leads here in time"
    there = cut(model.describe_state(after))
    if model.step(after, last) is REFUSED:
        return f"would make it {there}, where {described(last)} cannot be either"
    return f"would make it {there}, and no order goes on from there to what was returned"


def _line(operation: Operation, says: str) -> Line:
    return Line(
        line=operation.line,
        process=shown(operation.process),
        text=described(operation),
        outcome=operation.outcome,
        says=says,
    )


REASONS_MAX = 20


@dataclass(frozen=True, slots=True, kw_only=True)
class Page:
    """What the page says of the whole history; counts are of objects."""

    name: str
    model: str
    verdict: Verdict
    objects: int
    valid: int
    invalid: int
    unknown: int
    reasons: Sequence[str]
    convictions: Sequence[Conviction]
    convictions_left_out: int


def write_conviction_page(
    target: Path,
    name: str,
    model: Model,
    judgements: Sequence[KeyJudgement],
    recorded: Mapping[Hashable, Sequence[Operation]],
) -> None:
    """Write the page of a history to ``target``; ``recorded`` are the operations on each of the objects, by their keys.

    Raises ``OSError`` where it cannot be written.
    """
    counts = Counter(judgement.verdict for judgement in judgements)
    invalid = clearest(judgements, EVIDENCE_MAX)
    unknown = [f"{_name(found.key)}: {found.reason}" for found in judgements if found.reason is not None]
    shown = [conviction_of(found, recorded[found.key], model, _name(found.key)) for found in invalid]
    page = Page(
        name=name,
        model=model.name,
        verdict=Verdict.worst(counts),
        objects=len(judgements),
        valid=counts[Verdict.VALID],
        invalid=counts[Verdict.INVALID],
        unknown=counts[Verdict.UNKNOWN],
        reasons=unknown[:REASONS_MAX],
        convictions=shown,
        convictions_left_out=counts[Verdict.INVALID] - len(shown),
    )
    sign, word, _ = VERDICT_WORDS[page.verdict]
    html = (
        environment().get_template("conviction.html.j2").render(page=page, sign=sign, word=word, judged_as=model.name)
    )
    target.write_text(html, encoding="utf-8", errors="backslashreplace")


def _name(key: Hashable) -> str:
    return "The object" if key is None else f"Object {value_shown(key)}"
