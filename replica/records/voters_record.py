"""The control batch that names the voters of a quorum log from its own offset on.

Owns the encoding of ``VotersRecord`` version 0, one record in a batch of its own, which snapshots use too. Knows
nothing of who may change the voters. Source: KIP-853; Kafka's ``ControlRecordType``, ``VotersRecord.json``; KIP-482.

    key:       version i16 = 0 | type i16 = 6
    value:     version i16 = 0 | voters | tagged fields
    voters:    count + 1 as unsigned varint, then
               voterId i32 | directory id, 16 bytes (zeros: none) | endpoints | feature | tagged fields for each
    endpoints: count + 1, then name | host | port u16 | tagged fields for each; none for a voter without an address
    name, host: length + 1 as unsigned varint, then UTF-8
    feature:   lowest i16 = 0 | highest i16 = 1 (Kafka's ``kraft.version``) | tagged fields
"""

from __future__ import annotations

from struct import Struct

from replica.ids import Epoch, Offset, ReplicaId
from replica.records.batch import RecordBatch
from replica.records.control import control_batch, control_type_of, skip_tagged_fields
from replica.records.errors import CorruptRecordError
from replica.records.record import NO_TIMESTAMP, decode_records
from replica.records.varint import read_unsigned, write_unsigned
from replica.voters import DIRECTORY_ID_BYTES, Voter, VoterSet, directory_id_bytes, directory_id_of

VOTERS_TYPE = 6
VOTERS_VERSION = 0
LISTENER = "CONTROLLER"
"""The name of the one endpoint that a voter has."""
_VERSION = Struct(">h")
_VOTER = Struct(f">i{DIRECTORY_ID_BYTES}s")
_PORT = Struct(">H")
_FEATURE = Struct(">hh")
_NO_DIRECTORY = bytes(DIRECTORY_ID_BYTES)


def voters_batch(
    *, voters: VoterSet, base_offset: Offset, leader_epoch: Epoch, timestamp_ms: int = NO_TIMESTAMP
) -> RecordBatch:
    """Encode the control batch that names ``voters``: one record, at ``base_offset``, already stamped.

    Raises ValueError for a directory id or an address that cannot be written.
    """
    return control_batch(
        VOTERS_TYPE,
        encode_voters(voters),
        base_offset=base_offset,
        leader_epoch=leader_epoch,
        timestamp_ms=timestamp_ms,
    )


def decode_voters(batch: RecordBatch) -> VoterSet | None:
    """Return the voters that ``batch`` names; ``None`` for data and for control records of other types.

    Raises ``CorruptRecordError`` where the records or the message are malformed, as ``decode_leader_change`` does.
    """
    if not batch.is_control:
        return None
    for record in decode_records(batch):
        if control_type_of(record.key) == VOTERS_TYPE:
            return decode_voters_message(record.value)
    return None


def encode_voters(voters: VoterSet) -> bytes:
    """Encode the message alone. Raises ValueError for a directory id or an address that cannot be written."""
    value = bytearray(_VERSION.pack(VOTERS_VERSION))
    write_unsigned(value, len(voters.voters) + 1)
    for voter in voters.voters:
        directory = _NO_DIRECTORY if voter.directory_id is None else directory_id_bytes(voter.directory_id)
        value += _VOTER.pack(voter.replica_id, directory)
        _write_endpoints(value, voter.address)
        value += _FEATURE.pack(0, 1)
        write_unsigned(value, 0)  # no tagged fields of the feature
        write_unsigned(value, 0)  # nor of the voter
    write_unsigned(value, 0)
    return bytes(value)


def _write_endpoints(out: bytearray, address: str) -> None:
    if not address:
        write_unsigned(out, 1)  # none
        return
    host, _, port = address.rpartition(":")
    if not host or not (port.isascii() and port.isdigit() and int(port) < 1 << 16):
        raise ValueError(f"{address!r} is no address; give HOST:PORT")
    write_unsigned(out, 2)
    for text in (LISTENER, host):
        encoded = text.encode()
        write_unsigned(out, len(encoded) + 1)
        out += encoded
    out += _PORT.pack(int(port))
    write_unsigned(out, 0)  # no tagged fields


def decode_voters_message(value: bytes | None) -> VoterSet:
    """Decode the message alone. Raises CorruptRecordError; its position counts from the start of ``value``."""
    if value is None or len(value) < _VERSION.size:
        raise CorruptRecordError(0, f"a set of voters is {value!r}; it has at least {_VERSION.size} bytes")
    (version,) = _VERSION.unpack_from(value)
    if version != VOTERS_VERSION:
        raise CorruptRecordError(0, f"voters version {version} is not {VOTERS_VERSION}")
    count, cursor = _read_count(value, _VERSION.size, "a list of voters")
    voters: list[Voter] = []
    for _ in range(count):
        voter, position = _read_voter(value, cursor)
        if voters and voters[-1].replica_id >= voter.replica_id:
            raise CorruptRecordError(cursor, f"voter {voter.replica_id} after voter {voters[-1].replica_id}")
        voters.append(voter)
        cursor = position
    cursor = skip_tagged_fields(value, cursor)
    if cursor != len(value):
        raise CorruptRecordError(cursor, f"{len(value) - cursor} trailing bytes behind a set of voters")
    return VoterSet(tuple(voters))


def _read_voter(value: bytes, position: int) -> tuple[Voter, int]:
    _check_left(value, position, _VOTER.size)
    replica_id, directory = _VOTER.unpack_from(value, position)
    address, cursor = _read_endpoints(value, position + _VOTER.size)
    _check_left(value, cursor, _FEATURE.size)
    cursor = skip_tagged_fields(value, cursor + _FEATURE.size)
    cursor = skip_tagged_fields(value, cursor)
    directory_id = None if directory == _NO_DIRECTORY else directory_id_of(directory)
    return Voter(replica_id=ReplicaId(replica_id), directory_id=directory_id, address=address), cursor


def _read_endpoints(value: bytes, position: int) -> tuple[str, int]:
    """Read all endpoints of a voter and return the first's address, empty where there is none."""
    count, cursor = _read_count(value, position, "a list of endpoints")
    addresses = []
    for _ in range(count):
        _, cursor = _read_text(value, cursor)
        host, cursor = _read_text(value, cursor)
        _check_left(value, cursor, _PORT.size)
        (port,) = _PORT.unpack_from(value, cursor)
        cursor = skip_tagged_fields(value, cursor + _PORT.size)
        addresses.append(f"{host}:{port}")
    return (addresses[0] if addresses else ""), cursor


def _read_text(value: bytes, position: int) -> tuple[str, int]:
    length, cursor = _read_count(value, position, "a text")
    _check_left(value, cursor, length)
    try:
        return value[cursor : cursor + length].decode(), cursor + length
    except UnicodeDecodeError as error:
        raise CorruptRecordError(cursor, "a text is no UTF-8") from error


def _read_count(value: bytes, position: int, what: str) -> tuple[int, int]:
    """Read a count, or a length, that is written as one more."""
    count_plus_one, cursor = read_unsigned(value, position, len(value))
    if count_plus_one == 0:
        raise CorruptRecordError(position, f"{what} is null")
    return count_plus_one - 1, cursor


def _check_left(value: bytes, position: int, size: int) -> None:
    if len(value) - position < size:
        raise CorruptRecordError(position, f"{size} bytes are wanted, {len(value) - position} are left")
