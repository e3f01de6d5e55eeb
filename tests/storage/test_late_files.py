"""A new log is on the disk with its first record, and durable with its first flush; until then it costs nothing."""

from __future__ import annotations

import random
from contextlib import suppress

import pytest

from nemesis.disks.simulated_files import PowerLossError, SimulatedFiles
from replica.core.effects import Append, CreateLog, DeleteLog, ReplaceLog, StartLogAt, StoreEpochs
from replica.ids import Offset, TopicId
from replica.storage import LogTable, StorageError, open_directory
from replica.storage.files import OpenMode
from replica.storage.late_files import LateFiles
from tests.depth import seeds
from tests.storage.disks import DATA, SMALL, batch, entries, failing, formatted
from tests.storage.partitions import PARTITION, PARTITION_PATH, TOPIC_ID

CREATE = CreateLog(topic_partition=PARTITION, topic_id=TOPIC_ID)
EPOCHS = StoreEpochs(topic_partition=PARTITION, entries=entries((1, 0)))
FIRST = Append(topic_partition=PARTITION, batches=(batch(0),))


def opened(files: SimulatedFiles) -> LogTable:
    """The logs of the disk, as a new process finds them."""
    return LogTable.open(open_directory(DATA, files=files), ())


def test_a_new_log_is_not_on_the_disk(files: SimulatedFiles) -> None:
    """Neither its creation, nor its epochs, nor a checkpoint, nor a clean stop writes anything of it."""
    table = opened(files)
    before = files.tree()
    files.fault = failing("mkdir")
    table.perform(CREATE)
    table.perform(EPOCHS)
    table.checkpoint_recovery_points()
    table.flush()
    assert files.tree() == before
    table.close_clean()
    assert not files.exists(PARTITION_PATH)
    assert PARTITION not in opened(files).recovered


def test_the_first_record_brings_it_to_the_disk(files: SimulatedFiles) -> None:
    """What was stored before in memory is there, and a process that is killed then loses none of it."""
    table = opened(files)
    for effect in (CREATE, EPOCHS, FIRST):
        table.perform(effect)
    table.abandon()
    recovered = opened(files).recovered[PARTITION]
    assert (recovered.topic_id, recovered.log_end_offset, recovered.epochs) == (TOPIC_ID, 1, entries((1, 0)))


def test_a_new_log_can_be_deleted_and_created_again(files: SimulatedFiles) -> None:
    """There is nothing of it to delete."""
    table = opened(files)
    table.perform(CREATE)
    table.perform(DeleteLog(topic_partition=PARTITION))
    table.perform(CreateLog(topic_partition=PARTITION, topic_id=TopicId(99)))
    table.perform(FIRST)
    table.stores[PARTITION].flush()
    files.crash()
    assert opened(files).recovered[PARTITION].topic_id == 99


@pytest.mark.parametrize("seed", [None, *range(8)])
@pytest.mark.parametrize("begins_at", [None, 40])
def test_power_loss_on_the_way_to_the_first_flush(seed: int | None, begins_at: int | None) -> None:
    """Wherever the power goes, the log is gone or sound; once a flush has ended, or a start was set, it is kept."""
    for operation in range(200):
        files = formatted()
        table = opened(files)
        files.power_fails_before = files.operations + operation
        done = False
        with suppress(PowerLossError):
            for effect in (CREATE, EPOCHS):
                table.perform(effect)
            if begins_at is None:
                table.perform(FIRST)
                table.stores[PARTITION].flush()
            else:
                table.perform(StartLogAt(topic_partition=PARTITION, start_offset=Offset(begins_at)))
            done = True
        files.crash(None if seed is None else random.Random(seed))
        recovered = opened(files).recovered.get(PARTITION)
        if done:
            assert recovered is not None
        if recovered is not None:
            assert (recovered.damage, recovered.topic_id) == (None, TOPIC_ID)
            end = begins_at or 1
            assert recovered.log_end_offset in ({end} if done else {0, end})
            if done and begins_at is None:
                assert recovered.epochs == entries((1, 0))
        if done:
            return
    pytest.fail("it never came to its end")


@pytest.mark.parametrize("seed", seeds(20))
def test_a_second_segment_is_never_there_alone(seed: int) -> None:
    """A log that rolls before its first flush begins where it did, whatever the power leaves of it."""
    chance = random.Random(seed)
    files = formatted()
    table = LogTable.open(open_directory(DATA, files=files), (), config=SMALL)
    files.power_fails_before = files.operations + chance.randint(0, 40)
    with suppress(PowerLossError):
        table.perform(CREATE)
        for offset in range(12):
            table.perform(Append(topic_partition=PARTITION, batches=(batch(offset),)))
            table.perform(StoreEpochs(topic_partition=PARTITION, entries=entries((1, 0))))
        table.stores[PARTITION].flush()
    files.crash(chance)
    recovered = opened(files).recovered.get(PARTITION)
    assert recovered is None or (recovered.log_start_offset, recovered.damage) == (0, None)


def test_a_new_log_takes_along_what_was_put_aside(files: SimulatedFiles) -> None:
    """A damaged log of that name goes with the new one, even if nothing was written to that."""
    table = opened(files)
    for effect in (CREATE, FIRST):
        table.perform(effect)
    table.stores[PARTITION].flush()
    table.perform(ReplaceLog(topic_partition=PARTITION, topic_id=TOPIC_ID))
    table.perform(DeleteLog(topic_partition=PARTITION))
    assert [name for name in files.names(DATA) if name.endswith("-damaged")] == []


def test_a_disk_that_refuses_the_first_record_is_told() -> None:
    """What fails is the append, or the flush, of the log that is concerned."""
    for call, words in (("mkdir", "cannot append"), ("fsync", "cannot flush"), ("fsync_directory", "cannot flush")):
        files = formatted()
        table = opened(files)
        table.perform(CREATE)
        files.fault = failing(call)
        with pytest.raises(StorageError, match=words):
            table.perform(FIRST)
            table.stores[PARTITION].flush()


@pytest.mark.parametrize("seed", seeds(10))
def test_files_in_memory_are_as_files_on_a_disk(seed: int) -> None:
    """Whatever is done with them, before and after they are written out, both look the same."""
    chance = random.Random(seed)
    real, backing = SimulatedFiles(), SimulatedFiles()
    late = LateFiles(backing)
    for files in (real, late):
        files.mkdir(PARTITION_PATH.parent)
        files.mkdir(PARTITION_PATH)
    handles = []
    for step in range(60):
        path = PARTITION_PATH / chance.choice("abc")
        if step == 30:
            late.write_out()
        match chance.randint(0, 8):
            case 0 | 1:
                mode = chance.choice((OpenMode.CREATE, OpenMode.ENSURE))
                handles.append((real.open(path, mode), late.open(path, mode), path))
            case 2 | 3 | 4 if handles:
                one, other, _ = chance.choice(handles)
                data, position = chance.randbytes(chance.randint(1, 9)), chance.randint(0, 12)
                assert real.pwrite(one, data, position) == late.pwrite(other, data, position)
            case 5 if handles:
                one, other, _ = chance.choice(handles)
                size = chance.randint(0, 12)
                real.ftruncate(one, size)
                late.ftruncate(other, size)
            case 6 if handles:
                one, other, _ = handles.pop(chance.randrange(len(handles)))
                real.close(one)
                late.close(other)
            case 7 if real.exists(path) and all(used != path for *_, used in handles):
                target = PARTITION_PATH / chance.choice("de")
                real.rename(path, target)
                late.rename(path, target)
            case _:
                pass
        assert real.names(PARTITION_PATH) == late.names(PARTITION_PATH)
        for one, other, _ in handles:
            assert real.size(one) == late.size(other)
            assert real.pread(one, 20, 0) == late.pread(other, 20, 0)
    late.catch_up()
    assert backing.names(PARTITION_PATH) == real.names(PARTITION_PATH)
