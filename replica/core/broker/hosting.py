"""Making the partitions of this broker what the committed metadata says: created, told, or dropped.

Owns which logs there are and what each partition was last told. A broker acts on metadata only from its own
registration on: what it led or followed before belongs to an earlier incarnation.

A partition whose log is damaged is *offline*: it is as if it were not here, until nobody counts on it any more. Then
its log is put aside, and it begins anew as one that has nothing. One whose log directory has failed stays offline, for
this process: its log may be whole when the disk is repaired.

Source: Kafka ``BrokerMetadataPublisher``, ``ReplicaManager.applyDelta``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import islice

from msgspec import Struct
from msgspec.structs import replace

from replica.core.cluster_clock import ClusterClock
from replica.core.config import BrokerConfig
from replica.core.effects import CreateLog, DeleteLog, Effect, ReplaceLog
from replica.core.log.recovered import RecoveredLog
from replica.core.messages import OFFLINE_REPORTED_MAX, OfflineReplica
from replica.core.metadata.configs import TopicConfig, topic_config
from replica.core.metadata.image import BrokerRegistration, MetadataImage, TopicImage
from replica.core.metadata.records import PartitionRegistration
from replica.core.partition import Partition, SessionFetch
from replica.core.rules import Rules
from replica.ids import Epoch, Offset, ReplicaId, TopicId, TopicPartition

TOLD_AT_ONCE = 32
"""How many partitions are told something in one step: to create so many takes some ten milliseconds."""


class Told(Struct, frozen=True, kw_only=True):
    """What a partition acts on."""

    registration: PartitionRegistration
    brokers: Mapping[ReplicaId, BrokerRegistration]
    topic: TopicConfig


class OfflinePartition(Struct, frozen=True, kw_only=True):
    """A partition whose log is damaged, since it was in ``leader_epoch`` at the latest, and why.

    ``directory`` is the log directory that has failed, if that is why.
    """

    reason: str
    topic_id: TopicId
    leader_epoch: Epoch
    registration: PartitionRegistration
    """What the metadata says of it now."""
    directory: str | None = None

    def is_counted_on(self, broker_id: ReplicaId) -> bool:
        """Whether it may be elected for what it has acknowledged."""
        now = self.registration
        return broker_id in (*now.isr, *now.elr, now.leader_id)

    def can_be_left_to_others(self, broker_id: ReplicaId) -> bool:
        """Whether somebody else may be elected for it."""
        return bool({*self.registration.isr, *self.registration.elr} - {broker_id})


Assigned = tuple[TopicImage, PartitionRegistration]


class Hosting:
    """The partitions of one broker. ``partitions`` is the table that everybody else reads."""

    def __init__(
        self,
        *,
        broker_id: ReplicaId,
        cluster_id: str,
        config: BrokerConfig,
        recovered: Mapping[TopicPartition, RecoveredLog],
        rules: Rules,
        clock: ClusterClock,
        session_fetches: Mapping[ReplicaId, SessionFetch],
        emit: Callable[[Effect], None],
    ) -> None:
        self._broker_id = broker_id
        self._cluster_id = cluster_id
        self._config = config
        self._rules = rules
        self._clock = clock
        self._session_fetches = session_fetches
        self._emit = emit
        self._recovered = dict(recovered)
        """Logs that were found on disk and that no metadata has claimed yet."""
        self._told: dict[TopicPartition, Told] = {}
        """What each was told; who was told last is the last one."""
        self.tellings = 0
        """How often a partition was told something."""
        self._untold: dict[TopicPartition, None] = {}
        """The partitions of which the image says something that they were not told yet, in its order."""
        self._image = MetadataImage()
        self.partitions: dict[TopicPartition, Partition] = {}
        self.offline: dict[TopicPartition, OfflinePartition] = {}
        """Those that are not among the partitions, because their logs are damaged."""
        self.failed_directories: dict[str, str] = {}
        """The log directories of which the disk refuses, and why."""
        self._failed_in: dict[TopicPartition, str] = {}
        """The logs that lie in one of them, and in which."""

    # --- what the metadata says -------------------------------------------------------------------------------------

    @property
    def has_more(self) -> bool:
        """Whether the image has something for partitions that were not told yet."""
        return bool(self._untold)

    def apply(self, image: MetadataImage) -> list[TopicPartition]:
        """Take an image, and drop the partitions that are gone, which it returns; ``tell_some`` tells the others."""
        self._image, before = image, self._image
        if image.topics is before.topics and image.brokers is before.brokers:
            return []
        for name in self._concerned_since(before):
            self._untold[name] = None
        hosted = {name: partition.topic_id for name, partition in self.partitions.items()}
        hosted |= {name: offline.topic_id for name, offline in self.offline.items()}
        gone = [name for name, topic_id in hosted.items() if not _is_of(topic_id, self._assigned(name))]
        for name in gone:
            self._drop(name)
        for name in [name for name, log in self._recovered.items() if not _is_of(log.topic_id, self._assigned(name))]:
            del self._recovered[name]  # A topic that was deleted while this broker was away.
            self._emit(DeleteLog(topic_partition=name))
        return gone

    def told_since(self, tellings: int) -> Sequence[TopicPartition]:
        """Name the partitions that were told something since there were so many ``tellings``, the first first."""
        return tuple(islice(reversed(self._told), self.tellings - tellings))[::-1]

    def configure(self, config: BrokerConfig, now_ms: int) -> None:
        """Let all partitions, and those that come, go by other settings."""
        self._config = config
        for partition in self.partitions.values():
            partition.configure(config, now_ms)

    def tell_some(self, now_ms: int) -> list[TopicPartition]:
        """Tell partitions what is new of them, ``TOLD_AT_ONCE`` at most; return those.

        A topic can have thousands of partitions, and what else happens does not wait until all have their logs.
        """
        told: list[TopicPartition] = []
        while self._untold and len(told) < TOLD_AT_ONCE:
            name = next(iter(self._untold))
            del self._untold[name]
            assigned = self._assigned(name)
            if assigned is not None and self._tell(name, *assigned, now_ms):
                told.append(name)
        return told

    def _concerned_since(self, before: MetadataImage) -> Iterator[TopicPartition]:
        """Name the partitions of this broker of which the image says something else than the one before it."""
        known = before.brokers
        other = {each for each, broker in self._image.brokers.items() if broker is not known.get(each)}
        for topic in self._image.topics.values():
            was = before.topics.get(topic.name)
            if was is topic and not other:
                continue
            is_same = was is not None and (was.topic_id, was.configs) == (topic.topic_id, topic.configs)
            for number, now in topic.partitions.items():
                if self._broker_id not in now.replicas:
                    continue
                if (
                    was is None
                    or not is_same
                    or was.partitions.get(number) is not now
                    or other.intersection(now.replicas)
                ):
                    yield TopicPartition(topic.name, number)

    def _assigned(self, name: TopicPartition) -> Assigned | None:
        """What the image says of a partition, if it is to be here."""
        topic = self._image.topics.get(name.topic)
        registration = None if topic is None else topic.partitions.get(name.partition)
        if topic is None or registration is None or self._broker_id not in registration.replicas:
            return None
        return topic, registration

    def _drop(self, name: TopicPartition) -> None:
        partition = self.partitions.pop(name, None)
        if partition is not None:
            partition.close()
        self.offline.pop(name, None)
        self._failed_in.pop(name, None)
        del self._told[name]
        self._emit(DeleteLog(topic_partition=name))

    # --- damaged logs -----------------------------------------------------------------------------------------------

    def fail_directory(self, directory: str, logs: Iterable[TopicPartition], reason: str, now_ms: int) -> None:
        """Give up the partitions whose logs lie in a directory that has failed; also those that were not told yet."""
        self.failed_directories[directory] = reason
        for name in logs:
            self._failed_in[name] = directory
            if name in self.offline:
                self.offline[name] = replace(self.offline[name], directory=directory, reason=reason)
            elif name in self._recovered:
                self._recovered[name] = replace(self._recovered[name], damage=reason)
            else:
                self.set_offline(name, reason, now_ms)

    def set_offline(self, name: TopicPartition, reason: str, now_ms: int) -> bool:
        """Give up a partition whose log is damaged; its files stay as they are. Whether it was hosted until now."""
        partition = self.partitions.pop(name, None)
        if partition is None:
            return False
        partition.close()
        self._note_offline(name, reason, partition.topic_id)
        self._maybe_begin_anew(name, now_ms)
        return True

    def _note_offline(self, name: TopicPartition, reason: str, topic_id: TopicId) -> None:
        registration = self._told[name].registration
        self.offline[name] = OfflinePartition(
            reason=reason,
            topic_id=topic_id,
            leader_epoch=registration.leader_epoch,
            registration=registration,
            directory=self._failed_in.get(name),
        )

    def reports(self) -> tuple[OfflineReplica, ...]:
        """Say which damaged logs the controller has to hear of: it elects none of them while it does.

        First come those of which something is to be decided, and of these those that others can take over: what nobody
        else has is reported for as long as it is there, and would keep them out where there are too many for one
        heartbeat. What is decided is reported in the epoch of the damage: nothing follows from it any more.
        """
        offline = sorted(self.offline.items(), key=lambda found: self._rank(found[1]))
        return tuple(
            OfflineReplica(
                topic_id=each.topic_id,
                partition=name.partition,
                leader_epoch=each.registration.leader_epoch if self._is_open(each) else each.leader_epoch,
            )
            for name, each in offline[:OFFLINE_REPORTED_MAX]
        )

    @property
    def has_reports(self) -> bool:
        """Whether the controller has something to decide of a damaged log."""
        return any(
            self._is_open(each)
            and (each.registration.leader_id is not None or each.can_be_left_to_others(self._broker_id))
            for each in self.offline.values()
        )

    def _rank(self, offline: OfflinePartition) -> tuple[bool, bool]:
        return not self._is_open(offline), not offline.can_be_left_to_others(self._broker_id)

    def _is_open(self, offline: OfflinePartition) -> bool:
        """Whether it is counted on, or might be in this leader epoch for what it had."""
        return offline.is_counted_on(self._broker_id) or offline.registration.leader_epoch <= offline.leader_epoch

    def _maybe_begin_anew(self, name: TopicPartition, now_ms: int) -> None:
        """Put a damaged log aside once nobody counts on it, and follow whoever has what it had."""
        offline = self.offline[name]
        if offline.directory is not None or not self._rules.may_begin_anew(
            damaged_in=offline.leader_epoch,
            leader_epoch=offline.registration.leader_epoch,
            is_counted_on=offline.is_counted_on(self._broker_id),
            has_leader=offline.registration.leader_id not in (None, self._broker_id),
        ):
            return
        del self.offline[name]
        self._emit(ReplaceLog(topic_partition=name, topic_id=offline.topic_id))
        self.partitions[name] = self._partition(name, _empty_log(offline.topic_id))
        told = self._told[name]
        self._note_told(name, told)
        self.partitions[name].apply_metadata(told.registration, told.brokers, told.topic, now_ms)

    # --- what a partition is told -----------------------------------------------------------------------------------

    def _tell(self, name: TopicPartition, topic: TopicImage, registration: PartitionRegistration, now_ms: int) -> bool:
        """Tell a partition what the metadata says of it, unless it knows; create it if need be. Whether it was told."""
        told = Told(
            registration=registration,
            brokers={replica: self._image.brokers[replica] for replica in registration.replicas},
            topic=topic_config(topic.configs, TopicConfig()),
        )
        if self._told.get(name) == told:
            return False
        self._note_told(name, told)
        found = self._recovered.get(name)
        if found is not None and found.damage is not None:
            del self._recovered[name]
            self._note_offline(name, found.damage, topic.topic_id)
        if name in self.offline:
            self.offline[name] = replace(self.offline[name], registration=registration)
            self._maybe_begin_anew(name, now_ms)
            return True
        if name not in self.partitions:
            self.partitions[name] = self._create(name, topic)
        self.partitions[name].apply_metadata(told.registration, told.brokers, told.topic, now_ms)
        return True

    def _note_told(self, name: TopicPartition, told: Told) -> None:
        self._told.pop(name, None)
        self._told[name] = told
        self.tellings += 1

    def _create(self, name: TopicPartition, topic: TopicImage) -> Partition:
        recovered = self._recovered.pop(name, None)
        if recovered is None:
            self._emit(CreateLog(topic_partition=name, topic_id=topic.topic_id))
            recovered = _empty_log(topic.topic_id)
        return self._partition(name, recovered)

    def _partition(self, name: TopicPartition, recovered: RecoveredLog) -> Partition:
        assert recovered.topic_id is not None, name
        partition = Partition(
            topic_partition=name,
            topic_id=recovered.topic_id,
            replica_id=self._broker_id,
            cluster_id=self._cluster_id,
            config=self._config,
            recovered=recovered,
            rules=self._rules,
            emit=self._emit,
        )
        partition.clock = self._clock
        partition.session_fetches = self._session_fetches
        return partition


def _is_of(topic_id: TopicId | None, assigned: Assigned | None) -> bool:
    """Whether a log is of the topic that is assigned. Whose it is may not be known: then it is kept."""
    return topic_id is None or (assigned is not None and assigned[0].topic_id == topic_id)


def _empty_log(topic_id: TopicId) -> RecoveredLog:
    return RecoveredLog(log_start_offset=Offset(0), log_end_offset=Offset(0), epochs=(), topic_id=topic_id)
