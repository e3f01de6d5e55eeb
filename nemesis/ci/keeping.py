"""What stays of a run that was valid: enough to judge it again, not what only an accused needs.

Owns which parts of a run's folder may go. A store that a CI system keeps must not grow with the number of runs that
passed.
"""

from __future__ import annotations

import shutil
from pathlib import Path

DROPPED = ("nodes", "report.html")
"""The replicas' data and log files, and a page of some megabytes that ``nemesis check`` writes again."""


def make_small(folder: Path) -> None:
    """Drop what takes the most room; what is recorded and how it was judged stays."""
    for name in DROPPED:
        path = folder / name
        if path.is_dir():
            shutil.rmtree(path)
        else:
            path.unlink(missing_ok=True)
