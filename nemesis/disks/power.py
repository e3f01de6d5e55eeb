"""A power loss: what was not flushed is taken back from a replica's directory.

Owns the doing of an account to a disk of the simulator, whose rules of what survives are the only ones that there are,
and the writing down of what is left. The replica must not run. The whole disk is in memory meanwhile.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterable
from contextlib import nullcontext, suppress
from itertools import pairwise
from pathlib import Path
from random import Random

from nemesis.disks.account import Call, Record, read_account
from nemesis.disks.place import DiskPlace
from nemesis.disks.simulated_files import SimulatedFiles
from replica.storage.files import Handle, OpenMode

ROOT = Path("/")
PART_SHARE = 0.7
"""How often any part of what was not flushed survives, each write perhaps torn; else nothing of it does."""
_END = Record(call=Call.BEGIN)


def lose_power(place: DiskPlace, dice: Random) -> bool:
    """Take back what was not flushed; whether anything of the directory was changed by that.

    A disk of which there is no account was never written to by a replica.
    """
    if not place.account.exists():
        return False
    files = disk_of(read_account(place.account))
    before = files.tree()
    files.crash(dice if dice.random() < PART_SHARE else None)
    shutil.rmtree(place.data)
    place.data.mkdir()
    for folder in files.folders():
        (place.data / folder.relative_to(ROOT)).mkdir(parents=True)
    left = files.tree()
    for name, content in left.items():
        (place.data / Path(name).relative_to(ROOT)).write_bytes(content)
    place.account.unlink()  # The next process begins another, with what is there now.
    return left != before


def disk_of(account: Iterable[Record]) -> SimulatedFiles:
    """The disk to which all of an account was done, its data directory being the root."""
    records = list(account)
    flushed = {record.flush for record in records if record.call is Call.FLUSHED}
    files = SimulatedFiles(remember_calls=False)
    handles: dict[int, Handle] = {}
    for record, following in pairwise([*records, _END]):
        if following.call is Call.FAILED:
            continue
        # A process that was killed in its last call has not told whether that was refused.
        with suppress(OSError, KeyError) if following.call is Call.BEGIN else nullcontext():
            _do(files, handles, record, flushed)
    return files


def _do(files: SimulatedFiles, handles: dict[int, Handle], record: Record, flushed: set[int]) -> None:
    """Do one call; a flush is done where it began, if it ever came to its end."""
    path = ROOT / record.path
    match record.call:
        case Call.BEGIN:
            for handle in handles.values():
                files.close(handle)
            handles.clear()
        case Call.OPEN:
            handles[record.number] = files.open(path, OpenMode(record.mode))
        case Call.CLOSE:
            files.close(handles.pop(record.number))
        case Call.PWRITE:
            files.pwrite(handles[record.number], record.data, record.position)
        case Call.FTRUNCATE:
            files.ftruncate(handles[record.number], record.position)
        case Call.FSYNC:
            if record.flush in flushed:
                files.fsync(handles[record.number])
        case Call.MKDIR:
            if not files.exists(path):
                files.mkdir(path)
        case Call.RENAME:
            files.rename(path, ROOT / record.target)
        case Call.UNLINK:
            files.unlink(path)
        case Call.FSYNC_DIRECTORY:
            if record.flush in flushed:
                files.fsync_directory(path)
        case Call.FLUSHED | Call.FAILED:
            pass
