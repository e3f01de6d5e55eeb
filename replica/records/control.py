"""Control batches: what a quorum's leader writes into the log on its own behalf.

Owns the encoding of the control key and of ``LeaderChangeMessage`` version 0, the batch with which every leader opens
its epoch. Knows nothing of elections. Source: KIP-595; Kafka's ``ControlRecordType``, ``LeaderChangeMessage.json``;
KIP-482 for compact arrays and tagged fields.

    key:   version i16 = 0 | type i16 = 2
    value: version i16 = 0 | leaderId i32 | voters | grantingVoters | tagged fields
    voters, grantingVoters: count + 1 as unsigned varint, then voterId i32 | tagged fields for each
"""

from __future__ import annotations

import struct
from collections.abc import Iterable

from msgspec import Struct

from replica.ids import Epoch, Offset, ReplicaId
from replica.records.batch import RecordBatch
from replica.records.errors import CorruptRecordError
from replica.records.record import NO_TIMESTAMP, Record, decode_records, encode_batch
from replica.records.varint import read_unsigned, write_unsigned

LEADER_CHANGE_TYPE = 2
LEADER_CHANGE_VERSION = 0
_KEY = struct.Struct(">hh")
_VALUE_START = struct.Struct(">hi")
_VOTER_ID = struct.Struct(">i")


class LeaderChange(Struct, frozen=True, kw_only=True):
    """Who was elected, by which voter set, and who granted the votes."""

    leader_id: ReplicaId
    voters: tuple[ReplicaId, ...]
    granting_voters: tuple[ReplicaId, ...]


def leader_change_batch(
    *,
    leader_id: ReplicaId,
    voters: Iterable[ReplicaId],
    granting_voters: Iterable[ReplicaId],
    base_offset: Offset,
    leader_epoch: Epoch,
    timestamp_ms: int = NO_TIMESTAMP,
) -> RecordBatch:
    """Encode the control batch that opens ``leader_epoch``: one record, at ``base_offset``, already stamped.

    Voters are written in ascending order, so that the bytes do not depend on the order of a set.
    """
    value = bytearray(_VALUE_START.pack(LEADER_CHANGE_VERSION, leader_id))
    _write_voters(value, voters)
    _write_voters(value, granting_voters)
    write_unsigned(value, 0)  # no tagged fields
    return control_batch(
        LEADER_CHANGE_TYPE,
        bytes(value),
        base_offset=base_offset,
        leader_epoch=leader_epoch,
        timestamp_ms=timestamp_ms,
    )


def control_batch(
    control_type: int, value: bytes, *, base_offset: Offset, leader_epoch: Epoch, timestamp_ms: int
) -> RecordBatch:
    """Encode a control batch with one record of this type, already stamped."""
    key = _KEY.pack(0, control_type)
    record = Record(offset=base_offset, timestamp_ms=timestamp_ms, key=key, value=value)
    return encode_batch([record], base_offset=base_offset, leader_epoch=leader_epoch, is_control=True)


def decode_leader_change(batch: RecordBatch) -> LeaderChange | None:
    """Return the leader change that ``batch`` holds; ``None`` for data and for control records of other types.

    Raises ``CorruptRecordError`` where the records or the message are malformed; the position counts from the start
    of the batch for records, from the start of the control record's key or value inside it.
    """
    if not batch.is_control:
        return None
    for record in decode_records(batch):
        if control_type_of(record.key) == LEADER_CHANGE_TYPE:
            return _decode_message(record.value)
    return None


def control_type_of(key: bytes | None) -> int:
    """Read the type of a control record from its key. Raises CorruptRecordError."""
    if key is None or len(key) < _KEY.size:
        raise CorruptRecordError(0, f"a control record's key is {key!r}; it has at least {_KEY.size} bytes")
    version, control_type = _KEY.unpack_from(key)
    if version < 0:
        raise CorruptRecordError(0, f"control key version {version} is negative")
    return int(control_type)


def _decode_message(value: bytes | None) -> LeaderChange:
    if value is None or len(value) < _VALUE_START.size:
        raise CorruptRecordError(0, f"a leader change is {value!r}; it has at least {_VALUE_START.size} bytes")
    version, leader_id = _VALUE_START.unpack_from(value)
    if version != LEADER_CHANGE_VERSION:
        raise CorruptRecordError(0, f"leader change version {version} is not {LEADER_CHANGE_VERSION}")
    voters, position = _read_voters(value, _VALUE_START.size)
    granting_voters, position = _read_voters(value, position)
    position = skip_tagged_fields(value, position)
    if position != len(value):
        raise CorruptRecordError(position, f"{len(value) - position} trailing bytes behind a leader change")
    return LeaderChange(leader_id=ReplicaId(leader_id), voters=voters, granting_voters=granting_voters)


def _write_voters(out: bytearray, voters: Iterable[ReplicaId]) -> None:
    voter_ids = sorted(voters)
    write_unsigned(out, len(voter_ids) + 1)
    for voter_id in voter_ids:
        out += _VOTER_ID.pack(voter_id)
        write_unsigned(out, 0)  # no tagged fields


def _read_voters(value: bytes, position: int) -> tuple[tuple[ReplicaId, ...], int]:
    count_plus_one, cursor = read_unsigned(value, position, len(value))
    if count_plus_one == 0:
        raise CorruptRecordError(position, "a list of voters is null")
    voters: list[ReplicaId] = []
    for _ in range(count_plus_one - 1):
        if len(value) - cursor < _VOTER_ID.size:
            raise CorruptRecordError(cursor, f"the value ends inside voter {len(voters)} of {count_plus_one - 1}")
        voters.append(ReplicaId(_VOTER_ID.unpack_from(value, cursor)[0]))
        cursor = skip_tagged_fields(value, cursor + _VOTER_ID.size)
    return tuple(voters), cursor


def skip_tagged_fields(value: bytes, position: int) -> int:
    """Step over fields of later versions: readers ignore the tags they do not know (KIP-482)."""
    count, cursor = read_unsigned(value, position, len(value))
    for _ in range(count):
        _, cursor = read_unsigned(value, cursor, len(value))
        size, start = read_unsigned(value, cursor, len(value))
        if size > len(value) - start:
            raise CorruptRecordError(cursor, f"a tagged field of {size} bytes with {len(value) - start} left")
        cursor = start + size
    return cursor
