"""What a snapshot holds, and how it is written: everything that the next entry's outcome hangs on.

Owns the encoding of an applied log's state, and the checksum that seals it on its way through files and networks.
Knows nothing of when a snapshot is taken or where it is kept.

Source: KIP-630; Ongaro's thesis, section 6.3: sessions and log time belong to the state.
"""

from __future__ import annotations

from typing import Any

from msgspec import Struct

from replica.encoding import (
    BLOB,
    COUNT,
    TEXT,
    Absent,
    Codec,
    Fields,
    Format,
    MalformedError,
    Optional,
    Row,
    joined,
)
from replica.ids import Epoch, Offset, SnapshotId
from replica.machines.description import DESCRIPTION, MachineDescription, difference
from replica.machines.log_time import LOG_TIME_MS_MAX
from replica.machines.machine import CorruptSnapshotError, ForeignSnapshotError, StateView
from replica.machines.sessions import LIMITS, SESSION, SessionLimits, SessionState, SessionsView, sessions_failure
from replica.records.checksum import checksum

CHECKSUM_BYTES = 4


class AppliedState(Struct, frozen=True, kw_only=True):
    """All that follows from the log below ``applied_offset``. The epoch is absent where that is nothing.

    ``name`` is that of the machine which has written it; ``said`` is what the log says of itself, if it does.
    """

    applied_offset: Offset
    applied_epoch: Epoch | None
    log_time_ms: int
    limits: SessionLimits
    sessions: tuple[SessionState, ...]
    name: str
    said: MachineDescription | None
    machine: bytes


class AppliedView(Struct, frozen=True, kw_only=True):
    """The same as it stands at one moment, with what is large not written down yet."""

    applied_offset: Offset
    applied_epoch: Epoch | None
    log_time_ms: int
    limits: SessionLimits
    sessions: SessionsView
    name: str
    said: MachineDescription | None
    machine: StateView

    def encode(self) -> bytes:
        """Write a snapshot: the state, sealed."""
        return sealed(encode_state(self.state()))

    def state(self) -> AppliedState:
        """Write the machine down. Raises TypeError if that is no machine's, and whatever else the machine raises."""
        return AppliedState(
            applied_offset=self.applied_offset,
            applied_epoch=self.applied_epoch,
            log_time_ms=self.log_time_ms,
            limits=self.limits,
            sessions=self.sessions.states(),
            name=self.name,
            said=self.said,
            machine=checked_bytes(self.machine.encode()),
        )


def checked_bytes(given: bytes) -> bytes:
    """What a machine has given, which must be bytes. Raises TypeError."""
    if not isinstance(given, bytes):
        raise TypeError(f"a reply is bytes, this is {type(given).__name__}")
    return given


def _format(version: int, said: Codec[Any]) -> Format[AppliedState]:
    return Format(
        Fields(
            AppliedState,
            applied_offset=COUNT,
            applied_epoch=Optional(COUNT),
            log_time_ms=COUNT,
            limits=LIMITS,
            sessions=Row(SESSION),
            name=TEXT,
            said=said,
            machine=BLOB,
        ),
        version=version,
    )


_SAYS_NOTHING = _format(0, Absent())
"""Of a log that does not say which machine it is of: no other was written before logs said so."""
_SAYS = _format(1, DESCRIPTION)


def encode_state(state: AppliedState) -> bytes:
    """Encode a state: equal states are equal bytes."""
    return (_SAYS_NOTHING if state.said is None else _SAYS).encode(state)


def decode_state(data: bytes) -> AppliedState:
    """Decode a state. Raises CorruptSnapshotError."""
    try:
        return (_SAYS_NOTHING if data[:1] == b"\0" else _SAYS).decode(data)
    except MalformedError as error:
        raise CorruptSnapshotError(f"no snapshot: {error}") from error


def sealed(data: bytes) -> bytes:
    """Append the CRC-32C of ``data``."""
    return joined(data, checksum(data).to_bytes(CHECKSUM_BYTES, "big"))


def unsealed(data: bytes) -> bytes:
    """Take the checksum off. Raises CorruptSnapshotError if it does not fit."""
    content, seal = data[:-CHECKSUM_BYTES], data[-CHECKSUM_BYTES:]
    if len(seal) < CHECKSUM_BYTES or int.from_bytes(seal, "big") != checksum(content):
        raise CorruptSnapshotError(f"the checksum of a snapshot of {len(data)} bytes does not fit")
    return content


def check_fits(state: AppliedState, snapshot_id: SnapshotId, *, limits: SessionLimits, own: MachineDescription) -> None:
    """Raise CorruptSnapshotError unless a state is what its id says, of this machine and limits, and possible.

    ForeignSnapshotError if it is of others.
    """
    if (state.applied_offset, state.applied_epoch) != (snapshot_id.end_offset, snapshot_id.epoch):
        raise CorruptSnapshotError(f"{snapshot_id} holds offset {state.applied_offset}, epoch {state.applied_epoch}")
    _check_is_of(state, limits=limits, own=own)
    if state.log_time_ms > LOG_TIME_MS_MAX:
        raise CorruptSnapshotError(f"log time is {state.log_time_ms}, the most is {LOG_TIME_MS_MAX}")
    failure = sessions_failure(
        state.sessions, limits=limits, end_offset=state.applied_offset, time_ms=state.log_time_ms
    )
    if failure is not None:
        raise CorruptSnapshotError(failure)


def _check_is_of(state: AppliedState, *, limits: SessionLimits, own: MachineDescription) -> None:
    """Raise ForeignSnapshotError for another machine: by what the log says, or where it says nothing, by its writer."""
    if state.said is not None and state.said != own:
        raise ForeignSnapshotError(f"it is of state machine {difference(state.said, own)}")
    if state.name != own.name:
        raise ForeignSnapshotError(f"it is of state machine {state.name}, this replica was started with {own.name}")
    if state.limits != limits:
        raise ForeignSnapshotError(f"its sessions have {state.limits}, here they have {limits}")
