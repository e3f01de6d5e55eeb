"""The log of one partition is damaged: what its store still does, what a start makes of it, and how it is put aside."""

from __future__ import annotations

from random import Random

import pytest

from nemesis.disks.simulated_files import PowerLossError, SimulatedFiles
from replica.core.effects import DeleteLog, FindBatch, ReplaceLog
from replica.core.events import BatchFound
from replica.core.metadata.replay import METADATA_LOG
from replica.ids import Offset, TopicId
from replica.storage import DamagedLogError, LogTable, StorageError, open_directory
from tests.storage.disks import DATA, SMALL, append, batch, failing, flip
from tests.storage.partitions import PARTITION, TOPIC_ID, filled_partition, segment_bases

FIRST_SEGMENT = DATA / str(PARTITION) / f"{0:020d}.log"


def opened(files: SimulatedFiles) -> LogTable:
    """All logs of a disk."""
    return LogTable.open(open_directory(DATA, files=files), (METADATA_LOG,), config=SMALL)


def damaged_disk() -> SimulatedFiles:
    """A disk with a partition of several flushed segments, of which the first is damaged, after an unclean stop."""
    files, directory, log = filled_partition()
    log.flush()
    log.note_recovery_point()
    directory.store_checkpoints()
    assert len(segment_bases(files)) > 2
    directory.close(clean=False)
    files.crash()
    flip(files, FIRST_SEGMENT, 70)
    return files


def test_a_reader_that_comes_upon_damage_ends_the_store() -> None:
    """It names the record. Then nothing is read or written, a flush promises nothing new, and no stop is clean."""
    files, directory, log = filled_partition()
    log.flush()
    flushed = log.flushed_end_offset
    log.append([batch(log.log_end_offset)])
    flip(files, FIRST_SEGMENT, 70)
    with pytest.raises(DamagedLogError) as found:
        log.read(Offset(0), Offset(1), 1)
    assert (found.value.topic_partition, found.value.offset) == (PARTITION, 0)
    assert log.is_damaged
    with pytest.raises(DamagedLogError):
        log.append([batch(log.log_end_offset)])
    with pytest.raises(DamagedLogError):
        log.truncate(Offset(1))
    log.note_recovery_point()
    directory.store_checkpoints()
    assert log.flush() == flushed
    log.close(clean=False)
    directory.close(clean=True)
    assert not open_directory(DATA, files=files).was_clean


def test_a_damaged_log_is_told_of_and_the_others_are_opened() -> None:
    """Nothing of it has changed."""
    files = damaged_disk()
    before = {path: content for path, content in files.tree().items() if f"/{PARTITION}/" in path}
    table = opened(files)
    found = table.recovered[PARTITION]
    assert found.damage is not None
    assert "byte 0 (offset 0) holds a corrupt batch" in found.damage
    assert (found.topic_id, list(table.stores)) == (TOPIC_ID, [METADATA_LOG])
    assert {path: content for path, content in files.tree().items() if f"/{PARTITION}/" in path} == before
    table.close_clean()
    assert opened(files).recovered[PARTITION].damage is not None


def test_a_segment_that_cannot_be_read_is_not_cut() -> None:
    """Above the recovery point, too, where a torn write would be: the disk may say another time what stands there."""
    files, directory, log = filled_partition()
    log.flush()
    directory.close(clean=False)
    files.crash()
    content = files.content(FIRST_SEGMENT)
    files.fault = failing("pread", FIRST_SEGMENT.name)
    table = opened(files)
    assert "input/output error" in (table.recovered[PARTITION].damage or "").lower()
    assert files.content(FIRST_SEGMENT) == content
    table.abandon()
    files.fault = None
    assert opened(files).recovered[PARTITION].damage is None


def test_a_failed_flush_at_start_is_no_damage() -> None:
    """What cannot be written stops the start, whose log ever it is."""
    files, directory, log = filled_partition()
    log.flush()
    directory.close(clean=False)
    files.crash()
    files.fault = failing("fsync", FIRST_SEGMENT.name)
    with pytest.raises(StorageError) as refused:
        opened(files)
    assert not isinstance(refused.value, DamagedLogError)


def test_a_damaged_log_is_put_aside() -> None:
    """It is empty under its name, and whole under the other; with the next start both are as they were."""
    files = damaged_disk()
    content = files.content(FIRST_SEGMENT)
    table = opened(files)
    table.perform(ReplaceLog(topic_partition=PARTITION, topic_id=TopicId(9)))
    assert table.stores[PARTITION].log_end_offset == 0
    append(table.stores[PARTITION], count=1)
    table.close_clean()
    again = opened(files)
    assert again.recovered.keys() == {METADATA_LOG, PARTITION}
    assert (again.recovered[PARTITION].topic_id, again.recovered[PARTITION].log_end_offset) == (9, 1)
    (aside,) = (name for name in files.names(DATA) if name.endswith("-damaged"))
    assert files.content(DATA / aside / FIRST_SEGMENT.name) == content


def test_a_log_whose_folder_is_gone_is_deleted_or_begun_anew() -> None:
    """There is nothing to put aside, and nothing to keep."""
    for effect in (
        DeleteLog(topic_partition=PARTITION),
        ReplaceLog(topic_partition=PARTITION, topic_id=TOPIC_ID),
    ):
        files = damaged_disk()
        files.remove(DATA / str(PARTITION))
        table = opened(files)
        assert "is missing" in (table.recovered[PARTITION].damage or "")
        table.perform(effect)
        assert (PARTITION in table.stores) is isinstance(effect, ReplaceLog)
        for store in (store for name, store in table.stores.items() if name == PARTITION):
            append(store, count=1)
            store.flush()
        table.abandon()
        files.crash()
        assert (PARTITION in opened(files).recovered) is isinstance(effect, ReplaceLog)


@pytest.mark.parametrize("seed", [None, *range(6)])
def test_power_loss_while_a_log_is_put_aside(seed: int | None) -> None:
    """The damaged log is there, or its sound beginning, or none, or the new one; and the next start opens all."""
    outcomes = set()
    for operation in range(200):
        files = damaged_disk()
        table = opened(files)
        files.power_fails_before = files.operations + operation
        try:
            table.perform(ReplaceLog(topic_partition=PARTITION, topic_id=TOPIC_ID))
        except PowerLossError:
            pass
        else:
            break
        files.crash(None if seed is None else Random(f"{seed} {operation}"))
        found = opened(files).recovered.get(PARTITION)
        outcomes.add(None if found is None else (found.damage is None, found.log_end_offset))
    else:
        raise AssertionError("it never came to its end")
    assert outcomes <= {None, (False, 0), (True, 0)}
    assert len(outcomes) > 1


def test_where_a_batch_begins() -> None:
    """Storage finds it for any offset of the log, in memory or on the disk."""
    files, directory, log = filled_partition(1)
    log.append([batch(1, count=3), batch(4, count=2)])
    log.flush()
    log.close(clean=True)
    directory.close(clean=True)
    table = opened(files)
    found = [table.perform(FindBatch(topic_partition=PARTITION, offset=Offset(offset))) for offset in range(6)]
    assert [one.base_offset for one in found if isinstance(one, BatchFound)] == [0, 1, 1, 1, 4, 4]
