"""Who votes, in two small JSON files: ``initial-voters`` of a data directory, ``quorum-voters`` of a quorum log.

Owns their formats, where an absent directory id is empty. The first is written by formatting and never changes. The
second holds the voter sets that the log's own records have brought, committed or not, each with the offset of its
record. A file that is not exactly right is refused: who counts votes by other voters than the log's can lead beside
another.
Source: KIP-853; Kafka writes the first as a checkpoint of its own, and keeps the second in memory.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import pairwise
from pathlib import Path

from replica.ids import Offset, ReplicaId
from replica.storage.errors import CorruptCheckpointError
from replica.storage.files import Files
from replica.storage.json_files import INT32_MAX, INT64_MAX, integer_in, read_document, text_in, write_document
from replica.voters import Voter, VoterEntry, VoterSet

INITIAL_VOTERS_FILE = "initial-voters"
QUORUM_VOTERS_FILE = "quorum-voters"
_DATA_VERSION = 0


def write_initial_voters(files: Files, path: Path, voters: VoterSet) -> None:
    """Replace ``initial-voters``, durably."""
    write_document(files, path, {"voters": _rows(voters)}, data_version=_DATA_VERSION)


def read_initial_voters(files: Files, path: Path) -> VoterSet:
    """The voters that the directory was formatted with. Without the file nobody knows them: CorruptCheckpointError."""
    document = read_document(files, path, data_version=_DATA_VERSION)
    if document is None:
        reason = "the file is missing, as on disks of versions that took the voters from --voter"
        raise CorruptCheckpointError(path, reason)
    return _voter_set(path, document)


def write_voter_entries(files: Files, path: Path, entries: Iterable[VoterEntry]) -> None:
    """Replace ``quorum-voters``, durably."""
    rows = [{"offset": entry.offset, "voters": _rows(entry.voters)} for entry in entries]
    write_document(files, path, {"entries": rows}, data_version=_DATA_VERSION)


def read_voter_entries(files: Files, path: Path) -> tuple[VoterEntry, ...] | None:
    """The stored entries, whose offsets grow; None if there is no file."""
    document = read_document(files, path, data_version=_DATA_VERSION)
    if document is None:
        return None
    entries = tuple(_entry(path, row) for row in _list(path, document, "entries"))
    for before, after in pairwise(entries):
        if after.offset <= before.offset:
            raise CorruptCheckpointError(path, f"offset {after.offset} does not come after {before.offset}")
    return entries


def _entry(path: Path, row: dict[str, object]) -> VoterEntry:
    return VoterEntry(offset=Offset(integer_in(path, row, "offset", maximum=INT64_MAX)), voters=_voter_set(path, row))


def _rows(voters: VoterSet) -> list[dict[str, object]]:
    return [
        {"replicaId": voter.replica_id, "directoryId": voter.directory_id or "", "address": voter.address}
        for voter in voters.voters
    ]


def _voter_set(path: Path, document: dict[str, object]) -> VoterSet:
    voters = [
        Voter(
            replica_id=ReplicaId(integer_in(path, row, "replicaId", maximum=INT32_MAX)),
            directory_id=text_in(path, row, "directoryId") or None,
            address=text_in(path, row, "address"),
        )
        for row in _list(path, document, "voters")
    ]
    ids = [voter.replica_id for voter in voters]
    if len(set(ids)) != len(ids):
        raise CorruptCheckpointError(path, f"voters {ids} name a replica twice")
    return VoterSet.of(voters)


def _list(path: Path, document: dict[str, object], name: str) -> list[dict[str, object]]:
    rows = document.get(name)
    if not isinstance(rows, list) or not all(isinstance(row, dict) for row in rows):
        raise CorruptCheckpointError(path, f"{name} {rows!r} is not a list of JSON objects")
    return rows
