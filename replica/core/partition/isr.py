"""Who is in sync: what a leader knows of the others, and the ISR that it proposes to the controller.

A follower that has caught up is proposed as soon as its fetch shows it; one that has lagged for too long is proposed to
leave when the timer looks. One proposal is out at a time, compared and swapped by the partition epoch. Until it is
settled, everybody counts who is in either ISR, the *maximal* one: the controller may have committed it already, or may
never do so.

Source: Kafka ``Partition.maybeExpandIsr``, ``maybeShrinkIsr``, ``submitAlterPartition``,
``Replica.updateFetchStateOrThrow``; KIP-497, KIP-841, KIP-903.
"""

from __future__ import annotations

from msgspec.structs import replace

from replica.core.messages import AlteredPartition, AlterPartition, FetchPartition, IsrMember
from replica.core.metadata.records import PartitionRegistration
from replica.core.partition.roles import CommittedIsr, IsrState, Leader, PendingExpand, PendingShrink, RemoteReplica
from replica.core.partition.state import PartitionState
from replica.core.rules.partition import RefusedProposal
from replica.errors import ErrorCode
from replica.ids import BrokerEpoch, ReplicaId

# --- what is known of a follower --------------------------------------------------------------------------------------


def note_fetch(
    p: PartitionState, replica_id: ReplicaId, part: FetchPartition, broker_epoch: BrokerEpoch | None, now_ms: int
) -> None:
    """Take a replica's valid fetch for what it is: its acknowledgement of everything below the offset."""
    role = p.role
    assert isinstance(role, Leader), role
    before = role.remotes[replica_id]
    leader_end = p.log.log_end_offset
    remote = RemoteReplica(
        log_start_offset=part.log_start_offset,
        log_end_offset=part.fetch_offset,
        last_fetch_leader_log_end_offset=max(leader_end, before.last_fetch_leader_log_end_offset),
        last_fetch_ms=now_ms,
        last_caught_up_ms=p.rules.last_caught_up_ms(
            fetch_offset=part.fetch_offset,
            leader_end_offset=leader_end,
            last_fetch_leader_end_offset=before.last_fetch_leader_log_end_offset,
            last_fetch_ms=before.last_fetch_ms,
            last_caught_up_ms=before.last_caught_up_ms,
            now_ms=now_ms,
        ),
        broker_epoch=broker_epoch,
    )
    p.role = replace(role, remotes={**role.remotes, replica_id: remote})


def note_sessions(p: PartitionState) -> None:
    """Note, before the log's end moves, that followers who hold all of it have fetched since, though not by name.

    A fetch of a session counts for every partition in it, and names those only of which something has changed.
    """
    role = p.role
    assert isinstance(role, Leader), role
    for replica_id, remote in role.remotes.items():
        latest = p.session_fetches.get(replica_id)
        if latest is None or latest.broker_epoch != remote.broker_epoch or remote.last_caught_up_ms is None:
            continue
        if remote.log_end_offset == p.log.log_end_offset and latest.at_ms > remote.last_caught_up_ms:
            noted = replace(remote, last_fetch_ms=latest.at_ms, last_caught_up_ms=latest.at_ms)
            p.role = role = replace(role, remotes={**role.remotes, replica_id: noted})


def is_caught_up(p: PartitionState, remote: RemoteReplica, now_ms: int) -> bool:
    """Tell whether a follower keeps up with the log."""
    return p.rules.is_caught_up(
        end_offset=remote.log_end_offset,
        leader_end_offset=p.log.log_end_offset,
        last_caught_up_ms=remote.last_caught_up_ms,
        now_ms=now_ms,
        lag_time_max_ms=p.config.replica_lag_time_max_ms,
    )


def is_eligible(p: PartitionState, replica_id: ReplicaId, remote: RemoteReplica) -> bool:
    """Tell whether a follower's broker may count as in sync, by the metadata that this leader has."""
    registered = p.brokers.get(replica_id)
    return p.rules.is_eligible_for_isr(
        is_active=registered is not None and registered.is_active,
        broker_epoch=remote.broker_epoch,
        registered=None if registered is None else registered.broker_epoch,
    )


def counted_isr(p: PartitionState, role: Leader) -> frozenset[ReplicaId]:
    """Name who must have a record before it is committed."""
    state = role.isr_state
    return p.rules.counted_isr(
        isr=state.isr,
        joining=frozenset({state.joining}) if isinstance(state, PendingExpand) else frozenset(),
        leaving=state.leaving if isinstance(state, PendingShrink) else frozenset(),
    )


# --- proposals --------------------------------------------------------------------------------------------------------


def maybe_expand_isr(p: PartitionState, replica_id: ReplicaId) -> None:
    """Propose the follower that has just fetched, if it has caught up and nothing else is proposed."""
    role = p.role
    assert isinstance(role, Leader), role
    remote = role.remotes[replica_id]
    state = role.isr_state
    if not isinstance(state, CommittedIsr) or replica_id in state.isr or remote.log_end_offset is None:
        return
    if is_eligible(p, replica_id, remote) and p.rules.may_join_isr(
        end_offset=remote.log_end_offset,
        high_watermark=p.high_watermark,
        epoch_start_offset=role.epoch_start_offset,
    ):
        p.role = replace(role, isr_state=PendingExpand(isr=state.isr, joining=replica_id))


def maybe_shrink_isr(p: PartitionState, role: Leader, now_ms: int) -> None:
    """Propose that the followers leave that have lagged for too long, unless something else is proposed."""
    role = replace(role, shrink_check_at_ms=now_ms + max(1, p.config.replica_lag_time_max_ms // 2))
    state = role.isr_state
    if isinstance(state, CommittedIsr):
        lagging = frozenset(
            replica_id
            for replica_id in state.isr - {p.replica_id}
            if not is_caught_up(p, role.remotes[replica_id], now_ms)
        )
        if lagging:
            role = replace(role, isr_state=PendingShrink(isr=state.isr, leaving=lagging))
    p.role = role


def alter_partition_proposal(p: PartitionState, now_ms: int) -> AlterPartition | None:
    """Say which ISR is to be proposed now, if any: none while one is out, or was refused for good."""
    role = p.role
    if (
        not isinstance(role, Leader)
        or role.is_in_flight
        or (role.retry_at_ms is not None and now_ms < role.retry_at_ms)
    ):
        return None
    match role.isr_state:
        case PendingExpand(isr=isr, joining=joining, is_withdrawn=is_withdrawn, is_stuck=False):
            wanted = isr if is_withdrawn else isr | {joining}
        case PendingShrink(isr=isr, leaving=leaving, is_stuck=False):
            wanted = isr - leaving
        case _:
            return None
    assert p.registration is not None, p.topic_partition
    return AlterPartition(
        topic_id=p.topic_id,
        partition=p.topic_partition.partition,
        leader_epoch=p.registration.leader_epoch,
        partition_epoch=p.registration.partition_epoch,
        new_isr=tuple(
            IsrMember(broker_id=replica_id, broker_epoch=_broker_epoch(p, role, replica_id))
            for replica_id in p.registration.replicas
            if replica_id in wanted
        ),
        leader_recovery_state=role.recovery_state,
    )


def _broker_epoch(p: PartitionState, role: Leader, replica_id: ReplicaId) -> BrokerEpoch | None:
    """Name the incarnation that counts as in sync: the one that has fetched, or the leader's own."""
    if replica_id in role.remotes:
        return role.remotes[replica_id].broker_epoch
    registered = p.brokers.get(replica_id)
    return None if registered is None else registered.broker_epoch


def on_proposal_sent(p: PartitionState) -> None:
    """Note that the proposal that was due is on its way."""
    role = p.role
    assert isinstance(role, Leader), role
    assert not role.is_in_flight, role
    p.role = replace(role, is_in_flight=True, retry_at_ms=None)


def clear_retry(role: Leader, now_ms: int) -> Leader:
    """Let the pause before the next proposal end when its time has come."""
    is_over = role.retry_at_ms is not None and role.retry_at_ms <= now_ms
    return replace(role, retry_at_ms=None) if is_over else role


# --- what becomes of them ---------------------------------------------------------------------------------------------


def on_altered(p: PartitionState, proposal: AlterPartition, result: AlteredPartition | None, now_ms: int) -> bool:
    """Take what became of a proposal, None if nobody knows. Tell whether there is another ISR now.

    If this replica's state has changed since it was made, the answer is about what is no more. One that tells of
    another leadership shows that metadata is on its way: until then nothing else is proposed.
    """
    role, registration = p.role, p.registration
    if not isinstance(role, Leader) or registration is None:
        return False
    committed = result is not None and result.error is ErrorCode.NONE
    if not p.rules.reply_is_current(
        proposed=(proposal.leader_epoch, proposal.partition_epoch),
        committed=(result.leader_epoch, result.partition_epoch) if result is not None and committed else None,
        own=(registration.leader_epoch, registration.partition_epoch),
    ):
        return False
    role = replace(role, is_in_flight=False)
    if result is not None and committed:
        _on_committed(p, role, registration, result)
    else:
        _on_refused(p, role, None if result is None else result.error, now_ms)
    return committed


def _on_committed(
    p: PartitionState, role: Leader, registration: PartitionRegistration, result: AlteredPartition
) -> None:
    assert result.partition_epoch is not None, result
    p.registration = replace(
        registration,
        isr=result.isr,
        partition_epoch=result.partition_epoch,
        leader_recovery_state=result.leader_recovery_state,
    )
    p.role = replace(role, isr_state=CommittedIsr(isr=frozenset(result.isr)))


def _on_refused(p: PartitionState, role: Leader, error: ErrorCode | None, now_ms: int) -> None:
    pause_ends_ms = now_ms + p.config.alter_partition_retry_backoff_ms
    match p.rules.refused_proposal(error=error):
        case RefusedProposal.REVERTED:
            p.role = replace(role, isr_state=CommittedIsr(isr=role.isr_state.isr), retry_at_ms=pause_ends_ms)
        case RefusedProposal.WITHDRAWN:
            p.role = replace(role, isr_state=_withdrawn(role.isr_state), retry_at_ms=pause_ends_ms)
        case RefusedProposal.STUCK:
            p.role = replace(role, isr_state=_stuck(role.isr_state))
        case RefusedProposal.RETRIED:
            p.role = replace(role, retry_at_ms=pause_ends_ms)


def _withdrawn(state: IsrState) -> IsrState:
    """Propose the committed ISR in the place of a larger one; a smaller one that comes late harms nobody.

    1. A proposal to let B in is refused, because B is fenced; another copy of it is on its way, sent earlier or by the
    network itself. 2. If B no longer counted, records that B lacks would be committed. 3. B is back, the copy arrives,
    its partition epoch is the present one: B is in the ISR.
    """
    return replace(state, is_withdrawn=True) if isinstance(state, PendingExpand) else CommittedIsr(isr=state.isr)


def _stuck(state: IsrState) -> IsrState:
    """Let both ISRs count and propose nothing until new metadata comes."""
    return state if isinstance(state, CommittedIsr) else replace(state, is_stuck=True)
