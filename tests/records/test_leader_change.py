"""The batch that opens a leader's epoch, against Kafka's schema read by hand."""

from __future__ import annotations

import pytest

from replica.ids import Epoch, Offset, ReplicaId
from replica.records import (
    CorruptRecordError,
    LeaderChange,
    Record,
    decode_leader_change,
    decode_records,
    encode_batch,
    leader_change_batch,
    parse_batches,
)

BATCH = leader_change_batch(
    leader_id=ReplicaId(2),
    voters=(ReplicaId(3), ReplicaId(1), ReplicaId(2)),
    granting_voters=(ReplicaId(2), ReplicaId(1)),
    base_offset=Offset(40),
    leader_epoch=Epoch(7),
    timestamp_ms=1_700_000_000_000,
)

KEY = bytes.fromhex("0000 0002")
VALUE = bytes.fromhex(
    "0000"  # Version int16 = 0
    "00000002"  # LeaderId int32 = 2
    "04"  # Voters: compact array of 3 (written as 3 + 1)
    "00000001 00"  # VoterId int32 = 1, no tagged fields
    "00000002 00"
    "00000003 00"
    "03"  # GrantingVoters: compact array of 2
    "00000001 00"
    "00000002 00"
    "00"  # no tagged fields of the message itself
)


def control_batch(key: bytes | None, value: bytes | None) -> object:
    """Decode a control batch with this one record."""
    record = Record(offset=Offset(0), timestamp_ms=0, key=key, value=value)
    return decode_leader_change(encode_batch([record], leader_epoch=1, is_control=True))


def test_the_bytes_are_those_of_the_schema() -> None:
    """Key and value equal the bytes that LeaderChangeMessage version 0 prescribes, written out by hand."""
    (record,) = decode_records(BATCH)
    assert record.key == KEY
    assert record.value == VALUE


def test_it_is_a_stamped_control_batch_of_one_record() -> None:
    """The batch takes one offset, is marked as control, and needs no further stamp."""
    assert parse_batches(BATCH.data) == (BATCH,)
    assert BATCH.is_control
    assert (BATCH.base_offset, BATCH.end_offset, BATCH.leader_epoch) == (40, 41, 7)
    assert (BATCH.record_count, BATCH.max_timestamp_ms) == (1, 1_700_000_000_000)
    assert BATCH.data[21:23] == b"\x00\x20"


def test_it_decodes_to_what_was_encoded() -> None:
    """Leader, voters and granting voters come back, voters in ascending order."""
    assert decode_leader_change(BATCH) == LeaderChange(
        leader_id=ReplicaId(2),
        voters=(ReplicaId(1), ReplicaId(2), ReplicaId(3)),
        granting_voters=(ReplicaId(1), ReplicaId(2)),
    )


def test_many_voters_take_a_longer_count() -> None:
    """A count that needs two bytes, and voter ids up to 32 bits, round trip."""
    voters = tuple(ReplicaId(voter_id) for voter_id in (*range(199), 2**31 - 1))
    batch = leader_change_batch(
        leader_id=voters[-1], voters=voters, granting_voters=(), base_offset=Offset(0), leader_epoch=Epoch(0)
    )
    assert decode_leader_change(batch) == LeaderChange(leader_id=voters[-1], voters=voters, granting_voters=())


def test_data_is_no_leader_change() -> None:
    """A data batch with the very same key and value is data."""
    assert decode_leader_change(encode_batch([Record(offset=Offset(0), timestamp_ms=0, key=KEY, value=VALUE)])) is None


@pytest.mark.parametrize("control_type", ["0000", "0001", "0003", "0005", "ffff"])
def test_other_control_records_are_not_leader_changes(control_type: str) -> None:
    """Control records of other types, known to Kafka or not, are passed over."""
    assert control_batch(bytes.fromhex("0000" + control_type), b"anything") is None


def test_tagged_fields_of_later_versions_are_passed_over() -> None:
    """Tags that a reader does not know are skipped, in a voter and in the message, as KIP-482 asks."""
    voter_with_tag = "00000001 01 05 02 aabb"
    message = bytes.fromhex(f"0000 00000002 02 {voter_with_tag} 01 02 00 00 07 01 cc")
    assert control_batch(KEY, message) == LeaderChange(
        leader_id=ReplicaId(2), voters=(ReplicaId(1),), granting_voters=()
    )


@pytest.mark.parametrize("length", range(len(VALUE)))
def test_every_truncated_message_is_refused(length: int) -> None:
    """A leader change cut at any byte is refused."""
    with pytest.raises(CorruptRecordError):
        control_batch(KEY, VALUE[:length])


@pytest.mark.parametrize(
    ("key", "value", "message"),
    [
        (None, VALUE, "key is None"),
        (b"\x00\x00\x00", VALUE, "at least 4 bytes"),
        (b"\xff\xff\x00\x02", VALUE, "version -1 is negative"),
        (KEY, None, "a leader change is None"),
        (KEY, b"\x00\x01" + VALUE[2:], "leader change version 1"),
        (KEY, VALUE + b"\x00", "1 trailing bytes"),
        (KEY, VALUE[:6] + b"\x00", "voters is null"),
        (KEY, VALUE[:-1] + b"\x01\x00\x09\x00", "tagged field of 9 bytes with 1 left"),
        (KEY, VALUE[:6] + b"\xff\xff\xff\xff\x7f", "varint overflow"),
    ],
)
def test_a_malformed_control_record_is_refused_by_name(key: bytes | None, value: bytes | None, message: str) -> None:
    """Each way a leader change can be malformed is named."""
    with pytest.raises(CorruptRecordError, match=message):
        control_batch(key, value)
