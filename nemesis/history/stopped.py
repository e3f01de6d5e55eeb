"""What stopped a run before its time, as a file beside its tables.

Owns the file ``stopped.json``. It explains why a run is shorter than its schedule; the verdict does not come from it.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from pathlib import Path

from nemesis.history.errors import HistoryError
from nemesis.history.whole_files import write_whole

STOPPED_NAME = "stopped.json"


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """An anomaly that was found while the run went on, and by which engine.

    ``detail`` is its sentence, ``others`` how many more were found with it.
    """

    anomaly: str
    topic_partition: str
    detail: str
    others: int
    engine: str

    def __str__(self) -> str:
        where = f" of {self.topic_partition}" if self.topic_partition else ""
        more = f", and {self.others} more" if self.others else ""
        return f"{self.anomaly}{where}: {self.detail}{more}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Stopped:
    """The run was stopped ``at_s`` seconds after it had begun."""

    at_s: float
    found: Found

    def __str__(self) -> str:
        return f"stopped after {self.at_s:.1f} s at the first anomaly, {self.found}"


def write_stopped(folder: Path, stopped: Stopped) -> Path:
    """Write it into the run's folder, whole or not at all; returns its path."""
    return write_whole(folder, STOPPED_NAME, json.dumps(asdict(stopped), indent=2) + "\n")


def read_stopped(folder: Path) -> Stopped | None:
    """What stopped the run in ``folder``, or None. Raises ``HistoryError`` for a file that is not what was written."""
    path = folder / STOPPED_NAME
    if not path.is_file():
        return None
    try:
        told = json.loads(path.read_text(encoding="utf-8"))
        return Stopped(at_s=float(told["at_s"]), found=Found(**told["found"]))
    except (ValueError, TypeError, KeyError, OverflowError, RecursionError) as error:
        raise HistoryError(f"{STOPPED_NAME} does not say what stopped the run: {error}") from error
