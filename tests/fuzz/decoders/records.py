"""The decoders of record batches: in Python, in C, and the harness's own, which must say the same."""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from ctypes import CDLL
from random import Random
from struct import pack_into

from nemesis.history import record_batches as harness
from replica.ids import Epoch, Offset, ReplicaId
from replica.records import (
    DECOMPRESSED_BYTES_MAX,
    HEADER_BYTES,
    LENGTH_PREFIX_BYTES,
    SERVER_DECOMPRESSED_BYTES_MAX,
    ColumnDecoder,
    Compression,
    CorruptRecordError,
    DecodedRecords,
    InvalidRecordError,
    Record,
    RecordBatch,
    RecordTimes,
    check_produced,
    decode_leader_change,
    decode_records,
    decode_voters,
    encode_batch,
    leader_change_batch,
    parse_batches,
    parse_produced,
    voters_batch,
)
from replica.records.batch import CRC_AT
from replica.records.checksum import checksum
from replica.records.compression import compress
from replica.records.control import _decode_message
from replica.records.record import decompressed
from replica.records.voters_record import decode_voters_message, encode_voters
from replica.records.walking import ANY, library, walk_in_c, walk_in_python
from replica.voters import Voter, VoterSet
from tests.fuzz.decoder import Decoder, of_bytes
from tests.fuzz.guarded import encode_guarded, read_guarded
from tests.records.odd_batches import batch_of

RECORDS = (
    Record(offset=Offset(0), timestamp_ms=1000, key=b"k", value=b"v" * 200, headers=(("h", b"x"), ("none", None))),
    Record(offset=Offset(1), timestamp_ms=1001, key=None, value=None),
    Record(offset=Offset(2), timestamp_ms=7, key=b"", value=b"", headers=(("é", b""),)),
)
VOTERS = VoterSet.of(
    [
        Voter(replica_id=ReplicaId(1), directory_id="AAAAAAAAAAAAAAAAAAAAAQ", address="one:9092"),
        Voter(replica_id=ReplicaId(2), directory_id=None),
        Voter(replica_id=ReplicaId(300), directory_id="AAAAAAAAAAAAAAAAAAAAAg", address="[::1]:1"),
    ]
)
LEADER_CHANGE = leader_change_batch(
    leader_id=ReplicaId(1),
    voters=(ReplicaId(1), ReplicaId(2)),
    granting_voters=(ReplicaId(1),),
    base_offset=Offset(0),
    leader_epoch=Epoch(1),
)
DECOMPRESSED_MEMORY = 2 * DECOMPRESSED_BYTES_MAX
"""What a compressed batch may take, however small it is: LZ4 asks for room up to the limit, and gives most of it
back untouched."""


def right_batches() -> Sequence[bytes]:
    """Of each kind one, alone and one behind another."""
    first = encode_batch(RECORDS, leader_epoch=3)
    second = encode_batch([b"next"], base_offset=3, leader_epoch=5, producer_id=7, producer_epoch=0, base_sequence=9)
    packed = [encode_batch(RECORDS, compression=each) for each in (Compression.LZ4, Compression.ZSTD)]
    voters = voters_batch(voters=VOTERS, base_offset=Offset(1), leader_epoch=Epoch(2))
    alone = (first, second, *packed, LEADER_CHANGE, voters)
    return *(batch.data for batch in alone), first.data + second.data, LEADER_CHANGE.data + voters.data


def reseal(content: bytearray, dice: Random) -> None:
    """Let lengths and checksums fit: of one batch, or of all that stand back to back."""
    if len(content) >= HEADER_BYTES and dice.random() < 0.5:
        pack_into(">i", content, 8, len(content) - LENGTH_PREFIX_BYTES)
    at = 0
    while len(content) - at >= HEADER_BYTES:
        size = int.from_bytes(content[at + 8 : at + 12], "big", signed=True) + LENGTH_PREFIX_BYTES
        if size < HEADER_BYTES or size > len(content) - at:
            size = len(content) - at
        pack_into(">I", content, at + CRC_AT, checksum(bytes(content[at + CRC_AT + 4 : at + size])))
        at += size


def read_batches(content: bytes) -> None:
    """Read everything, by everybody."""
    for batch in parse_batches(content):
        _check_alike(batch)
        decode_leader_change(batch)
        decode_voters(batch)


def _check_alike(batch: RecordBatch) -> None:
    """Records one by one, walked over in Python and in C, as columns of both, and by the harness: all say the same."""
    data = decompressed(batch, limit_bytes=SERVER_DECOMPRESSED_BYTES_MAX)
    native = library()
    walked = _walked(None, batch, data)
    if native is not None:
        assert _are_alike(_walked(native, batch, data), walked), "the walk in C says something else"
        assert _are_alike(_columns(native, batch), _columns(None, batch)), "the columns in C are others"
    records = decode_records(batch, limit_bytes=SERVER_DECOMPRESSED_BYTES_MAX)
    assert isinstance(walked, RecordTimes), "what the walk refuses was decoded"
    (seen,) = harness.batches_in(batch.data)
    assert harness.values_of(seen) == tuple(record.value for record in records), "the harness reads other values"


def _walked(native: CDLL | None, batch: RecordBatch, data: bytes) -> RecordTimes | CorruptRecordError:
    """What a walk tells, or how it refuses."""
    try:
        return walk_in_python(batch, data, ANY) if native is None else walk_in_c(native, batch, data, ANY)
    except CorruptRecordError as error:
        return error


def _are_alike(one: object, other: object) -> bool:
    """Whether two readers say the same; where they refuse, at the same byte.

    Of a header whose name is no UTF-8 and whose value is too long, Python names the value, and C the name.
    """
    if isinstance(one, CorruptRecordError) and isinstance(other, CorruptRecordError):
        return one.position == other.position or "is not UTF-8" in f"{one} {other}"
    return one == other


def _columns(native: CDLL | None, batch: RecordBatch) -> list[object] | CorruptRecordError:
    """What is in the columns, or how they refuse."""
    decoder = ColumnDecoder(native)
    try:
        decoder.add(batch, 0)
    except CorruptRecordError as error:
        return error
    found: DecodedRecords = decoder.finish()
    plain: list[array[int]] = [found.offsets, found.timestamps_ms, found.leader_epochs, found.header_offsets]
    strings = [found.keys, found.values, found.names, found.contents]
    return [*plain, *((each.data, each.offsets, each.validity, each.null_count) for each in strings)]


def read_produced(content: bytes) -> None:
    """As a server reads what a client has written."""
    check_produced(parse_produced(content), limit_bytes=SERVER_DECOMPRESSED_BYTES_MAX)


def read_compressed(content: bytes) -> None:
    """The input is what was compressed: its first byte says how, the second how many records there are."""
    compression = (Compression.LZ4, Compression.ZSTD)[content[0] % 2] if content else Compression.ZSTD
    body = compress(compression, content[2:])
    _check_alike(batch_of(body, 1 + sum(content[1:2]) % 9, compression=compression))


def right_compressed() -> Sequence[bytes]:
    """Both codecs."""
    return [bytes([codec, len(RECORDS) - 1]) + encode_batch(RECORDS).data[HEADER_BYTES:] for codec in (0, 1)]


def read_as_harness(content: bytes) -> None:
    """As the harness reads the logs of the system that it judges."""
    for batch in harness.batches_in(content):
        harness.values_of(batch)


def right_columns() -> Sequence[bytes]:
    """A column with offsets of 64 bits, and one with offsets of 32."""
    ends = (0, 3, 3, 9)
    return [bytes([code == "q", len(ends) - 2]) + array(code, ends).tobytes() + b"abcdefghi" for code in "qi"]


DECODERS = (
    Decoder(
        name="record-batches",
        decode=of_bytes(read_batches),
        right=right_batches,
        refusals=(CorruptRecordError,),
        reseal=reseal,
        memory_bytes=DECOMPRESSED_MEMORY,
    ),
    Decoder(
        name="produced-batches",
        decode=of_bytes(read_produced),
        right=lambda: right_batches()[1:3],
        refusals=(CorruptRecordError, InvalidRecordError),
        reseal=reseal,
        memory_bytes=DECOMPRESSED_MEMORY,
    ),
    Decoder(
        name="compressed-records",
        decode=of_bytes(read_compressed),
        right=right_compressed,
        refusals=(CorruptRecordError,),
        memory_bytes=DECOMPRESSED_MEMORY,
    ),
    Decoder(
        name="harness-batches",
        decode=of_bytes(read_as_harness),
        right=right_batches,
        refusals=(harness.DamagedError,),
        reseal=reseal,
        memory_bytes=DECOMPRESSED_MEMORY,
    ),
    Decoder(
        name="leader-change",
        decode=of_bytes(_decode_message),
        right=lambda: [decode_records(LEADER_CHANGE)[0].value or b""],
        refusals=(CorruptRecordError,),
    ),
    Decoder(
        name="voters-record",
        decode=of_bytes(decode_voters_message),
        right=lambda: [encode_voters(VOTERS), encode_voters(VoterSet(()))],
        refusals=(CorruptRecordError,),
    ),
    Decoder(
        name="native-records",
        decode=of_bytes(read_guarded),
        right=lambda: [encode_batch(RECORDS).data, encode_batch([b"a"] * 9).data],
        refusals=(CorruptRecordError,),
        reseal=reseal,
        may_kill=True,
    ),
    Decoder(
        name="native-columns",
        decode=of_bytes(encode_guarded),
        right=right_columns,
        refusals=(ValueError,),
        may_kill=True,
    ),
)
