"""Who votes, in two small JSON files: ``initial-voters`` of a data directory, ``quorum-voters`` of a quorum log.

Owns their formats, where an absent directory id is empty. The first is written by formatting and never changes; there
is none where every voter is named at start. The second holds the voter sets that the log's own records have brought,
committed or not, each with the offset of its record. A file that is not exactly right is refused: who counts votes by
other voters than the log's can lead beside another.
Source: KIP-853; Kafka writes the first as a checkpoint of its own, and keeps the second in memory.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from itertools import pairwise
from pathlib import Path

from replica.ids import Offset, ReplicaId
from replica.storage.errors import CorruptCheckpointError
from replica.storage.files import Files, atomic_write, read_file
from replica.voters import Voter, VoterEntry, VoterSet

INITIAL_VOTERS_FILE = "initial-voters"
QUORUM_VOTERS_FILE = "quorum-voters"
_DATA_VERSION = 0
_INT32_MAX = (1 << 31) - 1
_INT64_MAX = (1 << 63) - 1


def write_initial_voters(files: Files, path: Path, voters: VoterSet) -> None:
    """Replace ``initial-voters``, durably."""
    _write(files, path, {"voters": _rows(voters)})


def read_initial_voters(files: Files, path: Path) -> VoterSet | None:
    """The voters that the directory was formatted with; None if there is no file."""
    document = _read(files, path)
    return None if document is None else _voter_set(path, document)


def write_voter_entries(files: Files, path: Path, entries: Iterable[VoterEntry]) -> None:
    """Replace ``quorum-voters``, durably."""
    rows = [{"offset": entry.offset, "voters": _rows(entry.voters)} for entry in entries]
    _write(files, path, {"entries": rows})


def read_voter_entries(files: Files, path: Path) -> tuple[VoterEntry, ...] | None:
    """The stored entries, whose offsets grow; None if there is no file."""
    document = _read(files, path)
    if document is None:
        return None
    entries = tuple(_entry(path, row) for row in _list(path, document, "entries"))
    for before, after in pairwise(entries):
        if after.offset <= before.offset:
            raise CorruptCheckpointError(path, f"offset {after.offset} does not come after {before.offset}")
    return entries


def _entry(path: Path, row: dict[str, object]) -> VoterEntry:
    return VoterEntry(offset=Offset(_integer(path, row, "offset", _INT64_MAX)), voters=_voter_set(path, row))


def _rows(voters: VoterSet) -> list[dict[str, object]]:
    return [
        {"replicaId": voter.replica_id, "directoryId": voter.directory_id or "", "address": voter.address}
        for voter in voters.voters
    ]


def _voter_set(path: Path, document: dict[str, object]) -> VoterSet:
    voters = [
        Voter(
            replica_id=ReplicaId(_integer(path, row, "replicaId", _INT32_MAX)),
            directory_id=_text(path, row, "directoryId") or None,
            address=_text(path, row, "address"),
        )
        for row in _list(path, document, "voters")
    ]
    ids = [voter.replica_id for voter in voters]
    if len(set(ids)) != len(ids):
        raise CorruptCheckpointError(path, f"voters {ids} name a replica twice")
    return VoterSet.of(voters)


def _write(files: Files, path: Path, document: dict[str, object]) -> None:
    document["data_version"] = _DATA_VERSION
    atomic_write(files, path, json.dumps(document, separators=(",", ":")).encode() + b"\n")


def _read(files: Files, path: Path) -> dict[str, object] | None:
    try:
        content = read_file(files, path)
    except FileNotFoundError:
        return None
    try:
        document = json.loads(content)
    except ValueError as error:
        raise CorruptCheckpointError(path, f"the file is not JSON ({error})") from None
    if not isinstance(document, dict):
        raise CorruptCheckpointError(path, "the file is not a JSON object")
    if document.get("data_version") != _DATA_VERSION:
        raise CorruptCheckpointError(path, f"data_version {document.get('data_version')!r} is not {_DATA_VERSION}")
    return document


def _list(path: Path, document: dict[str, object], name: str) -> list[dict[str, object]]:
    rows = document.get(name)
    if not isinstance(rows, list) or not all(isinstance(row, dict) for row in rows):
        raise CorruptCheckpointError(path, f"{name} {rows!r} is not a list of JSON objects")
    return rows


def _integer(path: Path, row: dict[str, object], name: str, maximum: int) -> int:
    value = row.get(name)
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value <= maximum:
        raise CorruptCheckpointError(path, f"{name} {value!r} is not a number from 0 to {maximum}")
    return value


def _text(path: Path, row: dict[str, object], name: str) -> str:
    value = row.get(name)
    if not isinstance(value, str):
        raise CorruptCheckpointError(path, f"{name} {value!r} is not a string")
    return value
