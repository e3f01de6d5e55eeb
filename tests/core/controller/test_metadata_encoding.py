"""Metadata records as bytes: there and back, and what is wrong with bytes that are none."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from replica.core.metadata.encoding import (
    CorruptMetadataRecordError,
    decode_record,
    encode_record,
    metadata_batch,
    records_of,
)
from replica.core.metadata.records import (
    BrokerRegistrationChangeRecord,
    ConfigRecord,
    LeaderRecoveryState,
    MetadataRecord,
    PartitionRecord,
    PartitionRegistration,
    ProducerIdsRecord,
    RegisterBrokerRecord,
    RemoveTopicRecord,
    TopicRecord,
    UnregisterBrokerRecord,
)
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
    st.builds(ConfigRecord, topic_id=NUMBERS.map(TopicId), name=TEXT, value=st.none() | TEXT),
    st.builds(ProducerIdsRecord, next_producer_id=NUMBERS),
)


@given(RECORDS)
def test_record_round_trip(record: MetadataRecord) -> None:
    """What is encoded decodes to the same record, and equal records are equal bytes."""
    data = encode_record(record)
    assert decode_record(data) == record
    assert encode_record(decode_record(data)) == data
    assert data.isascii()


@given(st.lists(RECORDS, min_size=1, max_size=6), st.integers(0, 1 << 40), st.integers(0, 1 << 20))
def test_batch_round_trip(records: list[MetadataRecord], base_offset: int, leader_epoch: int) -> None:
    """A decision is one whole batch at its offset, in its epoch, with a right checksum and no clock in it."""
    batch = metadata_batch(records, base_offset=Offset(base_offset), leader_epoch=Epoch(leader_epoch))
    assert (batch.base_offset, batch.record_count, batch.leader_epoch) == (base_offset, len(records), leader_epoch)
    assert batch.max_timestamp_ms == -1
    (parsed,) = parse_batches(batch.data)
    assert records_of(parsed) == tuple(records)


def test_encoded_form() -> None:
    """Records look as they are documented: type and version first, then the fields of the class."""
    assert (
        encode_record(TopicRecord(name="orders", topic_id=TopicId(7)))
        == b'{"type":"TOPIC","version":0,"name":"orders","topic_id":7}'
    )
    assert encode_record(
        PartitionRecord(
            topic_id=TopicId(7),
            partition=2,
            registration=registration((1, 2), (), None, elr=(2,), last_known_leader=1, recovering=True),
        )
    ) == (
        b'{"type":"PARTITION","version":0,"topic_id":7,"partition":2,"registration":{"replicas":[1,2],"isr":[],'
        b'"elr":[2],"last_known_leader":1,"leader_id":null,"leader_epoch":5,"partition_epoch":9,'
        b'"leader_recovery_state":"RECOVERING"}}'
    )


TOPIC: dict[str, Any] = {"type": "TOPIC", "version": 0, "name": "orders", "topic_id": 7}
PARTITION: dict[str, Any] = json.loads(
    encode_record(PartitionRecord(topic_id=TopicId(7), partition=2, registration=registration()))
)


def within_registration(**fields: Any) -> dict[str, Any]:
    return PARTITION | {"registration": PARTITION["registration"] | fields}


def test_encoded_form_of_a_reassignment() -> None:
    """Who comes and who goes is written only where there is somebody: what was written before is read as ever."""
    record = PartitionRecord(
        topic_id=TopicId(7), partition=2, registration=registration((3, 2, 1), (1, 2), adding=(3,), removing=(1,))
    )
    written = json.loads(encode_record(record))["registration"]
    assert (written.pop("adding_replicas"), written.pop("removing_replicas")) == ([3], [1])
    settled = PARTITION | {"registration": written}
    decoded = decode_record(json.dumps(settled).encode())
    assert isinstance(decoded, PartitionRecord)
    assert decoded.registration == registration((3, 2, 1), (1, 2))


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        pytest.param([], "JSON object", id="no_object"),
        pytest.param({}, "no field type", id="no_type"),
        pytest.param(TOPIC | {"type": 3}, "type", id="type_is_no_text"),
        pytest.param(TOPIC | {"type": "TOPICS"}, "unknown record type 'TOPICS'", id="unknown_type"),
        pytest.param(TOPIC | {"version": 1}, "version 1", id="unknown_version"),
        pytest.param({"type": "TOPIC", "version": 0, "name": "orders"}, "TOPIC has no field topic_id", id="missing"),
        pytest.param({"type": "TOPIC", "name": "orders", "topic_id": 7}, "no field version", id="no_version"),
        pytest.param(TOPIC | {"colour": 1}, "unknown fields: colour", id="unknown_field"),
        pytest.param(TOPIC | {"topic_id": "7"}, "topic_id '7'", id="text_for_a_number"),
        pytest.param(TOPIC | {"topic_id": True}, "topic_id True", id="flag_for_a_number"),
        pytest.param(TOPIC | {"topic_id": -1}, "topic_id -1", id="negative"),
        pytest.param(TOPIC | {"topic_id": None}, "topic_id None", id="null_for_a_number"),
        pytest.param(TOPIC | {"name": 1}, "name 1", id="number_for_text"),
        pytest.param(PARTITION | {"registration": 1}, "registration 1", id="number_for_an_object"),
        pytest.param(within_registration(isr=[1, "2"]), r"PARTITION.registration has isr", id="text_in_a_list"),
        pytest.param(within_registration(isr=1), "a list", id="number_for_a_list"),
        pytest.param(within_registration(leader_recovery_state="FINE"), "leader_recovery_state 'FINE'", id="no_state"),
        pytest.param(within_registration(leader_id=-1), "leader_id -1", id="negative_leader"),
        pytest.param(within_registration(removing_replicas=[-1]), "removing_replicas", id="negative_in_a_list"),
        pytest.param(within_registration(adding_replicas=[]), "left out, since it is empty", id="empty_list"),
        pytest.param(within_registration(colour=1), "registration has unknown fields: colour", id="unknown_in_it"),
        pytest.param(
            {
                "type": "BROKER_REGISTRATION_CHANGE",
                "version": 0,
                "broker_id": 1,
                "broker_epoch": 1,
                "fenced": 1,
                "in_controlled_shutdown": False,
            },
            "fenced 1",
            id="number_for_a_flag",
        ),
    ],
)
def test_damaged_records(value: Any, reason: str) -> None:
    """What is wrong with a record is named."""
    with pytest.raises(CorruptMetadataRecordError, match=reason):
        decode_record(json.dumps(value).encode())


@pytest.mark.parametrize("data", [b"", b"{", b"\xff\xfe", b"[" * 100_000])
def test_bytes_that_are_no_json(data: bytes) -> None:
    """Bytes that are no JSON at all are told as such."""
    with pytest.raises(CorruptMetadataRecordError, match="not JSON"):
        decode_record(data)


def test_batch_of_something_else() -> None:
    """A batch of other records is not taken for metadata."""
    with pytest.raises(CorruptMetadataRecordError):
        records_of(encode_batch([b"hello"]))
