"""How a node's clocks are set, and the file by which a harness sets those of a replica while it runs.

Owns the settings and the form of the file. Who reads it is the replica's clocks; who turns the dials is a fault.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from pathlib import Path

DIALS_NAME = "clocks"
TRUE_PERCENT = 100


@dataclass(frozen=True, slots=True, kw_only=True)
class Dials:
    """Both clocks of a node.

    The timers' clock counts ``percent`` milliseconds in a hundred, and has leapt ahead by ``leaps_ms`` in all, which
    never grows less. The wall clock is ``wall_ms`` ahead of the true time.
    """

    percent: int = TRUE_PERCENT
    leaps_ms: int = 0
    wall_ms: int = 0


def set_dials(path: Path, dials: Dials) -> None:
    """Put the settings where a replica looks; it sees them whole or not at all."""
    temporary = path.with_name(f"{path.name}.new")
    temporary.write_text(json.dumps(asdict(dials)), encoding="utf-8")
    temporary.replace(path)


def read_dials(path: Path) -> Dials:
    """The settings; true clocks where nobody has set any."""
    try:
        document = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return Dials()
    return Dials(**document)
