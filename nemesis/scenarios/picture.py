"""The picture of a cluster at one moment: where every box, line and word of it stands.

Owns the geometry and the colours, in pixels of an SVG drawing; the template only writes it down. One row a replica, one
column an offset; the ring beside them shows who hears whom. Colours are those of the reports, near Okabe and Ito's
palette for colour-blind readers, and each is doubled by a number or a shape.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import combinations

from nemesis.faults.links import Link
from nemesis.scenarios.tables import decided_text, epochs_text, known_text
from nemesis.scenarios.views import Cell, Known, ReplicaView, WorldView

WIDTH = 1080
TOP, ROW, BOTTOM = 34, 56, 8
RING_X, RING_RADIUS = 82, 52
LOG_X, NOTE_X = 424, 780
CELL_PX_MAX, CELL_HEIGHT = 58, 30
EPOCH_COLOURS = ("#6d7781", "#2f86c9", "#b3700a", "#8a63c7", "#c9519b", "#5f7d1e", "#c04a22")
"""By epoch; they come again after the last."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Box:
    """One record. ``label`` is its value and epoch."""

    x: float
    label: str
    colour: str
    is_committed: bool
    is_flushed: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One replica: ``y`` is the top of its boxes. ``facts`` and ``notes`` are lines of words."""

    y: float
    replica_id: int
    role: str
    is_paused: bool
    is_changed: bool
    facts: str
    boxes: tuple[Box, ...]
    high_watermark_x: float | None
    notes: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Spoke:
    """The line between two replicas on the ring. ``cut`` in both directions, or with ``arrow`` from 1 to 2 only."""

    x1: float
    y1: float
    x2: float
    y2: float
    cut: bool
    arrow: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Dot:
    """One replica on the ring, by its number, or the controller."""

    x: float
    y: float
    label: str
    role: str
    is_paused: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Picture:
    """Everything that is drawn, and the same in words for who cannot see it.

    ``decided`` is what the controller says, empty where there is none; ``is_decided_anew`` if it said otherwise before.
    """

    decided: str
    is_decided_anew: bool

    height: float
    cell_px: float
    offsets: tuple[tuple[float, int], ...]
    rows: tuple[Row, ...]
    spokes: tuple[Spoke, ...]
    dots: tuple[Dot, ...]
    words: str


def draw(view: WorldView, before: WorldView | None) -> Picture:
    """Draw a moment; what is not as it was ``before`` is marked."""
    end_offset = max((replica.log_end_offset for replica in view.replicas), default=0)
    cell_px = min(CELL_PX_MAX, (NOTE_X - LOG_X - 20) / max(end_offset, 1))
    height = TOP + ROW * len(view.replicas) + BOTTOM
    decided = view.decided
    others = [] if decided is None else [decided.controller_id]
    places = _places([*(replica.replica_id for replica in view.replicas), *others], height)
    unchanged = set() if before is None else set(before.still.replicas)
    return Picture(
        decided="" if decided is None else decided_text(decided),
        is_decided_anew=before is not None and before.decided != decided,
        height=height,
        cell_px=cell_px,
        offsets=tuple((LOG_X + (offset + 0.5) * cell_px, offset) for offset in range(end_offset)),
        rows=tuple(
            _row(view, replica, index, cell_px, is_changed=still not in unchanged and before is not None)
            for index, (replica, still) in enumerate(zip(view.replicas, view.still.replicas, strict=True))
        ),
        spokes=_spokes(places, frozenset(view.cuts)),
        dots=(
            *(_dot(replica, *places[replica.replica_id]) for replica in view.replicas),
            *(_controller(*places[other]) for other in others),
        ),
        words="; ".join(_words(replica) for replica in view.replicas),
    )


def _row(view: WorldView, replica: ReplicaView, index: int, cell_px: float, *, is_changed: bool) -> Row:
    high_watermark = replica.high_watermark
    return Row(
        y=TOP + ROW * index + (ROW - CELL_HEIGHT) / 2,
        replica_id=replica.replica_id,
        role=replica.role,
        is_paused=replica.is_paused,
        is_changed=is_changed,
        facts=_facts(replica),
        boxes=tuple(_box(replica, cell, cell_px) for cell in replica.cells),
        high_watermark_x=None if high_watermark is None else LOG_X + high_watermark * cell_px,
        notes=_notes(view, replica),
    )


def _box(replica: ReplicaView, cell: Cell, cell_px: float) -> Box:
    return Box(
        x=LOG_X + cell.offset * cell_px,
        label=f"{cell.value}/{cell.epoch}",
        colour=EPOCH_COLOURS[cell.epoch % len(EPOCH_COLOURS)],
        is_committed=replica.is_committed(cell),
        is_flushed=cell.offset < replica.flushed_end_offset,
    )


def _facts(replica: ReplicaView) -> str:
    vote = "" if replica.voted_id is None else f", voted for {replica.voted_id}"
    follows = replica.leader_id not in (None, replica.replica_id)
    return f"epoch {replica.epoch}{f', follows {replica.leader_id}' if follows else vote}"


def _notes(view: WorldView, replica: ReplicaView) -> tuple[str, ...]:
    high_watermark = "unknown" if replica.high_watermark is None else replica.high_watermark
    known = [
        f"{leader.replica_id} knows: {_known_words(known)}"
        for leader in view.replicas
        for known in leader.known
        if known.replica_id == replica.replica_id and leader.epoch == view.epoch
    ]
    isr = f", ISR {replica.isr}" if replica.isr else ""
    return (
        f"LEO {replica.log_end_offset}, HW {high_watermark}{isr}",
        f"epochs: {epochs_text(replica.epochs)}",
        *known,
    )


def _known_words(known: Known) -> str:
    return known_text(known) if known.log_end_offset is None else f"LEO {known_text(known)}"


def _words(replica: ReplicaView) -> str:
    role = f"{replica.role}, paused" if replica.is_paused else replica.role
    records = " ".join(f"{cell.value}/{cell.epoch}" for cell in replica.cells) or "empty"
    return f"replica {replica.replica_id}: {role}, {_facts(replica)}, log {records}"


# --- the ring -------------------------------------------------------------------------------------------------------


def _dot(replica: ReplicaView, x: float, y: float) -> Dot:
    return Dot(x=x, y=y, label=str(replica.replica_id), role=replica.role, is_paused=replica.is_paused)


def _controller(x: float, y: float) -> Dot:
    return Dot(x=x, y=y, label="C", role="controller", is_paused=False)


def _places(replica_ids: list[int], height: float) -> dict[int, tuple[float, float]]:
    """Around the ring, the first at the top."""
    turns = [math.tau * index / len(replica_ids) - math.pi / 2 for index in range(len(replica_ids))]
    centre_y = TOP + (height - TOP - BOTTOM) / 2
    return {
        replica_id: (RING_X + RING_RADIUS * math.cos(turn), centre_y + RING_RADIUS * math.sin(turn))
        for replica_id, turn in zip(replica_ids, turns, strict=True)
    }


def _spokes(places: dict[int, tuple[float, float]], cuts: frozenset[Link]) -> tuple[Spoke, ...]:
    return tuple(_spoke(places, cuts, one, other) for one, other in combinations(places, 2))


def _spoke(places: dict[int, tuple[float, float]], cuts: frozenset[Link], one: int, other: int) -> Spoke:
    """Where one direction is cut, the line is drawn in that direction, with an arrow."""
    there, back = (one, other) in cuts, (other, one) in cuts
    source, target = (other, one) if back and not there else (one, other)
    (x1, y1), (x2, y2) = places[source], places[target]
    return Spoke(x1=x1, y1=y1, x2=x2, y2=y2, cut=there or back, arrow=there != back)
