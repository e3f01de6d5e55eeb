"""What a snapshot holds, and how it is written: everything that the next entry's outcome hangs on.

Owns the encoding of an applied log's state, and the checksum that seals it on its way through files and networks.
Knows nothing of when a snapshot is taken or where it is kept.

Source: KIP-630; Ongaro's thesis, section 6.3: sessions and log time belong to the state.
"""

from __future__ import annotations

from dataclasses import dataclass

from replica.ids import Epoch, Offset, SnapshotId
from replica.machines.encoding import BLOB, COUNT, TEXT, Fields, Format, MalformedError, Optional, Row
from replica.machines.log_time import LOG_TIME_MS_MAX
from replica.machines.machine import CorruptSnapshotError, ForeignSnapshotError
from replica.machines.sessions import LIMITS, SESSION, SessionLimits, SessionState, sessions_failure
from replica.records.checksum import checksum

CHECKSUM_BYTES = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class AppliedState:
    """All that follows from the log below ``applied_offset``. The epoch is absent where that is nothing."""

    applied_offset: Offset
    applied_epoch: Epoch | None
    log_time_ms: int
    limits: SessionLimits
    sessions: tuple[SessionState, ...]
    name: str
    machine: bytes


_FORMAT = Format(
    Fields(
        AppliedState,
        applied_offset=COUNT,
        applied_epoch=Optional(COUNT),
        log_time_ms=COUNT,
        limits=LIMITS,
        sessions=Row(SESSION),
        name=TEXT,
        machine=BLOB,
    )
)


def encode_state(state: AppliedState) -> bytes:
    """Encode a state: equal states are equal bytes."""
    return _FORMAT.encode(state)


def decode_state(data: bytes) -> AppliedState:
    """Decode a state. Raises CorruptSnapshotError."""
    try:
        return _FORMAT.decode(data)
    except MalformedError as error:
        raise CorruptSnapshotError(f"no snapshot: {error}") from error


def sealed(data: bytes) -> bytes:
    """Append the CRC-32C of ``data``."""
    return data + checksum(data).to_bytes(CHECKSUM_BYTES, "big")


def unsealed(data: bytes) -> bytes:
    """Take the checksum off. Raises CorruptSnapshotError if it does not fit."""
    content, seal = data[:-CHECKSUM_BYTES], data[-CHECKSUM_BYTES:]
    if len(seal) < CHECKSUM_BYTES or int.from_bytes(seal, "big") != checksum(content):
        raise CorruptSnapshotError(f"the checksum of a snapshot of {len(data)} bytes does not fit")
    return content


def check_fits(state: AppliedState, snapshot_id: SnapshotId, *, name: str, limits: SessionLimits) -> None:
    """Raise CorruptSnapshotError unless a state is what its id says, of this machine and limits, and possible.

    ForeignSnapshotError if it is of others.
    """
    if (state.applied_offset, state.applied_epoch) != (snapshot_id.end_offset, snapshot_id.epoch):
        raise CorruptSnapshotError(f"{snapshot_id} holds offset {state.applied_offset}, epoch {state.applied_epoch}")
    if state.name != name:
        raise ForeignSnapshotError(f"it is of state machine {state.name}, not {name}")
    if state.limits != limits:
        raise ForeignSnapshotError(f"its sessions have {state.limits}, not {limits}")
    if state.log_time_ms > LOG_TIME_MS_MAX:
        raise CorruptSnapshotError(f"log time is {state.log_time_ms}, the most is {LOG_TIME_MS_MAX}")
    failure = sessions_failure(
        state.sessions, limits=limits, end_offset=state.applied_offset, time_ms=state.log_time_ms
    )
    if failure is not None:
        raise CorruptSnapshotError(failure)
