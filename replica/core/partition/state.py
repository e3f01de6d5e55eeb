"""All that one replica of a partition knows, and how it asks its driver for something.

Owns the data; decides nothing. The modules beside it read and change it during a step; between steps it is at rest.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from replica.core.cluster_clock import ClusterClock
from replica.core.config import BrokerConfig, LogFlush
from replica.core.effects import (
    Append,
    Effect,
    Flush,
    RaiseLogStart,
    Reply,
    ScanProducers,
    StartLogAt,
    StoreEpochs,
    Truncate,
)
from replica.core.log_state import LogState
from replica.core.messages import CurrentLeader, Response
from replica.core.metadata.configs import TopicConfig
from replica.core.metadata.image import BrokerRegistration
from replica.core.metadata.records import PartitionRegistration
from replica.core.partition.producer_state import ProducerStates
from replica.core.partition.roles import Leader, Role, SessionFetch, Unassigned
from replica.core.purgatory import Purgatory
from replica.core.recovered import RecoveredLog
from replica.core.rules import Rules
from replica.ids import CallId, Epoch, Offset, PartitionEpoch, ReplicaId, TopicId, TopicPartition
from replica.records import RecordBatch


@dataclass(frozen=True, slots=True, kw_only=True)
class ParkedProduce:
    """An ``acks=all`` append that waits until everything below ``end_offset`` is committed."""

    call_id: CallId
    deadline_ms: int
    base_offset: Offset
    end_offset: Offset


@dataclass(frozen=True, slots=True, kw_only=True)
class ParkedDeletion:
    """A deletion that waits until the log of every live replica begins at ``offset`` or later."""

    call_id: CallId
    deadline_ms: int
    offset: Offset


class PartitionState:
    """One replica of a partition as its broker sees it. ``emit`` takes the effects of the step that is under way."""

    def __init__(
        self,
        *,
        topic_partition: TopicPartition,
        topic_id: TopicId,
        broker_id: ReplicaId,
        cluster_id: str,
        config: BrokerConfig,
        recovered: RecoveredLog,
        rules: Rules,
        emit: Callable[[Effect], None],
    ) -> None:
        self.topic_partition = topic_partition
        self.topic_id = topic_id
        self.broker_id = broker_id
        self.cluster_id = cluster_id
        self.directory_id = ""
        """Which data directory this is, for those who ask; its broker says it if it knows."""
        self.config = config
        self.rules = rules
        self.clock = ClusterClock(skew_max_ms=config.clock_skew_max_ms)
        """What time of day it is; a broker hands in the one for all that it hosts."""
        self.session_fetches: Mapping[ReplicaId, SessionFetch] = {}
        """When followers' sessions were last heard of; a broker hands in those of all that it hosts."""
        self.emit = emit
        self.log = LogState(recovered, rules)
        self.log.set_high_watermark(
            rules.high_watermark_after_restart(
                checkpointed=recovered.high_watermark,
                log_start_offset=recovered.log_start_offset,
                log_end_offset=recovered.log_end_offset,
            )
        )
        self.producers = ProducerStates(
            recovered.producers,
            expiration_ms=config.producer_id_expiration_ms,
            ids_max=config.producer_ids_max,
            rules=rules,
        )
        self.role: Role = Unassigned()
        self.registration: PartitionRegistration | None = None
        """What the committed metadata says of the partition; absent until it was first told."""
        self.brokers: Mapping[ReplicaId, BrokerRegistration] = {}
        self.topic = TopicConfig()
        self.produces: Purgatory[ParkedProduce] = Purgatory(config.parked_produces_max)
        self.deletions: Purgatory[ParkedDeletion] = Purgatory(config.parked_deletions_max)
        self.retention_check_at_ms: int | None = None
        """When retention is looked at next; absent before any metadata."""

    # --- who and where ------------------------------------------------------------------------------------------------

    @property
    def leader_epoch(self) -> Epoch:
        """The leader epoch that the metadata has named; 0 before it has."""
        return Epoch(0) if self.registration is None else self.registration.leader_epoch

    @property
    def partition_epoch(self) -> PartitionEpoch | None:
        """The version of the metadata that this replica acts on."""
        return None if self.registration is None else self.registration.partition_epoch

    @property
    def leader_id(self) -> ReplicaId | None:
        """Who leads by the metadata that this replica has."""
        return None if self.registration is None else self.registration.leader_id

    @property
    def is_leader(self) -> bool:
        """Whether this replica leads."""
        return isinstance(self.role, Leader)

    @property
    def current_leader(self) -> CurrentLeader:
        """What this replica tells others about the leadership."""
        return CurrentLeader(leader_id=self.leader_id, leader_epoch=self.leader_epoch)

    @property
    def high_watermark(self) -> Offset:
        """Everything below is committed, as far as this replica knows. It may fall on a follower."""
        assert self.log.high_watermark is not None, self.topic_partition
        return self.log.high_watermark

    # --- who is in sync -----------------------------------------------------------------------------------------------

    @property
    def in_sync_replicas(self) -> frozenset[ReplicaId]:
        """The ISR as the controller has committed it, as far as this replica knows; nobody before any metadata."""
        if isinstance(self.role, Leader):
            return self.role.isr_state.isr
        return frozenset() if self.registration is None else frozenset(self.registration.isr)

    @property
    def maximal_isr(self) -> frozenset[ReplicaId]:
        """Every replica that the controller may count as in sync: the ISR, and whom this leader has proposed."""
        return self.role.isr_state.maximal_isr if isinstance(self.role, Leader) else self.in_sync_replicas

    @property
    def effective_min_isr(self) -> int:
        """How many in-sync replicas a write needs: what the topic demands, at most as many as there are (Kafka)."""
        replicas = 0 if self.registration is None else len(self.registration.replicas)
        return min(self.topic.min_insync_replicas, replicas)

    @property
    def is_under_min_isr(self) -> bool:
        """Whether this leader has fewer in-sync replicas than a write needs; false on any other replica."""
        return self.is_leader and len(self.in_sync_replicas) < self.effective_min_isr

    @property
    def is_at_min_isr(self) -> bool:
        """Whether this leader has just as many in-sync replicas as a write needs; false on any other replica."""
        return self.is_leader and len(self.in_sync_replicas) == self.effective_min_isr

    # --- effects ------------------------------------------------------------------------------------------------------

    def reply(self, call_id: CallId, response: Response) -> None:
        """Answer a call."""
        self.emit(Reply(call_id=call_id, response=response))

    def store_epochs(self) -> None:
        """Bring the epoch cache as it is now to disk, durably."""
        self.emit(StoreEpochs(topic_partition=self.topic_partition, entries=self.log.epochs.entries))

    def append(self, *batches: RecordBatch) -> None:
        """Append stamped batches, their epochs stored first; flush them unless the system is trusted to."""
        if self.log.append(batches) and self.rules.new_epoch_is_stored(epoch=batches[-1].leader_epoch):
            self.store_epochs()
        if self.is_leader or self.rules.producer_states_follow_log():
            for batch in batches:
                self.producers.note(batch)
        self.emit(Append(topic_partition=self.topic_partition, batches=batches))
        if self.config.log_flush is LogFlush.OS:
            self.log.flushed(self.log.log_end_offset)
        else:
            self.emit(Flush(topic_partition=self.topic_partition, end_offset=self.log.log_end_offset))

    def truncate(self, end_offset: Offset) -> None:
        """Cut the log at ``end_offset``, and its epochs with it, even those that begin exactly there (KAFKA-10706)."""
        if end_offset < self.log.log_end_offset:
            self.log.truncate_to(end_offset)
            self.emit(Truncate(topic_partition=self.topic_partition, end_offset=end_offset))
            self.store_epochs()
            self.producers.truncate_to(end_offset)
            self.emit(ScanProducers(topic_partition=self.topic_partition))
        elif self.rules.truncation_drops_empty_epochs() and self.log.epochs.truncate_from_end(end_offset):
            self.store_epochs()

    def start_log_at(self, offset: Offset, *, keeps_producers: bool = False) -> None:
        """Drop everything and begin anew at ``offset``; what this log holds below may be committed, to the last record.

        Otherwise nobody is remembered: a batch that only this log has had would be taken for written, and with batches
        missing in between the next one of its producer would be refused.
        """
        before = self.high_watermark
        self.log.start_at(offset)
        self.log.set_high_watermark(
            self.rules.high_watermark_of_emptied_log(high_watermark=before, log_start_offset=offset)
        )
        self.emit(
            StartLogAt(topic_partition=self.topic_partition, start_offset=offset, keeps_producers=keeps_producers)
        )
        self.store_epochs()
        if keeps_producers:
            self.producers.truncate_to(offset)
        else:
            self.producers.start_at(offset)
        self.emit(ScanProducers(topic_partition=self.topic_partition))

    def maybe_raise_log_start(self, offset: Offset) -> bool:
        """Let the log begin at ``offset``, or at what may be deleted at most; tell whether it begins later now."""
        bound = self.rules.deletable_end(high_watermark=self.high_watermark, log_end_offset=self.log.log_end_offset)
        log_start_offset = min(offset, bound)
        if log_start_offset <= self.log.log_start_offset:
            return False
        epochs_changed = self.log.raise_log_start(log_start_offset)
        self.emit(RaiseLogStart(topic_partition=self.topic_partition, log_start_offset=log_start_offset))
        if epochs_changed:
            self.store_epochs()
        return True
