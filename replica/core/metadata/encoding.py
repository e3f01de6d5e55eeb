"""Metadata records as bytes: one JSON object per record, and one record batch per decision.

``{"type":"TOPIC","version":0,"name":"orders","topic_id":7}``: compact, ASCII, the fields in the order of the record's
class, so that equal records are equal bytes. What only a partition has that is reassigned is left out of all others:
records from before there were reassignments still decode. A decision is one batch, since a batch is what the log keeps
or loses as a whole. What does not decode is never guessed at: a metadata log that nobody understands stops whoever
reads it.

Source: Kafka's ``MetadataRecordSerde``, with JSON in the place of the generated formats.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields
from typing import Any

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
from replica.records import RecordBatch, decode_records, encode_batch

VERSION = 0
"""The only version of every record so far."""

_ONLY_IF_ANY = ("adding_replicas", "removing_replicas")
"""The fields of a registration that are there only while they name somebody."""


class CorruptMetadataRecordError(ValueError):
    """Bytes that are not a metadata record; the message names what is wrong with them."""


class _Fields:
    """The fields of one JSON object, each read once and with the type that it must have."""

    def __init__(self, what: str, values: Mapping[str, Any]) -> None:
        self._what = what
        self._values = dict(values)

    def integer(self, name: str) -> int:
        value = self._take(name)
        if type(value) is not int or value < 0:
            raise self._wrong(name, value, "a number from 0 up")
        return value

    def optional_integer(self, name: str) -> int | None:
        return None if self._is_null(name) else self.integer(name)

    def text(self, name: str) -> str:
        value = self._take(name)
        if not isinstance(value, str):
            raise self._wrong(name, value, "text")
        return value

    def optional_text(self, name: str) -> str | None:
        return None if self._is_null(name) else self.text(name)

    def flag(self, name: str) -> bool:
        value = self._take(name)
        if not isinstance(value, bool):
            raise self._wrong(name, value, "true or false")
        return value

    def replica_id(self, name: str) -> ReplicaId:
        return ReplicaId(self.integer(name))

    def optional_replica_id(self, name: str) -> ReplicaId | None:
        value = self.optional_integer(name)
        return None if value is None else ReplicaId(value)

    def replica_ids(self, name: str) -> tuple[ReplicaId, ...]:
        value = self._take(name)
        if not isinstance(value, list) or any(type(item) is not int or item < 0 for item in value):
            raise self._wrong(name, value, "a list of replica ids")
        return tuple(ReplicaId(item) for item in value)

    def replica_ids_if_any(self, name: str) -> tuple[ReplicaId, ...]:
        """Read a field that is left out where it names nobody."""
        if name not in self._values:
            return ()
        found = self.replica_ids(name)
        if not found:
            raise self._wrong(name, [], "left out, since it is empty")
        return found

    def recovery_state(self, name: str) -> LeaderRecoveryState:
        value = self._take(name)
        try:
            return LeaderRecoveryState(value)
        except ValueError:
            raise self._wrong(name, value, " or ".join(LeaderRecoveryState)) from None

    def fields(self, name: str) -> _Fields:
        value = self._take(name)
        if not isinstance(value, dict):
            raise self._wrong(name, value, "an object")
        return _Fields(f"{self._what}.{name}", value)

    def check_all_read(self) -> None:
        """Raise if anything is left: a field that is ignored is a decision that is ignored."""
        if self._values:
            raise CorruptMetadataRecordError(f"{self._what} has unknown fields: {', '.join(self._values)}")

    def _is_null(self, name: str) -> bool:
        """Tell whether a field is there and null; then it is read."""
        if name not in self._values or self._values[name] is not None:
            return False
        del self._values[name]
        return True

    def _take(self, name: str) -> Any:
        if name not in self._values:
            raise CorruptMetadataRecordError(f"{self._what} has no field {name}")
        return self._values.pop(name)

    def _wrong(self, name: str, value: Any, expected: str) -> CorruptMetadataRecordError:
        return CorruptMetadataRecordError(f"{self._what} has {name} {value!r:.80}; it must be {expected}")


def encode_record(record: MetadataRecord) -> bytes:
    """Encode one record."""
    return _encode({"type": _NAMES[type(record)], "version": VERSION, **_written(record)}).encode("ascii")


def _written(value: MetadataRecord | PartitionRegistration) -> dict[str, Any]:
    """The fields by name. Not by ``asdict``: a snapshot has ten thousand records, and nobody else has a turn then."""
    written = ((name, getattr(value, name)) for name in _FIELDS[type(value)])
    return {
        name: _written(field) if isinstance(field, PartitionRegistration) else field
        for name, field in written
        if field or name not in _ONLY_IF_ANY
    }


def decode_record(data: bytes) -> MetadataRecord:
    """Decode one record. Raises CorruptMetadataRecordError, which names what is unknown, missing or wrong."""
    try:
        values = json.loads(data)
    except (ValueError, RecursionError) as error:
        raise CorruptMetadataRecordError(f"not JSON: {error}") from error
    if not isinstance(values, dict):
        raise CorruptMetadataRecordError(f"a record is a JSON object, this is {values!r:.80}")
    name = _Fields("a record", {"type": values.pop("type")} if "type" in values else {}).text("type")
    if name not in _DECODERS:
        raise CorruptMetadataRecordError(f"unknown record type {name!r:.80}")
    fields = _Fields(name, values)
    version = fields.integer("version")
    if version != VERSION:
        raise CorruptMetadataRecordError(f"{name} has version {version}; only version {VERSION} is known")
    record = _DECODERS[name](fields)
    fields.check_all_read()
    return record


def metadata_batch(records: Sequence[MetadataRecord], base_offset: Offset, leader_epoch: Epoch) -> RecordBatch:
    """Encode one decision, one record or more, as one batch: all of it is kept, or nothing."""
    return encode_batch(
        [encode_record(record) for record in records], base_offset=base_offset, leader_epoch=leader_epoch
    )


def records_of(batch: RecordBatch) -> tuple[MetadataRecord, ...]:
    """Decode the records of one batch. Raises CorruptRecordError for the batch, CorruptMetadataRecordError for them."""
    return tuple(decode_record(record.value or b"") for record in decode_records(batch))


# --- the types of records -------------------------------------------------------------------------------------------


def _register_broker(fields: _Fields) -> RegisterBrokerRecord:
    epoch = fields.optional_integer("last_active_epoch")
    return RegisterBrokerRecord(
        broker_id=fields.replica_id("broker_id"),
        broker_epoch=BrokerEpoch(fields.integer("broker_epoch")),
        incarnation_id=fields.text("incarnation_id"),
        directory_id=fields.text("directory_id"),
        flushes=fields.flag("flushes"),
        address=fields.text("address"),
        peer_address=fields.text("peer_address"),
        rack=fields.optional_text("rack"),
        last_active_epoch=None if epoch is None else BrokerEpoch(epoch),
    )


def _broker_registration_change(fields: _Fields) -> BrokerRegistrationChangeRecord:
    return BrokerRegistrationChangeRecord(
        broker_id=fields.replica_id("broker_id"),
        broker_epoch=BrokerEpoch(fields.integer("broker_epoch")),
        fenced=fields.flag("fenced"),
        in_controlled_shutdown=fields.flag("in_controlled_shutdown"),
    )


def _unregister_broker(fields: _Fields) -> UnregisterBrokerRecord:
    return UnregisterBrokerRecord(
        broker_id=fields.replica_id("broker_id"), broker_epoch=BrokerEpoch(fields.integer("broker_epoch"))
    )


def _topic(fields: _Fields) -> TopicRecord:
    return TopicRecord(name=fields.text("name"), topic_id=TopicId(fields.integer("topic_id")))


def _partition(fields: _Fields) -> PartitionRecord:
    nested = fields.fields("registration")
    registration = PartitionRegistration(
        replicas=nested.replica_ids("replicas"),
        isr=nested.replica_ids("isr"),
        elr=nested.replica_ids("elr"),
        last_known_leader=nested.optional_replica_id("last_known_leader"),
        leader_id=nested.optional_replica_id("leader_id"),
        leader_epoch=Epoch(nested.integer("leader_epoch")),
        partition_epoch=PartitionEpoch(nested.integer("partition_epoch")),
        leader_recovery_state=nested.recovery_state("leader_recovery_state"),
        adding_replicas=nested.replica_ids_if_any("adding_replicas"),
        removing_replicas=nested.replica_ids_if_any("removing_replicas"),
    )
    nested.check_all_read()
    return PartitionRecord(
        topic_id=TopicId(fields.integer("topic_id")), partition=fields.integer("partition"), registration=registration
    )


def _remove_topic(fields: _Fields) -> RemoveTopicRecord:
    return RemoveTopicRecord(topic_id=TopicId(fields.integer("topic_id")))


def _config(fields: _Fields) -> ConfigRecord:
    return ConfigRecord(
        topic_id=TopicId(fields.integer("topic_id")),
        name=fields.text("name"),
        value=fields.optional_text("value"),
    )


def _producer_ids(fields: _Fields) -> ProducerIdsRecord:
    return ProducerIdsRecord(next_producer_id=fields.integer("next_producer_id"))


_NAMES: Mapping[type[MetadataRecord], str] = {
    RegisterBrokerRecord: "REGISTER_BROKER",
    BrokerRegistrationChangeRecord: "BROKER_REGISTRATION_CHANGE",
    UnregisterBrokerRecord: "UNREGISTER_BROKER",
    TopicRecord: "TOPIC",
    PartitionRecord: "PARTITION",
    RemoveTopicRecord: "REMOVE_TOPIC",
    ConfigRecord: "CONFIG",
    ProducerIdsRecord: "PRODUCER_IDS",
}
_FIELDS: Mapping[type[MetadataRecord] | type[PartitionRegistration], tuple[str, ...]] = {
    written: tuple(field.name for field in fields(written)) for written in (*_NAMES, PartitionRegistration)
}
_encode = json.JSONEncoder(separators=(",", ":"), allow_nan=False).encode

_DECODERS: Mapping[str, Callable[[_Fields], MetadataRecord]] = {
    "REGISTER_BROKER": _register_broker,
    "BROKER_REGISTRATION_CHANGE": _broker_registration_change,
    "UNREGISTER_BROKER": _unregister_broker,
    "TOPIC": _topic,
    "PARTITION": _partition,
    "REMOVE_TOPIC": _remove_topic,
    "CONFIG": _config,
    "PRODUCER_IDS": _producer_ids,
}
