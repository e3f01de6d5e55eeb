"""A cluster as a table of plain text, one line a replica and one column an offset.

Owns the layout. Records that the replica does not know to be committed stand in parentheses, so that every line shows
where its high watermark is; a record is ``value/epoch``.
"""

from __future__ import annotations

from collections.abc import Sequence

from nemesis.scenarios.views import Known, ReplicaView, WorldView
from replica.ids import EpochEntry

HEADINGS = ("replica", "role", "epoch", "leader", "vote", "LEO", "flushed", "HW")
NOTHING = "-"


def world_table(view: WorldView) -> str:
    """Every replica, with what leaders know of it."""
    end_offset = max((replica.log_end_offset for replica in view.replicas), default=0)
    leaders = [replica for replica in view.replicas if replica.known]
    known_to = [{known.replica_id: known_text(known) for known in leader.known} for leader in leaders]
    rows = [(*HEADINGS, *map(str, range(end_offset)), "epochs", *(f"known to {it.replica_id}" for it in leaders))]
    for replica in view.replicas:
        rows.append((*_row(replica, end_offset), *(texts.get(replica.replica_id, "") for texts in known_to)))
    return "\n".join(aligned(rows))


def aligned(rows: Sequence[Sequence[str]]) -> list[str]:
    """Lines in which columns stand under one another."""
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    return ["  ".join(text.ljust(width) for text, width in zip(row, widths, strict=True)).rstrip() for row in rows]


def _row(replica: ReplicaView, end_offset: int) -> tuple[str, ...]:
    by_offset = {cell.offset: cell for cell in replica.cells}
    cells = []
    for offset in range(end_offset):
        cell = by_offset.get(offset)
        text = "" if cell is None else f"{cell.value}/{cell.epoch}"
        cells.append(text if cell is None or replica.is_committed(cell) else f"({text})")
    return (
        str(replica.replica_id),
        f"{replica.role}, paused" if replica.is_paused else replica.role,
        str(replica.epoch),
        _or_nothing(replica.leader_id),
        _or_nothing(replica.voted_id),
        str(replica.log_end_offset),
        str(replica.flushed_end_offset),
        _or_nothing(replica.high_watermark),
        *cells,
        epochs_text(replica.epochs),
    )


def epochs_text(epochs: Sequence[EpochEntry]) -> str:
    """An epoch cache: each epoch with the offset at which it begins."""
    return ", ".join(f"{entry.epoch} from {entry.start_offset}" for entry in epochs) or NOTHING


def known_text(known: Known) -> str:
    """What a leader knows of one voter, in words: how far its log reaches, and when it last asked for more."""
    if known.fetched_ms_ago is None:
        return "nothing"
    match known.caught_up_ms_ago:
        case None:
            caught_up = "never caught up"
        case known.fetched_ms_ago:
            caught_up = "caught up"
        case ms:
            caught_up = f"caught up {ms} ms ago"
    return f"{known.log_end_offset}, {known.fetched_ms_ago} ms ago, {caught_up}"


def _or_nothing(value: int | None) -> str:
    return NOTHING if value is None else str(value)
