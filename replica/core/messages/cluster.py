"""What brokers and the active controller say to each other.

A controller that is not the active one answers NOT_CONTROLLER with the leader of the metadata log, as far as it knows.
Sources: KIP-631 (registration, heartbeats), KIP-497 and KIP-903 (AlterPartition).
"""

from __future__ import annotations

from typing import Annotated

from msgspec import Struct

from replica.bounds import MOVING_REPLICAS, PROPOSALS_MAX, Address, DirectoryId, Entries, TimeOfDay, Timestamp
from replica.core.messages.leadership import CurrentLeader
from replica.core.metadata.records import LeaderRecoveryState
from replica.errors import ErrorCode
from replica.ids import BrokerEpoch, Epoch, Offset, PartitionEpoch, ReplicaId, TopicId

OFFLINE_REPORTED_MAX = 1000
"""How many damaged logs one heartbeat reports; the next one reports those that are left."""


class BrokerRegistrationRequest(Struct, frozen=True, kw_only=True):
    """A broker process introduces itself. ``address`` is where others reach it, ``HOST:PORT``.

    ``peer_address`` is where other replicas do, if it has a listener of its own for them; otherwise empty.

    ``directory_id`` is that of its data directory: another one than before holds nothing of what was acknowledged
    (KIP-858). ``flushes`` says that this process will acknowledge only what is on stable storage.
    ``metadata_end_offset`` is where the metadata log on that disk ended when the process began: 0 where it holds none.
    ``previous_broker_epoch`` is the incarnation whose clean stop the data directory remembers; absent after any other
    end, and on a fresh disk. A registration is repeated under the same ``incarnation_id`` until it is answered.
    ``replaces`` is the registration of this id that is to be replaced, as the controller has told; absent before that.
    """

    broker_id: ReplicaId
    cluster_id: str
    incarnation_id: str
    directory_id: DirectoryId
    flushes: bool
    metadata_end_offset: Offset
    address: Address
    peer_address: Address = ""
    rack: str | None = None
    previous_broker_epoch: BrokerEpoch | None = None
    replaces: BrokerEpoch | None = None


class BrokerRegistrationResponse(Struct, frozen=True, kw_only=True):
    """``broker_epoch`` is that of this incarnation; with STALE_BROKER_EPOCH that of the registration to be replaced.

    It is absent where there is none to be replaced, or any more.
    """

    error: ErrorCode
    broker_epoch: BrokerEpoch | None = None
    current_leader: CurrentLeader | None = None


class OfflineReplica(Struct, frozen=True, kw_only=True):
    """A replica whose log is damaged, or in a log directory that has failed: it is not to be elected.

    What it has acknowledged up to ``leader_epoch`` may be gone.
    """

    topic_id: TopicId
    partition: int
    leader_epoch: Epoch


class BrokerHeartbeatRequest(Struct, frozen=True, kw_only=True):
    """A registered broker is alive and has applied the metadata log below ``metadata_offset``.

    ``incarnation_id``, here as in AlterPartition, is what it has registered with: the epoch alone anybody can guess.
    ``offline`` are replicas of its that must not be counted on any more, some of them where there are many.
    ``unix_ms`` is what its machine's clock shows; absent where it does not know.
    """

    broker_id: ReplicaId
    broker_epoch: BrokerEpoch
    incarnation_id: str
    cluster_id: str
    metadata_offset: Offset
    want_shut_down: bool = False
    offline: tuple[OfflineReplica, ...] = ()
    unix_ms: TimeOfDay | None = None


class BrokerHeartbeatResponse(Struct, frozen=True, kw_only=True):
    """``should_shut_down`` once a broker that wants to leave leads nothing any more.

    ``unix_ms`` is what time it is by the brokers' clocks; absent while too few have told theirs.
    """

    error: ErrorCode
    is_fenced: bool = True
    should_shut_down: bool = False
    unix_ms: Timestamp | None = None
    current_leader: CurrentLeader | None = None


class IsrMember(Struct, frozen=True, kw_only=True):
    """A replica of a proposed ISR, as the incarnation that the leader has seen fetch; absent where it cannot tell."""

    broker_id: ReplicaId
    broker_epoch: BrokerEpoch | None = None


class AlterPartition(Struct, frozen=True, kw_only=True):
    """The leader of ``leader_epoch`` wants another ISR. Compare-and-swap on ``partition_epoch``."""

    topic_id: TopicId
    partition: int
    leader_epoch: Epoch
    partition_epoch: PartitionEpoch
    new_isr: Annotated[tuple[IsrMember, ...], MOVING_REPLICAS]
    leader_recovery_state: LeaderRecoveryState = LeaderRecoveryState.RECOVERED


class AlterPartitionRequest(Struct, frozen=True, kw_only=True):
    broker_id: ReplicaId
    broker_epoch: BrokerEpoch
    incarnation_id: str
    cluster_id: str
    partitions: Annotated[tuple[AlterPartition, ...], Entries(PROPOSALS_MAX)]


class AlteredPartition(Struct, frozen=True, kw_only=True):
    """What became of one proposal: with NONE the committed state, otherwise why not."""

    topic_id: TopicId
    partition: int
    error: ErrorCode
    leader_id: ReplicaId | None = None
    leader_epoch: Epoch | None = None
    partition_epoch: PartitionEpoch | None = None
    isr: Annotated[tuple[ReplicaId, ...], MOVING_REPLICAS] = ()
    leader_recovery_state: LeaderRecoveryState = LeaderRecoveryState.RECOVERED


class AlterPartitionResponse(Struct, frozen=True, kw_only=True):
    """``error`` is about the request as a whole (STALE_BROKER_EPOCH, NOT_CONTROLLER); then ``partitions`` is empty."""

    error: ErrorCode
    partitions: Annotated[tuple[AlteredPartition, ...], Entries(PROPOSALS_MAX)] = ()
    current_leader: CurrentLeader | None = None
