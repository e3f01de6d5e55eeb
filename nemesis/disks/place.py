"""Where the parts of a node's disk lie, below the node's folder.

Owns the names. The same folder has two paths where a node's process sees other ones than the harness.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

DATA_NAME = "data"
LOG_NAME = "replica.log"


@dataclass(frozen=True, slots=True, kw_only=True)
class DiskPlace:
    """The data directory, the account of what was done to it, the word that hinders it, and what the replica says."""

    data: Path
    account: Path
    hindrance: Path
    log: Path


def place_in(folder: Path) -> DiskPlace:
    """The place of a node's disk in the node's folder."""
    return DiskPlace(
        data=folder / DATA_NAME,
        account=folder / "disk-account",
        hindrance=folder / "disk-hindrance",
        log=folder / LOG_NAME,
    )
