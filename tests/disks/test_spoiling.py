"""Damage to a data directory: only what a start must notice, drawn by a seed, and taken back byte by byte."""

from __future__ import annotations

import json
import shutil
from itertools import product
from pathlib import Path
from random import Random

import pytest

from nemesis.disks.account import AccountWriter, Call, Record
from nemesis.disks.damage import CUT, WAYS, DiskPart
from nemesis.disks.files import AccountedFiles, begin_account
from nemesis.disks.place import DiskPlace, place_in
from nemesis.disks.spoiling import regions, restore, spoil
from replica.core.effects import QuorumState
from replica.ids import Epoch, Offset, ReplicaId, SnapshotId, TopicPartition
from replica.storage import LogConfig, LogTable, StorageError, format_directory, open_directory
from replica.storage.checkpoints import write_lines
from replica.storage.clean_shutdown import FILE_NAME as CLEAN_FILE
from replica.storage.clean_shutdown import write_clean_shutdown
from replica.storage.directory import RECOVERY_POINT_FILE
from replica.storage.files import OS_FILES
from replica.voters import VoterSet
from tests.storage.disks import append

LOG = TopicPartition("accounts", 0)
CONFIG = LogConfig(segment_bytes=400, index_interval_bytes=100, tail_bytes_max=0)
PROMISED, WRITTEN = 17, 20
"""The recovery point lies in a segment, behind some that are finished."""
NOTICED = [*product((DiskPart.LOG, DiskPart.SNAPSHOT), WAYS), (DiskPart.STATE, CUT)]


@pytest.fixture
def place(tmp_path: Path) -> DiskPlace:
    """The directory of a killed replica, with a log of several segments and epochs, and two snapshots."""
    place = place_in(tmp_path)
    format_directory(place.data, cluster_id="cluster", replica_id=ReplicaId(1), initial_voters=VoterSet(()))
    table = opened(place)
    log = table.stores[LOG]
    log.store_quorum_state(QuorumState(leader_epoch=Epoch(3)))
    append(log, count=9, epoch=1)
    append(log, count=WRITTEN - 9, epoch=3)
    log.flush()
    for end_offset in (4, 8):
        log.store_snapshot(SnapshotId(Offset(end_offset), Epoch(1)), b"%d" % end_offset * 1000)
    table.abandon()
    write_lines(OS_FILES, place.data / RECOVERY_POINT_FILE, [f"{LOG.topic} {LOG.partition} {PROMISED}"])
    return place


def opened(place: DiskPlace) -> LogTable:
    """What a start does. Raises StorageError."""
    return LogTable.open(open_directory(place.data), [LOG], config=CONFIG)


def files_of(place: DiskPlace) -> dict[str, bytes]:
    found = (path for path in sorted(place.data.rglob("*")) if path.is_file() and path.name != ".lock")
    return {str(path.relative_to(place.data)): path.read_bytes() for path in found}


@pytest.mark.parametrize(("part", "how"), NOTICED)
def test_what_is_damaged_is_noticed_and_restored(place: DiskPlace, part: DiskPart, how: str) -> None:
    """One file differs, as is told; a start refuses it (of a snapshot, its reader); then all is as it was before."""
    before = files_of(place)
    for draw in range(25):
        spoilt = spoil(place, part, how, Random(draw))
        damage = spoilt.damage
        after = files_of(place)
        assert [name for name in before if before[name] != after[name]] == [damage.file]
        was, now = before[damage.file], after[damage.file]
        assert was[: damage.position] == now[: damage.position]
        assert damage.size_bytes == len(was)
        assert damage.changed_bytes == (
            len(was) - len(now) if damage.how == CUT else sum(a != b for a, b in zip(was, now, strict=True))
        )
        if part is DiskPart.SNAPSHOT:
            assert damage.file.endswith("00000000000000000008-0000000001.checkpoint"), "the newest"
        else:
            with pytest.raises(StorageError, match=Path(damage.file).name.replace(".", r"\.") + "|00000.*log"):
                opened(place)
        assert files_of(place) == after, "a refused start changes nothing"
        assert restore(place, spoilt) is None
        assert files_of(place) == before
    opened(place).abandon()


def test_equal_draws_do_equal_damage(place: DiskPlace) -> None:
    """What is damaged, where and how is a function of the directory and the draw."""
    done = []
    for draw in (1, 1, 2):
        spoilt = spoil(place, DiskPart.LOG, "flip", Random(draw))
        done.append(spoilt.damage)
        assert restore(place, spoilt) is None
    assert done[0] == done[1] != done[2]
    assert json.loads(json.dumps(done[0].to_json()))["was"] == done[0].was


def test_nothing_above_the_recovery_point_is_damaged(place: DiskPlace) -> None:
    """There a torn write and rot look alike, and either is cut: it would be a loss that no replica could notice."""
    found = regions(place.data, DiskPart.LOG)
    ends = {region.path.name: region.end for region in found}
    last = place.data / str(LOG) / f"{PROMISED - PROMISED % 5:020d}.log"
    assert ends[last.name] < last.stat().st_size
    assert all(region.end == region.path.stat().st_size for region in found if region.path != last)


def test_where_nothing_is_promised_a_small_file_loses_its_end(place: DiskPlace) -> None:
    """A young replica has flushed nothing that counts, and is damaged all the same."""
    write_lines(OS_FILES, place.data / RECOVERY_POINT_FILE, [f"{LOG.topic} {LOG.partition} 0"])
    young = spoil(place, DiskPart.SNAPSHOT, "flip", Random(1))
    assert young.damage.file.endswith(".checkpoint")
    assert restore(place, young) is None
    for path in (place.data / str(LOG)).glob("*.checkpoint"):
        path.unlink()
    bare = spoil(place, DiskPart.SNAPSHOT, "flip", Random(1))
    assert bare.damage.how == CUT
    with pytest.raises(StorageError):
        opened(place)


def test_after_a_clean_stop_a_small_file_loses_its_end(place: DiskPlace) -> None:
    """A replica killed before it has begun to read: its logs are believed, and of them only the end is read."""
    opened(place).close_clean()
    for draw in range(25):
        spoilt = spoil(place, DiskPart.LOG, "flip", Random(draw))
        with pytest.raises(StorageError):
            opened(place)
        assert restore(place, spoilt) is None
        write_clean_shutdown(OS_FILES, place.data / CLEAN_FILE, None)


def test_a_write_that_a_kill_may_have_cut_short_does_not_mend_the_damage(place: DiskPlace) -> None:
    """It is finished before the damage; the next process finds what is damaged."""
    damaged = place.data / str(LOG) / f"{0:020d}.log"
    begin_account(place)
    account = AccountWriter(place.account)
    account.add(Record(call=Call.OPEN, path=str(damaged.relative_to(place.data)), mode="read_write", number=99))
    content = damaged.read_bytes()
    account.add(Record(call=Call.PWRITE, number=99, position=len(content) - 9, data=content[-9:] + b"more"))
    account.close()
    write_lines(OS_FILES, place.data / RECOVERY_POINT_FILE, [f"{LOG.topic} {LOG.partition} 5"])

    spoilt = spoil(place, DiskPart.LOG, CUT, Random(1))
    after = files_of(place)
    AccountedFiles(place)

    assert place.data / spoilt.damage.file == damaged
    assert spoilt.copy.read_bytes() == content + b"more"
    assert files_of(place) == after


def test_a_write_that_a_kill_may_have_cut_short_is_not_done_to_what_was_restored(place: DiskPlace) -> None:
    """Whoever met the damage was killed at work on that file: it is not as the damage has left it."""
    begin_account(place)
    spoilt = spoil(place, DiskPart.LOG, "flip", Random(1))
    account = AccountWriter(place.account)
    account.add(Record(call=Call.OPEN, path=spoilt.damage.file, mode="read_write", number=99))
    account.add(Record(call=Call.FTRUNCATE, number=99, position=10))
    account.close()
    assert "somebody has written to it" in (restore(place, spoilt) or "")


def test_what_has_changed_since_is_not_restored(place: DiskPlace) -> None:
    """A file that somebody has written to, and the file of another disk, stay as they are."""
    spoilt = spoil(place, DiskPart.LOG, "flip", Random(1))
    path = place.data / spoilt.damage.file
    path.write_bytes(path.read_bytes()[:-1])
    assert "somebody has written to it" in (restore(place, spoilt) or "")
    shutil.rmtree(place.data)
    format_directory(place.data, cluster_id="cluster", replica_id=ReplicaId(1), initial_voters=VoterSet(()))
    assert restore(place, spoilt) == "the disk was replaced meanwhile"
