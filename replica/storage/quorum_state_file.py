"""The ``quorum-state`` file: what a voter must never forget, as Kafka's JSON.

Owns the translation between ``QuorumState`` and the file, where an absent id is -1 or empty. A file that is not exactly
right is refused: a vote forgotten is a vote that can be given twice. Source: Kafka's ``QuorumStateData`` version 1,
``FileQuorumStateStore``; KIP-595, KIP-853.
"""

from __future__ import annotations

from pathlib import Path

from replica.core.effects import QuorumState
from replica.ids import Epoch, ReplicaId
from replica.storage.files import Files
from replica.storage.json_files import INT32_MAX, integer_in, read_document, text_in, write_document

QUORUM_STATE_FILE = "quorum-state"
_DATA_VERSION = 1
_ABSENT = -1


def write_quorum_state(files: Files, path: Path, state: QuorumState) -> None:
    """Replace the file, durably."""
    document = {
        "leaderId": _ABSENT if state.leader_id is None else state.leader_id,
        "leaderEpoch": state.leader_epoch,
        "votedId": _ABSENT if state.voted_id is None else state.voted_id,
        "votedDirectoryId": state.voted_directory_id or "",
    }
    write_document(files, path, document, data_version=_DATA_VERSION)


def read_quorum_state(files: Files, path: Path) -> QuorumState | None:
    """The stored state; None if there is no file; CorruptCheckpointError if it is malformed."""
    document = read_document(files, path, data_version=_DATA_VERSION)
    if document is None:
        return None
    return QuorumState(
        leader_epoch=Epoch(integer_in(path, document, "leaderEpoch", maximum=INT32_MAX)),
        leader_id=_replica_id(path, document, "leaderId"),
        voted_id=_replica_id(path, document, "votedId"),
        voted_directory_id=text_in(path, document, "votedDirectoryId") or None,
    )


def _replica_id(path: Path, document: dict[str, object], name: str) -> ReplicaId | None:
    value = integer_in(path, document, name, minimum=_ABSENT, maximum=INT32_MAX)
    return None if value == _ABSENT else ReplicaId(value)
