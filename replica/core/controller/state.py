"""All that the active controller knows, and how a decision is written down.

Owns the data; decides nothing. The image is ahead of the committed one by the controller's own records: each record is
applied as soon as it is decided, so that the next question of the same decision already sees it. Sessions and the times
of periodic work are soft: they are not written down, and the next controller begins with fresh ones.

Source: Kafka ``ReplicationControlManager``, ``ClusterControlManager``, ``BrokerHeartbeatManager``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from itertools import groupby
from operator import attrgetter
from types import MappingProxyType

from msgspec.structs import replace

from replica.core.cluster_clock import agreed_offset_ms
from replica.core.config import ControllerConfig
from replica.core.controller.invariants import check_levels
from replica.core.controller.partition_change import Circumstances, Wanted, changed
from replica.core.dynamic_settings import Numbers, settings_in_force, with_values
from replica.core.messages import OfflineReplica
from replica.core.metadata.configs import DEFAULTS, TopicConfig, cluster_defaults, topic_config
from replica.core.metadata.image import BrokerRegistration, MetadataImage, TopicImage
from replica.core.metadata.levels import FIRST_LEVEL
from replica.core.metadata.records import MetadataRecord, PartitionRecord, PartitionRegistration
from replica.core.metadata.resources import ALL_BROKERS
from replica.core.rules import Rules
from replica.ids import Offset, ReplicaId, TopicId, TopicPartition

MS_PER_SECOND = 1000
LevelsKnown = Callable[[Iterable[ReplicaId]], Mapping[ReplicaId, int | None]]


class ControllerState:
    """The image as decided so far, the sessions of the brokers, and the decision that is under way."""

    def __init__(
        self, *, cluster_id: str, config: ControllerConfig, rules: Rules, numbers: Numbers = MappingProxyType({})
    ) -> None:
        self.cluster_id = cluster_id
        self.config = config
        """What holds by now: what the controller was started with, and what the metadata says over it."""
        self.numbers = numbers
        """All numbers that its replica was started with, by the names of their settings."""
        self._started_with = config
        self.rules = rules
        self.defaults = cluster_defaults(config)
        """What a new topic is given where it was told nothing."""
        self.image = MetadataImage()
        self.session_deadlines_ms: dict[ReplicaId, int] = {}
        """Until when a broker counts as alive, as far as this controller has heard from it."""
        self.clock_offsets_ms: dict[ReplicaId, int] = {}
        """How far each broker's clock was ahead of this controller's time, when it was last heard from."""
        self.offline: dict[ReplicaId, frozenset[tuple[TopicId, int]]] = {}
        """Which replicas' logs cannot be used, by the last heartbeat of each broker that has any."""
        self.levels_known: LevelsKnown = dict.fromkeys
        """The newest feature level that each voter, and each of these brokers, knows; absent of who has not said so."""
        self.begins_at_level = FIRST_LEVEL
        """The feature level that a new cluster has to be given still; the first where there is nothing to do."""
        self.unclean_election_at_ms = 0
        self.rebalance_at_ms = 0
        self._records: list[MetadataRecord] = []
        self._next_offset = Offset(0)
        self._active_of: Mapping[ReplicaId, BrokerRegistration] = {}
        self._active: frozenset[ReplicaId] = frozenset()

    def follow_settings(self, now_ms: int) -> None:
        """Go by the settings of all brokers that the image says by now; what they make due sooner is due sooner."""
        before = self.config
        values = settings_in_force(self.numbers, self.image.configs.get(ALL_BROKERS, {})).values
        self.config = with_values(self._started_with, values)
        if self.config == before:
            return
        self.defaults = cluster_defaults(self.config)
        later_ms = self.config.broker_session_timeout_ms - before.broker_session_timeout_ms
        for broker_id in self.session_deadlines_ms:
            self.session_deadlines_ms[broker_id] += later_ms
        looks_ms = now_ms + self.config.unclean_leader_election_interval_ms
        if self.config.unclean_leader_election_enable and not before.unclean_leader_election_enable:
            looks_ms = now_ms
        self.unclean_election_at_ms = min(self.unclean_election_at_ms, looks_ms)
        rebalances_ms = now_ms + self.config.leader_imbalance_check_interval_seconds * MS_PER_SECOND
        self.rebalance_at_ms = min(self.rebalance_at_ms, rebalances_ms)

    # --- a decision -------------------------------------------------------------------------------------------------

    def begin_decision(self, next_offset: Offset) -> None:
        """Begin a decision whose first record will get this offset."""
        assert not self._records, self._records
        self._next_offset = next_offset

    @property
    def next_offset(self) -> Offset:
        """The metadata offset of the next record that is appended."""
        return Offset(self._next_offset + len(self._records))

    @property
    def has_decided(self) -> bool:
        """Whether the decision that is under way has any record yet."""
        return bool(self._records)

    def append(self, *records: MetadataRecord) -> None:
        """Decide: the records are part of this decision, and the image follows them."""
        self._records += records
        self.image = self.image.apply_all(records)
        if __debug__:
            check_levels(records, self.image)

    def end_decision(self) -> tuple[MetadataRecord, ...]:
        """Take the records of the decision, in order."""
        records, self._records = tuple(self._records), []
        return records

    # --- what is known ----------------------------------------------------------------------------------------------

    @property
    def active_brokers(self) -> frozenset[ReplicaId]:
        """Who may lead and join an ISR."""
        if self._active_of is not self.image.brokers:
            self._active_of = self.image.brokers
            self._active = frozenset(broker.broker_id for broker in self._active_of.values() if broker.is_active)
        return self._active

    def electable(self, topic_id: TopicId, partition: int) -> frozenset[ReplicaId]:
        """Who may lead this partition: an active broker that has not said that its log cannot be used."""
        active = self.active_brokers
        if not self.offline:
            return active
        offline = frozenset(broker for broker, held in self.offline.items() if (topic_id, partition) in held)
        return self.rules.electable(active=active, offline=offline)

    def note_offline(self, broker_id: ReplicaId, replicas: Iterable[OfflineReplica]) -> None:
        """Note which logs of a broker cannot be used now; those of which it says nothing can."""
        self.offline.pop(broker_id, None)
        if told := frozenset((replica.topic_id, replica.partition) for replica in replicas):
            self.offline[broker_id] = told

    def has_session(self, broker_id: ReplicaId, now_ms: int) -> bool:
        """Tell whether a broker was heard from lately."""
        deadline_ms = self.session_deadlines_ms.get(broker_id)
        return deadline_ms is not None and now_ms < deadline_ms

    def refresh_session(self, broker_id: ReplicaId, now_ms: int) -> None:
        """Note that a broker is alive."""
        self.session_deadlines_ms[broker_id] = now_ms + self.config.broker_session_timeout_ms

    def unix_ms(self, now_ms: int) -> int | None:
        """What time it is by the clocks of the brokers that are alive; absent while too few have told theirs.

        One that is fenced has no say: anybody may register brokers that never catch up.
        """
        active = self.active_brokers
        told = [
            offset_ms
            for broker, offset_ms in self.clock_offsets_ms.items()
            if broker in active and self.has_session(broker, now_ms)
        ]
        offset_ms = agreed_offset_ms(told, brokers=len(active))
        return None if offset_ms is None else now_ms + offset_ms

    def topic_config(self, topic: TopicImage) -> TopicConfig:
        """The settings that hold for a topic.

        The minimum of the ISR comes from the metadata alone, never from this controller's own defaults: leaders go by
        it when they let the high watermark rise, and the two must agree about it.
        """
        return topic_config(topic.configs, replace(self.defaults, min_insync_replicas=DEFAULTS.min_insync_replicas))

    # --- partitions -------------------------------------------------------------------------------------------------

    def maybe_change(self, topic_partition: TopicPartition, wanted: Wanted) -> PartitionRegistration:
        """Change a partition as far as the rules allow, and write that down if anything comes of it."""
        self.change_all((topic_partition,), wanted)
        return self.image.topics[topic_partition.topic].partitions[topic_partition.partition]

    def change_all(self, topic_partitions: Iterable[TopicPartition], wanted: Wanted) -> None:
        """Change each partition, of which none is named twice; all that comes of it is written down at once.

        There may be thousands, and the image would be made anew for each: none follows from what another becomes.
        """
        records: list[MetadataRecord] = []
        for name, of_topic in groupby(topic_partitions, key=attrgetter("topic")):
            topic = self.image.topics[name]
            config = self.topic_config(topic)
            for _, partition in of_topic:
                before = topic.partitions[partition]
                after = changed(
                    before,
                    wanted,
                    Circumstances(
                        active=self.electable(topic.topic_id, partition),
                        min_insync_replicas=config.min_insync_replicas,
                        elr_enable=self.config.elr_enable,
                        unclean_allowed=config.unclean_leader_election_enable,
                    ),
                    self.rules,
                )
                if after != before:
                    records.append(PartitionRecord(topic_id=topic.topic_id, partition=partition, registration=after))
        self.append(*records)
