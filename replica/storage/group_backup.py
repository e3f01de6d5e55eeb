"""The back-up of a group: its state in one file, and how a fresh disk begins with it.

Owns the format of the file. The state is a snapshot as replicas keep it (``replica.machines.snapshots``), and what it
is of stands before it; one checksum seals all. A disk that begins with it has a log that is empty and begins where the
snapshot ends, as after a snapshot of the leader's; who votes is what the disk is formatted with, not who voted then.

    magic 8s = "HWBACKUP" | version u8 = 0 | GroupBackup, field by field | CRC-32C of all between

Source: etcd's ``etcdctl snapshot``; KIP-630.
"""

from __future__ import annotations

from pathlib import Path

from msgspec import Struct

from replica.core.effects import QuorumState
from replica.core.quorum.snapshot_header import encode_header, split_snapshot
from replica.core.quorum.voter_history import VoterHistory
from replica.encoding import BLOB, COUNT, TEXT, Fields, Format, MalformedError, joined
from replica.ids import Epoch, Offset, SnapshotId, TopicPartition
from replica.machines import CorruptSnapshotError, Snapshot
from replica.machines.snapshots import AppliedState, decode_state, sealed, unsealed
from replica.storage.errors import StorageError
from replica.storage.files import OS_FILES, Files, atomic_write, make_directory, read_file
from replica.storage.log_directories import is_topic
from replica.storage.quorum_state_file import QUORUM_STATE_FILE, write_quorum_state
from replica.storage.snapshots import LogSnapshots
from replica.voters import VoterSet

MAGIC = b"HWBACKUP"


class CorruptBackupError(StorageError):
    """The file is no back-up of a group, or not the whole of one, or not as it was written."""


class GroupBackup(Struct, frozen=True, kw_only=True):
    """The state of ``group`` of a cluster, with all below ``end_offset`` applied, whose last record is of ``epoch``.

    ``machine`` is whose state it is, ``release`` whose replica has written it down, at ``taken_ms`` since 1970.
    """

    cluster_id: str
    group: str
    machine: str
    end_offset: Offset
    epoch: Epoch
    release: str
    taken_ms: int
    snapshot: bytes

    @property
    def log(self) -> TopicPartition:
        """The log of the group."""
        return TopicPartition(self.group, 0)


_FORMAT = Format(
    Fields(
        GroupBackup,
        cluster_id=TEXT,
        group=TEXT,
        machine=TEXT,
        end_offset=COUNT,
        epoch=COUNT,
        release=TEXT,
        taken_ms=COUNT,
        snapshot=BLOB,
    )
)


def group_backup(*, cluster_id: str, group: str, snapshot: Snapshot, release: str, taken_ms: int) -> GroupBackup:
    """Make a back-up of a snapshot as it was loaded. Raises CorruptBackupError."""
    state = _state_of(snapshot.data)
    backup = GroupBackup(
        cluster_id=cluster_id,
        group=group,
        machine=_machine_of(state),
        end_offset=snapshot.id.end_offset,
        epoch=snapshot.id.epoch,
        release=release,
        taken_ms=taken_ms,
        snapshot=snapshot.data,
    )
    return _checked(backup)


def encode_backup(backup: GroupBackup) -> bytes:
    """Encode a back-up."""
    return joined(MAGIC, sealed(_FORMAT.encode(backup)))


def decode_backup(data: bytes) -> GroupBackup:
    """Decode a back-up, and see that it is whole. Raises CorruptBackupError."""
    if data[: len(MAGIC)] != MAGIC:
        raise CorruptBackupError("it is not the back-up of a group")
    try:
        return _checked(_FORMAT.decode(unsealed(data[len(MAGIC) :])))
    except (CorruptSnapshotError, MalformedError) as error:
        raise CorruptBackupError(f"it is damaged: {error}") from error


def _checked(backup: GroupBackup) -> GroupBackup:
    """The back-up, if what it says of itself is true of its state."""
    state = _state_of(backup.snapshot)
    said = (backup.end_offset, backup.epoch, backup.machine)
    held = (state.applied_offset, state.applied_epoch, _machine_of(state))
    if said != held or not is_topic(backup.group):
        raise CorruptBackupError(f"it says that it is of group {backup.group!r} at {said}, and holds {held}")
    return backup


def _state_of(snapshot: bytes) -> AppliedState:
    try:
        return decode_state(unsealed(split_snapshot(snapshot)[1]))
    except CorruptSnapshotError as error:
        raise CorruptBackupError(f"it is damaged: {error}") from error


def _machine_of(state: AppliedState) -> str:
    return state.name if state.said is None else state.said.name


def write_backup(path: Path, backup: GroupBackup, files: Files = OS_FILES) -> None:
    """Write a file that is not there yet, durably; what is cut short leaves none of that name. Raises StorageError."""
    try:
        if files.exists(path):
            raise StorageError(f"{path} exists already; choose another name")
        atomic_write(files, path, encode_backup(backup))
    except OSError as error:
        raise StorageError(f"cannot write {path}: {error}") from error


def read_backup(path: Path, files: Files = OS_FILES) -> GroupBackup:
    """Read a file. Raises CorruptBackupError, or StorageError if it cannot be read."""
    try:
        return decode_backup(read_file(files, path))
    except CorruptBackupError as error:
        raise CorruptBackupError(f"{path} cannot be restored: {error}") from error
    except OSError as error:
        raise StorageError(f"cannot read {path}: {error}") from error


def restore_log(files: Files, path: Path, backup: GroupBackup, voters: VoterSet) -> None:
    """Make the group's log in a directory that is being formatted. May raise OSError.

    The rest of its files are made when it is first opened, as for any new log. ``voters`` stand in the header of the
    snapshot in the place of those of then: nobody can vote by what the old cluster says.
    """
    folder = path / str(backup.log)
    make_directory(files, folder)
    content = joined(encode_header(VoterHistory(base=voters)), split_snapshot(backup.snapshot)[1])
    LogSnapshots(files, folder).store(SnapshotId(backup.end_offset, backup.epoch), content)
    write_quorum_state(files, folder / QUORUM_STATE_FILE, QuorumState(leader_epoch=backup.epoch))
