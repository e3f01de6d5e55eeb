"""Metadata records as bytes, and one record batch per decision.

A version, a tag and the fields of the record's class, as everything that is kept is written (``replica.encoding``):
equal records are equal bytes. A decision is one batch, since a batch is what the log keeps or loses as a whole. What
does not decode is never guessed at: a metadata log that nobody understands stops whoever reads it. Tags are never given
away twice, a field that is added makes another version, and either comes with a feature level (``levels``).

Source: Kafka's ``MetadataRecordSerde``.
"""

from __future__ import annotations

from collections.abc import Sequence

from replica.core.metadata import acls as a
from replica.core.metadata import records as r
from replica.core.metadata import resources as s
from replica.core.metadata.levels import NEWEST_LEVEL
from replica.encoding import (
    COUNT,
    FLAG,
    POSITIVE,
    TEXT,
    Codec,
    Enumeration,
    Fields,
    Format,
    MalformedError,
    OneOf,
    Optional,
    Reader,
    Row,
)
from replica.ids import Epoch, Offset
from replica.records import RecordBatch, decode_records, encode_batch

VERSION = 1
"""The only version of every record so far: 0 was JSON, and was never released."""


class _Level(Codec[int]):
    """A feature level. It stands before what has come with it, so that of one that is not known here, this is said."""

    def write(self, out: bytearray, value: int) -> None:
        POSITIVE.write(out, value)

    def read(self, reader: Reader) -> int:
        position = reader.position
        level = POSITIVE.read(reader)
        if level > NEWEST_LEVEL:
            raise MalformedError(position, unknown_level(level, NEWEST_LEVEL))
        return level


def unknown_level(level: int, newest_level: int) -> str:
    """Say that a cluster is beyond what a release knows."""
    return f"the cluster is at feature level {level}, and this release knows none above {newest_level}"


_REPLICAS = Row(COUNT)
_REGISTRATION = Fields(
    r.PartitionRegistration,
    replicas=_REPLICAS,
    isr=_REPLICAS,
    elr=_REPLICAS,
    last_known_leader=Optional(COUNT),
    leader_id=Optional(COUNT),
    leader_epoch=COUNT,
    partition_epoch=COUNT,
    leader_recovery_state=Enumeration(r.LeaderRecoveryState),
    adding_replicas=_REPLICAS,
    removing_replicas=_REPLICAS,
)
_ACL = Fields(
    a.Acl,
    principal=TEXT,
    permission=Enumeration(a.Permission),
    operation=Enumeration(a.Operation),
    resource_type=Enumeration(a.ResourceType),
    pattern_type=Enumeration(a.PatternType),
    name=TEXT,
)
_RESOURCE = Fields(s.ConfigResource, resource_type=Enumeration(s.ConfigResourceType), name=TEXT)
RECORD: OneOf[r.MetadataRecord] = OneOf(
    {
        1: Fields(
            r.RegisterBrokerRecord,
            broker_id=COUNT,
            broker_epoch=COUNT,
            incarnation_id=TEXT,
            directory_id=TEXT,
            flushes=FLAG,
            address=TEXT,
            peer_address=TEXT,
            rack=Optional(TEXT),
            last_active_epoch=Optional(COUNT),
        ),
        2: Fields(
            r.BrokerRegistrationChangeRecord,
            broker_id=COUNT,
            broker_epoch=COUNT,
            fenced=FLAG,
            in_controlled_shutdown=FLAG,
        ),
        3: Fields(r.UnregisterBrokerRecord, broker_id=COUNT, broker_epoch=COUNT),
        4: Fields(r.TopicRecord, name=TEXT, topic_id=COUNT),
        5: Fields(r.PartitionRecord, topic_id=COUNT, partition=COUNT, registration=_REGISTRATION),
        6: Fields(r.RemoveTopicRecord, topic_id=COUNT),
        7: Fields(r.ConfigRecord, topic_id=COUNT, name=TEXT, value=Optional(TEXT)),
        8: Fields(r.ProducerIdsRecord, next_producer_id=COUNT),
        9: Fields(r.AccessControlEntryRecord, acl=_ACL),
        10: Fields(r.RemoveAccessControlEntryRecord, acl=_ACL),
        11: Fields(r.FeatureLevelRecord, level=_Level()),
        15: Fields(r.ResourceConfigRecord, resource=_RESOURCE, name=TEXT, value=Optional(TEXT)),
    }
)
_FORMAT = Format(RECORD, version=VERSION)


class CorruptMetadataRecordError(ValueError):
    """Bytes that are not a metadata record; the message names what is wrong with them."""


encode_record = _FORMAT.encode


def decode_record(data: bytes) -> r.MetadataRecord:
    """Decode one record. Raises CorruptMetadataRecordError, which says where what is wrong."""
    try:
        return _FORMAT.decode(data)
    except MalformedError as error:
        is_json = data.startswith(b"{")
        told = "it is JSON, which an earlier state of this software wrote: format the disk anew" if is_json else error
        raise CorruptMetadataRecordError(f"no metadata record: {told}") from error


def metadata_batch(records: Sequence[r.MetadataRecord], base_offset: Offset, leader_epoch: Epoch) -> RecordBatch:
    """Encode one decision, one record or more, as one batch: all of it is kept, or nothing."""
    return encode_batch(
        [encode_record(record) for record in records], base_offset=base_offset, leader_epoch=leader_epoch
    )


def records_of(batch: RecordBatch) -> tuple[r.MetadataRecord, ...]:
    """Decode the records of one batch. Raises CorruptRecordError for the batch, CorruptMetadataRecordError for them."""
    return tuple(decode_record(record.value or b"") for record in decode_records(batch))
