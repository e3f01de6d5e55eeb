"""What may be read of a replica between steps, by those who report on it and never change it.

Owns the shapes that log lines and metrics are made from, and how the real core fills them. The page of metrics is read
from another thread while the core steps: whatever is looked at there is an immutable value that is read once.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol

from replica.core.broker.hosting import OfflinePartition
from replica.core.log.recovered import StoredSnapshot
from replica.core.messages import CurrentLeader
from replica.core.metadata.image import MetadataImage
from replica.core.metadata.records import PartitionRegistration
from replica.core.partition.roles import Leader as PartitionLeader
from replica.core.quorum.roles import Leader as QuorumLeader
from replica.core.quorum.voter_history import VoterHistory
from replica.core.replica import Replica
from replica.ids import BrokerEpoch, Epoch, Offset, ReplicaId, TopicPartition
from replica.voters import VoterSet


class NamedRole(Protocol):
    """A role, as far as an operator cares: its lower-case name."""

    @property
    def name(self) -> str:
        """``leader``, ``follower`` and so on."""


class LogEnds(Protocol):
    """The ends of one log."""

    @property
    def log_start_offset(self) -> Offset:
        """Where the first record is, or would be."""

    @property
    def log_end_offset(self) -> Offset:
        """Where the next record goes (exclusive end)."""


class LogView(Protocol):
    """What may be read of one quorum log."""

    @property
    def steps(self) -> int:
        """How many steps it has taken: nothing of it changes between two of them."""

    @property
    def role(self) -> NamedRole:
        """What the replica is to this log."""

    @property
    def leader_epoch(self) -> Epoch:
        """The leader epoch it has reached."""

    @property
    def leader_id(self) -> ReplicaId | None:
        """Who leads that epoch, as far as it knows."""

    @property
    def high_watermark(self) -> Offset | None:
        """Everything below is committed; absent while unknown."""

    @property
    def snapshots(self) -> tuple[StoredSnapshot, ...]:
        """Its snapshots on stable storage, oldest first."""

    @property
    def snapshots_rejected(self) -> int:
        """How many snapshots in a row have come from the leader that cannot be loaded."""

    @property
    def voters(self) -> VoterSet:
        """Those in force here, committed or not."""

    @property
    def voter_history(self) -> VoterHistory:
        """From which record on they are."""

    @property
    def refused_leader(self) -> CurrentLeader | None:
        """The last claim of a leader that contradicted what is known here; absent before the first."""

    @property
    def log(self) -> LogEnds:
        """The log itself."""


class GroupView(Protocol):
    """What may be read of one group: the state machine on a quorum log."""

    @property
    def applied_offset(self) -> Offset:
        """The machine has applied everything below."""

    @property
    def machine_leads(self) -> bool:
        """Whether the machine takes commands."""


class PartitionView(Protocol):
    """What may be read of one partition of a broker."""

    @property
    def role(self) -> NamedRole:
        """What the replica is to this partition."""

    @property
    def leader_epoch(self) -> Epoch:
        """The leader epoch that the metadata has named."""

    @property
    def leader_id(self) -> ReplicaId | None:
        """Who leads by the metadata."""

    @property
    def high_watermark(self) -> Offset:
        """Everything below is committed, as far as this replica knows."""

    @property
    def effective_min_isr(self) -> int:
        """How many in-sync replicas a write needs."""

    @property
    def registration(self) -> PartitionRegistration | None:
        """What the committed metadata says of it; absent before it has said anything."""

    @property
    def log(self) -> LogEnds:
        """The log itself."""


class ReplicaView(Protocol):
    """What may be read of a replica."""

    @property
    def replica_id(self) -> ReplicaId:
        """Its number."""

    @property
    def logs(self) -> Mapping[TopicPartition, LogView]:
        """Its quorum logs."""

    @property
    def groups(self) -> Mapping[TopicPartition, GroupView]:
        """The groups that it hosts, by their quorum logs."""

    @property
    def partitions(self) -> Mapping[TopicPartition, PartitionView]:
        """The partitions that its broker hosts; none without a broker."""

    @property
    def tellings(self) -> int:
        """How often a partition was told something by the metadata."""

    def told_since(self, tellings: int) -> Sequence[TopicPartition]:
        """The partitions that were since there were so many ``tellings``: what the others are changes by no news."""

    @property
    def offline(self) -> Mapping[TopicPartition, OfflinePartition]:
        """Those that it would host if their logs were not damaged."""

    @property
    def failed_directories(self) -> Mapping[str, str]:
        """The log directories that have failed, and why."""

    @property
    def image(self) -> MetadataImage:
        """What the cluster has decided, as far as this replica has applied it."""

    @property
    def metadata_offset(self) -> Offset:
        """Up to where it has applied that (exclusive)."""

    @property
    def is_broker(self) -> bool:
        """Whether it has the role of one."""

    @property
    def broker_epoch(self) -> BrokerEpoch | None:
        """Under which its broker acts; absent until its own registration has come by the metadata log."""

    @property
    def is_active_controller(self) -> bool:
        """Whether it decides for the cluster."""


class CoreView:
    """The real core, as a ReplicaView."""

    def __init__(self, core: Replica) -> None:
        self._core = core

    @property
    def replica_id(self) -> ReplicaId:
        """Its number."""
        return self._core.config.replica_id

    @property
    def logs(self) -> Mapping[TopicPartition, LogView]:
        """Its quorum logs."""
        return self._core.logs

    @property
    def groups(self) -> Mapping[TopicPartition, GroupView]:
        """The groups that it hosts, by their quorum logs."""
        return self._core.groups

    @property
    def partitions(self) -> Mapping[TopicPartition, PartitionView]:
        """The partitions that its broker hosts; none without a broker."""
        return {} if self._core.broker is None else self._core.broker.partitions

    @property
    def tellings(self) -> int:
        """How often a partition was told something by the metadata."""
        return 0 if self._core.broker is None else self._core.broker.tellings

    def told_since(self, tellings: int) -> Sequence[TopicPartition]:
        """The partitions that were since there were so many ``tellings``."""
        return () if self._core.broker is None else self._core.broker.told_since(tellings)

    @property
    def offline(self) -> Mapping[TopicPartition, OfflinePartition]:
        """Those that it would host if their logs were not damaged."""
        return {} if self._core.broker is None else self._core.broker.offline

    @property
    def failed_directories(self) -> Mapping[str, str]:
        """The log directories that have failed, and why."""
        return {} if self._core.broker is None else self._core.broker.failed_directories

    @property
    def image(self) -> MetadataImage:
        """What the cluster has decided, as far as this replica has applied it."""
        return self._core.metadata.image

    @property
    def metadata_offset(self) -> Offset:
        """Up to where it has applied that (exclusive)."""
        return self._core.metadata.applied_offset

    @property
    def is_broker(self) -> bool:
        """Whether it has the role of one."""
        return self._core.broker is not None

    @property
    def broker_epoch(self) -> BrokerEpoch | None:
        """Under which its broker acts; absent until its own registration has come by the metadata log."""
        return None if self._core.broker is None else self._core.broker.broker_epoch

    @property
    def is_active_controller(self) -> bool:
        """Whether it decides for the cluster."""
        return self._core.controller is not None and self._core.controller.is_active


def follower_ends(role: NamedRole) -> Mapping[ReplicaId, Offset]:
    """Where the log of each follower ends, as far as its leader has heard of that; nothing of any other role."""
    match role:
        case QuorumLeader(voters=voters, observers=observers):
            known = {key.replica_id: progress.log_end_offset for key, progress in observers.items()}
            known |= {replica_id: progress.log_end_offset for replica_id, progress in voters.items()}
        case PartitionLeader(remotes=remotes):
            known = {replica_id: remote.log_end_offset for replica_id, remote in remotes.items()}
        case _:
            known = {}
    return {replica_id: end_offset for replica_id, end_offset in known.items() if end_offset is not None}
