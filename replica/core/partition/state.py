"""All that one replica of a partition knows, and how it asks its driver for something.

Owns the data; decides nothing. The modules beside it read and change it during a step; between steps it is at rest.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from msgspec import Struct

from replica.core.cluster_clock import ClusterClock
from replica.core.config import BrokerConfig, LogFlush
from replica.core.effects import Effect, RaiseLogStart, ScanProducers, StartLogAt
from replica.core.log.recovered import RecoveredLog
from replica.core.log.replicated_log import ReplicatedLog
from replica.core.metadata.configs import TopicConfig
from replica.core.metadata.image import BrokerRegistration
from replica.core.metadata.records import PartitionRegistration
from replica.core.partition.producer_state import ProducerStates
from replica.core.partition.roles import Leader, Role, SessionFetch, Unassigned
from replica.core.purgatory import Purgatory
from replica.core.rules import Rules
from replica.ids import CallId, Epoch, EpochEndOffset, Offset, PartitionEpoch, ReplicaId, TopicId, TopicPartition
from replica.records import RecordBatch


class ParkedDeletion(Struct, frozen=True, kw_only=True):
    """A deletion that waits until the log of every live replica begins at ``offset`` or later."""

    call_id: CallId
    deadline_ms: int
    offset: Offset


class PartitionState(ReplicatedLog):
    """One replica of a partition as its broker sees it."""

    is_searched_by_time = True

    def __init__(
        self,
        *,
        topic_partition: TopicPartition,
        topic_id: TopicId,
        replica_id: ReplicaId,
        cluster_id: str,
        config: BrokerConfig,
        recovered: RecoveredLog,
        rules: Rules,
        emit: Callable[[Effect], None],
    ) -> None:
        super().__init__(
            topic_partition=topic_partition,
            cluster_id=cluster_id,
            replica_id=replica_id,
            directory_id="",
            limits=config,
            recovered=recovered,
            rules=rules,
            emit=emit,
        )
        self.topic_id = topic_id
        self.config = config
        self.clock = ClusterClock(skew_max_ms=config.clock_skew_max_ms)
        """What time of day it is; a broker hands in the one for all that it hosts."""
        self.session_fetches: Mapping[ReplicaId, SessionFetch] = {}
        """When followers' sessions were last heard of; a broker hands in those of all that it hosts."""
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
        return None if self.registration is None else self.registration.leader_id

    @property
    def is_leader(self) -> bool:
        return isinstance(self.role, Leader)

    @property
    def role_name(self) -> str:
        return self.role.name

    @property
    def addresses(self) -> Mapping[ReplicaId, str]:
        """Where the brokers are by the metadata that this replica has."""
        return {broker_id: broker.address for broker_id, broker in self.brokers.items()}

    @property
    def consumers_end(self) -> Offset | None:
        """Where the log ends for a client; absent until the leader that this is has reached its epoch's start."""
        assert isinstance(self.role, Leader), self.role
        is_known = self.rules.knows_high_watermark(
            high_watermark=self.high_watermark, epoch_start_offset=self.role.epoch_start_offset
        )
        return self.high_watermark if is_known else None

    def end_of_epoch(self, epoch: Epoch) -> EpochEndOffset | None:
        """Where an epoch ends in this log; one that is older than all that is left ends where the log begins."""
        return self.rules.partition_epoch_end(
            epochs=self.log.epochs, epoch=epoch, log_end_offset=self.log.log_end_offset
        )

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

    def flush(self) -> None:
        """Have everything brought to stable storage, unless the system is trusted to."""
        if self.config.log_flush is LogFlush.OS:
            self.log.flushed(self.log.log_end_offset)
        else:
            super().flush()

    def note_appended(self, batches: Sequence[RecordBatch]) -> None:
        """Note what is written of idempotent producers."""
        if self.is_leader or self.rules.producer_states_follow_log():
            for batch in batches:
                self.producers.note(batch)

    def note_truncated(self, end_offset: Offset) -> None:
        """Forget what was written of idempotent producers, and have looked for what is left of it."""
        self.producers.truncate_to(end_offset)
        self.emit(ScanProducers(topic_partition=self.topic_partition))

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
