"""One replica of a log: who and where it is, what it knows of the log, and how it asks its driver for something.

Owns what both kinds of log have; decides nothing. Who leads, and what is committed, each kind says for itself.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence

from msgspec import Struct

from replica.core.config import BrokerConfig, QuorumConfig
from replica.core.effects import Append, Effect, Flush, Reply, StoreEpochs, Truncate
from replica.core.log.log_state import LogState
from replica.core.log.recovered import RecoveredLog
from replica.core.messages import CurrentLeader, Response
from replica.core.purgatory import Purgatory
from replica.core.rules import Rules
from replica.ids import CallId, Epoch, EpochEndOffset, Offset, ReplicaId, TopicPartition
from replica.records import RecordBatch


class ParkedProduce(Struct, frozen=True, kw_only=True):
    """An ``acks=all`` append that waits until everything below ``end_offset`` is committed."""

    call_id: CallId
    deadline_ms: int
    base_offset: Offset
    end_offset: Offset


class ReplicatedLog(ABC):
    """One replica of a log, in a cluster and on a disk. ``emit`` takes the effects of the step that is under way."""

    is_searched_by_time = False
    """Whether the first record that is not older than a time can be asked for."""

    def __init__(
        self,
        *,
        topic_partition: TopicPartition,
        cluster_id: str,
        replica_id: ReplicaId,
        directory_id: str,
        limits: QuorumConfig | BrokerConfig,
        recovered: RecoveredLog,
        rules: Rules,
        emit: Callable[[Effect], None],
    ) -> None:
        self.topic_partition = topic_partition
        self.cluster_id = cluster_id
        self.replica_id = replica_id
        self.directory_id = directory_id
        self.limits = limits
        """What one answer or one wait may take."""
        self.rules = rules
        self.emit = emit
        self.log = LogState(recovered, rules)
        self.produces: Purgatory[ParkedProduce] = Purgatory(limits.parked_produces_max)

    # --- what each kind says for itself -----------------------------------------------------------------------------

    @property
    @abstractmethod
    def leader_epoch(self) -> Epoch:
        """The leader epoch that this replica has reached."""

    @property
    @abstractmethod
    def leader_id(self) -> ReplicaId | None:
        """Who leads as far as this replica knows."""

    @property
    @abstractmethod
    def is_leader(self) -> bool:
        """Whether this replica leads."""

    @property
    @abstractmethod
    def role_name(self) -> str:
        """What this replica is, in a word."""

    @property
    @abstractmethod
    def high_watermark(self) -> Offset | None:
        """What this replica tells others about the high watermark; absent while it has nothing to say."""

    @property
    @abstractmethod
    def consumers_end(self) -> Offset | None:
        """Where the log ends for a client, as its leader tells it; absent while a new leader does not know."""

    @property
    def addresses(self) -> Mapping[ReplicaId, str]:
        """Where this replica says that the others are, if it does."""
        return {}

    @property
    def peer_address(self) -> str:
        """Where other replicas reach this one, if it says so."""
        return ""

    @abstractmethod
    def end_of_epoch(self, epoch: Epoch) -> EpochEndOffset | None:
        """Where an epoch ends in the leader's log; absent where that is undefined."""

    @abstractmethod
    def note_appended(self, batches: Sequence[RecordBatch]) -> None:
        """Keep in step what is known from the records themselves, before they are appended."""

    @abstractmethod
    def note_truncated(self, end_offset: Offset) -> None:
        """Keep in step what is known from the records themselves, after they were cut."""

    # --- what they share --------------------------------------------------------------------------------------------

    @property
    def current_leader(self) -> CurrentLeader:
        """What this replica tells others about the leadership."""
        return CurrentLeader(leader_id=self.leader_id, leader_epoch=self.leader_epoch)

    def reply(self, call_id: CallId, response: Response) -> None:
        """Answer a call."""
        self.emit(Reply(call_id=call_id, response=response))

    def store_epochs(self) -> None:
        """Bring the epoch cache as it is now to disk, durably."""
        self.emit(StoreEpochs(topic_partition=self.topic_partition, entries=self.log.epochs.entries))

    def append(self, *batches: RecordBatch) -> None:
        """Append stamped batches, their epochs stored first, and have them flushed."""
        if self.log.append(batches) and self.rules.new_epoch_is_stored(epoch=batches[-1].leader_epoch):
            self.store_epochs()
        self.note_appended(batches)
        self.emit(Append(topic_partition=self.topic_partition, batches=batches))
        self.flush()

    def flush(self) -> None:
        """Have everything brought to stable storage."""
        self.emit(Flush(topic_partition=self.topic_partition, end_offset=self.log.log_end_offset))

    def truncate(self, end_offset: Offset) -> None:
        """Cut the log at ``end_offset``, and its epochs with it, even those that begin exactly there (KAFKA-10706)."""
        if end_offset < self.log.log_end_offset:
            self.log.truncate_to(end_offset)
            self.emit(Truncate(topic_partition=self.topic_partition, end_offset=end_offset))
            self.store_epochs()
            self.note_truncated(end_offset)
        elif self.rules.truncation_drops_empty_epochs() and self.log.epochs.truncate_from_end(end_offset):
            self.store_epochs()
