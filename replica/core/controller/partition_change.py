"""One change of one partition: from what is wanted to the registration that follows, leader and epochs included.

Pure, and the only place in which a leader is chosen and an epoch is counted. The order matters: first who is in sync,
whereby a reassignment may be complete, then who is eligible, then who leads; a leader that was not in sync becomes the
whole ISR.

Source: Kafka ``PartitionChangeBuilder``; KIP-455 for reassignments, KIP-966 for eligible leader replicas (ELR) and the
last known leader.
"""

from __future__ import annotations

from collections.abc import Collection
from enum import StrEnum
from typing import assert_never

from msgspec import Struct
from msgspec.structs import replace

from replica.core.controller.reassignment import Reassignment, reassignment_of
from replica.core.metadata.records import LeaderRecoveryState, PartitionRegistration
from replica.core.rules import Rules
from replica.ids import Epoch, PartitionEpoch, ReplicaId

NOBODY: frozenset[ReplicaId] = frozenset()


class Election(StrEnum):
    """What kind of leader a change looks for. Whether a topic allows an unclean one is asked for ``ONLINE`` only."""

    ONLINE = "online"
    PREFERRED = "preferred"
    UNCLEAN = "unclean"


class Wanted(Struct, frozen=True, kw_only=True):
    """What is to become of a partition; what is absent stays as it is, and a leader is looked for in any case.

    ``isr`` is a proposal of the leader. ``leaving`` are replicas that are not in sync any more, because they are fenced
    or stop; those of them that ``stopped_uncleanly`` may have lost records as well, and those of these that are
    ``emptied`` all. In an unclean election ``leader_id`` is who shall lead. A ``reassignment`` takes the place
    of the one that is under way, and may be complete at once. ``touch`` counts as a change even if nothing else
    changes, and ``ends_epoch`` begins a new leader epoch even under the same leader.
    """

    isr: tuple[ReplicaId, ...] | None = None
    leader_recovery_state: LeaderRecoveryState | None = None
    leaving: Collection[ReplicaId] = NOBODY
    stopped_uncleanly: Collection[ReplicaId] = NOBODY
    emptied: Collection[ReplicaId] = NOBODY
    reassignment: Reassignment | None = None
    election: Election = Election.ONLINE
    leader_id: ReplicaId | None = None
    touch: bool = False
    ends_epoch: bool = False


class Circumstances(Struct, frozen=True, kw_only=True):
    """What a change depends on beside the partition itself: who is ``active``, and what the topic is told."""

    active: Collection[ReplicaId]
    min_insync_replicas: int
    elr_enable: bool
    unclean_allowed: bool


def changed(
    before: PartitionRegistration, wanted: Wanted, circumstances: Circumstances, rules: Rules
) -> PartitionRegistration:
    """The registration after the change; equal to ``before`` if there is none to make."""
    change = _Change(before=before, wanted=wanted, circumstances=circumstances, rules=rules)
    after = change.led(change.in_sync())
    if after == before and not wanted.touch:
        return before
    bumps = wanted.ends_epoch or rules.bumps_leader_epoch(
        before=before, leader_id=after.leader_id, replicas=after.replicas
    )
    return replace(
        after,
        leader_epoch=Epoch(before.leader_epoch + bumps),
        partition_epoch=PartitionEpoch(before.partition_epoch + 1),
    )


class _Change(Struct, frozen=True, kw_only=True):
    """A change under way: two steps, each from a registration to the next."""

    before: PartitionRegistration
    wanted: Wanted
    circumstances: Circumstances
    rules: Rules

    def in_sync(self) -> PartitionRegistration:
        """Settle who is in sync: in the order of the assignment, whatever order was proposed."""
        isr = self.before.isr if self.wanted.isr is None else self.wanted.isr
        if any(replica in self.wanted.leaving for replica in isr):
            isr = self.rules.isr_after_leaving(
                isr=isr,
                leaving=self.wanted.leaving,
                emptied=self.wanted.emptied,
                elr_enable=self.circumstances.elr_enable,
            )
        reassignment = self._reassignment(isr)
        return self._with_isr(
            replace(
                self.before,
                replicas=reassignment.replicas,
                adding_replicas=reassignment.adding,
                removing_replicas=reassignment.removing,
                leader_recovery_state=self.wanted.leader_recovery_state or self.before.leader_recovery_state,
            ),
            tuple(replica for replica in reassignment.replicas if replica in isr),
        )

    def _reassignment(self, isr: tuple[ReplicaId, ...]) -> Reassignment:
        """What is under way from here on; nothing if this ``isr`` completes it, whatever it is that led to it."""
        reassignment = self.wanted.reassignment or reassignment_of(self.before)
        if reassignment.is_under_way and self.rules.reassignment_is_complete(target=reassignment.target, isr=isr):
            return Reassignment(replicas=reassignment.target)
        return reassignment

    def led(self, in_sync: PartitionRegistration) -> PartitionRegistration:
        """Settle who leads. Whoever was not in the ISR becomes all of it: only a leader agrees with itself for sure."""
        clean = self._clean_leader(in_sync)
        leader_id = self._last_resort_leader(in_sync) if clean is None else clean
        if leader_id is None:
            return replace(in_sync, leader_id=None, last_known_leader=self._last_known_leader(in_sync))
        led = replace(in_sync, leader_id=leader_id, last_known_leader=None)
        if clean is None:
            # What it calls committed, those that were eligible need not have: it alone can agree with itself.
            return replace(led, isr=(leader_id,), elr=(), leader_recovery_state=LeaderRecoveryState.RECOVERING)
        return led if leader_id in led.isr else self._with_isr(led, (leader_id,))

    def _clean_leader(self, in_sync: PartitionRegistration) -> ReplicaId | None:
        candidates = self.rules.leader_candidates(
            replicas=in_sync.replicas, isr=in_sync.isr, elr=in_sync.elr, active=self.circumstances.active
        )
        preferred = in_sync.replicas[0] if self.wanted.election is Election.PREFERRED else None
        return self.rules.elect_leader(leader_id=in_sync.leader_id, candidates=candidates, preferred=preferred)

    def _last_resort_leader(self, in_sync: PartitionRegistration) -> ReplicaId | None:
        chosen = self.wanted.leader_id
        return self.rules.last_resort_leader(
            replicas=in_sync.replicas if chosen is None else (chosen,),
            isr=in_sync.isr,
            elr=in_sync.elr,
            last_known_leader=self._last_known_leader(in_sync),
            active=self.circumstances.active,
            unclean_allowed=_is_unclean_allowed(self.wanted, self.circumstances),
        )

    def _last_known_leader(self, in_sync: PartitionRegistration) -> ReplicaId | None:
        """Who led when the ISR became empty, or else was its last member; nobody is remembered while it is not.

        Nor is a replica of which the partition takes leave, since it deletes its log, or whose disk was replaced.
        """
        if in_sync.isr:
            return None
        if in_sync.leader_id is not None:
            last_known_leader: ReplicaId | None = in_sync.leader_id
        else:
            last_known_leader = self.before.isr[-1] if self.before.isr else in_sync.last_known_leader
        is_gone = last_known_leader not in in_sync.replicas or last_known_leader in self.wanted.emptied
        return None if is_gone else last_known_leader

    def _with_isr(self, registration: PartitionRegistration, isr: tuple[ReplicaId, ...]) -> PartitionRegistration:
        eligible = self.rules.eligible_leader_replicas(
            before=self.before,
            isr=isr,
            stopped_uncleanly=self.wanted.stopped_uncleanly,
            effective_min_isr=min(self.circumstances.min_insync_replicas, len(registration.replicas)),
            elr_enable=self.circumstances.elr_enable,
        )
        elr = tuple(replica for replica in registration.replicas if replica in eligible)
        return replace(registration, isr=isr, elr=elr)


def _is_unclean_allowed(wanted: Wanted, circumstances: Circumstances) -> bool:
    """An operator's unclean election overrides the topic, and his preferred one never costs a record."""
    match wanted.election:
        case Election.ONLINE:
            return circumstances.unclean_allowed
        case Election.PREFERRED:
            return False
        case Election.UNCLEAN:
            return True
        case _:
            assert_never(wanted.election)
