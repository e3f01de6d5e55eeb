"""The back-up of a group: whole or refused, and what a disk that begins with it holds."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

import pytest
from msgspec.structs import replace

from nemesis.disks.simulated_files import PowerLossError, SimulatedFiles
from replica.core.effects import QuorumState
from replica.core.quorum.snapshot_header import encode_header, split_snapshot
from replica.core.quorum.voter_history import VoterHistory
from replica.encoding import joined
from replica.ids import Epoch, Offset, ReplicaId, SnapshotId, TopicPartition
from replica.machines import AppliedLog, OpenSession, PlainCommand, Snapshot, encode_entry
from replica.machines.batches import CommittedBatch
from replica.machines.counter import Counter
from replica.storage import LogStore, NotFormattedError, StorageError, format_directory, open_directory
from replica.storage.group_backup import (
    CorruptBackupError,
    GroupBackup,
    decode_backup,
    encode_backup,
    group_backup,
    read_backup,
    write_backup,
)
from replica.voters import Voter, VoterSet
from tests.storage.disks import DATA, DIRECTORY_ID, SMALL

THEN = VoterSet((Voter(replica_id=ReplicaId(7), directory_id="AAAAAAAAAAAAAAAAAAAAAg", address="old:1"),))
NOW = VoterSet((Voter(replica_id=ReplicaId(1), directory_id=DIRECTORY_ID, address="new:1"),))
KV = TopicPartition("kv", 0)
FILE = Path("/kv.backup")


def snapshot() -> Snapshot:
    """A counter at 5 with a session, as the leader of a cluster of replica 7 keeps it."""
    log = AppliedLog(Counter(), name="counter")
    entries = (encode_entry(OpenSession(ttl_ms=1000)), encode_entry(PlainCommand(command=b"5")))
    log.apply(
        CommittedBatch(base_offset=Offset(0), end_offset=Offset(2), epoch=Epoch(3), timestamp_ms=9, entries=entries)
    )
    taken = log.snapshot()
    return Snapshot(id=taken.id, data=joined(encode_header(VoterHistory(base=THEN)), taken.data))


def backup() -> GroupBackup:
    """A back-up of it."""
    return group_backup(cluster_id="old", group="kv", snapshot=snapshot(), release="1.0", taken_ms=1_700_000_000_000)


def test_a_back_up_is_read_as_it_was_written() -> None:
    """All that it is of stands in it, the position and the machine by what its state says."""
    read = decode_backup(encode_backup(backup()))
    assert read == backup()
    assert (read.end_offset, read.epoch, read.machine) == (2, 3, "counter")


def test_damage_anywhere_is_refused() -> None:
    """Whatever byte is another one, and wherever it ends too early or goes on too long, it is no back-up."""
    whole = encode_backup(backup())
    flipped = [whole[:at] + bytes([whole[at] ^ 0x10]) + whole[at + 1 :] for at in range(len(whole))]
    for damaged in (*flipped, *(whole[:end] for end in range(len(whole))), whole + b"\0"):
        with pytest.raises(CorruptBackupError):
            decode_backup(damaged)


@pytest.mark.parametrize(
    "lie", [{"end_offset": 3}, {"epoch": 4}, {"machine": "lock"}, {"group": "../kv"}, {"snapshot": b""}], ids=str
)
def test_a_back_up_that_is_not_what_it_says_is_refused(lie: dict[str, object]) -> None:
    """A checksum that fits is no proof: what is said of the state is compared with the state."""
    with pytest.raises(CorruptBackupError):
        decode_backup(encode_backup(replace(backup(), **lie)))


def test_nothing_is_written_over() -> None:
    """A file of that name stays as it is, and what a crash cuts short has not that name."""
    files = SimulatedFiles()
    write_backup(FILE, backup(), files)
    with pytest.raises(StorageError, match="exists already"):
        write_backup(FILE, replace(backup(), release="2"), files)
    files.crash()
    assert read_backup(FILE, files) == backup()


def begin_with(*backups: GroupBackup, files: SimulatedFiles, cluster_id: str = "new", voters: VoterSet = NOW) -> None:
    """Format a directory so."""
    format_directory(
        DATA,
        cluster_id=cluster_id,
        replica_id=ReplicaId(1),
        directory_id=DIRECTORY_ID,
        initial_voters=voters,
        restored=backups,
        files=files,
    )


def test_a_disk_begins_with_it() -> None:
    """Its log is empty and begins where the snapshot ends, which now names the voters of the format; power may fail."""
    files = SimulatedFiles()
    begin_with(backup(), files=files)
    for _ in range(2):
        files.crash()
        _, recovered = LogStore.open(open_directory(DATA, files=files), KV, config=SMALL)
        assert (recovered.log_start_offset, recovered.log_end_offset, recovered.voters) == (2, 2, ())
        assert [stored.id for stored in recovered.snapshots] == [SnapshotId(Offset(2), Epoch(3))]
        assert recovered.quorum_state == QuorumState(leader_epoch=Epoch(3))
        voters, content = split_snapshot(recovered.snapshot)
        assert (voters, content) == (VoterHistory(base=NOW), split_snapshot(snapshot().data)[1])


def test_a_format_that_is_cut_short_is_none() -> None:
    """A power loss before any call of the disk leaves a directory that is not taken for a formatted one, or all."""
    counted = SimulatedFiles()
    begin_with(backup(), files=counted)
    for operation in range(counted.operations + 1):
        files = SimulatedFiles()
        files.power_fails_before = operation
        with suppress(PowerLossError):
            begin_with(backup(), files=files)
        files.crash()
        try:
            directory = open_directory(DATA, files=files)
        except NotFormattedError:
            assert operation < counted.operations
            continue
        _, recovered = LogStore.open(directory, KV, config=SMALL)
        assert (recovered.log_start_offset, recovered.snapshots[0].id.end_offset) == (2, 2)


@pytest.mark.parametrize(
    ("backups", "others", "words"),
    [
        ((backup(),), {"cluster_id": "old"}, "the back-up is of cluster old itself"),
        ((backup(),), {"voters": VoterSet(())}, "who begins with a back-up votes at first"),
        ((backup(), backup()), {}, "two back-ups are of the same group"),
    ],
)
def test_what_would_mix_clusters_is_refused(
    backups: tuple[GroupBackup, ...], others: dict[str, object], words: str
) -> None:
    """Nothing of the directory is made then."""
    files = SimulatedFiles()
    with pytest.raises(ValueError, match=words):
        begin_with(*backups, files=files, **others)  # type: ignore[arg-type]
    assert not files.exists(DATA)
