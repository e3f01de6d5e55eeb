"""The store as a folder: which runs are in it, and what of them may be opened.

Owns the rule that nothing outside the store is reached: a run is named by its path in the store, no part of that path
may be a link, hidden, or lead upwards, and no file is opened through a link. Knows nothing of what the files hold.
"""

from __future__ import annotations

import itertools
import os
import stat
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from nemesis.history.document import TEST_NAME
from nemesis.history.schemas import COMPLETE_MARKER, Kind
from nemesis.history.writer import shard_name

DEPTH_MAX = 6
"""How deep below the store a run may lie: ``store/<sweep>/<workload>/<time>`` is three deep."""
RUNS_MAX = 100_000
DOCUMENTS_MAX = 1000


@dataclass(frozen=True, slots=True, kw_only=True)
class Stamp:
    """What a file was like when it was looked at: the same stamp, the same content."""

    inode: int
    size: int
    changed_ns: int


class NotInStoreError(Exception):
    """There is no such run or file in the store, or it is none that may be opened."""


class Store:
    """The runs below one folder. Raises NotADirectoryError when there is no such folder."""

    def __init__(self, root: Path) -> None:
        if not root.is_dir():
            raise NotADirectoryError(f"{root} is no store: give the folder that nemesis run and nemesis soak write to")
        self.root = root.resolve()

    def names(self) -> Iterator[str]:
        """Every run, by its path in the store, in no order."""
        left = RUNS_MAX
        folders: list[tuple[str, int]] = [("", 0)]
        while folders and left:
            parent, depth = folders.pop()
            for name in self._folders_in(parent):
                path = f"{parent}/{name}" if parent else name
                if self._is_run(path):
                    left -= 1
                    yield path
                elif depth < DEPTH_MAX:
                    folders.append((path, depth + 1))

    def _folders_in(self, parent: str) -> list[str]:
        try:
            with os.scandir(self.root / parent) as entries:
                return [e.name for e in entries if is_plain_name(e.name) and e.is_dir(follow_symlinks=False)]
        except OSError:
            return []

    def _is_run(self, name: str) -> bool:
        return is_folder(self.root / name / Kind.HISTORY)

    def folder(self, name: str) -> Path:
        """The folder of a run. Raises NotInStoreError for whatever is not the name of one."""
        path = self._plain(name)
        if not self._is_run(name):
            raise NotInStoreError(f"there is no run {name!r} in this store")
        return path

    def _plain(self, name: str) -> Path:
        """The path of a folder of that name, all of whose parts are real folders of the store."""
        parts = name.split("/")
        path = self.root
        if len(parts) > DEPTH_MAX + 1:
            raise NotInStoreError(f"{name!r} is too deep")
        for part in parts:
            path = path / part
            if not is_plain_name(part) or not is_folder(path):
                raise NotInStoreError(f"there is no run {name!r} in this store")
        return path

    def documents(self) -> Iterator[str]:
        """The JSON documents that lie in the store itself, by name: those of sweeps."""
        with suppress(OSError), os.scandir(self.root) as entries:
            found = (e.name for e in entries if e.is_file(follow_symlinks=False) and is_plain_name(e.name))
            yield from sorted(name for name in found if name.endswith(".json"))[:DOCUMENTS_MAX]

    def document(self, name: str) -> Path:
        """The path of such a document. Raises NotInStoreError where there is none."""
        if name not in self.documents():
            raise NotInStoreError(f"there is no sweep {name!r} in this store")
        return self.root / name


def is_plain_name(name: str) -> bool:
    """Whether a name may be part of a run's path: not hidden, no way up, and something that can be written."""
    return (
        name not in ("", ".", "..") and name[0] != "." and "/" not in name and "\0" not in name and name.isprintable()
    )


def is_folder(path: Path) -> bool:
    """Whether that is a folder, and no link to one."""
    try:
        return stat.S_ISDIR(path.lstat().st_mode)
    except (OSError, ValueError):
        return False


def stamp_of(path: Path) -> Stamp | None:
    """The stamp of a file or a folder; None for what is not there, or is a link."""
    try:
        told = path.lstat()
    except (OSError, ValueError):
        return None
    if stat.S_ISLNK(told.st_mode):
        return None
    return Stamp(inode=told.st_ino, size=told.st_size, changed_ns=told.st_mtime_ns)


def open_plain(path: Path) -> BinaryIO:
    """Open a file for reading, but neither a link nor a device nor a pipe. Raises NotInStoreError."""
    try:
        number = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except (OSError, ValueError):
        raise NotInStoreError(f"{path.name} is not there, or is a link") from None
    if not stat.S_ISREG(os.fstat(number).st_mode):
        os.close(number)
        raise NotInStoreError(f"{path.name} is no file")
    return os.fdopen(number, "rb")


def shards(folder: Path, kind: Kind) -> list[Path]:
    """The shards of one table of a run in order, up to the first that is missing or is no plain file."""
    if not is_folder(folder / kind):
        return []
    with os.scandir(folder / kind) as entries:
        found = {e.name for e in entries if e.is_file(follow_symlinks=False)}
    names = itertools.takewhile(found.__contains__, map(shard_name, itertools.count()))
    return [folder / kind / name for name in names]


def has_links(folder: Path) -> bool:
    """Whether any of what a report is made of is a link, which would be followed, or a pipe: then it is not read."""
    for path in (folder, *(folder / kind for kind in Kind)):
        if path.is_symlink():
            return True
        if path.is_dir():
            with os.scandir(path) as entries:
                if not all(e.is_file(follow_symlinks=False) or e.is_dir(follow_symlinks=False) for e in entries):
                    return True
    return False


def is_recorded(folder: Path) -> bool:
    """Whether the folder is that of a run of the harness, and not merely has a folder of the name ``history``."""
    test = stamp_of(folder / TEST_NAME)
    return test is not None and is_folder(folder / Kind.HISTORY)


def has_ended(folder: Path) -> bool:
    """Whether the history was closed."""
    return stamp_of(folder / Kind.HISTORY / COMPLETE_MARKER) is not None
