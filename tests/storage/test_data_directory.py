"""The data directory: format, identity, lock and the clean-shutdown marker."""

from __future__ import annotations

import fcntl
import random
from pathlib import Path

import pytest

from nemesis.disks.simulated_files import PowerLossError, SimulatedFiles
from replica.ids import ReplicaId, TopicPartition
from replica.storage import (
    AlreadyFormattedError,
    CorruptCheckpointError,
    DirectoryLockedError,
    ForeignDirectoryError,
    LogStore,
    NotFormattedError,
    StorageError,
    format_directory,
    open_directory,
)
from tests.storage.disks import DATA, DIRECTORY_ID, LOG, NOBODY, append, close, failing, formatted, open_log

MARKER = DATA / ".kafka_cleanshutdown"
META = DATA / "meta.properties"


def test_format_then_open(tmp_path: Path) -> None:
    """A formatted directory opens with the ids that it was given."""
    meta = format_directory(
        tmp_path / "new" / "data", cluster_id="cluster", replica_id=ReplicaId(0), initial_voters=NOBODY
    )
    directory = open_directory(tmp_path / "new" / "data", cluster_id="cluster", replica_id=ReplicaId(0))
    assert (directory.cluster_id, directory.replica_id) == ("cluster", 0)
    assert directory.directory_id == meta.directory_id
    assert len(meta.directory_id) == 22
    directory.close(clean=True)


def test_each_format_draws_a_fresh_directory_id(tmp_path: Path) -> None:
    """A wiped and formatted disk is a different voter."""
    ids = {
        format_directory(tmp_path / name, cluster_id="c", replica_id=ReplicaId(1), initial_voters=NOBODY).directory_id
        for name in ("a", "b")
    }
    assert len(ids) == 2


def test_meta_properties_has_kafkas_names(files: SimulatedFiles) -> None:
    """The identity file is version 1 of Kafka's."""
    assert files.content(META) == f"version=1\ncluster.id=cluster\nnode.id=1\ndirectory.id={DIRECTORY_ID}\n".encode()


def test_format_refuses_a_formatted_directory(files: SimulatedFiles) -> None:
    """Formatting twice would forget votes, so it is refused and changes nothing."""
    before = files.tree()
    with pytest.raises(AlreadyFormattedError, match="/data is formatted already"):
        formatted(files)
    assert files.tree() == before


def test_format_refuses_a_directory_that_is_not_empty(tmp_path: Path) -> None:
    """Anything but what a fresh file system brings along is in the way."""
    (tmp_path / "lost+found").mkdir()
    (tmp_path / "photo.jpg").touch()
    with pytest.raises(AlreadyFormattedError, match="is not empty"):
        format_directory(tmp_path, cluster_id="c", replica_id=ReplicaId(1), initial_voters=NOBODY)
    (tmp_path / "photo.jpg").unlink()
    format_directory(tmp_path, cluster_id="c", replica_id=ReplicaId(1), initial_voters=NOBODY)


@pytest.mark.parametrize("cluster_id", ["", "two words", "line\nbreak", "x" * 65])
def test_format_refuses_an_id_that_cannot_be_stored(tmp_path: Path, cluster_id: str) -> None:
    """An id that would not survive the file's format is refused before anything is written."""
    with pytest.raises(ValueError, match="cluster id"):
        format_directory(tmp_path, cluster_id=cluster_id, replica_id=ReplicaId(1), initial_voters=NOBODY)
    assert not list(tmp_path.iterdir())


def test_format_is_all_or_nothing_under_power_loss() -> None:
    """After a power loss anywhere in format, the directory is formatted whole or not at all."""
    for step in range(200):
        for seed in range(5):
            files = SimulatedFiles()
            files.power_fails_before = step
            try:
                formatted(files)
            except PowerLossError:
                files.crash(random.Random(seed))
                try:
                    open_directory(DATA, files=files)
                except NotFormattedError:
                    continue
            else:
                files.crash()
                open_directory(DATA, files=files)
                return
    pytest.fail("format never came to its end")


def test_a_directory_that_was_never_formatted_is_refused(tmp_path: Path) -> None:
    """A replica formats nothing by itself: an empty or missing directory is one clear sentence, and stays as it is."""
    for path in (tmp_path, tmp_path / "missing"):
        with pytest.raises(NotFormattedError, match="run `replica format`"):
            open_directory(path)
    assert not list(tmp_path.iterdir())


def test_a_foreign_directory_is_refused(files: SimulatedFiles) -> None:
    """Another cluster's or another replica's directory is refused, named, and left as it is."""
    before = files.tree()
    with pytest.raises(ForeignDirectoryError, match="/data belongs to cluster cluster, not to other"):
        open_directory(DATA, cluster_id="other", files=files)
    with pytest.raises(ForeignDirectoryError, match="/data belongs to replica 1, not to 2"):
        open_directory(DATA, replica_id=ReplicaId(2), files=files)
    assert files.tree() == before


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b"", "property version is missing"),
        (b"version=1\ncluster.id=c\nnode.id=1\n", "property directory.id is missing"),
        (b"version=0\ncluster.id=c\nnode.id=1\ndirectory.id=d\n", "version '0' is not 1"),
        (b"version=1\ncluster.id=c\nnode.id=-1\ndirectory.id=d\n", "node.id '-1'"),
        (b"version=1\ncluster.id=c c\nnode.id=1\ndirectory.id=d\n", "cluster id 'c c'"),
        (b"version=1\nnonsense\n", "line 2: 'nonsense'"),
        (b"version=1\nversion=1\n", "line 2"),
        (b"\xff", "not text"),
    ],
)
def test_malformed_meta_properties_are_refused_by_name(files: SimulatedFiles, content: bytes, reason: str) -> None:
    """A directory whose identity cannot be read belongs to nobody."""
    files.overwrite(META, content)
    with pytest.raises(CorruptCheckpointError, match=rf"/data/meta.properties.*{reason}"):
        open_directory(DATA, files=files)


def test_a_second_opener_is_refused(tmp_path: Path) -> None:
    """While a directory is open, opening it again is refused in one sentence; afterwards it is free."""
    format_directory(tmp_path, cluster_id="c", replica_id=ReplicaId(1), initial_voters=NOBODY)
    first = open_directory(tmp_path)
    with pytest.raises(DirectoryLockedError, match="is in use by another process"):
        open_directory(tmp_path)
    first.close(clean=True)
    open_directory(tmp_path).close(clean=True)


def test_the_lock_is_one_that_other_programs_see(tmp_path: Path) -> None:
    """The lock is an flock on .lock, and a directory that another program holds is refused."""
    format_directory(tmp_path, cluster_id="c", replica_id=ReplicaId(1), initial_voters=NOBODY)
    with (tmp_path / ".lock").open("w") as held:
        fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
        with pytest.raises(DirectoryLockedError):
            open_directory(tmp_path)


def test_a_refused_open_gives_the_lock_back(files: SimulatedFiles) -> None:
    """A directory refused for a corrupt checkpoint can be opened once that is repaired."""
    path = DATA / "recovery-point-offset-checkpoint"
    files.overwrite(path, b"0\n1\n")
    with pytest.raises(CorruptCheckpointError, match=str(path)):
        open_directory(DATA, files=files)
    files.overwrite(path, b"0\n0\n")
    open_directory(DATA, files=files)


def test_clean_shutdown_file(files: SimulatedFiles) -> None:
    """The marker appears at a clean close only, survives a power loss, and is gone, durably, once reopened."""
    directory, log, _ = open_log(files)
    append(log)
    assert not files.exists(MARKER)
    close(directory, log)
    files.crash()
    assert files.exists(MARKER)
    assert open_directory(DATA, files=files).was_clean
    files.crash()
    assert not files.exists(MARKER)
    assert not open_directory(DATA, files=files).was_clean


def test_no_marker_without_a_clean_close_of_every_log(files: SimulatedFiles) -> None:
    """One log closed uncleanly makes the whole directory unclean."""
    directory, log, _ = open_log(files)
    other, _ = LogStore.open(directory, TopicPartition("other", 0))
    log.close(clean=True)
    other.close(clean=False)
    directory.close(clean=True)
    assert not files.exists(MARKER)


def test_no_marker_while_a_log_was_not_opened_since_an_unclean_stop(files: SimulatedFiles) -> None:
    """A log that nobody looked at after a crash is not declared clean by the others."""
    directory, log, _ = open_log(files)
    LogStore.open(directory, TopicPartition("other", 0))
    files.crash()
    directory, log, _ = open_log(files)
    close(directory, log)
    assert not files.exists(MARKER)
    directory = open_directory(DATA, files=files)
    for topic_partition in (LOG, TopicPartition("other", 0)):
        LogStore.open(directory, topic_partition)[0].close(clean=True)
    directory.close(clean=True)
    assert files.exists(MARKER)


@pytest.mark.parametrize("topic", ["", ".", "..", "a/b", "a b", "x" * 250])
def test_a_topic_that_is_no_directory_name_is_refused(topic: str) -> None:
    """No topic leads out of the data directory or breaks the checkpoint's format."""
    directory = open_directory(DATA, files=formatted())
    with pytest.raises(StorageError, match="must be 1 to 249"):
        LogStore.open(directory, TopicPartition(topic, 0))


def test_a_disk_that_refuses_to_open_is_a_storage_error(files: SimulatedFiles) -> None:
    """An OSError of the system surfaces as a StorageError that names the directory."""
    files.fault = failing("create")
    with pytest.raises(StorageError, match="cannot open /data: input/output error"):
        open_directory(DATA, files=files)
