"""How committed metadata ends a role and begins the next: the one place where a replica takes up a leader epoch.

The controller appoints; a replica only ever obeys, in the order of the partition epochs. News within a leader epoch
(another ISR, another assignment, a broker that was fenced) change what a leader counts, not what it is.

Source: Kafka ``Partition.makeLeader``, ``makeFollower``, ``updateAssignmentAndIsr``; ``Replica.resetReplicaState``.
"""

from __future__ import annotations

from collections.abc import Mapping

from msgspec.structs import replace

from replica.core.log.producing import fail_produces
from replica.core.metadata.configs import TopicConfig
from replica.core.metadata.image import BrokerRegistration
from replica.core.metadata.records import LeaderRecoveryState, PartitionRegistration
from replica.core.partition.deleting import answer_deletions, give_up_deletions
from replica.core.partition.following import begin_following
from replica.core.partition.roles import CommittedIsr, Leader, RemoteReplica, Unassigned
from replica.core.partition.state import PartitionState
from replica.core.partition.watermark import maybe_advance_high_watermark
from replica.ids import ReplicaId


def apply_metadata(
    p: PartitionState,
    registration: PartitionRegistration,
    brokers: Mapping[ReplicaId, BrokerRegistration],
    topic: TopicConfig,
    now_ms: int,
) -> None:
    """Act on what the controller has committed. An older registration is ignored; one that is known changes nothing.

    ``brokers`` and ``topic`` are as they are now, whatever the registration is: who is fenced, or how many replicas a
    write needs, can change alone, and can let the high watermark advance.
    """
    p.brokers, p.topic = brokers, topic
    if p.retention_check_at_ms is None:
        p.retention_check_at_ms = now_ms + p.config.log_retention_check_interval_ms
    known = p.registration
    if known is None or not p.rules.metadata_is_older(
        partition_epoch=registration.partition_epoch, known=known.partition_epoch
    ):
        _take_registration(p, known, registration, now_ms)
    if p.rules.high_watermark_is_checked_after_isr_change():
        maybe_advance_high_watermark(p, now_ms)
    answer_deletions(p)


def _take_registration(
    p: PartitionState, known: PartitionRegistration | None, registration: PartitionRegistration, now_ms: int
) -> None:
    p.registration = registration
    if known is not None and registration.leader_epoch == known.leader_epoch:
        assert registration.leader_id == known.leader_id, (known, registration)
        if p.rules.metadata_replaces_isr(
            partition_epoch=registration.partition_epoch, known=known.partition_epoch
        ) and isinstance(p.role, Leader):
            _take_isr(p, p.role, registration)
        return
    assert known is None or registration.leader_epoch > known.leader_epoch, (known, registration)
    if registration.leader_id == p.replica_id:
        _become_leader(p, known, registration, now_ms)
    else:
        _become_follower(p, known, registration)


def _take_isr(p: PartitionState, role: Leader, registration: PartitionRegistration) -> None:
    """Count by what is committed now; whatever was proposed is settled. What is known of the others stays."""
    p.role = replace(
        role,
        isr_state=CommittedIsr(isr=frozenset(registration.isr)),
        remotes={replica_id: role.remotes.get(replica_id, RemoteReplica()) for replica_id in _others(p, registration)},
        is_in_flight=False,
        retry_at_ms=None,
    )


def _become_leader(
    p: PartitionState, known: PartitionRegistration | None, registration: PartitionRegistration, now_ms: int
) -> None:
    """Lead: begin the epoch where the log ends, durably, before anything else can be said or written in it.

    Then, and only from this epoch's fetches on, the others count; unless this replica led the epoch before as well.
    """
    before = p.role
    epoch_start_offset = p.log.log_end_offset
    if p.rules.epoch_is_assigned_at_once() and p.log.epochs.assign(registration.leader_epoch, epoch_start_offset):
        p.store_epochs()
    p.log.set_high_watermark(
        p.rules.new_leader_high_watermark(high_watermark=p.high_watermark, log_end_offset=p.log.log_end_offset)
    )
    kept = before.remotes if isinstance(before, Leader) and _keeps_remotes(p, known, registration) else {}
    p.role = Leader(
        epoch_start_offset=epoch_start_offset,
        isr_state=CommittedIsr(isr=frozenset(registration.isr)),
        remotes={
            replica_id: _reset(p, kept.get(replica_id), is_in_sync=replica_id in registration.isr, now_ms=now_ms)
            for replica_id in _others(p, registration)
        },
        recovery_state=LeaderRecoveryState.RECOVERED,
        shrink_check_at_ms=now_ms + max(1, p.config.replica_lag_time_max_ms // 2),
    )


def _keeps_remotes(p: PartitionState, known: PartitionRegistration | None, registration: PartitionRegistration) -> bool:
    return known is not None and p.rules.remotes_are_kept(
        old_epoch=known.leader_epoch, new_epoch=registration.leader_epoch
    )


def _others(p: PartitionState, registration: PartitionRegistration) -> tuple[ReplicaId, ...]:
    return tuple(replica_id for replica_id in registration.replicas if replica_id != p.replica_id)


def _reset(p: PartitionState, before: RemoteReplica | None, *, is_in_sync: bool, now_ms: int) -> RemoteReplica:
    """What a leader assumes of another replica when its epoch begins: one in the ISR gets its full time to show up."""
    assumed_ms = now_ms if is_in_sync else None
    if before is None:
        return RemoteReplica(last_caught_up_ms=assumed_ms)
    return replace(
        before,
        last_fetch_leader_log_end_offset=p.log.log_end_offset,
        last_fetch_ms=assumed_ms,
        last_caught_up_ms=assumed_ms,
    )


def _become_follower(
    p: PartitionState, known: PartitionRegistration | None, registration: PartitionRegistration
) -> None:
    """Follow, or wait for a leader: all that was known of the others is forgotten, and nobody's write waits here."""
    if isinstance(p.role, Leader) and not p.rules.writes_wait_after_leadership():
        fail_produces(p)
    give_up_deletions(p)
    restarts = known is None or p.rules.fetching_restarts(
        old_epoch=known.leader_epoch,
        new_epoch=registration.leader_epoch,
        old_leader_id=known.leader_id,
        new_leader_id=registration.leader_id,
    )
    if restarts or isinstance(p.role, Leader | Unassigned):
        begin_following(p, registration.leader_id)
    else:  # By the right rules a new leader epoch always restarts.
        p.role = replace(p.role, leader_id=registration.leader_id)


def close(p: PartitionState) -> None:
    """Give up: the partition is gone, or no longer kept here. Nobody learns what became of a write that waits."""
    fail_produces(p)
    give_up_deletions(p)
    p.role = Unassigned()
