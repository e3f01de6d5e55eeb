"""The roles of a replica of a partition, one frozen class each with only its own fields.

::

    Unassigned --the controller names a leader--> Leader or Follower
    Leader <--a higher leader epoch--> Follower          (nobody votes here: the controller appoints)

A leader's ISR is in one of three states, of which at most one change is proposed at a time: committed, waiting to grow,
waiting to shrink. All times are absolute milliseconds of the driver's clock.

Source: Kafka ``Partition.scala`` (``PartitionState``), ``Replica.scala`` (``ReplicaState``), KIP-497.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar, NamedTuple

from msgspec import Struct, field

from replica.core.metadata.records import LeaderRecoveryState
from replica.ids import BrokerEpoch, Offset, ReplicaId

NO_OFFSET = Offset(0)


class SessionFetch(NamedTuple):
    """When a follower's session of fetches was last heard of, and of which incarnation."""

    broker_epoch: BrokerEpoch
    at_ms: int


class RemoteReplica(Struct, frozen=True, kw_only=True):
    """What a leader knows of one other replica, all of it from that replica's fetches in this leader epoch.

    ``log_end_offset`` is the offset of its last fetch, absent until it has fetched; the leader's own log ended at
    ``last_fetch_leader_log_end_offset`` then. A time is absent where the thing has not happened.
    """

    log_start_offset: Offset | None = None
    log_end_offset: Offset | None = None
    last_fetch_leader_log_end_offset: Offset = NO_OFFSET
    last_fetch_ms: int | None = None
    last_caught_up_ms: int | None = None
    broker_epoch: BrokerEpoch | None = None


class CommittedIsr(Struct, frozen=True, kw_only=True):
    """The ISR as the controller has it; nothing is proposed."""

    isr: frozenset[ReplicaId]

    @property
    def maximal_isr(self) -> frozenset[ReplicaId]:
        """Every replica that the controller may count as in sync, whatever becomes of a proposal."""
        return self.isr


class PendingExpand(Struct, frozen=True, kw_only=True):
    """``joining`` is proposed to the controller. It counts already: the controller may have let it in.

    ``is_withdrawn`` once it was refused while an earlier copy of the proposal may yet arrive: the committed ISR itself
    is proposed then, as a change that makes every such copy stale, and until that is committed ``joining`` counts.
    """

    isr: frozenset[ReplicaId]
    joining: ReplicaId
    is_withdrawn: bool = False
    is_stuck: bool = False
    """Whether the proposal was refused in a way that only new metadata resolves: it is not sent again."""

    @property
    def maximal_isr(self) -> frozenset[ReplicaId]:
        """Every replica that the controller may count as in sync, whatever becomes of the proposal."""
        return self.isr | {self.joining}


class PendingShrink(Struct, frozen=True, kw_only=True):
    """It is proposed to the controller to put ``leaving`` out. They count until it has committed that."""

    isr: frozenset[ReplicaId]
    leaving: frozenset[ReplicaId]
    is_stuck: bool = False
    """Whether the proposal was refused in a way that only new metadata resolves: it is not sent again."""

    @property
    def maximal_isr(self) -> frozenset[ReplicaId]:
        """Every replica that the controller may count as in sync, whatever becomes of the proposal."""
        return self.isr


IsrState = CommittedIsr | PendingExpand | PendingShrink


class Unassigned(Struct, frozen=True, kw_only=True):
    """Knows its log, and nothing of any leadership yet."""

    name: ClassVar[str] = "unassigned"


class Leader(Struct, frozen=True, kw_only=True):
    """Appends, answers fetches and keeps the ISR. ``epoch_start_offset`` is where its log ended when it began.

    ``is_in_flight`` while a proposal is out. ``retry_at_ms`` is when the next one may go; absent where it may at once.
    ``recovery_state`` is what its next proposal says of an unclean election: it has recovered, having begun to lead.
    """

    name: ClassVar[str] = "leader"
    epoch_start_offset: Offset
    isr_state: IsrState
    remotes: Mapping[ReplicaId, RemoteReplica] = field(default_factory=dict)
    recovery_state: LeaderRecoveryState = LeaderRecoveryState.RECOVERED
    is_in_flight: bool = False
    retry_at_ms: int | None = None
    shrink_check_at_ms: int


class Follower(Struct, frozen=True, kw_only=True):
    """Fetches from ``leader_id``, absent while the partition has no leader.

    ``is_failed`` after FENCED_LEADER_EPOCH: nothing is fetched until new metadata comes. ``out_of_range`` while it has
    to ask ListOffsets where the leader's log ends and begins. ``retry_at_ms`` is when a back-off ends; absent when
    there is none.
    """

    name: ClassVar[str] = "follower"
    leader_id: ReplicaId | None
    kept_end_offset: Offset | None = None
    """Where the log is to be cut before anything is fetched; absent where all of it is kept, which is right."""
    is_failed: bool = False
    out_of_range: bool = False
    agrees: bool = False
    """Whether the leader has answered a fetch in this epoch with what comes next: from then on the logs are one."""
    leader_end_known: bool = False
    """Whether the leader's end was asked for already: then its start is next."""
    cuts_at: Offset | None = None
    """Where the leader's log has parted from this one, while storage looks for the batch there; nothing is asked."""
    retry_at_ms: int | None = None


Role = Unassigned | Leader | Follower
