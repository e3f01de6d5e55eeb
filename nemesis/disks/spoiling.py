"""Damage is done to the data directory of a replica that does not run, so that its next start must notice it.

Owns which files that can be, which of their bytes, and the putting back of what was there before. Only what is promised
is damaged: of a log the batches below its recovery point, since above that nobody can tell rot from a torn write, and
either is cut. Bytes are changed only where there is a checksum or an order to show it. Small files have none: there the
end is cut off, for a digit that has become another one is as good as the first. How bytes are spoiled, the simulator
says.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from hashlib import sha256
from itertools import pairwise
from pathlib import Path
from random import Random
from typing import assert_never

from nemesis.disks.damage import CUT, SECTOR_BYTES, Damage, DiskPart, spoiled
from nemesis.disks.files import settle
from nemesis.disks.place import DiskPlace
from replica.ids import Offset, TopicPartition
from replica.records import batch_size_at
from replica.storage.checkpoints import OffsetCheckpoint
from replica.storage.clean_shutdown import FILE_NAME as CLEAN_FILE
from replica.storage.directory import LOG_START_FILE, RECOVERY_POINT_FILE, REPLICATION_OFFSET_FILE
from replica.storage.files import OS_FILES
from replica.storage.meta_properties import FILE_NAME as IDENTITY_FILE
from replica.storage.quorum_state_file import QUORUM_STATE_FILE
from replica.storage.recovery import EPOCH_FILE
from replica.storage.segment import LOG_SUFFIX, base_offset_of
from replica.storage.snapshots import snapshot_id_of
from replica.storage.voter_files import QUORUM_VOTERS_FILE

STATE_FILES = (RECOVERY_POINT_FILE, LOG_START_FILE, REPLICATION_OFFSET_FILE)
"""The small files of a data directory, without which it is not opened."""
LOG_STATE_FILES = (EPOCH_FILE, QUORUM_STATE_FILE, QUORUM_VOTERS_FILE)
"""Those of a log that has them."""
_TRIES_MAX = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class Region:
    """Bytes of a file, from ``begin`` to ``end``, none of which may be changed, and behind none of which be cut."""

    path: Path
    begin: int
    end: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Spoiled:
    """A file as it is after its damage, and where a sound copy of it lies; ``identity`` is that of the disk."""

    damage: Damage
    digest: bytes
    copy: Path
    identity: bytes


def spoil(place: DiskPlace, part: DiskPart, how: str, dice: Random) -> Spoiled:
    """Damage one file of this part, and set a copy aside.

    Where there is none of it, a log is damaged; where nothing of any log is promised yet, the end of a small file goes.
    """
    settle(place)
    found = regions(place.data, part) or regions(place.data, DiskPart.LOG)
    if not found:
        found, how = regions(place.data, DiskPart.STATE), CUT
    region = dice.choice(found)
    before = region.path.read_bytes()
    after, done = _spoiled(before, region, how, dice)
    copy = place.data.with_name("undamaged")
    copy.mkdir(exist_ok=True)
    shutil.copyfile(region.path, copy / region.path.name)
    region.path.write_bytes(after)
    return Spoiled(
        damage=_told(str(region.path.relative_to(place.data)), done, before, after),
        digest=sha256(after).digest(),
        copy=copy / region.path.name,
        identity=_identity(place),
    )


def restore(place: DiskPlace, spoilt: Spoiled) -> str | None:
    """Put the sound file back; why that is not done, if it is not. The replica must not run."""
    settle(place)  # A process that has met the damage may have been killed at work on this very file.
    path = place.data / spoilt.damage.file
    if _identity(place) != spoilt.identity:
        return "the disk was replaced meanwhile"
    if not path.exists() or sha256(path.read_bytes()).digest() != spoilt.digest:
        return f"{spoilt.damage.file} is not as the damage has left it: somebody has written to it since"
    shutil.copyfile(spoilt.copy, path)
    return None


def regions(data: Path, part: DiskPart) -> list[Region]:
    """All of a data directory that can be damaged of this part; in order of their paths."""
    match part:
        case DiskPart.LOG:
            return list(_promised_batches(data))
        case DiskPart.SNAPSHOT:
            newest = (_newest_snapshot(folder) for folder in _log_folders(data))
            return [Region(path=path, begin=0, end=path.stat().st_size) for path in newest if path is not None]
        case DiskPart.STATE:
            return list(_small_files(data))
        case _:
            assert_never(part)


def _log_folders(data: Path) -> list[Path]:
    names = OffsetCheckpoint.load(OS_FILES, data / RECOVERY_POINT_FILE).topic_partitions()
    return [data / str(name) for name in sorted(names)]


def _newest_snapshot(folder: Path) -> Path | None:
    """The one that the replica begins with. Older ones are read by nobody."""
    found = [(snapshot_id, name) for name in OS_FILES.names(folder) if (snapshot_id := snapshot_id_of(name))]
    return folder / max(found)[1] if found else None


def _small_files(data: Path) -> Iterator[Region]:
    """All but their last two bytes: the last is the end of the line, and JSON does without."""
    of_logs = (folder / name for folder in _log_folders(data) for name in LOG_STATE_FILES)
    for path in (*(data / name for name in STATE_FILES), *of_logs):
        if path.exists():
            yield Region(path=path, begin=0, end=path.stat().st_size - 1)


def _promised_batches(data: Path) -> Iterator[Region]:
    """None where the last stop was a clean one: then only the end of each log is read, and damage is met later."""
    if (data / CLEAN_FILE).exists():
        return
    recovery_points = OffsetCheckpoint.load(OS_FILES, data / RECOVERY_POINT_FILE)
    log_starts = OffsetCheckpoint.load(OS_FILES, data / LOG_START_FILE)
    for log in sorted(recovery_points.topic_partitions()):
        begin, end = log_starts.get(log) or Offset(0), recovery_points.get(log) or Offset(0)
        if begin < end:
            yield from _of_log(data, log, begin, end)


def _of_log(data: Path, log: TopicPartition, begin: Offset, end: Offset) -> Iterator[Region]:
    """The batches from the one that holds ``begin`` up to ``end``, by segment."""
    folder = data / str(log)
    bases = [base for name in OS_FILES.names(folder) if (base := base_offset_of(name, LOG_SUFFIX)) is not None]
    for base, following in pairwise([*bases, end]):
        if base < end and following > begin:
            path = folder / f"{base:020d}{LOG_SUFFIX}"
            region = _between(path, begin, end)
            if region.begin < region.end:
                yield region


def _between(path: Path, begin: Offset, end: Offset) -> Region:
    content = path.read_bytes()
    position, first = 0, 0
    while (size := batch_size_at(content, position)) is not None and position + size <= len(content):
        base = int.from_bytes(content[position : position + 8], "big")
        if base >= end:
            break
        if base <= begin:
            first = position
        position += size
    return Region(path=path, begin=first, end=position)


def _spoiled(before: bytes, region: Region, how: str, dice: Random) -> tuple[bytes, str]:
    """The content afterwards, and how it was damaged: what changes nothing is no damage, and a flip always does."""
    window = before[region.begin : region.end]
    for attempt in (*(how for _ in range(_TRIES_MAX)), "flip"):
        changed = spoiled(attempt, window, dice.randrange(0, len(window), SECTOR_BYTES), dice)
        if changed != window:
            rest = b"" if attempt == CUT else before[region.end :]
            return before[: region.begin] + changed + rest, attempt
    raise AssertionError(f"a flip has changed nothing in {region}")


def _told(file: str, how: str, before: bytes, after: bytes) -> Damage:
    changed = [at for at, (was, now) in enumerate(zip(before, after, strict=False)) if was != now]
    if not changed:
        cut_bytes = len(before) - len(after)
        return Damage(file=file, how=how, position=len(after), changed_bytes=cut_bytes, size_bytes=len(before))
    at = changed[0]
    is_one = len(changed) == 1
    return Damage(
        file=file,
        how=how,
        position=at,
        changed_bytes=len(changed),
        size_bytes=len(before),
        was=before[at] if is_one else None,
        now=after[at] if is_one else None,
    )


def _identity(place: DiskPlace) -> bytes:
    return (place.data / IDENTITY_FILE).read_bytes()
