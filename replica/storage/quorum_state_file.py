"""The ``quorum-state`` file: what a voter must never forget, as Kafka's JSON.

Owns the translation between ``QuorumState`` and the file, where an absent id is -1 or empty. A file that is not exactly
right is refused: a vote forgotten is a vote that can be given twice. Source: Kafka's ``QuorumStateData`` version 1,
``FileQuorumStateStore``; KIP-595, KIP-853.
"""

from __future__ import annotations

import json
from pathlib import Path

from replica.core.effects import QuorumState
from replica.ids import Epoch, ReplicaId
from replica.storage.errors import CorruptCheckpointError
from replica.storage.files import Files, atomic_write, read_file

_DATA_VERSION = 1
_ABSENT = -1
_INT32_MAX = (1 << 31) - 1


def write_quorum_state(files: Files, path: Path, state: QuorumState) -> None:
    """Replace the file, durably."""
    document = {
        "leaderId": _ABSENT if state.leader_id is None else state.leader_id,
        "leaderEpoch": state.leader_epoch,
        "votedId": _ABSENT if state.voted_id is None else state.voted_id,
        "votedDirectoryId": state.voted_directory_id or "",
        "data_version": _DATA_VERSION,
    }
    atomic_write(files, path, json.dumps(document, separators=(",", ":")).encode() + b"\n")


def read_quorum_state(files: Files, path: Path) -> QuorumState | None:
    """The stored state; None if there is no file; CorruptCheckpointError if it is malformed."""
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
    directory_id = document.get("votedDirectoryId")
    if not isinstance(directory_id, str):
        raise CorruptCheckpointError(path, f"votedDirectoryId {directory_id!r} is not a string")
    return QuorumState(
        leader_epoch=Epoch(_integer(path, document, "leaderEpoch", minimum=0)),
        leader_id=_replica_id(path, document, "leaderId"),
        voted_id=_replica_id(path, document, "votedId"),
        voted_directory_id=directory_id or None,
    )


def _replica_id(path: Path, document: dict[str, object], name: str) -> ReplicaId | None:
    value = _integer(path, document, name, minimum=_ABSENT)
    return None if value == _ABSENT else ReplicaId(value)


def _integer(path: Path, document: dict[str, object], name: str, *, minimum: int) -> int:
    value = document.get(name)
    if isinstance(value, bool) or not isinstance(value, int) or not minimum <= value <= _INT32_MAX:
        raise CorruptCheckpointError(path, f"{name} {value!r} is not a number from {minimum} to {_INT32_MAX}")
    return value
