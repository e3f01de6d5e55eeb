"""Power loss before any operation of what a partition's log goes through: it comes back whole, or not at all."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass

import pytest

from nemesis.disks.simulated_files import PowerLossError, SimulatedFiles
from replica.core.log.recovered import RecoveredLog
from replica.ids import BrokerEpoch, Offset, TopicId
from replica.storage import LogStore, open_directory
from tests.depth import seeds
from tests.storage.disks import DATA, append, close, entries, formatted, held
from tests.storage.partitions import PARTITION, PARTITION_PATH, TOPIC_ID, filled_partition, open_partition

STEPS_MAX = 200
SEEDS = (None, *seeds(2))


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """A disk after its power was lost in the middle of something, or behind its end (``done``)."""

    files: SimulatedFiles
    done: bool
    chance: random.Random


def interrupted(prepare: Callable[[], tuple[SimulatedFiles, Callable[[], object]]]) -> Iterator[Outcome]:
    """Lose the power before each operation of what ``prepare`` returns, again and again with other things surviving."""
    done = False
    for step in range(STEPS_MAX):
        for seed in SEEDS:
            files, act = prepare()
            files.power_fails_before = files.operations + step
            done = False
            with suppress(PowerLossError):
                act()
                done = True
            chance = random.Random(seed)
            files.crash(None if seed is None else chance)
            yield Outcome(files=files, done=done, chance=chance)
        if done:
            return
    pytest.fail("it never came to its end")


def opened(outcome: Outcome) -> tuple[LogStore, RecoveredLog]:
    """Open the partition, with some more power losses on the way."""
    for _ in range(3):
        outcome.files.power_fails_before = outcome.files.operations + outcome.chance.randint(0, 20)
        with suppress(PowerLossError):
            open_partition(outcome.files)
        outcome.files.crash(outcome.chance)
    _, log, recovered = open_partition(outcome.files)
    return log, recovered


def written(log: LogStore) -> list[tuple[int, int]]:
    """Offset and epoch of every record."""
    return [(found.base_offset, found.leader_epoch) for found in held(log)]


def is_listed(files: SimulatedFiles) -> bool:
    """Whether there is a log of the partition."""
    directory = open_directory(DATA, files=files)
    directory.close(clean=False)
    return PARTITION in directory.topic_partitions()


def test_creating_a_partition_is_all_or_nothing() -> None:
    """A log whose creation was cut short is not there and can be created; one that is there is whole and empty."""

    def prepare() -> tuple[SimulatedFiles, Callable[[], object]]:
        files = formatted()
        directory = open_directory(DATA, files=files)
        return files, lambda: directory.create_log(PARTITION, TOPIC_ID)

    for outcome in interrupted(prepare):
        assert is_listed(outcome.files) or not outcome.done
        if not is_listed(outcome.files):
            open_directory(DATA, files=outcome.files).create_log(PARTITION, TOPIC_ID)
            outcome.files.crash()
        _, recovered = opened(outcome)
        assert (recovered.topic_id, recovered.log_end_offset) == (TOPIC_ID, 0)


def test_first_opening_of_a_partition_is_repeated_until_it_is_done() -> None:
    """A created log of which nothing else was made durable is an empty one."""

    def prepare() -> tuple[SimulatedFiles, Callable[[], object]]:
        files = formatted()
        directory = open_directory(DATA, files=files)
        directory.create_log(PARTITION, TOPIC_ID)
        return files, lambda: LogStore.open(directory, PARTITION)

    for outcome in interrupted(prepare):
        _, recovered = opened(outcome)
        assert (recovered.topic_id, recovered.log_end_offset) == (TOPIC_ID, 0)


def test_deleting_a_partition_is_all_or_nothing() -> None:
    """A log whose deletion was cut short has all its records, or is gone for good."""

    def prepare() -> tuple[SimulatedFiles, Callable[[], object]]:
        files, directory, log = filled_partition()
        log.close(clean=False)
        return files, lambda: directory.delete_log(PARTITION)

    for outcome in interrupted(prepare):
        if is_listed(outcome.files):
            assert not outcome.done
            log, recovered = opened(outcome)
            assert recovered.topic_id == TOPIC_ID
            assert written(log) == [(offset, 1) for offset in range(12)]
        else:
            outcome.files.crash(outcome.chance)
            assert not is_listed(outcome.files)


@pytest.mark.parametrize("synced", [True, False])
def test_removing_a_deleted_partition_brings_nothing_back(synced: bool) -> None:
    """A start that is cut short while it removes a deleted log leaves no log of that name, nor a part of one.

    The earlier process may have been killed between its renaming and its sync.
    """

    def prepare() -> tuple[SimulatedFiles, Callable[[], object]]:
        files, directory, log = filled_partition()
        log.close(clean=False)
        if synced:
            directory.delete_log(PARTITION)
        else:
            directory.recovery_points.remove(PARTITION)
            files.rename(PARTITION_PATH, PARTITION_PATH.with_name("my-topic-3.1-delete"))
        directory.close(clean=False)
        return files, lambda: open_directory(DATA, files=files)

    for outcome in interrupted(prepare):
        if is_listed(outcome.files):
            assert not synced
            assert not outcome.done
            assert written(opened(outcome)[0]) == [(offset, 1) for offset in range(12)]


def test_emptying_the_trash_brings_nothing_back() -> None:
    """A removal that is cut short leaves the new log of that name as it is."""

    def prepare() -> tuple[SimulatedFiles, Callable[[], object]]:
        files, directory, log = filled_partition()
        log.close(clean=False)
        directory.delete_log(PARTITION)
        directory.create_log(PARTITION, TopicId(99))
        log, _ = LogStore.open(directory, PARTITION)
        append(log, count=2)
        log.flush()
        directory.delete_expired(0)
        return files, lambda: directory.delete_expired(1 << 40)

    for outcome in interrupted(prepare):
        log, recovered = opened(outcome)
        assert (recovered.topic_id, written(log)) == (99, [(0, 1), (1, 1)])


@pytest.mark.slow
@pytest.mark.parametrize("offset", [0, 3, 5, 7, 10, 12, 40])
def test_start_at_then_crash(offset: int) -> None:
    """A log begun anew is empty at its offset; one that was cut short holds a part of the old log, or is that one.

    One that ended at the offset is never shorter: others may count on it.
    """

    def prepare() -> tuple[SimulatedFiles, Callable[[], object]]:
        files, directory, log = filled_partition()
        directory.store_high_watermarks({PARTITION: Offset(11)})
        log.raise_log_start(Offset(6))
        return files, lambda: log.start_at(Offset(offset))

    for outcome in interrupted(prepare):
        log, recovered = opened(outcome)
        start, end = recovered.log_start_offset, recovered.log_end_offset
        assert written(log) == [(at, 1) for at in range(start, end)]
        assert recovered.high_watermark is not None
        assert recovered.high_watermark <= max(offset, start) or recovered.high_watermark == 11
        if outcome.done:
            assert (start, end, recovered.high_watermark) == (offset, offset, offset)
        else:
            assert (start, end) == (offset, offset) or 5 <= start <= end <= 12
            assert offset != 12 or end == 12


@pytest.mark.parametrize("flushed", [True, False])
@pytest.mark.parametrize("offset", [3, 5, 9, 12, 17])
def test_raise_log_start_then_crash(offset: int, flushed: bool) -> None:
    """No flushed record at or above the log start is lost, and the log begins at most where it was told to."""

    def prepare() -> tuple[SimulatedFiles, Callable[[], object]]:
        files, _, log = filled_partition()
        log.raise_log_start(Offset(2))
        append(log, count=5)
        if flushed:
            log.flush()
        return files, lambda: log.raise_log_start(Offset(offset))

    for outcome in interrupted(prepare):
        log, recovered = opened(outcome)
        start, end = recovered.log_start_offset, recovered.log_end_offset
        assert start <= offset
        assert max(start, 17 if flushed else 12) <= end <= 17
        assert written(log) == [(at, 1) for at in range(start, end)]
        if outcome.done and offset >= 5:
            assert start == offset


@pytest.mark.slow
def test_truncate_to_the_log_start_then_crash() -> None:
    """A truncation of all that the log holds never leaves one that ends below where it began."""

    def prepare() -> tuple[SimulatedFiles, Callable[[], object]]:
        files, _, log = filled_partition()
        log.raise_log_start(Offset(3))
        return files, lambda: log.truncate(Offset(3))

    for outcome in interrupted(prepare):
        log, recovered = opened(outcome)
        start, end = recovered.log_start_offset, recovered.log_end_offset
        assert written(log) == [(at, 1) for at in range(start, end)]
        assert start in {0, 3}
        assert end == 3 if outcome.done else 3 <= end <= 12


def test_checkpointing_the_log_start_then_crash() -> None:
    """The log begins where the old or the new entry says."""

    def prepare() -> tuple[SimulatedFiles, Callable[[], object]]:
        files, directory, log = filled_partition()
        log.raise_log_start(Offset(2))
        log.note_log_start()
        directory.store_checkpoints()
        log.raise_log_start(Offset(4))
        log.note_log_start()
        return files, directory.store_checkpoints

    for outcome in interrupted(prepare):
        _, recovered = opened(outcome)
        assert recovered.log_start_offset in ({4} if outcome.done else {2, 4})
        assert recovered.log_end_offset == 12


@pytest.mark.slow
def test_a_clean_shutdown_then_crash() -> None:
    """The marker, with its broker epoch, is there only after everything else of the clean stop."""

    def prepare() -> tuple[SimulatedFiles, Callable[[], object]]:
        files, directory, log = filled_partition()
        log.raise_log_start(Offset(4))
        append(log, count=2)

        def stop() -> None:
            log.close(clean=True)
            directory.close(clean=True, broker_epoch=BrokerEpoch(8))

        return files, stop

    for outcome in interrupted(prepare):
        directory = open_directory(DATA, files=outcome.files)
        log, recovered = LogStore.open(directory, PARTITION)
        assert written(log) == [(at, 1) for at in range(recovered.log_start_offset, recovered.log_end_offset)]
        assert directory.was_clean or not outcome.done
        if directory.was_clean:
            found = (directory.clean_broker_epoch, recovered.log_start_offset, recovered.log_end_offset)
            assert found == (8, 4, 14)
        else:
            assert recovered.log_start_offset in {0, 4}
            assert 12 <= recovered.log_end_offset <= 14


@pytest.mark.slow
def test_beginning_anew_at_a_start_then_crash() -> None:
    """A recovery that finds a log that ends below its beginning comes to the same end however often it is cut short."""

    def prepare() -> tuple[SimulatedFiles, Callable[[], object]]:
        files, directory, log = filled_partition()
        files.crash()
        files.overwrite(DATA / "log-start-offset-checkpoint", b"0\n1\nmy-topic 3 20\n")
        del directory, log
        return files, lambda: open_partition(files)

    for outcome in interrupted(prepare):
        _, recovered = opened(outcome)
        assert (recovered.log_start_offset, recovered.log_end_offset, recovered.epochs) == (20, 20, ())


def test_restarts_between_power_losses_agree() -> None:
    """A log that was begun anew, filled and closed cleanly comes back as it was left."""
    files, directory, log = filled_partition()
    log.start_at(Offset(40))
    append(log, count=7, epoch=3)
    log.store_epochs(entries((3, 40)))
    log.raise_log_start(Offset(46))
    close(directory, log)
    files.crash()
    _, log, recovered = open_partition(files)
    assert (recovered.log_start_offset, recovered.log_end_offset) == (46, 47)
    assert written(log) == [(46, 3)]
