"""What the controller writes into the metadata log, one frozen class per record, with Kafka's names.

A record says what is now, not what changed: replaying one twice changes nothing, and a partition's record holds the
whole registration. Epochs are written out, never computed while replaying. Knows nothing of bytes (``encoding``).

Source: Kafka ``metadata/src/main/resources/common/metadata``; KIP-455, KIP-584, KIP-631, KIP-966.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

from msgspec import Struct

from replica.bounds import MOVING_REPLICAS
from replica.core.metadata.acls import Acl
from replica.core.metadata.resources import ConfigResource
from replica.ids import BrokerEpoch, Epoch, PartitionEpoch, ReplicaId, TopicId


class LeaderRecoveryState(StrEnum):
    """Whether a partition's leader was elected uncleanly and has not yet said that it has recovered from that."""

    RECOVERED = "RECOVERED"
    RECOVERING = "RECOVERING"


class RegisterBrokerRecord(Struct, frozen=True, kw_only=True):
    """A broker process has registered. It stays fenced until it has caught up with the metadata log.

    ``directory_id`` is that of the disk which holds its logs (KIP-858); ``flushes`` says that it acknowledges only what
    is on stable storage. ``address`` is for clients, and for replicas as well where ``peer_address`` is empty.
    ``last_active_epoch`` is the broker epoch of the last incarnation that was let in on this disk; absent if none was.
    """

    broker_id: ReplicaId
    broker_epoch: BrokerEpoch
    incarnation_id: str
    directory_id: str
    flushes: bool
    address: str
    peer_address: str = ""
    rack: str | None = None
    last_active_epoch: BrokerEpoch | None = None


class BrokerRegistrationChangeRecord(Struct, frozen=True, kw_only=True):
    """A registered broker is fenced, unfenced, or shutting down by its own wish."""

    broker_id: ReplicaId
    broker_epoch: BrokerEpoch
    fenced: bool
    in_controlled_shutdown: bool


class UnregisterBrokerRecord(Struct, frozen=True, kw_only=True):
    """A broker is gone for good, and no partition has it as a replica."""

    broker_id: ReplicaId
    broker_epoch: BrokerEpoch


class TopicRecord(Struct, frozen=True, kw_only=True):
    """A topic exists from here on; its partitions follow in the same batch."""

    name: str
    topic_id: TopicId


class PartitionRegistration(Struct, frozen=True, kw_only=True):
    """All that the cluster has decided about one partition.

    ``replicas`` is the assignment, preferred leader first. ``isr`` and ``elr`` (eligible leader replicas, KIP-966) have
    no member in common; ``last_known_leader`` is who led last, kept while the ISR is empty. ``leader_id`` is absent
    while nobody leads. Whoever is in one of these three is meant with the disk that it is registered with: a broker
    that registers with another disk leaves them in the same decision.

    While the partition is reassigned (KIP-455), ``adding_replicas`` and ``removing_replicas`` are those of the
    ``replicas`` that come and that go with it; without the latter the assignment is the one that is aimed at.
    """

    replicas: Annotated[tuple[ReplicaId, ...], MOVING_REPLICAS]
    isr: Annotated[tuple[ReplicaId, ...], MOVING_REPLICAS]
    elr: Annotated[tuple[ReplicaId, ...], MOVING_REPLICAS] = ()
    last_known_leader: ReplicaId | None = None
    leader_id: ReplicaId | None
    leader_epoch: Epoch
    partition_epoch: PartitionEpoch
    leader_recovery_state: LeaderRecoveryState = LeaderRecoveryState.RECOVERED
    adding_replicas: Annotated[tuple[ReplicaId, ...], MOVING_REPLICAS] = ()
    removing_replicas: Annotated[tuple[ReplicaId, ...], MOVING_REPLICAS] = ()

    @property
    def waits_for_operator(self) -> bool:
        """Whether nobody leads, and no return of any broker changes that: no replica is known to have everything."""
        return self.leader_id is None and not self.may_lead

    @property
    def may_lead(self) -> frozenset[ReplicaId]:
        """Those that are known to have everything: the ISR and the ELR, or else who led last."""
        if not self.isr and not self.elr and self.last_known_leader is not None:
            return frozenset((self.last_known_leader,))
        return frozenset((*self.isr, *self.elr))

    @property
    def is_reassigned(self) -> bool:
        """Whether a reassignment is under way."""
        return bool(self.adding_replicas or self.removing_replicas)


class PartitionRecord(Struct, frozen=True, kw_only=True):
    """The registration of one partition, new or changed."""

    topic_id: TopicId
    partition: int
    registration: PartitionRegistration


class RemoveTopicRecord(Struct, frozen=True, kw_only=True):
    """The topic and all its partitions are gone."""

    topic_id: TopicId


class ConfigRecord(Struct, frozen=True, kw_only=True):
    """One setting of a topic; ``value`` is absent where the default holds again."""

    topic_id: TopicId
    name: str
    value: str | None


class ProducerIdsRecord(Struct, frozen=True, kw_only=True):
    """Every producer id below ``next_producer_id`` may have been given away."""

    next_producer_id: int


class AccessControlEntryRecord(Struct, frozen=True, kw_only=True):
    """The access control list has this entry."""

    acl: Acl


class RemoveAccessControlEntryRecord(Struct, frozen=True, kw_only=True):
    """The access control list has it no more."""

    acl: Acl


class ResourceConfigRecord(Struct, frozen=True, kw_only=True):
    """One setting of a broker or a user, or of all; ``value`` is absent where what else there is holds again."""

    resource: ConfigResource
    name: str
    value: str | None


class FeatureLevelRecord(Struct, frozen=True, kw_only=True):
    """From here on the cluster is at this feature level (``levels``)."""

    level: int


MetadataRecord = (
    RegisterBrokerRecord
    | BrokerRegistrationChangeRecord
    | UnregisterBrokerRecord
    | TopicRecord
    | PartitionRecord
    | RemoveTopicRecord
    | ConfigRecord
    | ProducerIdsRecord
    | AccessControlEntryRecord
    | RemoveAccessControlEntryRecord
    | ResourceConfigRecord
    | FeatureLevelRecord
)
