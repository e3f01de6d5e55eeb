"""Logs that come and go: creating and deleting partitions, listing them, and of which topic each is."""

from __future__ import annotations

from pathlib import Path

import pytest

from nemesis.disks.simulated_files import SimulatedFiles
from replica.ids import Offset, ReplicaId, TopicId, TopicPartition
from replica.storage import (
    CorruptCheckpointError,
    CorruptLogError,
    LogStore,
    StorageError,
    format_directory,
    open_directory,
)
from replica.storage.files import OpenMode
from replica.storage.log_directories import topic_partition_of
from replica.voters import VoterSet
from tests.storage.disks import DATA, LOG, append, close, entries, failing, formatted, open_log
from tests.storage.partitions import (
    METADATA,
    PARTITION,
    PARTITION_PATH,
    TOPIC_ID,
    crashed,
    create_partition,
    filled_partition,
    open_partition,
)

DELETED = DATA / "my-topic-3.1-delete"


def test_a_created_log_knows_its_topic(files: SimulatedFiles) -> None:
    """The topic id is in Kafka's file, survives a power loss, and comes back with the log."""
    create_partition(files)
    assert files.content(METADATA) == b"version: 0\ntopic_id: 17\n"
    _, recovered = crashed(files)
    assert (recovered.topic_id, recovered.log_end_offset, recovered.high_watermark) == (TOPIC_ID, 0, None)


def test_a_quorum_log_has_no_topic() -> None:
    """A log without partition.metadata has no topic id, no high watermark and no producers."""
    _, _, recovered = open_log(formatted())
    assert (recovered.topic_id, recovered.high_watermark, recovered.producers) == (None, None, ())


def test_a_partition_needs_no_quorum_state() -> None:
    """Its leaders are appointed, so that records without a vote are in order."""
    files, _, _ = filled_partition(3)
    assert crashed(files)[1].log_end_offset == 3


@pytest.mark.parametrize(
    ("content", "line", "reason"),
    [
        (b"", None, "expected 2 lines but found 0"),
        (b"version: 0\n", None, "expected 2 lines but found 1"),
        (b"version: 0\ntopic_id: 1\nmore: 2\n", None, "expected 2 lines but found 3"),
        (b"version: 1\ntopic_id: 1\n", 1, "version 1 is not 0"),
        (b"version: 0\ntopic_id: x\n", 2, "'topic_id: x' is not 'topic_id'"),
        (b"version: 0\ntopic_id: -1\n", 2, "is not 'topic_id'"),
        (b"topic_id: 1\nversion: 0\n", 1, "is not 'version'"),
        (b"version: 0\ntopic_id: 1", 2, "does not end"),
        (b"version: 0\ntopic_id: \xff\n", None, "not text"),
    ],
)
def test_malformed_partition_metadata_is_refused_by_name(content: bytes, line: int | None, reason: str) -> None:
    """A log whose topic cannot be read is refused, with file and line, and left as it is."""
    files, _, _ = filled_partition(3)
    files.crash()
    files.overwrite(METADATA, content)
    before = files.tree()
    with pytest.raises(CorruptCheckpointError, match=reason) as caught:
        open_partition(files)
    assert (caught.value.path, caught.value.line) == (METADATA, line)
    assert files.tree() == before


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("log-0", TopicPartition("log", 0)),
        ("a-b-12", TopicPartition("a-b", 12)),
        ("a-1-2", TopicPartition("a-1", 2)),
        ("a--3", TopicPartition("a-", 3)),
        ("log", None),
        ("-0", None),
        ("log-", None),
        ("log-01", None),
        ("log--1-x", None),
        ("lost+found", None),
        ("log-0.1-delete", None),
        ("..-0", None),
    ],
)
def test_names_of_log_directories(name: str, expected: TopicPartition | None) -> None:
    """The partition is what stands behind the last dash, and every name has one spelling."""
    assert topic_partition_of(name) == expected
    assert expected is None or str(expected) == name


def test_topic_partitions_are_the_logs_on_disk(files: SimulatedFiles) -> None:
    """Quorum logs and partitions are listed, sorted; half-made directories, deleted ones and other files are not."""
    directory, _, _ = open_log(files)
    for topic, partition in (("b", 1), ("b", 0), ("a-b", 10)):
        directory.create_log(TopicPartition(topic, partition), TopicId(1))
    directory.create_log(TopicPartition("gone", 0), TopicId(2))
    directory.delete_log(TopicPartition("gone", 0))
    files.mkdir(DATA / "half-0")
    files.close(files.open(DATA / "file-0", OpenMode.CREATE))
    expected = (TopicPartition("a-b", 10), TopicPartition("b", 0), TopicPartition("b", 1), LOG)
    assert directory.topic_partitions() == expected
    files.crash()
    assert open_directory(DATA, files=files).topic_partitions() == expected


def test_a_partition_that_has_vanished_is_listed_and_refused() -> None:
    """A log with a recovery point must be there; it is not passed over in silence."""
    files, _, _ = filled_partition(3)
    files.crash()
    files.remove(PARTITION_PATH)
    directory = open_directory(DATA, files=files)
    assert directory.topic_partitions() == (PARTITION,)
    with pytest.raises(CorruptLogError, match=f"{PARTITION_PATH} at byte 0 .* is missing"):
        LogStore.open(directory, PARTITION)


def test_creating_what_is_there_is_refused(files: SimulatedFiles) -> None:
    """A second creation changes nothing, whether the log is a partition's or a quorum's."""
    directory, _ = create_partition(files)
    LogStore.open(directory, LOG)
    before = files.tree()
    for topic_partition in (PARTITION, LOG):
        with pytest.raises(StorageError, match="there is one of that name"):
            directory.create_log(topic_partition, TOPIC_ID)
    assert files.tree() == before


def test_deleting_what_is_not_there_is_refused() -> None:
    """A deletion of no log is a mistake of the caller."""
    directory = open_directory(DATA, files=formatted())
    with pytest.raises(StorageError, match="there is none of that name"):
        directory.delete_log(PARTITION)


def test_a_deleted_log_frees_its_name_at_once() -> None:
    """A new log of the same name and another topic begins empty, with nothing of what was known of the old one."""
    files, directory, log = filled_partition()
    directory.store_high_watermarks({PARTITION: Offset(9)})
    log.raise_log_start(Offset(7))
    log.close(clean=False)
    directory.delete_log(PARTITION)
    assert files.exists(DELETED)
    directory.create_log(PARTITION, TopicId(99))
    log, recovered = LogStore.open(directory, PARTITION)
    assert (recovered.topic_id, recovered.log_start_offset, recovered.log_end_offset) == (99, 0, 0)
    assert (recovered.high_watermark, recovered.epochs) == (None, ())
    append(log, count=2)
    log.flush()
    recovered = crashed(files)[1]
    assert (recovered.topic_id, recovered.log_end_offset, recovered.high_watermark) == (99, 2, None)


def test_deleted_files_go_after_the_delay() -> None:
    """The wait counts from the first look; then directory and files are gone, and other logs stay."""
    files, directory, log = filled_partition()
    log.close(clean=False)
    directory.delete_log(PARTITION)
    directory.create_log(PARTITION, TopicId(99))
    directory.delete_expired(1000, file_delete_delay_ms=60)
    directory.delete_expired(1059, file_delete_delay_ms=60)
    assert files.exists(DELETED)
    directory.delete_expired(1060, file_delete_delay_ms=60)
    assert not files.exists(DELETED)
    directory.delete_expired(2000, file_delete_delay_ms=60)
    assert directory.topic_partitions() == (PARTITION,)


def test_deleted_logs_are_removed_at_the_next_start() -> None:
    """What an earlier process has left to be deleted has waited long enough."""
    files, directory, log = filled_partition()
    log.close(clean=False)
    directory.delete_log(PARTITION)
    files.crash()
    assert files.exists(DELETED)
    assert open_directory(DATA, files=files).topic_partitions() == ()
    files.crash()
    assert not any(name.startswith("/data/my-topic") for name in files.tree())


def test_a_log_is_deleted_as_often_as_it_is_created(files: SimulatedFiles) -> None:
    """Every deleted directory has a name of its own."""
    directory = open_directory(DATA, files=files)
    for number in range(3):
        directory.create_log(PARTITION, TopicId(number))
        directory.delete_log(PARTITION)
    assert [name for name in files.names(DATA) if name.endswith("-delete")] == [
        f"my-topic-3.{number}-delete" for number in (1, 2, 3)
    ]


def test_the_longest_names_can_be_deleted(tmp_path: Path) -> None:
    """A name that leaves no room for what marks it as deleted is shortened, on a real file system."""
    format_directory(tmp_path, cluster_id="c", replica_id=ReplicaId(1), initial_voters=VoterSet(()))
    directory = open_directory(tmp_path)
    longest = TopicPartition("x" * 249, 10000)
    for _ in range(2):
        directory.create_log(longest, TopicId(1))
        directory.delete_log(longest)
    assert len([path for path in tmp_path.iterdir() if path.name.endswith("-delete")]) == 2
    directory.close(clean=False)
    open_directory(tmp_path)
    assert not [path for path in tmp_path.iterdir() if path.name.endswith("-delete")]


def test_a_deletion_takes_along_what_waits_in_the_log() -> None:
    """Segments that wait for their removal go with their log, also if one of the same name takes their place."""
    files, directory, log = filled_partition()
    log.raise_log_start(Offset(7))
    directory.delete_expired(0, file_delete_delay_ms=60)
    log.close(clean=False)
    directory.delete_log(PARTITION)
    directory.create_log(PARTITION, TopicId(99))
    directory.delete_expired(60, file_delete_delay_ms=60)
    directory.delete_expired(120, file_delete_delay_ms=60)
    assert not files.exists(DELETED)
    assert directory.topic_partitions() == (PARTITION,)


def test_a_deleted_log_does_not_spoil_a_clean_stop() -> None:
    """A log that was closed uncleanly because it was deleted is none that the marker speaks of."""
    files, directory, log = filled_partition()
    log.close(clean=False)
    directory.delete_log(PARTITION)
    directory.close(clean=True)
    assert open_directory(DATA, files=files).was_clean


def test_late_calls_on_a_deleted_log_do_nothing() -> None:
    """A flush or a checkpoint that another thread begins after the deletion finds nothing to do."""
    files, directory, log = filled_partition(3)
    append(log)
    log.close(clean=False)
    directory.delete_log(PARTITION)
    before = files.operations
    assert log.flush() == 3
    log.note_recovery_point()
    log.note_log_start()
    directory.store_checkpoints()
    assert files.operations == before


def test_a_leftover_of_a_creation_is_replaced(files: SimulatedFiles) -> None:
    """A directory whose creation was cut short is no log, and is in the way of none."""
    files.mkdir(PARTITION_PATH)
    files.close(files.open(PARTITION_PATH / "partition.metadata.tmp", OpenMode.CREATE))
    directory, _ = create_partition(files)
    assert "partition.metadata.tmp" not in files.names(PARTITION_PATH)
    assert directory.topic_partitions() == (PARTITION,)


@pytest.mark.parametrize("call", ["mkdir", "fsync", "rename", "fsync_directory"])
def test_a_disk_that_refuses_a_creation_is_a_storage_error(files: SimulatedFiles, call: str) -> None:
    """A creation that fails names the log."""
    directory = open_directory(DATA, files=files)
    files.fault = failing(call)
    with pytest.raises(StorageError, match="cannot create log my-topic-3 in /data: input/output error"):
        directory.create_log(PARTITION, TOPIC_ID)


def test_a_partition_on_a_real_disk(tmp_path: Path) -> None:
    """Creation, clean stop, reopening, deletion and removal on the operating system's files."""
    format_directory(tmp_path, cluster_id="c", replica_id=ReplicaId(1), initial_voters=VoterSet(()))
    directory = open_directory(tmp_path)
    directory.create_log(PARTITION, TOPIC_ID)
    log, _ = LogStore.open(directory, PARTITION)
    append(log, count=5)
    log.store_epochs(entries((1, 0)))
    close(directory, log)
    directory = open_directory(tmp_path)
    log, recovered = LogStore.open(directory, PARTITION)
    assert (recovered.topic_id, recovered.log_end_offset) == (TOPIC_ID, 5)
    log.start_at(Offset(9))
    log.close(clean=False)
    directory.delete_log(PARTITION)
    for now_ms in (0, 60_000):
        directory.delete_expired(now_ms)
    assert not list(tmp_path.glob("my-topic*"))
