"""Which runs of a store go, and how they go.

Owns the choice by verdict, age and size, and the removal. Only a folder that holds a run of the harness is ever
removed, and none of a run that may still go on. A folder is renamed before it is removed: half a run is none.
"""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from nemesis.history.schemas import Kind
from nemesis.serve.store import NotInStoreError, Store, has_ended, is_folder, is_recorded
from nemesis.serve.summary import NS_PER_S, Standing, Summaries, Summary

SETTLED_S = 3600.0
"""A run that has no verdict, and that was written to since then, may still go on, and stays."""
GOING = ".going-"
LATEST = "latest"


@dataclass(frozen=True, slots=True, kw_only=True)
class Stored:
    """A run with what it takes. ``touched_s`` is when it was last written to, in seconds since 1970."""

    run: Summary
    folder: Path
    size: int
    touched_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Rules:
    """Which runs may go: those of these verdicts, not touched since ``older_than_s`` seconds; all that is given counts.

    With ``size_max`` only as many of these go as have to for all runs to come to no more bytes, the oldest first.
    """

    standings: Collection[Standing] = tuple(Standing)
    older_than_s: float = 0.0
    size_max: int | None = None

    def going(self, stored: Iterable[Stored], now_s: float) -> list[Stored]:
        """The runs that go, the oldest first."""
        listed = sorted(stored, key=lambda one: (one.touched_s, one.run.name))
        may_go = [one for one in listed if self._may_go(one, now_s)]
        if self.size_max is None:
            return may_go
        excess = sum(one.size for one in listed) - self.size_max
        going = []
        for one in may_go:
            if excess <= 0:
                break
            excess -= one.size
            going.append(one)
        return going

    def _may_go(self, one: Stored, now_s: float) -> bool:
        if one.run.standing is Standing.RUNNING or not is_recorded(one.folder):
            return False
        is_settled = one.run.standing is not Standing.NOT_JUDGED and has_ended(one.folder)
        if not is_settled and now_s - one.touched_s < SETTLED_S:
            return False
        return one.run.standing in self.standings and now_s - one.touched_s >= self.older_than_s


def stored_runs(store: Store) -> list[Stored]:
    """Every run of a store with what it takes."""
    return [_stored(store.root / run.name, run) for run in Summaries(store).all()]


def _stored(folder: Path, run: Summary) -> Stored:
    """Its size is that of all its files. Links count as such, and are not followed."""
    size = 0
    for parent, _, names in os.walk(folder):
        for name in names:
            try:
                size += (Path(parent) / name).lstat().st_size
            except OSError:
                continue
    touched_ns = [path.lstat().st_mtime_ns for path in (folder, *(folder / kind for kind in Kind)) if path.exists()]
    return Stored(run=run, folder=folder, size=size, touched_s=max(touched_ns, default=time.time_ns()) / NS_PER_S)


def remove(store: Store, going: Sequence[Stored]) -> int:
    """Remove these runs; returns how many bytes that was. Raises OSError for one that cannot be removed.

    Each is looked at again: one that is no run any more, or that was judged otherwise or goes on since, stays.
    """
    removed = 0
    for one in going:
        if not _is_as_it_was(store, one):
            continue
        doomed = one.folder.with_name(f"{GOING}{one.folder.name}")
        if is_folder(doomed):  # The last time this was interrupted.
            shutil.rmtree(doomed)
        one.folder.rename(doomed)
        shutil.rmtree(doomed)
        removed += one.size
        _point_to_newest(one.folder.parent)
    return removed


def _is_as_it_was(store: Store, one: Stored) -> bool:
    try:
        now = Summaries(store).one(one.run.name)
    except NotInStoreError:
        return False
    return is_recorded(one.folder) and now.standing is one.run.standing


def _point_to_newest(parent: Path) -> None:
    """Let ``latest`` point to the newest run that is left, where it points to one that is gone."""
    pointer = parent / LATEST
    if not pointer.is_symlink() or pointer.exists():
        return
    left = sorted(
        path.name for path in parent.iterdir() if path.is_dir() and not path.is_symlink() and path.name[0] != "."
    )
    pointer.unlink()
    if left:
        pointer.symlink_to(left[-1])
