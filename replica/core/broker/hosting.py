"""Making the partitions of this broker what the committed metadata says: created, told, or dropped.

Owns which logs there are and what each partition was last told. A broker acts on metadata only from its own
registration on: what it led or followed before belongs to an earlier incarnation.

Source: Kafka ``BrokerMetadataPublisher``, ``ReplicaManager.applyDelta``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

from replica.core.cluster_clock import ClusterClock
from replica.core.config import BrokerConfig
from replica.core.effects import CreateLog, DeleteLog, Effect
from replica.core.metadata.configs import TopicConfig, topic_config
from replica.core.metadata.image import BrokerRegistration, MetadataImage, TopicImage
from replica.core.metadata.records import PartitionRegistration
from replica.core.partition import Partition
from replica.core.recovered import RecoveredLog
from replica.core.rules import Rules
from replica.ids import Offset, ReplicaId, TopicPartition


@dataclass(frozen=True, slots=True, kw_only=True)
class Told:
    """What a partition acts on."""

    registration: PartitionRegistration
    brokers: Mapping[ReplicaId, BrokerRegistration]
    topic: TopicConfig


class Hosting:
    """The partitions of one broker. ``partitions`` is the table that everybody else reads."""

    def __init__(
        self,
        *,
        broker_id: ReplicaId,
        cluster_id: str,
        config: BrokerConfig,
        defaults: TopicConfig,
        recovered: Mapping[TopicPartition, RecoveredLog],
        rules: Rules,
        clock: ClusterClock,
        emit: Callable[[Effect], None],
    ) -> None:
        self._broker_id = broker_id
        self._cluster_id = cluster_id
        self._config = config
        self._defaults = defaults
        self._rules = rules
        self._clock = clock
        self._emit = emit
        self._recovered = dict(recovered)
        """Logs that were found on disk and that no metadata has claimed yet."""
        self._told: dict[TopicPartition, Told] = {}
        self._image = MetadataImage()
        self.partitions: dict[TopicPartition, Partition] = {}

    def apply(self, image: MetadataImage, now_ms: int) -> list[TopicPartition]:
        """Act on an image; return the partitions that were told something new, or are gone."""
        self._image, before = image, self._image
        if image.topics is before.topics and image.brokers is before.brokers:
            return []
        assigned = {
            TopicPartition(topic.name, number): (topic, registration)
            for topic, number, registration in self._assigned(image)
        }
        gone = [name for name, partition in self.partitions.items() if not _is_hosted(partition, assigned.get(name))]
        for name in gone:
            self._drop(name)
        for name in [name for name, log in self._recovered.items() if not _is_of(log, assigned.get(name))]:
            del self._recovered[name]  # A topic that was deleted while this broker was away.
            self._emit(DeleteLog(topic_partition=name))
        told = [
            name for name, (topic, registration) in assigned.items() if self._tell(name, topic, registration, now_ms)
        ]
        return gone + told

    def _assigned(self, image: MetadataImage) -> Iterator[tuple[TopicImage, int, PartitionRegistration]]:
        for topic in image.topics.values():
            for number, registration in topic.partitions.items():
                if self._broker_id in registration.replicas:
                    yield topic, number, registration

    def _drop(self, name: TopicPartition) -> None:
        self.partitions.pop(name).close()
        del self._told[name]
        self._emit(DeleteLog(topic_partition=name))

    def _tell(self, name: TopicPartition, topic: TopicImage, registration: PartitionRegistration, now_ms: int) -> bool:
        """Tell a partition what the metadata says of it, unless it knows; create it if need be. Whether it was told."""
        told = Told(
            registration=registration,
            brokers={replica: self._image.brokers[replica] for replica in registration.replicas},
            topic=topic_config(topic.configs, self._defaults),
        )
        if self._told.get(name) == told:
            return False
        self._told[name] = told
        if name not in self.partitions:
            self.partitions[name] = self._create(name, topic)
        self.partitions[name].apply_metadata(told.registration, told.brokers, told.topic, now_ms)
        return True

    def _create(self, name: TopicPartition, topic: TopicImage) -> Partition:
        recovered = self._recovered.pop(name, None)
        if recovered is None:
            self._emit(CreateLog(topic_partition=name, topic_id=topic.topic_id))
            recovered = RecoveredLog(
                log_start_offset=Offset(0), log_end_offset=Offset(0), epochs=(), topic_id=topic.topic_id
            )
        partition = Partition(
            topic_partition=name,
            topic_id=topic.topic_id,
            broker_id=self._broker_id,
            cluster_id=self._cluster_id,
            config=self._config,
            recovered=recovered,
            rules=self._rules,
            emit=self._emit,
        )
        partition.clock = self._clock
        return partition


Assigned = tuple[TopicImage, PartitionRegistration]


def _is_hosted(partition: Partition, assigned: Assigned | None) -> bool:
    return assigned is not None and assigned[0].topic_id == partition.topic_id


def _is_of(log: RecoveredLog, assigned: Assigned | None) -> bool:
    return assigned is not None and assigned[0].topic_id == log.topic_id
