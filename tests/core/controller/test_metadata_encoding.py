"""Metadata records as bytes: there and back, and what is wrong with bytes that are none."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from replica.core.metadata.acls import Acl, Operation, PatternType, Permission, ResourceType
from replica.core.metadata.encoding import (
    VERSION,
    CorruptMetadataRecordError,
    decode_record,
    encode_record,
    metadata_batch,
    records_of,
)
from replica.core.metadata.levels import NEWEST_LEVEL
from replica.core.metadata.records import (
    AccessControlEntryRecord,
    BrokerRegistrationChangeRecord,
    ConfigRecord,
    FeatureLevelRecord,
    LeaderRecoveryState,
    MetadataRecord,
    PartitionRecord,
    PartitionRegistration,
    ProducerIdsRecord,
    RegisterBrokerRecord,
    RemoveAccessControlEntryRecord,
    RemoveTopicRecord,
    ResourceConfigRecord,
    TopicRecord,
    UnregisterBrokerRecord,
)
from replica.core.metadata.resources import ConfigResource, ConfigResourceType
from replica.ids import BrokerEpoch, Epoch, Offset, PartitionEpoch, ReplicaId, TopicId
from replica.records import encode_batch, parse_batches
from tests.core.controller.bench import registration

NUMBERS = st.integers(0, (1 << 63) - 1)
BROKERS = st.integers(0, (1 << 31) - 1).map(ReplicaId)
MANY = st.lists(BROKERS, max_size=4).map(tuple)
TEXT = st.text(max_size=20)

REGISTRATIONS = st.builds(
    PartitionRegistration,
    replicas=MANY,
    isr=MANY,
    elr=MANY,
    last_known_leader=st.none() | BROKERS,
    leader_id=st.none() | BROKERS,
    leader_epoch=NUMBERS.map(Epoch),
    partition_epoch=NUMBERS.map(PartitionEpoch),
    leader_recovery_state=st.sampled_from(LeaderRecoveryState),
    adding_replicas=MANY,
    removing_replicas=MANY,
)
ACLS = st.builds(
    Acl,
    principal=TEXT,
    permission=st.sampled_from(Permission),
    operation=st.sampled_from(Operation),
    resource_type=st.sampled_from(ResourceType),
    pattern_type=st.sampled_from(PatternType),
    name=TEXT,
)
RESOURCES = st.builds(ConfigResource, resource_type=st.sampled_from(ConfigResourceType), name=TEXT)
RECORDS: st.SearchStrategy[MetadataRecord] = st.one_of(
    st.builds(
        RegisterBrokerRecord,
        broker_id=BROKERS,
        broker_epoch=NUMBERS.map(BrokerEpoch),
        incarnation_id=TEXT,
        directory_id=TEXT,
        flushes=st.booleans(),
        address=TEXT,
        rack=st.none() | TEXT,
    ),
    st.builds(
        BrokerRegistrationChangeRecord,
        broker_id=BROKERS,
        broker_epoch=NUMBERS.map(BrokerEpoch),
        fenced=st.booleans(),
        in_controlled_shutdown=st.booleans(),
    ),
    st.builds(UnregisterBrokerRecord, broker_id=BROKERS, broker_epoch=NUMBERS.map(BrokerEpoch)),
    st.builds(TopicRecord, name=TEXT, topic_id=NUMBERS.map(TopicId)),
    st.builds(PartitionRecord, topic_id=NUMBERS.map(TopicId), partition=NUMBERS, registration=REGISTRATIONS),
    st.builds(RemoveTopicRecord, topic_id=NUMBERS.map(TopicId)),
    st.builds(ResourceConfigRecord, resource=RESOURCES, name=TEXT, value=st.none() | TEXT),
    st.builds(ConfigRecord, topic_id=NUMBERS.map(TopicId), name=TEXT, value=st.none() | TEXT),
    st.builds(ProducerIdsRecord, next_producer_id=NUMBERS),
    st.builds(AccessControlEntryRecord, acl=ACLS),
    st.builds(RemoveAccessControlEntryRecord, acl=ACLS),
    st.builds(FeatureLevelRecord, level=st.integers(1, NEWEST_LEVEL)),
)


@given(RECORDS)
def test_record_round_trip(record: MetadataRecord) -> None:
    """What is encoded decodes to the same record, and equal records are equal bytes."""
    data = encode_record(record)
    assert decode_record(data) == record
    assert encode_record(decode_record(data)) == data


@given(st.lists(RECORDS, min_size=1, max_size=6), st.integers(0, 1 << 40), st.integers(0, 1 << 20))
def test_batch_round_trip(records: list[MetadataRecord], base_offset: int, leader_epoch: int) -> None:
    """A decision is one whole batch at its offset, in its epoch, with a right checksum and no clock in it."""
    batch = metadata_batch(records, base_offset=Offset(base_offset), leader_epoch=Epoch(leader_epoch))
    assert (batch.base_offset, batch.record_count, batch.leader_epoch) == (base_offset, len(records), leader_epoch)
    assert batch.max_timestamp_ms == -1
    (parsed,) = parse_batches(batch.data)
    assert records_of(parsed) == tuple(records)


def test_encoded_form() -> None:
    """Records stand in logs: their bytes stay as they are, the version and the tag first, then the fields in order."""
    topic = TopicRecord(name="orders", topic_id=TopicId(7))
    assert encode_record(topic).hex(" ") == "01 04 00 00 00 06 6f 72 64 65 72 73 00 00 00 00 00 00 00 07"
    moved = PartitionRecord(
        topic_id=TopicId(7), partition=2, registration=registration((1, 2), (), None, elr=(2,), recovering=True)
    )
    number = "00 00 00 00 00 00 00 0"
    fields = [f"01 05 {number}7 {number}2", f"00 00 00 02 {number}1 {number}2", "00 00 00 00", f"00 00 00 01 {number}2"]
    fields += ["00", "00", f"{number}5", f"{number}9", "01", "00 00 00 00", "00 00 00 00"]
    assert encode_record(moved).hex(" ") == " ".join(fields)
    acl = Acl(
        principal="User:a",
        permission=Permission.DENY,
        operation=Operation.WRITE,
        resource_type=ResourceType.GROUP,
        pattern_type=PatternType.PREFIXED,
        name="o",
    )
    entry = "00 00 00 06 55 73 65 72 3a 61 01 02 01 01 00 00 00 01 6f"
    assert encode_record(AccessControlEntryRecord(acl=acl)).hex(" ") == f"01 09 {entry}"
    assert encode_record(RemoveAccessControlEntryRecord(acl=acl)).hex(" ") == f"01 0a {entry}"
    assert encode_record(FeatureLevelRecord(level=2)).hex(" ") == f"01 0b {number}2"
    user = ConfigResource(resource_type=ConfigResourceType.USER, name="a")
    quota = ResourceConfigRecord(resource=user, name="r", value="7")
    assert encode_record(quota).hex(" ") == "01 0f 01 00 00 00 01 61 00 00 00 01 72 01 00 00 00 01 37"


PARTITION = encode_record(PartitionRecord(topic_id=TopicId(7), partition=2, registration=registration()))


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        pytest.param(b"", "1 bytes are due", id="nothing"),
        pytest.param(bytes([VERSION + 1]) + PARTITION[1:], f"version {VERSION + 1} is unknown", id="another_version"),
        pytest.param(bytes([VERSION, 99]) + PARTITION[2:], "unknown tag 99", id="another_tag"),
        pytest.param(PARTITION[:-1], "are left", id="cut"),
        pytest.param(PARTITION + b"\0", "1 trailing bytes", id="more_behind_it"),
        pytest.param(PARTITION[:2] + b"\xff" + PARTITION[3:], "is not from 0", id="negative"),
        pytest.param(
            encode_record(FeatureLevelRecord(level=NEWEST_LEVEL + 1)),
            f"at feature level {NEWEST_LEVEL + 1}, and this release knows none above {NEWEST_LEVEL}$",
            id="level_of_a_later_release",
        ),
        pytest.param(b'{"type":"TOPIC","version":0}', "it is JSON", id="json"),
    ],
)
def test_damaged_records(data: bytes, reason: str) -> None:
    """What is wrong with a record is said."""
    with pytest.raises(CorruptMetadataRecordError, match=reason):
        decode_record(data)


def test_batch_of_something_else() -> None:
    """A batch of other records is not taken for metadata."""
    with pytest.raises(CorruptMetadataRecordError):
        records_of(encode_batch([b"hello"]))
