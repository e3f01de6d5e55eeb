"""Checkpoint files and the quorum-state file: formats, refusals, and atomic replacement at every step."""

from __future__ import annotations

import json
import random
from pathlib import Path

import pytest

from nemesis.disks.simulated_files import PowerLossError, SimulatedFiles
from replica.core.effects import QuorumState
from replica.ids import Epoch, EpochEntry, Offset, ReplicaId, TopicPartition
from replica.storage import CorruptCheckpointError
from replica.storage.checkpoints import OffsetCheckpoint, read_epochs, write_epochs
from replica.storage.files import atomic_write
from replica.storage.quorum_state_file import read_quorum_state, write_quorum_state

FILE = Path("/checkpoint")


def disk_with(content: bytes) -> SimulatedFiles:
    files = SimulatedFiles()
    atomic_write(files, FILE, content)
    return files


def entry(epoch: int, start_offset: int) -> EpochEntry:
    return EpochEntry(Epoch(epoch), Offset(start_offset))


def test_atomic_write_leaves_the_old_or_the_new_content_at_every_step() -> None:
    """A power loss before any operation of an atomic write leaves the old file or the new one, whole."""
    seen = set()
    for step in range(100):
        for seed in range(20):
            files = disk_with(b"old")
            files.power_fails_before = files.operations + step
            try:
                atomic_write(files, FILE, b"brand new")
            except PowerLossError:
                files.crash(random.Random(seed))
                assert files.content(FILE) in {b"old", b"brand new"}
                seen.add(files.content(FILE))
            else:
                files.crash()
                assert files.content(FILE) == b"brand new"
                assert seen == {b"old", b"brand new"}
                return
    pytest.fail("the write never came to its end")


def test_atomic_write_is_durable_when_it_returns() -> None:
    """Content and name both survive a power loss right after the write."""
    files = disk_with(b"old")
    atomic_write(files, FILE, b"new")
    files.crash()
    assert files.content(FILE) == b"new"


def test_a_short_write_never_replaces_the_file() -> None:
    """A disk that takes half of the bytes is an error, and the old file stays."""
    files = disk_with(b"old")
    files.short_writes = True
    with pytest.raises(OSError, match="4 of 9 bytes"):
        atomic_write(files, FILE, b"brand new")
    assert files.content(FILE) == b"old"


def test_offset_checkpoint_has_kafkas_format() -> None:
    """Version, count, then topic, partition and offset a line, sorted; reading gives back what was put."""
    files = disk_with(b"0\n0\n")
    checkpoint = OffsetCheckpoint.load(files, FILE)
    checkpoint.put(TopicPartition("topic", 1), Offset(7))
    checkpoint.put(TopicPartition("log", 0), Offset(12))
    assert files.content(FILE) == b"0\n2\nlog 0 12\ntopic 1 7\n"
    again = OffsetCheckpoint.load(files, FILE)
    assert again.get(TopicPartition("log", 0)) == 12
    assert again.get(TopicPartition("other", 0)) is None
    assert again.topic_partitions() == {TopicPartition("log", 0), TopicPartition("topic", 1)}


def test_an_unchanged_offset_is_not_written_again() -> None:
    """Putting the offset that is there costs no operation."""
    files = disk_with(b"0\n1\nlog 0 12\n")
    checkpoint = OffsetCheckpoint.load(files, FILE)
    before = files.operations
    checkpoint.put(TopicPartition("log", 0), Offset(12))
    assert files.operations == before


@pytest.mark.parametrize(
    ("content", "line", "reason"),
    [
        (b"", 1, "missing"),
        (b"0\n", 2, "missing"),
        (b"1\n0\n", 1, "version '1' is not 0"),
        (b"0\nx\n", 2, "'x' is not a number"),
        (b"0\n-1\n", 2, "'-1' is not a number"),
        (b"0\n2\nlog 0 1\n", 2, "expected 2 entries but found 1"),
        (b"0\n0\nlog 0 1\n", 2, "expected 0 entries but found 1"),
        (b"0\n1\nlog 0\n", 3, "'log 0' is not 'topic' 'partition' 'offset'"),
        (b"0\n1\nlog 0 1 2\n", 3, "is not 'topic'"),
        (b"0\n2\nlog 0 1\nlog x 1\n", 4, "'x' is not a number"),
        (b"0\n1\nlog 0 -1\n", 3, "'-1' is not a number"),
        (b"0\n2\nlog 0 1\nlog 0 2\n", 4, "named twice"),
        (b"0\n1\n 0 1\n", 3, "unnamed"),
        (b"0\n1\nlog 0 1", 3, "does not end"),
        (b"0\n1\nlog 0 \xff\n", None, "not text"),
    ],
)
def test_a_malformed_offset_checkpoint_is_refused_by_name(content: bytes, line: int | None, reason: str) -> None:
    """Any deviation from the format is an error that names the file and, where there is one, the line."""
    with pytest.raises(CorruptCheckpointError, match=reason) as caught:
        OffsetCheckpoint.load(disk_with(content), FILE)
    assert (caught.value.path, caught.value.line) == (FILE, line)
    assert str(FILE) in str(caught.value)


def test_a_missing_checkpoint_is_refused_by_name() -> None:
    """A formatted directory always has its checkpoints; one that is gone is not read as empty."""
    with pytest.raises(CorruptCheckpointError, match="/checkpoint: the file is missing"):
        OffsetCheckpoint.load(SimulatedFiles(), FILE)


def test_every_cut_of_a_checkpoint_is_refused() -> None:
    """No prefix of a checkpoint file passes for a checkpoint file."""
    whole = b"0\n2\nlog 0 12\ntopic 1 73\n"
    for size in range(len(whole)):
        with pytest.raises(CorruptCheckpointError):
            OffsetCheckpoint.load(disk_with(whole[:size]), FILE)


def test_epoch_checkpoint_round_trip() -> None:
    """leader-epoch-checkpoint holds version, count, and epoch and start offset a line."""
    files = SimulatedFiles()
    write_epochs(files, FILE, [entry(1, 0), entry(4, 17)])
    assert files.content(FILE) == b"0\n2\n1 0\n4 17\n"
    assert read_epochs(files, FILE) == (entry(1, 0), entry(4, 17))


@pytest.mark.parametrize("lines", [b"1 0\n1 5\n", b"2 0\n1 5\n", b"1 5\n2 5\n", b"1 5\n2 4\n"])
def test_epochs_out_of_order_are_refused(lines: bytes) -> None:
    """Epochs and start offsets both grow strictly, or the file is corrupt."""
    with pytest.raises(CorruptCheckpointError, match=r"line 4: .* does not come after"):
        read_epochs(disk_with(b"0\n2\n" + lines), FILE)


@pytest.mark.parametrize(
    "state",
    [
        QuorumState(leader_epoch=Epoch(0)),
        QuorumState(leader_epoch=Epoch(7), leader_id=ReplicaId(0)),
        QuorumState(leader_epoch=Epoch(7), voted_id=ReplicaId(2), voted_directory_id="AbC-_"),
    ],
)
def test_quorum_state_round_trip(state: QuorumState) -> None:
    """What a voter stores is what it reads back, replica 0 and absent ids included."""
    files = SimulatedFiles()
    write_quorum_state(files, FILE, state)
    files.crash()
    assert read_quorum_state(files, FILE) == state


def test_quorum_state_has_kafkas_form() -> None:
    """Absent ids are -1 and empty on disk."""
    files = SimulatedFiles()
    write_quorum_state(files, FILE, QuorumState(leader_epoch=Epoch(3)))
    assert json.loads(files.content(FILE)) == {
        "leaderId": -1,
        "leaderEpoch": 3,
        "votedId": -1,
        "votedDirectoryId": "",
        "data_version": 1,
    }


def test_a_missing_quorum_state_is_absent() -> None:
    """A freshly formatted disk has no quorum state, and that is no error."""
    assert read_quorum_state(SimulatedFiles(), FILE) is None


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"{",
        b"[]",
        b'{"leaderId":-1,"leaderEpoch":3,"votedId":-1,"votedDirectoryId":"","data_version":0}',
        b'{"leaderId":-1,"leaderEpoch":-3,"votedId":-1,"votedDirectoryId":"","data_version":1}',
        b'{"leaderId":-1,"leaderEpoch":2147483648,"votedId":-1,"votedDirectoryId":"","data_version":1}',
        b'{"leaderId":-2,"leaderEpoch":3,"votedId":-1,"votedDirectoryId":"","data_version":1}',
        b'{"leaderId":-1,"leaderEpoch":3,"votedId":true,"votedDirectoryId":"","data_version":1}',
        b'{"leaderId":-1,"leaderEpoch":3,"votedId":-1,"votedDirectoryId":1,"data_version":1}',
        b'{"leaderId":-1,"votedId":-1,"votedDirectoryId":"","data_version":1}',
        b"\xff\xfe",
    ],
)
def test_initialize_with_corrupted_store(content: bytes) -> None:
    """A quorum-state file that is not exactly right is refused by name: a lost vote could be given twice."""
    with pytest.raises(CorruptCheckpointError, match="/checkpoint: "):
        read_quorum_state(disk_with(content), FILE)
