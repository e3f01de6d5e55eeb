"""What stands before a machine's bytes in a snapshot: who votes, as of the snapshot's end.

A snapshot stands for all records below its end, and those that change the voters are among them. Whoever keeps or sends
it sees whole bytes only; the header is added where a snapshot is stored, and taken off where one is loaded.

Owns the encoding. Source: KIP-853, which writes a VotersRecord at the beginning of a snapshot.

    magic 4s = "RVOT" | version i16 = 0 | size of the body u32 | CRC-32C of the body u32 | body
    body: offset of the voters' record i64 (-1: they are those of the format) | VotersRecord, version 0
"""

from __future__ import annotations

from itertools import accumulate, pairwise

from msgspec import Struct

from replica.core.quorum.voter_history import VoterHistory
from replica.encoding import joined
from replica.ids import Offset
from replica.machines import CorruptSnapshotError, StateView
from replica.records import CorruptRecordError
from replica.records.checksum import checksum
from replica.records.voters_record import decode_voters_message, encode_voters

MAGIC = b"RVOT"
VERSION = 0
NO_OFFSET = -1
_PLACES = (len(MAGIC), 2, 4, 4)
"""How many bytes magic, version, size and checksum have."""
_HEAD_BYTES = sum(_PLACES)
_OFFSET_BYTES = 8


class HeadedState(Struct, frozen=True, kw_only=True):
    """The view of a machine's state, with the voters as of then before its bytes."""

    header: bytes
    state: StateView

    def encode(self) -> bytes:
        """Write the state down behind its header."""
        return joined(self.header, self.state.encode())


def encode_header(voters: VoterHistory) -> bytes:
    """Encode the header for the one set of ``voters``, which is as of the snapshot's end."""
    assert not voters.entries, voters
    offset = NO_OFFSET if voters.base_offset is None else voters.base_offset
    body = offset.to_bytes(_OFFSET_BYTES, signed=True) + encode_voters(voters.base)
    numbers = zip((VERSION, len(body), checksum(body)), _PLACES[1:], strict=True)
    return MAGIC + b"".join(number.to_bytes(length) for number, length in numbers) + body


def split_snapshot(data: bytes) -> tuple[VoterHistory, bytes]:
    """Take the header off: the voters as of the snapshot's end, and the machine's bytes.

    Raises CorruptSnapshotError.
    """
    if len(data) < _HEAD_BYTES:
        raise CorruptSnapshotError(f"a snapshot of {len(data)} bytes has no place for its voters")
    ends = tuple(accumulate(_PLACES))
    version, size, crc = (int.from_bytes(data[start:end]) for start, end in pairwise(ends))
    if (data[: ends[0]], version) != (MAGIC, VERSION):
        raise CorruptSnapshotError(f"a snapshot begins with {data[: ends[1]]!r}, not with its voters")
    body_end = _HEAD_BYTES + size
    body = data[_HEAD_BYTES:body_end]
    if len(body) < max(size, _OFFSET_BYTES):
        raise CorruptSnapshotError(f"a snapshot of {len(data)} bytes ends inside its voters")
    if checksum(body) != crc:
        raise CorruptSnapshotError("the voters in a snapshot do not have their checksum")
    return _decode_body(body), data[body_end:]


def _decode_body(body: bytes) -> VoterHistory:
    offset = int.from_bytes(body[:_OFFSET_BYTES], signed=True)
    try:
        voters = decode_voters_message(body[_OFFSET_BYTES:])
    except CorruptRecordError as error:
        raise CorruptSnapshotError(f"the voters in a snapshot are malformed: {error}") from error
    return VoterHistory(base=voters, base_offset=None if offset == NO_OFFSET else Offset(offset))
