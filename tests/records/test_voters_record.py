"""The batch that names the voters of a quorum log, against Kafka's schema read by hand."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from replica.ids import Epoch, Offset, ReplicaId
from replica.records import (
    CorruptRecordError,
    Record,
    decode_leader_change,
    decode_records,
    decode_voters,
    encode_batch,
    parse_batches,
    voters_batch,
)
from replica.records.voters_record import encode_voters
from replica.voters import Voter, VoterSet, directory_id_bytes, directory_id_of, is_directory_id

FIRST, SECOND = bytes(range(1, 17)), bytes(range(17, 33))
VOTERS = VoterSet.of(
    [
        Voter(replica_id=ReplicaId(3), directory_id=directory_id_of(SECOND)),
        Voter(replica_id=ReplicaId(1), directory_id=directory_id_of(FIRST), address="host-1:9092"),
    ]
)
BATCH = voters_batch(voters=VOTERS, base_offset=Offset(40), leader_epoch=Epoch(7), timestamp_ms=1_700_000_000_000)

KEY = bytes.fromhex("0000 0006")
FEATURE = "0000 0001 00"  # versions 0 to 1, no tagged fields
VALUE = bytes.fromhex(
    "0000"  # Version int16 = 0
    "03"  # Voters: compact array of 2 (written as 2 + 1)
    f"00000001 {FIRST.hex()}"  # VoterId int32 = 1, its directory id
    f"02 0b {b'CONTROLLER'.hex()} 07 {b'host-1'.hex()} 2384 00"  # one endpoint: name, host, port uint16
    f"{FEATURE} 00"  # no tagged fields of the voter
    f"00000003 {SECOND.hex()} 01"  # no endpoint
    f"{FEATURE} 00"
    "00"  # no tagged fields of the message itself
)


def control_batch(key: bytes | None, value: bytes | None) -> object:
    """Decode a control batch with this one record."""
    record = Record(offset=Offset(0), timestamp_ms=0, key=key, value=value)
    return decode_voters(encode_batch([record], leader_epoch=1, is_control=True))


def test_the_bytes_are_those_of_the_schema() -> None:
    """Key and value equal the bytes that VotersRecord version 0 prescribes, written out by hand."""
    (record,) = decode_records(BATCH)
    assert record.key == KEY
    assert record.value == VALUE


def test_it_is_a_stamped_control_batch_of_one_record() -> None:
    """The batch takes one offset, is marked as control, and needs no further stamp."""
    assert parse_batches(BATCH.data) == (BATCH,)
    assert BATCH.is_control
    assert (BATCH.base_offset, BATCH.end_offset, BATCH.leader_epoch) == (40, 41, 7)


def test_it_decodes_to_what_was_encoded() -> None:
    """Ids, disks and addresses come back, in ascending order of the ids."""
    assert decode_voters(BATCH) == VOTERS
    assert decode_leader_change(BATCH) is None


@given(
    st.dictionaries(
        st.integers(0, (1 << 31) - 1),
        st.tuples(
            st.none() | st.binary(min_size=16, max_size=16).filter(any),
            st.just("") | st.builds("{}:{}".format, st.text(min_size=1), st.integers(0, 65535)),
        ),
        max_size=9,
    )
)
def test_record_round_trip(voters: dict[int, tuple[bytes | None, str]]) -> None:
    """Whatever ids, disks and addresses they have, or have not."""
    voter_set = VoterSet.of(
        Voter(
            replica_id=ReplicaId(replica_id),
            directory_id=None if directory is None else directory_id_of(directory),
            address=address,
        )
        for replica_id, (directory, address) in voters.items()
    )
    assert decode_voters(voters_batch(voters=voter_set, base_offset=Offset(0), leader_epoch=Epoch(0))) == voter_set


def test_data_names_no_voters() -> None:
    """A data batch with the very same key and value is data."""
    assert decode_voters(encode_batch([Record(offset=Offset(0), timestamp_ms=0, key=KEY, value=VALUE)])) is None


@pytest.mark.parametrize("control_type", ["0000", "0002", "0005", "ffff"])
def test_other_control_records_name_no_voters(control_type: str) -> None:
    """Control records of other types, known to Kafka or not, are passed over."""
    assert control_batch(bytes.fromhex("0000" + control_type), b"anything") is None


def test_tagged_fields_and_endpoints_of_later_versions_are_passed_over() -> None:
    """Tags that a reader does not know are skipped (KIP-482); of several endpoints the first is the address."""
    endpoints = "03" + "02 61 02 62 0001 00" + "02 63 02 64 0002 01 09 01 ff"
    value = bytes.fromhex(f"0000 02 00000001 {FIRST.hex()} {endpoints} 0000 0001 01 05 02 aabb 01 02 00 01 07 01 cc")
    assert control_batch(KEY, value) == VoterSet(
        (Voter(replica_id=ReplicaId(1), directory_id=directory_id_of(FIRST), address="b:1"),)
    )


@pytest.mark.parametrize("length", range(len(VALUE)))
def test_every_truncated_message_is_refused(length: int) -> None:
    """A set of voters cut at any byte is refused."""
    with pytest.raises(CorruptRecordError):
        control_batch(KEY, VALUE[:length])


@pytest.mark.parametrize(
    ("value", "message"),
    [
        (None, "a set of voters is None"),
        (b"\x00\x01" + VALUE[2:], "voters version 1"),
        (VALUE + b"\x00", "1 trailing bytes"),
        (VALUE[:2] + b"\x00", "voters is null"),
        (VALUE.replace(b"\x00\x00\x00\x03", b"\x00\x00\x00\x01"), "voter 1 after voter 1"),
        (VALUE.replace(b"host-1", b"host-\xff"), "no UTF-8"),
    ],
)
def test_a_malformed_record_is_refused_by_name(value: bytes | None, message: str) -> None:
    """Each way a set of voters can be malformed is named."""
    with pytest.raises(CorruptRecordError, match=message):
        control_batch(KEY, value)


@pytest.mark.parametrize("address", ["host", "host:", ":1", "host:65536", "host:-1", "host:x", "host:\u0661"])
def test_an_address_that_cannot_be_written_is_told(address: str) -> None:
    """It is a host and a port."""
    voter = Voter(replica_id=ReplicaId(1), directory_id=directory_id_of(FIRST), address=address)
    with pytest.raises(ValueError, match="HOST:PORT"):
        encode_voters(VoterSet((voter,)))


@pytest.mark.parametrize("text", ["", "disk-1", "A" * 21, "A" * 23, "A" * 21 + "B", "\u00e4" * 22, "+" * 22])
def test_a_text_that_is_no_directory_id_is_told(text: str) -> None:
    """It is 16 bytes in URL-safe base64, without padding; nothing else stands for them."""
    with pytest.raises(ValueError, match=r"."):
        directory_id_bytes(text)
    assert not is_directory_id(text)


def test_zeros_stand_for_no_directory() -> None:
    """Kafka writes them where there is none, so no voter can have them."""
    assert not is_directory_id("A" * 22)
    assert is_directory_id(directory_id_of(FIRST))
    assert not is_directory_id(None)
