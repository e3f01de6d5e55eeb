"""Power loss while a follower lets its log begin anew: between any two effects, and within each of them.

The effects are the core's own, in its order; the disk is the forgetful one. Whatever survives must be the old log, a
part of it from its start on, or the new one, with all that is derived from it in line.
"""

from __future__ import annotations

from collections.abc import Callable
from random import Random

import pytest

from nemesis.disks.simulated_files import SimulatedFiles
from replica.core.config import BrokerConfig
from replica.core.effects import Effect, Flush
from replica.core.log.recovered import RecoveredLog
from replica.core.partition.producer_state import scan
from replica.core.partition.state import PartitionState
from replica.core.rules import Rules
from replica.ids import Epoch, EpochEntry, Offset, ReplicaId
from replica.records import RecordBatch
from replica.storage import LogStore, open_directory
from replica.storage.log_table import LogTable, StorageEffect
from tests.storage.disks import DATA, SMALL, close, entries, formatted, held
from tests.storage.partitions import PARTITION, TOPIC_ID, create_partition, open_partition, produced, stored
from tests.storage.test_partition_power_loss import interrupted

OLD_START, OLD_END, OLD_HIGH_WATERMARK = 4, 12, 9
NEW_EPOCH = Epoch(5)


def old_disk() -> SimulatedFiles:
    """A partition of twelve flushed records of two epochs and three producers; it begins at 4, inside a segment."""
    files = formatted()
    directory, log = create_partition(files)
    for offset in range(OLD_END):
        batch = produced(offset, producer_id=offset % 3, sequence=offset // 3)
        log.append([batch.stamped(base_offset=Offset(offset), leader_epoch=Epoch(1 if offset < 7 else 3))])
    log.store_epochs(entries((1, 0), (3, 7)))
    log.flush()
    log.note_recovery_point()
    directory.store_checkpoints()
    log.raise_log_start(Offset(OLD_START))
    log.store_epochs(entries((1, OLD_START), (3, 7)))
    directory.store_high_watermarks({PARTITION: Offset(OLD_HIGH_WATERMARK)})
    close(directory, log)
    files.crash()
    return files


def effects_of(recovered: RecoveredLog, offset: int) -> list[Effect]:
    """What the core asks for when it lets this log begin anew and appends at once what its leader has sent."""
    effects: list[Effect] = []
    state = PartitionState(
        topic_partition=PARTITION,
        topic_id=TOPIC_ID,
        replica_id=ReplicaId(2),
        cluster_id="cluster",
        config=BrokerConfig(),
        recovered=recovered,
        rules=Rules(),
        emit=effects.append,
    )
    state.start_log_at(Offset(offset))
    state.append(*new_batches(offset))
    return effects


def new_batches(offset: int) -> list[RecordBatch]:
    """What the leader sends: two records of a later epoch, from a producer that the old log does not know."""
    return [
        produced(at, producer_id=9, sequence=at - offset).stamped(base_offset=Offset(at), leader_epoch=NEW_EPOCH)
        for at in (Offset(offset), Offset(offset + 1))
    ]


def performed(table: LogTable, effects: list[Effect]) -> None:
    """Perform effects in order, a flush as soon as it is asked for."""
    for effect in effects:
        if isinstance(effect, Flush):
            table.stores[PARTITION].flush()
        else:
            assert isinstance(effect, StorageEffect), effect
            table.perform(effect)


def epochs_of(batches: list[RecordBatch], start: int) -> tuple[EpochEntry, ...]:
    """The epoch cache of a log that holds these batches."""
    found: dict[Epoch, Offset] = {}
    for batch in batches:
        found.setdefault(batch.leader_epoch, Offset(max(batch.base_offset, start)))
    return tuple(EpochEntry(epoch, offset) for epoch, offset in found.items())


def check_consistent(files: SimulatedFiles, log: LogStore, recovered: RecoveredLog) -> None:
    """The ends are in order, and epochs and producers are those of the batches that are there."""
    batches = held(log)
    start, end = recovered.log_start_offset, recovered.log_end_offset
    assert recovered.high_watermark is not None
    assert start <= recovered.high_watermark <= end
    assert [batch.base_offset for batch in batches] == list(range(start, end))
    assert recovered.epochs == epochs_of(batches, start)
    assert recovered.producers == scan(stored(files))


def is_old(log: LogStore, recovered: RecoveredLog) -> bool:
    """Whether the log is the old one or a part of it from its start on."""
    return recovered.log_start_offset == OLD_START and all(batch.leader_epoch < NEW_EPOCH for batch in held(log))


def is_new(log: LogStore, recovered: RecoveredLog, offset: int) -> bool:
    """Whether the log is the new one, as far as it was written."""
    return recovered.log_start_offset == offset and all(batch.leader_epoch == NEW_EPOCH for batch in held(log))


@pytest.mark.parametrize("offset", [0, 2, 4, 5, 9, 12, 40])
def test_a_log_begun_anew_is_the_old_one_or_the_new_one(offset: int) -> None:
    """After any prefix of the effects, and of the operations of each, recovery finds a log whose parts agree.

    What the new one holds is not committed because something was that stood at the same offsets before.
    """

    def prepare() -> tuple[SimulatedFiles, Callable[[], object]]:
        files = old_disk()
        table = LogTable.open(open_directory(DATA, files=files), [], config=SMALL)
        effects = effects_of(table.recovered[PARTITION], offset)
        return files, lambda: performed(table, effects)

    for outcome in interrupted(prepare):
        _, log, recovered = open_partition(outcome.files)
        check_consistent(outcome.files, log, recovered)
        assert is_new(log, recovered, offset) or (is_old(log, recovered) and not outcome.done)
        if not is_old(log, recovered):
            assert recovered.high_watermark == offset
        if outcome.done:
            assert recovered.log_end_offset == offset + 2
        outcome.files.crash(outcome.chance)
        _, log, again = open_partition(outcome.files)
        assert again == recovered


@pytest.mark.parametrize("count", [0, 1, 2, 3, 4])
def test_a_process_that_ends_between_two_effects(count: int) -> None:
    """A process that is killed after some of the effects, with all its writes in the page cache, leaves the same."""
    files = old_disk()
    table = LogTable.open(open_directory(DATA, files=files), [], config=SMALL)
    effects = effects_of(table.recovered[PARTITION], 40)
    performed(table, effects[:count])
    table.abandon()
    _, log, recovered = open_partition(files)
    check_consistent(files, log, recovered)
    assert recovered.log_start_offset == (OLD_START if count == 0 else 40)
    files.crash(Random(count))
    assert open_partition(files)[2] == recovered
