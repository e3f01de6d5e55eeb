"""What the metadata log says in sum: the fold of its records, as an immutable value.

Brokers hold the image of what is committed and act upon it; the active controller holds one that is ahead by its own
records that are not committed yet, and throws it away when it loses its leadership. Applying a record returns a new
image and shares what has not changed.

Source: Kafka ``MetadataImage``, ``ClusterImage``, ``TopicsImage``.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from itertools import groupby
from typing import Annotated, assert_never

from msgspec import Struct, field
from msgspec.structs import replace

from replica.bounds import ALL_PARTITIONS, Address, DirectoryId
from replica.core.metadata.acls import Acl
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
from replica.core.metadata.resources import Configs, with_config
from replica.ids import BrokerEpoch, ReplicaId, TopicId, TopicPartition


class BrokerRegistration(Struct, frozen=True, kw_only=True):
    """One broker as it last registered. Only an *active* one may join an ISR or be elected.

    ``last_active_epoch`` is of its last incarnation that ever was, on the disk that it is registered with: whoever has
    that record has at least what that incarnation has acknowledged.
    """

    broker_id: ReplicaId
    broker_epoch: BrokerEpoch
    incarnation_id: str
    directory_id: DirectoryId
    flushes: bool
    address: Address
    peer_address: Address = ""
    rack: str | None
    fenced: bool
    in_controlled_shutdown: bool
    last_active_epoch: BrokerEpoch | None = None

    @property
    def is_active(self) -> bool:
        """Whether it is alive, has caught up, and does not want to leave."""
        return not self.fenced and not self.in_controlled_shutdown


def registered_broker(record: RegisterBrokerRecord) -> BrokerRegistration:
    """A broker that has just registered: fenced, until it has caught up."""
    return BrokerRegistration(
        broker_id=record.broker_id,
        broker_epoch=record.broker_epoch,
        incarnation_id=record.incarnation_id,
        directory_id=record.directory_id,
        flushes=record.flushes,
        address=record.address,
        peer_address=record.peer_address,
        rack=record.rack,
        fenced=True,
        in_controlled_shutdown=False,
        last_active_epoch=record.last_active_epoch,
    )


def changed_broker(registered: BrokerRegistration, record: BrokerRegistrationChangeRecord) -> BrokerRegistration:
    """The same incarnation of a broker, after a change."""
    assert registered.broker_epoch == record.broker_epoch, (registered, record)
    return replace(
        registered,
        fenced=record.fenced,
        in_controlled_shutdown=record.in_controlled_shutdown,
        last_active_epoch=registered.last_active_epoch if record.fenced else record.broker_epoch,
    )


def _topic_of_partition(record: MetadataRecord) -> TopicId | None:
    """Name the topic of whose partition a record is; absent of any other record."""
    return record.topic_id if isinstance(record, PartitionRecord) else None


class TopicImage(Struct, frozen=True, kw_only=True):
    """A topic: its partitions by number, and the settings in which it differs from the defaults."""

    name: str
    topic_id: TopicId
    partitions: Annotated[Mapping[int, PartitionRegistration], ALL_PARTITIONS] = field(default_factory=dict)
    configs: Mapping[str, str] = field(default_factory=dict)


class MetadataImage(Struct, frozen=True, kw_only=True):
    """Brokers by id, topics by name, what has been given away for good, who may do what, and the feature level.

    ``configs`` are the settings of brokers and users.
    All in one order, whatever records have led here: brokers by their ids, topics by theirs, which is the order of
    their creation, partitions by number, settings by what they are of and by name.
    """

    brokers: Mapping[ReplicaId, BrokerRegistration] = field(default_factory=dict)
    topics: Mapping[str, TopicImage] = field(default_factory=dict)
    topic_names: Mapping[TopicId, str] = field(default_factory=dict)
    next_producer_id: int = 0
    acls: frozenset[Acl] = frozenset()
    configs: Configs = field(default_factory=dict)
    level: int = FIRST_LEVEL

    def partition(self, topic_partition: TopicPartition) -> PartitionRegistration | None:
        """The registration of one partition; absent where there is none."""
        topic = self.topics.get(topic_partition.topic)
        return None if topic is None else topic.partitions.get(topic_partition.partition)

    def topic_id(self, topic: str) -> TopicId | None:
        """The id of the topic that has this name now."""
        found = self.topics.get(topic)
        return None if found is None else found.topic_id

    def partitions(self) -> Iterator[tuple[TopicPartition, PartitionRegistration]]:
        """Every partition, topic by topic in the order of their creation."""
        for topic in self.topics.values():
            for number, registration in topic.partitions.items():
                yield TopicPartition(topic.name, number), registration

    def apply_all(self, records: Iterable[MetadataRecord]) -> MetadataImage:
        """The image after all these records."""
        image = self
        for topic_id, group in groupby(records, key=_topic_of_partition):
            if topic_id is None:
                for record in group:
                    image = image.apply(record)
            else:  # Thousands of one topic may come at once: each would copy all that came before it.
                image = image._with_partitions(topic_id, group)
        return image

    def apply(self, record: MetadataRecord) -> MetadataImage:
        """The image after one more record. A record about what does not exist is our own mistake: AssertionError."""
        match record:
            case RegisterBrokerRecord():
                return self._with_broker(registered_broker(record))
            case BrokerRegistrationChangeRecord():
                return self._with_broker(changed_broker(self.brokers[record.broker_id], record))
            case UnregisterBrokerRecord(broker_id=broker_id):
                assert self.brokers[broker_id].broker_epoch == record.broker_epoch, record
                brokers = {other: broker for other, broker in self.brokers.items() if other != broker_id}
                return replace(self, brokers=brokers)
            case TopicRecord(name=name, topic_id=topic_id):
                assert name not in self.topics, record
                return replace(
                    self,
                    topics={**self.topics, name: TopicImage(name=name, topic_id=topic_id)},
                    topic_names={**self.topic_names, topic_id: name},
                )
            case PartitionRecord(topic_id=topic_id):
                return self._with_partitions(topic_id, (record,))
            case RemoveTopicRecord(topic_id=topic_id):
                name = self.topic_names[topic_id]
                return replace(
                    self,
                    topics={other: topic for other, topic in self.topics.items() if other != name},
                    topic_names={other: known for other, known in self.topic_names.items() if other != topic_id},
                )
            case ConfigRecord(topic_id=topic_id):
                topic = self._topic(topic_id)
                configs = {key: value for key, value in topic.configs.items() if key != record.name}
                if record.value is not None:
                    configs[record.name] = record.value
                return self._with_topic(replace(topic, configs=dict(sorted(configs.items()))))
            case ProducerIdsRecord(next_producer_id=next_producer_id):
                assert next_producer_id >= self.next_producer_id, (next_producer_id, self.next_producer_id)
                return replace(self, next_producer_id=next_producer_id)
            case AccessControlEntryRecord(acl=acl):
                return replace(self, acls=self.acls | {acl})
            case RemoveAccessControlEntryRecord(acl=acl):
                return replace(self, acls=self.acls - {acl})
            case ResourceConfigRecord(resource=resource, name=name, value=value):
                return replace(self, configs=with_config(self.configs, resource, name, value))
            case FeatureLevelRecord(level=level):
                assert level > self.level, (level, self.level)
                return replace(self, level=level)
            case _:
                assert_never(record)

    def _with_partitions(self, topic_id: TopicId, records: Iterable[MetadataRecord]) -> MetadataImage:
        topic = self._topic(topic_id)
        partitions = dict(topic.partitions)
        for record in records:
            assert isinstance(record, PartitionRecord), record
            partitions[record.partition] = record.registration
        return self._with_topic(replace(topic, partitions=partitions))

    def _topic(self, topic_id: TopicId) -> TopicImage:
        return self.topics[self.topic_names[topic_id]]

    def _with_broker(self, broker: BrokerRegistration) -> MetadataImage:
        return replace(self, brokers=dict(sorted({**self.brokers, broker.broker_id: broker}.items())))

    def _with_topic(self, topic: TopicImage) -> MetadataImage:
        return replace(self, topics={**self.topics, topic.name: topic})
