"""The named points of a replica's work on its disk at which it can be killed, and the order to stand still at one.

Owns the names, and the file by which a harness orders and a replica answers. A replica stands still where it is told to
and is killed by the harness, which so knows who has died of what.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from enum import StrEnum
from pathlib import Path

ORDER_NAME = "stand-still"
REACHED_SUFFIX = ".reached"


class CrashPoint(StrEnum):
    """Before or after an effect is performed on the disk: what comes after it has not happened then."""

    BEFORE_APPEND = "before-append"
    """Batches were accepted, and nothing of them is in the log's file."""
    AFTER_APPEND = "after-append"
    """They are in the file, and not flushed."""
    BEFORE_FLUSH = "before-flush"
    """What was appended is about to be flushed."""
    AFTER_FLUSH = "after-flush"
    """It is flushed, and neither acknowledged nor told to anybody."""
    BEFORE_SNAPSHOT_RENAME = "before-snapshot-rename"
    """A snapshot is written under a temporary name."""
    AFTER_SNAPSHOT_RENAME = "after-snapshot-rename"
    """It has its name, and nobody knows it yet."""
    BEFORE_QUORUM_STATE = "before-quorum-state"
    """An epoch or a vote is decided, and not on the disk."""
    AFTER_QUORUM_STATE = "after-quorum-state"
    """It is on the disk, and no vote was answered."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Order:
    """Stand still when you come to ``point`` for the ``nth`` time from now on."""

    point: CrashPoint
    nth: int = 1


def give_order(path: Path, order: Order) -> None:
    """Put an order where a replica looks; it sees it whole or not at all."""
    temporary = path.with_name(f"{path.name}.new")
    temporary.write_text(json.dumps(asdict(order)), encoding="utf-8")
    reached(path).unlink(missing_ok=True)
    temporary.replace(path)


def take_back(path: Path) -> None:
    """Let there be no order any more; one that was carried out stays carried out."""
    path.unlink(missing_ok=True)


def read_order(path: Path) -> Order | None:
    """The order, if there is one."""
    try:
        document = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return None
    return Order(point=CrashPoint(document["point"]), nth=document["nth"])


def reached(path: Path) -> Path:
    """Where an order goes once it is carried out."""
    return path.with_name(path.name + REACHED_SUFFIX)
