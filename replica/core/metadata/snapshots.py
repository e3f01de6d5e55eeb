"""An image as bytes: the records that rebuild it, in the one order that there is.

Owns that order (the feature level, without which the rest cannot be understood; brokers by id, topics by id with their
settings and partitions, producer ids, access control entries, settings of brokers and users) and the encoding: which
snapshot it is, then its records as the metadata log has them, sealed by a checksum. Equal images are equal bytes,
whatever records have led to them. Knows nothing of when a snapshot is taken and where it is.

Source: KIP-630; Kafka ``MetadataImage.write``, ``RecordsSnapshotWriter``.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import assert_never

from msgspec import Struct

from replica.core.metadata.acls import Acl
from replica.core.metadata.encoding import RECORD, VERSION, CorruptMetadataRecordError
from replica.core.metadata.image import BrokerRegistration, MetadataImage, TopicImage, changed_broker, registered_broker
from replica.core.metadata.levels import FIRST_LEVEL
from replica.core.metadata.records import (
    AccessControlEntryRecord,
    BrokerRegistrationChangeRecord,
    ConfigRecord,
    FeatureLevelRecord,
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
from replica.core.metadata.resources import ConfigResource
from replica.encoding import COUNT, Fields, Format, MalformedError, Row
from replica.ids import Epoch, Offset, ReplicaId, SnapshotId, TopicId
from replica.machines import CorruptSnapshotError, ForeignSnapshotError, Snapshot
from replica.machines.snapshots import sealed, unsealed


class WrittenImage(Struct, frozen=True, kw_only=True):
    """What is in a snapshot of the metadata."""

    end_offset: Offset
    epoch: Epoch
    records: tuple[MetadataRecord, ...]


_FORMAT = Format(Fields(WrittenImage, end_offset=COUNT, epoch=COUNT, records=Row(RECORD)), version=VERSION)


# --- writing --------------------------------------------------------------------------------------------------------


class ImageView(Struct, frozen=True, kw_only=True):
    """An image, which never changes, as the state that a snapshot of this id is to be of."""

    image: MetadataImage
    snapshot_id: SnapshotId

    def encode(self) -> bytes:
        """Write the image down."""
        return encode_image(self.image, self.snapshot_id).data


def encode_image(image: MetadataImage, snapshot_id: SnapshotId) -> Snapshot:
    """Encode an image as the snapshot of this id."""
    written = WrittenImage(
        end_offset=snapshot_id.end_offset, epoch=snapshot_id.epoch, records=tuple(records_of_image(image))
    )
    return Snapshot(id=snapshot_id, data=sealed(_FORMAT.encode(written)))


def records_of_image(image: MetadataImage) -> Iterator[MetadataRecord]:
    """The records that lead from nothing to an image, in their order."""
    if image.level > FIRST_LEVEL:
        yield FeatureLevelRecord(level=image.level)
    for broker_id in sorted(image.brokers):
        yield from _records_of_broker(image.brokers[broker_id])
    for topic in sorted(image.topics.values(), key=lambda topic: topic.topic_id):
        yield from _records_of_topic(topic)
    if image.next_producer_id:
        yield ProducerIdsRecord(next_producer_id=image.next_producer_id)
    for acl in sorted(image.acls):
        yield AccessControlEntryRecord(acl=acl)
    for resource in sorted(image.configs):
        for name in sorted(image.configs[resource]):
            yield ResourceConfigRecord(resource=resource, name=name, value=image.configs[resource][name])


def _records_of_broker(broker: BrokerRegistration) -> Iterator[MetadataRecord]:
    registration = RegisterBrokerRecord(
        broker_id=broker.broker_id,
        broker_epoch=broker.broker_epoch,
        incarnation_id=broker.incarnation_id,
        directory_id=broker.directory_id,
        flushes=broker.flushes,
        address=broker.address,
        peer_address=broker.peer_address,
        rack=broker.rack,
        last_active_epoch=broker.last_active_epoch,
    )
    yield registration
    if broker != registered_broker(registration):
        yield BrokerRegistrationChangeRecord(
            broker_id=broker.broker_id,
            broker_epoch=broker.broker_epoch,
            fenced=broker.fenced,
            in_controlled_shutdown=broker.in_controlled_shutdown,
        )


def _records_of_topic(topic: TopicImage) -> Iterator[MetadataRecord]:
    yield TopicRecord(name=topic.name, topic_id=topic.topic_id)
    for name in sorted(topic.configs):
        yield ConfigRecord(topic_id=topic.topic_id, name=name, value=topic.configs[name])
    for partition in sorted(topic.partitions):
        yield PartitionRecord(topic_id=topic.topic_id, partition=partition, registration=topic.partitions[partition])


# --- reading --------------------------------------------------------------------------------------------------------


def decode_image(snapshot: Snapshot) -> MetadataImage:
    """Decode the image of a snapshot. Raises CorruptSnapshotError, also for what no image is written down as.

    Where the seal fits and a record is unknown here, somebody has written it who knows more: ForeignSnapshotError, for
    another copy would not be understood either. As such a record in the log does, it stops whoever reads it.
    """
    try:
        written = _FORMAT.decode(unsealed(snapshot.data))
    except MalformedError as error:
        raise ForeignSnapshotError(f"{snapshot.id} holds what is no metadata here: {error}") from error
    named = SnapshotId(written.end_offset, written.epoch)
    if named != snapshot.id:
        raise CorruptSnapshotError(f"{snapshot.id} is a snapshot of {named}")
    try:
        image = _rebuilt(written.records)
    except CorruptMetadataRecordError as error:
        raise ForeignSnapshotError(f"{snapshot.id} holds what is no metadata here: {error}") from error
    except KeyError as error:
        raise CorruptSnapshotError(f"{snapshot.id} says something of {error}, which it has not named") from error
    if tuple(records_of_image(image)) != written.records:
        raise CorruptSnapshotError(f"{snapshot.id} holds records that no image is written down as")
    return image


def _rebuilt(records: Iterable[MetadataRecord]) -> MetadataImage:
    """The fold of a snapshot's records, without a copy of the image after each. Raises KeyError.

    A cluster can have ten thousand partitions, and this is done while nobody else has a turn.
    """
    brokers: dict[ReplicaId, BrokerRegistration] = {}
    topics: dict[TopicId, TopicImage] = {}
    partitions: dict[TopicId, dict[int, PartitionRegistration]] = {}
    configs: dict[TopicId, dict[str, str]] = {}
    acls: set[Acl] = set()
    of_resources: dict[ConfigResource, dict[str, str]] = {}
    next_producer_id, level = 0, FIRST_LEVEL
    for record in records:
        match record:
            case RegisterBrokerRecord(broker_id=broker_id):
                brokers[broker_id] = registered_broker(record)
            case BrokerRegistrationChangeRecord(broker_id=broker_id):
                if brokers[broker_id].broker_epoch != record.broker_epoch:
                    raise CorruptMetadataRecordError(f"{record} is of another incarnation of its broker")
                brokers[broker_id] = changed_broker(brokers[broker_id], record)
            case TopicRecord(name=name, topic_id=topic_id):
                partitions[topic_id], configs[topic_id] = {}, {}
                topics[topic_id] = TopicImage(
                    name=name, topic_id=topic_id, partitions=partitions[topic_id], configs=configs[topic_id]
                )
            case PartitionRecord(topic_id=topic_id, partition=partition, registration=registration):
                partitions[topic_id][partition] = registration
            case ConfigRecord(topic_id=topic_id, name=name, value=str(value)):
                configs[topic_id][name] = value
            case ProducerIdsRecord():
                next_producer_id = record.next_producer_id
            case AccessControlEntryRecord(acl=acl):
                acls.add(acl)
            case ResourceConfigRecord(resource=resource, name=name, value=str(value)):
                of_resources.setdefault(resource, {})[name] = value
            case FeatureLevelRecord():
                level = record.level
            case (
                ConfigRecord()
                | RemoveTopicRecord()
                | UnregisterBrokerRecord()
                | RemoveAccessControlEntryRecord()
                | ResourceConfigRecord()
            ):
                raise CorruptMetadataRecordError(f"{record} takes something away")
            case _:
                assert_never(record)
    return MetadataImage(
        brokers=brokers,
        topics={topic.name: topic for topic in topics.values()},
        topic_names={topic.topic_id: topic.name for topic in topics.values()},
        next_producer_id=next_producer_id,
        acls=frozenset(acls),
        configs=of_resources,
        level=level,
    )
