"""What the logs of a data directory share: the high watermarks, and how the last stop was."""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from pathlib import Path

import pytest

from nemesis.disks.simulated_files import PowerLossError, SimulatedFiles
from replica.core.effects import Append, CreateLog
from replica.ids import BrokerEpoch, Offset, TopicId, TopicPartition
from replica.records import encode_batch
from replica.storage import CorruptCheckpointError, LogTable, StorageError, open_directory
from replica.storage.checkpoints import OffsetCheckpoint
from tests.storage.disks import DATA, RECOVERY_POINTS, close, failing, formatted
from tests.storage.partitions import HIGH_WATERMARKS, LOG_STARTS, PARTITION, crashed, filled_partition

MARKER = DATA / ".kafka_cleanshutdown"
OTHER = TopicPartition("other", 0)


@pytest.mark.parametrize(("stored", "recovered"), [(0, 3), (3, 3), (7, 7), (12, 12), (40, 12)])
def test_a_recovered_high_watermark_lies_within_the_log(stored: int, recovered: int) -> None:
    """The checkpoint is clamped to what the log holds after its recovery."""
    files, directory, log = filled_partition()
    log.raise_log_start(Offset(3))
    log.note_log_start()
    directory.store_checkpoints()
    directory.store_high_watermarks({PARTITION: Offset(stored)})
    assert crashed(files)[1].high_watermark == recovered


def test_a_high_watermark_that_was_never_stored_is_absent() -> None:
    """Nothing known is not the same as nothing committed."""
    files, directory, _ = filled_partition()
    directory.store_high_watermarks({OTHER: Offset(4)})
    assert crashed(files)[1].high_watermark is None


def test_high_watermark_persistence_multiple_partitions(files: SimulatedFiles) -> None:
    """Each store replaces the entries that it names, durably; one that changes nothing costs nothing.

    1. A sector of a log cannot be read, and its partition is offline. 2. The others' high watermarks are stored. 3. At
    the next start the log is whole: what was known to be committed there is still known (cluster seed 2498).
    """
    directory = open_directory(DATA, files=files)
    directory.store_high_watermarks({PARTITION: Offset(5), OTHER: Offset(0)})
    directory.store_high_watermarks({PARTITION: Offset(7)})
    before = files.operations
    directory.store_high_watermarks({PARTITION: Offset(7)})
    assert files.operations == before
    files.crash()
    assert files.content(HIGH_WATERMARKS) == b"0\n2\nmy-topic 3 7\nother 0 0\n"


def test_high_watermarks_are_never_mixed() -> None:
    """A power loss at any step of a store leaves all of the old entries or all of the new ones."""
    old, new = b"0\n2\nmy-topic 3 5\nother 0 5\n", b"0\n2\nmy-topic 3 8\nother 0 9\n"
    for step in range(100):
        for seed in range(10):
            files = formatted()
            directory = open_directory(DATA, files=files)
            directory.store_high_watermarks({PARTITION: Offset(5), OTHER: Offset(5)})
            files.power_fails_before = files.operations + step
            try:
                directory.store_high_watermarks({PARTITION: Offset(8), OTHER: Offset(9)})
            except PowerLossError:
                files.crash(random.Random(seed))
                assert files.content(HIGH_WATERMARKS) in {old, new}
            else:
                files.crash()
                assert files.content(HIGH_WATERMARKS) == new
                return
    pytest.fail("the store never came to its end")


@pytest.mark.parametrize("path", [LOG_STARTS, HIGH_WATERMARKS])
def test_a_corrupt_shared_checkpoint_is_refused(path: Path) -> None:
    """Neither is read as empty: a log would begin too early, or commit too little."""
    files, _, _ = filled_partition()
    files.crash()
    files.overwrite(path, b"0\n1\nmy-topic 3 x\n")
    with pytest.raises(CorruptCheckpointError, match=f"{path}, line 3: 'x' is not a number"):
        open_directory(DATA, files=files)


def test_a_disk_that_refuses_high_watermarks_is_a_storage_error(files: SimulatedFiles) -> None:
    """A failed store names the file."""
    directory = open_directory(DATA, files=files)
    files.fault = failing("fsync")
    with pytest.raises(StorageError, match="cannot write /data/replication-offset-checkpoint: input/output error"):
        directory.store_high_watermarks({PARTITION: Offset(5)})


def test_lowering_and_removing_entries(files: SimulatedFiles) -> None:
    """An entry is lowered only where a larger one stands, and removed without a trace; else nothing is written."""
    checkpoint = OffsetCheckpoint.load(files, HIGH_WATERMARKS)
    checkpoint.put(PARTITION, Offset(7))
    before = files.operations
    checkpoint.lower(PARTITION, Offset(8))
    checkpoint.lower(OTHER, Offset(1))
    checkpoint.remove(OTHER)
    assert files.operations == before
    checkpoint.lower(PARTITION, Offset(3))
    files.crash()
    assert files.content(HIGH_WATERMARKS) == b"0\n1\nmy-topic 3 3\n"
    checkpoint.remove(PARTITION)
    files.crash()
    assert files.content(HIGH_WATERMARKS) == b"0\n0\n"


def test_a_note_is_stored_with_whatever_is_stored_next(files: SimulatedFiles) -> None:
    """What is only noted is durable with the next change that must be, and never above what a cut has left."""
    checkpoint = OffsetCheckpoint.load(files, HIGH_WATERMARKS)
    before = files.operations
    checkpoint.note(PARTITION, Offset(7))
    checkpoint.note(OTHER, Offset(9))
    assert files.operations == before
    assert checkpoint.get(PARTITION) == 7
    checkpoint.lower(PARTITION, Offset(3))  # As a truncation does that comes between the note and its store.
    files.crash()
    assert files.content(HIGH_WATERMARKS) == b"0\n2\nmy-topic 3 3\nother 0 9\n"
    before = files.operations
    checkpoint.store()
    assert files.operations == before
    checkpoint.note(OTHER, None)
    checkpoint.store()
    files.crash()
    assert files.content(HIGH_WATERMARKS) == b"0\n1\nmy-topic 3 3\n"


@pytest.mark.parametrize("close", [LogTable.checkpoint_recovery_points, LogTable.close_clean])
def test_each_checkpoint_is_written_once_for_all_logs(files: SimulatedFiles, close: Callable[[LogTable], None]) -> None:
    """However many logs there are, noting how far they are flushed writes one file, at intervals and in the end."""
    table = LogTable.open(open_directory(DATA, files=files), ())
    for number in range(20):
        log = TopicPartition("many", number)
        table.perform(CreateLog(topic_partition=log, topic_id=TopicId(7)))
        table.perform(Append(topic_partition=log, batches=(encode_batch([b"v"], leader_epoch=1),)))
        table.stores[log].flush()
    files.calls.clear()
    close(table)
    assert files.calls.count("fsync recovery-point-offset-checkpoint.tmp") == 1, files.calls
    files.crash()
    assert files.content(RECOVERY_POINTS).startswith(b"0\n20\nmany 0 1\n")


@pytest.mark.parametrize(
    ("broker_epoch", "content"),
    [
        (None, {"version": 0}),
        (BrokerEpoch(0), {"version": 0, "brokerEpoch": 0}),
        (BrokerEpoch(41), {"version": 0, "brokerEpoch": 41}),
    ],
)
def test_clean_shutdown_file_with_broker_epoch(broker_epoch: BrokerEpoch | None, content: dict[str, int]) -> None:
    """The marker names the incarnation that stopped, if there was one, and the next start is told once."""
    files, directory, log = filled_partition()
    log.close(clean=True)
    directory.close(clean=True, broker_epoch=broker_epoch)
    files.crash()
    assert json.loads(files.content(MARKER)) == content
    directory = open_directory(DATA, files=files)
    assert (directory.was_clean, directory.clean_broker_epoch) == (True, broker_epoch)
    files.crash()
    directory = open_directory(DATA, files=files)
    assert (directory.was_clean, directory.clean_broker_epoch) == (False, None)


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b"", "not JSON"),
        (b'{"version":0,', "not JSON"),
        (b"\xff", "not JSON"),
        (b"[]", "not a JSON object"),
        (b"{}", "version None is not 0"),
        (b'{"version":1}', "version 1 is not 0"),
        (b'{"version":false}', "version False is not 0"),
        (b'{"version":0,"brokerEpoch":-1}', "brokerEpoch -1 is not a number"),
        (b'{"version":0,"brokerEpoch":null}', "brokerEpoch None is not a number"),
        (b'{"version":0,"brokerEpoch":true}', "brokerEpoch True is not a number"),
    ],
)
def test_a_malformed_marker_is_refused_by_name(content: bytes, reason: str) -> None:
    """A marker that is not exactly right is neither believed nor taken away."""
    files, directory, log = filled_partition()
    close(directory, log)
    files.overwrite(MARKER, content)
    with pytest.raises(CorruptCheckpointError, match=rf"{MARKER}: .*{reason}"):
        open_directory(DATA, files=files)
    assert files.content(MARKER) == content
