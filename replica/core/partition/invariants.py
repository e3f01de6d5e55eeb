"""What must hold of one replica of a partition after every call, clause by clause.

Two kinds: clauses about one state, and clauses about a call (the state before and after). They are checked after every
call in the simulator and in debug builds (``python -O`` leaves them out). A clause that fails is our own mistake, hence
an ``AssertionError`` with the values. What only all replicas together can show is checked by those who see them all.

Source: kafka-specification (``TypeOk``, ``ValidHighWatermark``), the model of KIP-966, Kafka ``Partition``.
"""

from __future__ import annotations

from collections.abc import Mapping

from msgspec import Struct

from replica.core.log.invariants import check_log
from replica.core.metadata.records import PartitionRegistration
from replica.core.partition.roles import CommittedIsr, Leader, PendingExpand, PendingShrink, RemoteReplica, Role
from replica.core.partition.state import PartitionState
from replica.ids import EpochEntry, Offset, ReplicaId


class Observation(Struct, frozen=True, kw_only=True):
    """What a call is compared by: values only, taken before it."""

    registration: PartitionRegistration | None
    role: Role
    high_watermark: Offset
    log_start_offset: Offset
    epochs: tuple[EpochEntry, ...]


def observe(p: PartitionState) -> Observation:
    """Note what the clauses about calls look at."""
    return Observation(
        registration=p.registration,
        role=p.role,
        high_watermark=p.high_watermark,
        log_start_offset=p.log.log_start_offset,
        epochs=p.log.epochs.entries,
    )


def check_state(p: PartitionState, before: Observation | None = None) -> None:
    """Raise AssertionError unless every clause about one state holds.

    What is the very same as ``before``, when it held, is not gone through again.
    """
    check_log(p, None if before is None else before.epochs)
    _log_is_not_ahead_of_the_metadata(p)
    if before is None or (before.role, before.registration) != (p.role, p.registration):
        _role_is_the_appointed_one(p)
        _isr_agrees_with_the_metadata(p)
    _leader_knows_its_epoch(p)
    _only_a_leader_has_parked_deletions(p)


def check_call(before: Observation, p: PartitionState) -> None:
    """Raise AssertionError unless every clause about the call from ``before`` to now holds."""
    _epochs_never_fall(before, p)
    _leader_high_watermark_never_falls(before, p)
    _leader_commits_what_the_isr_has(before, p)


# --- one state --------------------------------------------------------------------------------------------------------


def _log_is_not_ahead_of_the_metadata(p: PartitionState) -> None:
    latest = p.log.epochs.latest
    if p.registration is not None and latest is not None:
        assert latest.epoch <= p.leader_epoch, (latest, p.leader_epoch)


def _role_is_the_appointed_one(p: PartitionState) -> None:
    appointed = p.registration is not None and p.registration.leader_id == p.replica_id
    assert p.is_leader <= appointed, (p.role, p.registration)


def _leader_knows_its_epoch(p: PartitionState) -> None:
    if p.is_leader:
        assert p.log.epochs.latest is not None, p.leader_epoch
        assert p.log.epochs.latest.epoch == p.leader_epoch, (p.log.epochs.latest, p.leader_epoch)


def _isr_agrees_with_the_metadata(p: PartitionState) -> None:
    if not isinstance(p.role, Leader):
        return
    assert p.registration is not None, p.role
    state = p.role.isr_state
    assert state.isr == frozenset(p.registration.isr), (state, p.registration)
    assert state.isr <= state.maximal_isr, state
    assert state.maximal_isr <= p.role.remotes.keys() | {p.replica_id}, (state, p.role.remotes)
    match state:
        case PendingExpand(joining=joining):
            assert joining not in state.isr, state
        case PendingShrink(leaving=leaving):
            assert leaving, state
            assert leaving <= state.isr - {p.replica_id}, state
        case CommittedIsr():
            assert not p.role.is_in_flight, p.role


def _only_a_leader_has_parked_deletions(p: PartitionState) -> None:
    if not p.is_leader:
        assert len(p.deletions) == 0, (p.role.name, len(p.deletions))


# --- a call -----------------------------------------------------------------------------------------------------------


def _epochs_never_fall(before: Observation, p: PartitionState) -> None:
    earlier, later = before.registration, p.registration
    if earlier is not None:
        assert later is not None, earlier
        assert earlier.leader_epoch <= later.leader_epoch, (earlier, later)
        assert earlier.partition_epoch <= later.partition_epoch, (earlier, later)


def _leader_high_watermark_never_falls(before: Observation, p: PartitionState) -> None:
    led = isinstance(before.role, Leader) and before.registration is not None
    if led and p.is_leader:
        assert before.high_watermark <= p.high_watermark, (before.high_watermark, p.high_watermark)


def _leader_commits_what_the_isr_has(before: Observation, p: PartitionState) -> None:
    """What this call has committed is in the log of everyone who may be in sync, and flushed here."""
    if not isinstance(p.role, Leader) or p.high_watermark <= before.high_watermark:
        return
    assert p.high_watermark <= p.log.flushed_end_offset, (p.high_watermark, p.log.flushed_end_offset)
    ends = _known_ends(p.role.remotes, p.role.isr_state.maximal_isr)
    for replica_id, end_offset in ends.items():
        assert end_offset is not None, (replica_id, p.role)
        assert p.high_watermark <= end_offset, (p.high_watermark, replica_id, p.role)


def _known_ends(
    remotes: Mapping[ReplicaId, RemoteReplica], isr: frozenset[ReplicaId]
) -> Mapping[ReplicaId, Offset | None]:
    return {replica_id: remote.log_end_offset for replica_id, remote in remotes.items() if replica_id in isr}
