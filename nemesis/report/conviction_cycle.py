"""A cycle of transactions as a picture: who stands before whom, and each step's reason in words.

Owns the drawing's geometry, in its own units, and the sentences. The evidence comes from a file, so that what is not of
the right shape is left out. Knows nothing of HTML. Source: Elle's pictures of cycles, which draw them with Graphviz.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any

from nemesis.checks.precedence import Kind

BOX_WIDTH, LINE_HEIGHT, PADDING = 210, 17, 10
LINES_MAX, CHARS_MAX = 4, 27
MARGIN = 16
APART = 30
"""Between two boxes."""
GROWTH = 1.1
BULGE = 46
"""How far the two steps of a cycle of two bend away from each other."""
HEAD = 9
GAP = 3
"""Between the head of an arrow and the box that it points to."""
KIND_WORDS: Mapping[str, str] = {
    Kind.WW: "written before",
    Kind.WR: "read from",
    Kind.PROCESS: "same process",
    Kind.REALTIME: "over before",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Transaction:
    """What an operation did, in a few lines; ``process`` is empty where nobody knows it."""

    process: str
    lines: Sequence[str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Box:
    """One operation, as a box around its middle."""

    index: int
    title: str
    lines: Sequence[str]
    x: float
    y: float
    width: float
    height: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Arrow:
    """One step: a path, the three corners of its head, and where its number stands."""

    number: int
    kind: str
    path: str
    head: str
    label_x: float
    label_y: float
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Reason:
    """Why one operation stands before another."""

    number: int
    kind: str
    words: str
    says: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Cycle:
    """A cycle as it is drawn. ``left_out`` operations of it are not told by the evidence."""

    name: str
    severity: str
    sentence: str
    boxes: Sequence[Box]
    arrows: Sequence[Arrow]
    reasons: Sequence[Reason]
    width: float
    height: float
    left_out: int


@dataclass(frozen=True, slots=True, kw_only=True)
class _Step:
    before: int
    after: int
    kind: str
    topic_partition: str
    offset: int | None
    value: int | None


def cycle_of(row: Mapping[str, Any], transactions: Mapping[int, Transaction]) -> Cycle | None:
    """The picture of an anomaly ``row`` whose ``evidence`` is a circle; None where it is none.

    ``transactions`` are what is known of its operations, by their indexes.
    """
    evidence = row.get("evidence")
    told = evidence.get("circle") if isinstance(evidence, Mapping) else None
    steps = [step for one in told if (step := _step(one)) is not None] if isinstance(told, Sequence) else []
    if len(steps) < 2:
        return None
    indexes = [step.before for step in steps]
    is_whole = steps[-1].after == indexes[0]
    if not is_whole:
        indexes.append(steps[-1].after)
    boxes, width, height = _boxes(indexes, transactions)
    return Cycle(
        name=str(row.get("anomaly", "cycle")),
        severity=str(row.get("severity", "")),
        sentence=f"{len(indexes)} transactions come before themselves" if is_whole else "A part of a longer cycle",
        boxes=list(boxes.values()),
        arrows=[_arrow(number, step, boxes, len(indexes)) for number, step in enumerate(steps, 1)],
        reasons=[
            Reason(number=number, kind=step.kind, words=KIND_WORDS.get(step.kind, step.kind), says=_reason(step))
            for number, step in enumerate(steps, 1)
        ],
        width=width,
        height=height,
        left_out=0 if is_whole else max(len(row.get("op_indexes") or ()) - len(indexes), 1),
    )


def _step(told: Any) -> _Step | None:
    match told:
        case {"before": int(before), "after": int(after), "kind": str(kind)}:
            offset, value = told.get("offset"), told.get("value")
            return _Step(
                before=before,
                after=after,
                kind=kind if kind in KIND_WORDS else "other",
                topic_partition=str(told.get("topic_partition") or ""),
                offset=offset if isinstance(offset, int) else None,
                value=value if isinstance(value, int) else None,
            )
        case _:
            return None


def _reason(step: _Step) -> str:
    first, second = f"T{step.before}", f"T{step.after}"
    where = f"offset {step.offset} of {step.topic_partition}"
    match step.kind:
        case Kind.WW:
            return f"{first} wrote what stands just before {step.value}, which {second} wrote to {where}."
        case Kind.WR:
            return f"{second} polled {step.value}, which {first} had sent to {where}."
        case Kind.PROCESS:
            return f"One process did {first}, and then {second}."
        case Kind.REALTIME:
            return f"{first} was over before {second} began."
        case _:
            return f"{first} stands before {second}."


# --- geometry ---------------------------------------------------------------------------------------------------------


def _boxes(indexes: Sequence[int], transactions: Mapping[int, Transaction]) -> tuple[dict[int, Box], float, float]:
    """The operations on an ellipse, of two the first at the left, of more at the top; and the size of the drawing."""
    count = len(indexes)
    lines = {index: _lines(transactions.get(index), count) for index in indexes}
    tallest = max(_height(own) for own in lines.values())
    turn = math.pi if count == 2 else -math.pi / 2
    at = [turn + 2 * math.pi * place / count for place in range(count)]
    across, down = _radii(at, tallest)
    tops = [down * math.sin(angle) - _height(lines[index]) / 2 for index, angle in zip(indexes, at, strict=True)]
    beyond = MARGIN + (BULGE if count == 2 else 0)
    middle_x = across + BOX_WIDTH / 2 + MARGIN
    boxes = {}
    for index, angle, top in zip(indexes, at, tops, strict=True):
        known = transactions.get(index)
        process = f", process {known.process}" if known is not None and known.process else ""
        boxes[index] = Box(
            index=index,
            title=f"T{index}{process}",
            lines=lines[index],
            x=middle_x + across * math.cos(angle) - BOX_WIDTH / 2,
            y=top - min(tops) + beyond,
            width=BOX_WIDTH,
            height=_height(lines[index]),
        )
    bottom = max(box.y + box.height for box in boxes.values())
    return boxes, 2 * middle_x, bottom + beyond


def _radii(at: Sequence[float], tallest: float) -> tuple[float, float]:
    """How far from the middle boxes at these angles must be, across and down, so that none touches another."""
    across, down = BOX_WIDTH * 0.9, 0.0 if len(at) == 2 else tallest / 2 + APART

    def is_free(first: float, second: float) -> bool:
        beside = across * abs(math.cos(first) - math.cos(second)) >= BOX_WIDTH + APART
        return beside or down * abs(math.sin(first) - math.sin(second)) >= tallest + APART

    while not all(is_free(first, second) for first, second in combinations(at, 2)):
        across, down = across * GROWTH, down * GROWTH
    return across, down


def _lines(transaction: Transaction | None, count: int) -> list[str]:
    """What fits into a box, which has fewer lines where there are many."""
    if transaction is None:
        return []
    most = LINES_MAX if count <= 6 else 1
    own = [line if len(line) <= CHARS_MAX else f"{line[: CHARS_MAX - 1]}…" for line in transaction.lines]
    return own if len(own) <= most else [*own[: most - 1], f"… {len(own) - most + 1} more"]


def _height(lines: Sequence[str]) -> float:
    return 2 * PADDING + LINE_HEIGHT * (1 + len(lines))


def _arrow(number: int, step: _Step, boxes: Mapping[int, Box], count: int) -> Arrow:
    """A curve from border to border; the two of a cycle of two bend to different sides."""
    first, second = (_middle(boxes[index]) for index in (step.before, step.after))
    bulge = BULGE * 2 if count == 2 else 0
    length = math.dist(first, second) or 1.0
    across = (second[1] - first[1]) / length, (first[0] - second[0]) / length
    bend = tuple((first[axis] + second[axis]) / 2 + across[axis] * bulge for axis in (0, 1))
    start = _border(boxes[step.before], (bend[0], bend[1]), 0)
    tip = _border(boxes[step.after], (bend[0], bend[1]), GAP)
    angle = math.atan2(tip[1] - bend[1], tip[0] - bend[0])
    corners = [tip, *(_away(tip, angle + side, HEAD) for side in (math.pi - 0.4, math.pi + 0.4))]
    label = tuple((start[axis] + 2 * bend[axis] + tip[axis]) / 4 for axis in (0, 1))
    return Arrow(
        number=number,
        kind=step.kind,
        path=f"M{start[0]:.1f} {start[1]:.1f} Q{bend[0]:.1f} {bend[1]:.1f} {tip[0]:.1f} {tip[1]:.1f}",
        head=" ".join(f"{x:.1f},{y:.1f}" for x, y in corners),
        label_x=label[0],
        label_y=label[1],
        reason=_reason(step),
    )


def _middle(box: Box) -> tuple[float, float]:
    return box.x + box.width / 2, box.y + box.height / 2


def _away(point: tuple[float, float], angle: float, distance: float) -> tuple[float, float]:
    return point[0] + distance * math.cos(angle), point[1] + distance * math.sin(angle)


def _border(box: Box, towards: tuple[float, float], gap: float) -> tuple[float, float]:
    """Where the line from the middle of a box to a point leaves the box, and a gap further."""
    x, y = _middle(box)
    along, down = towards[0] - x, towards[1] - y
    scale = min(
        (box.width / 2 + gap) / abs(along) if along else math.inf,
        (box.height / 2 + gap) / abs(down) if down else math.inf,
        1.0,
    )
    return x + along * scale, y + down * scale
