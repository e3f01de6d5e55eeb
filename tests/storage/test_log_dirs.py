"""Log directories: where partitions lie, which of them is lost, and what a disk that refuses takes along."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest

from nemesis.disks.simulated_files import PowerLossError, SimulatedFiles
from replica.core import effects as fx
from replica.core.metadata.replay import METADATA_LOG
from replica.ids import Offset, TopicId, TopicPartition
from replica.storage import (
    AlreadyFormattedError,
    DirectoryLockedError,
    FailedDirectoryError,
    ForeignDirectoryError,
    LogTable,
    NotFormattedError,
    StorageError,
    format_log_directory,
    open_directory,
)
from replica.storage.meta_properties import FILE_NAME
from tests.storage.disks import DATA, SMALL, append, formatted

DISKS = (Path("/disk1"), Path("/disk2"))
LOGS = tuple(TopicPartition("orders", number) for number in range(4))
TOPIC = TopicId(7)
PLACES = DATA / "log-directory-checkpoint"


@pytest.fixture
def files() -> SimulatedFiles:
    """A data directory, and two log directories."""
    files = formatted()
    for path in DISKS:
        format_log_directory(path, data_dir=DATA, files=files)
    return files


def opened(files: SimulatedFiles, *disks: Path) -> LogTable:
    """All logs, with these log directories."""
    return LogTable.open(open_directory(DATA, log_dirs=disks, files=files), (METADATA_LOG,), config=SMALL)


def written(files: SimulatedFiles) -> LogTable:
    """Four partitions on two disks, with one flushed record each."""
    table = opened(files, *DISKS)
    for log in LOGS:
        table.perform(fx.CreateLog(topic_partition=log, topic_id=TOPIC))
        append(table.stores[log])
        table.stores[log].flush()
    return table


def after_crash(files: SimulatedFiles, table: LogTable) -> None:
    """The power goes."""
    table.abandon()
    files.crash()


def damage(table: LogTable) -> dict[TopicPartition, str]:
    """The logs that a start has found to be lost, and why."""
    return {log: found.damage for log, found in table.recovered.items() if found.damage is not None}


def broken(path: Path, files: SimulatedFiles) -> None:
    """Let every call below this directory fail."""
    files.fault = lambda _call, at: OSError(5, "Input/output error") if at.is_relative_to(path) else None


def test_partitions_go_where_the_fewest_are(files: SimulatedFiles) -> None:
    """Each disk gets half of them, nothing but the metadata log is in the data directory, and a start finds all."""
    table = written(files)
    assert [files.exists(path / f"{log}") for log in LOGS for path in DISKS] == [True, False, False, True] * 2
    assert not any(files.exists(DATA / f"{log}") for log in LOGS)
    after_crash(files, table)
    again = opened(files, *reversed(DISKS))
    assert [again.stores[log].log_end_offset for log in LOGS] == [1] * 4
    assert again.failed_at_start() == ()


def test_partitions_stay_where_they_are(files: SimulatedFiles) -> None:
    """Who is given log directories keeps what is in the data directory, and puts only new partitions elsewhere."""
    table = opened(files)
    table.perform(fx.CreateLog(topic_partition=LOGS[0], topic_id=TOPIC))
    append(table.stores[LOGS[0]])
    table.close_clean()
    assert not files.exists(PLACES)
    again = opened(files, *DISKS)
    assert again.stores[LOGS[0]].log_end_offset == 1
    again.perform(fx.CreateLog(topic_partition=LOGS[1], topic_id=TOPIC))
    append(again.stores[LOGS[1]])
    assert files.exists(DISKS[0] / f"{LOGS[1]}")


def replaced(files: SimulatedFiles) -> tuple[Path, ...]:
    """An empty disk of another id in the place of the first."""
    files.remove(DISKS[0])
    format_log_directory(DISKS[0], data_dir=DATA, files=files)
    return DISKS


def emptied(files: SimulatedFiles) -> tuple[Path, ...]:
    """A disk of the same id that has forgotten all else."""
    for name in files.names(DISKS[0]):
        if name.startswith("orders"):
            files.remove(DISKS[0] / name)
    return DISKS


def left_out(_files: SimulatedFiles) -> tuple[Path, ...]:
    """The option is not given any more."""
    return DISKS[1:]


def exchanged(files: SimulatedFiles) -> tuple[Path, ...]:
    """The same logs, on a disk of another id: somebody has copied them, nobody knows when."""
    content = (DISKS[1] / FILE_NAME, files.content(DISKS[0] / FILE_NAME))
    files.overwrite(DISKS[0] / FILE_NAME, content[1].replace(b"directory.id=", b"directory.id=x"))
    return DISKS


@pytest.mark.parametrize("change", [replaced, emptied, left_out, exchanged], ids=lambda change: change.__name__)
def test_logs_of_a_disk_that_is_another_one_are_not_believed(
    files: SimulatedFiles, change: Callable[[SimulatedFiles], tuple[Path, ...]]
) -> None:
    """They are told of as damaged, and the others are whole; so it is after every start, until they are replaced."""
    after_crash(files, written(files))
    disks = change(files)
    for _ in range(2):
        table = opened(files, *disks)
        assert damage(table).keys() == {LOGS[0], LOGS[2]}
        assert {log for log in LOGS if log in table.stores} == {LOGS[1], LOGS[3]}
        table.close_clean()
    table = opened(files, *disks)
    for log in damage(table):
        table.perform(fx.ReplaceLog(topic_partition=log, topic_id=TOPIC))
        append(table.stores[log], count=2)
        table.stores[log].flush()
    after_crash(files, table)
    again = opened(files, *disks)
    assert (damage(again), [again.stores[log].log_end_offset for log in LOGS]) == ({}, [2, 1, 2, 1])


def test_log_of_which_nothing_was_flushed_needs_no_disk(files: SimulatedFiles) -> None:
    """Nobody counts on it: where its disk is replaced, it is simply made again."""
    table = opened(files, *DISKS)
    table.perform(fx.CreateLog(topic_partition=LOGS[0], topic_id=TOPIC))
    append(table.stores[LOGS[0]])
    after_crash(files, table)
    assert LOGS[0] not in opened(files, *replaced(files)).recovered


@pytest.mark.parametrize("operation", range(12))
def test_power_loss_while_a_log_gets_its_place(files: SimulatedFiles, operation: int) -> None:
    """Whatever was flushed is found again, or said to be lost when its disk is gone; and nothing else is."""
    table = opened(files, *DISKS)
    table.perform(fx.CreateLog(topic_partition=LOGS[0], topic_id=TOPIC))
    append(table.stores[LOGS[0]])
    files.power_fails_before = files.operations + operation
    flushed = False
    with suppress(PowerLossError):
        flushed = table.stores[LOGS[0]].flush() == 1
    table.abandon()
    files.crash()
    again = opened(files, *DISKS)
    assert damage(again) == {}
    assert not flushed or again.stores[LOGS[0]].log_end_offset == 1
    after_crash(files, again)
    lost = damage(opened(files, *replaced(files)))
    assert not flushed or LOGS[0] in lost


def deleted_and_created(files: SimulatedFiles) -> LogTable:
    """Of another topic, while the disk fails: nothing can be removed from it."""
    table = written(files)
    broken(DISKS[0], files)
    with pytest.raises(FailedDirectoryError) as failure:
        append(table.stores[LOGS[2]])
    table.on_failed(failure.value)
    table.perform(fx.DeleteLog(topic_partition=LOGS[0]))
    table.perform(fx.CreateLog(topic_partition=LOGS[0], topic_id=TopicId(8)))
    append(table.stores[LOGS[0]])
    return table


def replaced_without_its_disk(files: SimulatedFiles) -> LogTable:
    """Of the same topic, while the disk is not named, and flushed."""
    after_crash(files, written(files))
    table = opened(files, DISKS[1])
    table.perform(fx.ReplaceLog(topic_partition=LOGS[0], topic_id=TOPIC))
    append(table.stores[LOGS[0]])
    table.stores[LOGS[0]].flush()
    return table


@pytest.mark.parametrize("made_anew", [deleted_and_created, replaced_without_its_disk], ids=lambda way: way.__name__)
def test_log_that_was_made_anew_without_its_disk(
    files: SimulatedFiles, made_anew: Callable[[SimulatedFiles], LogTable]
) -> None:
    """It counts when the disk is back, even if nothing of it was flushed; what lies on that disk is put aside."""
    table = made_anew(files)
    end_offset = table.stores[LOGS[0]].log_end_offset
    table.abandon()
    files.fault = None
    for _ in range(2):
        again = opened(files, *DISKS)
        assert again.stores[LOGS[0]].log_end_offset == end_offset
        assert [name for name in files.names(DISKS[0]) if name.startswith(f"{LOGS[0]}")] == [f"{LOGS[0]}.1-damaged"]
        after_crash(files, again)


def test_disk_that_is_back_and_cannot_put_a_log_aside_has_failed(files: SimulatedFiles) -> None:
    """The log that counts is there all the same."""
    deleted_and_created(files).abandon()
    files.fault = lambda call, at: (
        OSError(5, "Input/output error") if (call, at.parent) == ("rename", DISKS[0]) else None
    )
    again = opened(files, *DISKS)
    assert again.recovered[LOGS[0]].topic_id == 8
    assert damage(again).keys() == {LOGS[2]}


def test_log_in_two_directories_is_refused(files: SimulatedFiles) -> None:
    """Where nobody can say which of them is the log: one sentence names both."""
    after_crash(files, written(files))
    files.remove(PLACES)
    table = opened(files, DISKS[1])
    table.perform(fx.ReplaceLog(topic_partition=LOGS[0], topic_id=TOPIC))
    append(table.stores[LOGS[0]])
    table.abandon()
    with pytest.raises(StorageError, match=r"orders-0 lies in /disk1 and in /disk2: move one of the two folders away"):
        opened(files, *DISKS)


def test_what_is_no_log_directory_is_refused(files: SimulatedFiles) -> None:
    """One that was never formatted, one of another replica, one in use, and one that holds something already."""
    with pytest.raises(NotFormattedError, match="/disk3 is not a formatted log directory"):
        opened(files, Path("/disk3"))
    with pytest.raises(AlreadyFormattedError):
        format_log_directory(DISKS[0], data_dir=DATA, files=files)
    table = opened(files, *DISKS)
    with pytest.raises(DirectoryLockedError):
        opened(files, *DISKS)
    table.abandon()
    meta = files.content(DISKS[0] / FILE_NAME)
    files.overwrite(DISKS[0] / FILE_NAME, meta.replace(b"node.id=1", b"node.id=2"))
    with pytest.raises(ForeignDirectoryError, match="/disk1 belongs to replica 2 of cluster cluster"):
        opened(files, *DISKS)
    files.overwrite(DISKS[0] / FILE_NAME, files.content(DISKS[1] / FILE_NAME))
    with pytest.raises(StorageError, match="the same directory id"):
        opened(files, *DISKS)


def test_disk_that_refuses_takes_its_own_logs_only(files: SimulatedFiles) -> None:
    """The core is told of all logs there; the others are written and flushed, and the stop leaves no marker."""
    table = written(files)
    broken(DISKS[0], files)
    with pytest.raises(FailedDirectoryError) as failure:
        append(table.stores[LOGS[2]])
    told = table.on_failed(failure.value)
    assert (told.directory, told.logs) == ("/disk1", (LOGS[0], LOGS[2]))
    assert "Input/output error" in told.reason
    append(table.stores[LOGS[1]])
    assert table.stores[LOGS[1]].flush() == 2
    table.flush()
    table.checkpoint_recovery_points()
    table.checkpoint_log_starts()
    new = TopicPartition("orders", 9)
    table.perform(fx.CreateLog(topic_partition=new, topic_id=TOPIC))
    append(table.stores[new])
    assert files.exists(DISKS[1] / f"{new}")
    table.close_clean()
    files.fault = None
    again = opened(files, *DISKS)
    assert not again.directory.was_clean
    assert damage(again) == {}
    assert again.stores[LOGS[1]].log_end_offset == 2


def test_disk_that_refuses_the_start_takes_its_own_logs_only(files: SimulatedFiles) -> None:
    """They are told of, as lying in a directory that has failed, and the others are opened."""
    after_crash(files, written(files))
    broken(DISKS[1], files)
    table = opened(files, *DISKS)
    (failed,) = table.failed_at_start()
    assert (failed.directory, failed.logs) == ("/disk2", (LOGS[1], LOGS[3]))
    assert damage(table).keys() == {LOGS[1], LOGS[3]}
    table.abandon()
    files.fault = None
    assert damage(opened(files, *DISKS)) == {}


def test_nothing_is_done_where_every_disk_has_failed(files: SimulatedFiles) -> None:
    """A new partition is told of like the others there, whatever is asked of it; a topic that goes is forgotten."""
    table = written(files)
    for path in DISKS:
        broken(path, files)
        with pytest.raises(FailedDirectoryError):
            table.stores[LOGS[DISKS.index(path)]].store_epochs(())
    new = TopicPartition("orders", 9)
    for effect in (
        fx.CreateLog(topic_partition=new, topic_id=TOPIC),
        fx.Append(topic_partition=new, batches=()),
        fx.Truncate(topic_partition=new, end_offset=Offset(0)),
    ):
        with pytest.raises(FailedDirectoryError) as failure:
            table.perform(effect)
        assert new in table.on_failed(failure.value).logs
    table.perform(fx.DeleteLog(topic_partition=LOGS[0]))
    assert table.directory.recovery_points.get(LOGS[0]) is None


def test_data_directory_that_refuses_is_a_failure_of_all(files: SimulatedFiles) -> None:
    """Also where it is a log of another disk that needs it: its recovery point is in the data directory."""
    table = opened(files, *DISKS)
    table.perform(fx.CreateLog(topic_partition=LOGS[0], topic_id=TOPIC))
    append(table.stores[LOGS[0]])
    broken(DATA, files)
    with pytest.raises(StorageError) as failure:
        table.stores[LOGS[0]].flush()
    assert not isinstance(failure.value, FailedDirectoryError)
