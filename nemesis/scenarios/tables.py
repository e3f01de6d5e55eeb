"""A cluster as a table of plain text, one line a replica and one column an offset.

Owns the layout. Records that the replica does not know to be committed stand in parentheses, so that every line shows
where its high watermark is; a record is ``value/epoch``.
"""

from __future__ import annotations

from collections.abc import Sequence

from nemesis.scenarios.views import Decided, Known, ReplicaView, WorldView
from replica.ids import EpochEntry

HEADINGS = ("replica", "role", "epoch", "leader", "vote", "LEO", "flushed", "HW")
PARTITION_HEADINGS = ("replica", "role", "epoch", "leader", "ISR", "LEO", "flushed", "HW")
NOTHING = "-"
MS_PER_S = 1000


def world_table(view: WorldView) -> str:
    """Every replica, with what leaders know of it; above them what the controller has decided, where there is one."""
    end_offset = max((replica.log_end_offset for replica in view.replicas), default=0)
    leaders = [replica for replica in view.replicas if replica.known]
    known_to = [{known.replica_id: known_text(known) for known in leader.known} for leader in leaders]
    headings = HEADINGS if view.decided is None else PARTITION_HEADINGS
    rows = [(*headings, *map(str, range(end_offset)), "epochs", *(f"known to {it.replica_id}" for it in leaders))]
    for replica in view.replicas:
        fourth = _or_nothing(replica.voted_id) if view.decided is None else replica.isr or NOTHING
        rows.append((*_row(replica, fourth, end_offset), *(texts.get(replica.replica_id, "") for texts in known_to)))
    decided = [] if view.decided is None else [f"controller: {decided_text(view.decided)}"]
    return "\n".join([*decided, *aligned(rows)])


def decided_text(decided: Decided) -> str:
    """What the controller has decided, in words."""
    leader = "no leader" if decided.leader_id is None else f"leader {decided.leader_id}"
    parts = [
        f"{leader} in epoch {decided.leader_epoch}, partition epoch {decided.partition_epoch}",
        f"ISR {_ids(decided.isr)}",
        f"ELR {_ids(decided.elr)}",
    ]
    if decided.is_recovering:
        parts.append("recovering from an unclean election")
    if decided.fenced:
        parts.append(f"fenced {_ids(decided.fenced)}")
    if decided.leaving:
        parts.append(f"in controlled shutdown {_ids(decided.leaving)}")
    return "; ".join(parts)


def _ids(replica_ids: Sequence[int]) -> str:
    return " ".join(map(str, sorted(replica_ids))) or NOTHING


def aligned(rows: Sequence[Sequence[str]]) -> list[str]:
    """Lines in which columns stand under one another."""
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    return ["  ".join(text.ljust(width) for text, width in zip(row, widths, strict=True)).rstrip() for row in rows]


def _row(replica: ReplicaView, fourth: str, end_offset: int) -> tuple[str, ...]:
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
        fourth,
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
            caught_up = f"caught up {_ago(ms)}"
    return f"{known.log_end_offset}, {_ago(known.fetched_ms_ago)}, {caught_up}"


def _ago(ms: int) -> str:
    return f"{ms} ms ago" if ms < 10 * MS_PER_S else f"{ms // MS_PER_S} s ago"


def _or_nothing(value: int | None) -> str:
    return NOTHING if value is None else str(value)
