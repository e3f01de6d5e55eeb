"""Decisions of the controller: who may lead, who may join, and whom an unclean stop costs its place.

In the order of a broker's life: it registers, catches up, is let into ISRs, leads, leaves.
"""

from __future__ import annotations

from collections.abc import Collection

from replica.core.metadata.image import BrokerRegistration
from replica.core.metadata.records import PartitionRegistration
from replica.ids import BrokerEpoch, Offset, ReplicaId


class ControllerRules:
    """What holds for the registrations and the partitions of a cluster."""

    def broker_id_is_taken(self, *, session_is_valid: bool, in_controlled_shutdown: bool) -> bool:
        """Decide whether a registered broker keeps a new process of the same id out: while it is heard from (KIP-631).

        Not when it has said that it stops: it leads nothing any more, and its successor may come before its session
        runs out.
        """
        return session_is_valid and not in_controlled_shutdown

    def registration_is_late(self, *, registered: BrokerRegistration | None, replaces: BrokerEpoch | None) -> bool:
        """Decide whether a registration may have been sent before the one that there is: it does not name that one.

        1. A process asks, and its request is held up. 2. It dies; the next process of the same id registers. 3. The
        request arrives. If it counted, the living process would have lost its registration to a dead one. Where there
        is none, whatever it names was unregistered meanwhile.
        """
        return replaces != (None if registered is None else registered.broker_epoch)

    def has_another_disk(
        self, *, registered: BrokerRegistration, directory_id: str, metadata_end_offset: Offset
    ) -> bool:
        """Decide whether a broker that is back holds nothing: what it acknowledged is on another disk (KIP-858).

        1. All brokers are killed, and the disk of the last leader is replaced. 2. It registers first. 3. Known by its
        id alone it would lead, and the others, whose logs are whole, would cut them to the length of its own.

        A disk that lacks the record by which its last active incarnation registered is another one too, though it was
        given the id of the old one: it is empty, or an older copy. Whoever is let in has flushed that record.
        """
        last_active = registered.last_active_epoch
        is_older = last_active is not None and metadata_end_offset <= last_active
        return registered.directory_id != directory_id or is_older

    def holds_what_it_acknowledged(
        self, *, registered: BrokerRegistration, previous_broker_epoch: BrokerEpoch | None
    ) -> bool:
        """Decide whether a broker that is back on the same disk still holds what it acknowledged.

        If its disk remembers the clean stop of its last incarnation, or if that one flushed before it acknowledged; any
        other may have lost the tail of its logs (KIP-966).
        """
        return registered.flushes or previous_broker_epoch == registered.broker_epoch

    def may_unfence(self, *, metadata_offset: Offset, broker_epoch: BrokerEpoch) -> bool:
        """Decide whether a fenced broker may lead and join again: once it has applied its own registration.

        Before that it may believe in leaderships of its earlier incarnation (KIP-631).
        """
        return metadata_offset > broker_epoch

    def refusal_ends_session(self, *, refused_at_ms: int, heard_ms: int) -> bool:
        """Decide whether a broker's session ends because nobody listens there: if it was not heard from since.

        1. Broker B is killed, and a dial there is refused. 2. B is started again, and registers. 3. The news of the
        dial comes late: it is of another process than the one that has just been let in.
        """
        return refused_at_ms >= heard_ms

    def lacks_level(self, *, newest_level: int | None, level: int) -> bool:
        """Decide whether a broker or voter keeps the cluster from a feature level: it knows none so new.

        So does one that was not heard of (KIP-584): 1. A broker of an older release is down. 2. The level is raised. 3.
        It is started, and stops again, at the first record of a kind that it has never seen.
        """
        return newest_level is None or newest_level < level

    def level_suffices(self, *, level: int, since: int) -> bool:
        """Decide whether the cluster's feature level has what came with ``since``: it may be asked for, or written.

        Otherwise a replica of an older release, which may be one of the cluster, would stop at it.
        """
        return since <= level

    def decision_is_told(self, *, end_offset: Offset, high_watermark: Offset | None) -> bool:
        """Decide whether a controller tells of a decision that ends there in the metadata log: once it is committed.

        1. A controller that is cut off shrinks an ISR. 2. The leader, told too early, lets its high watermark pass
        without the member. 3. The next controller knows nothing of it and elects that very member.
        """
        return high_watermark is not None and end_offset <= high_watermark

    def another_minimum_is_a_change(self) -> bool:
        """Decide whether another minimum of in-sync replicas begins a new partition epoch for each partition: always.

        1. The minimum rises from 1 to 2; the leader does not know it yet. 2. The leader proposes to shrink the ISR to
        itself, and who leaves becomes eligible. 3. The leader learns that the shrink is committed, still goes by the
        minimum of 1, and lets the high watermark rise. 4. Who is eligible misses committed records. With the new
        partition epoch the proposal of step 2 is refused until the leader knows the new minimum.
        """
        return True

    def producer_ids_are_in_snapshot(self) -> bool:
        """Decide whether a snapshot of the metadata says which producer ids are taken: always, they are part of it.

        1. A producer is given id 7, and writes. 2. A controller is elected that has begun with a snapshot, and knows of
        no id. 3. It gives id 7 to another producer, whose first records look like those of the former one sent again.
        """
        return True

    def eligible_for_isr(self, *, registration: BrokerRegistration | None, broker_epoch: BrokerEpoch | None) -> bool:
        """Decide whether a broker may be in an ISR that a leader proposes: registered, active, and who it was.

        One that is fenced or about to stop would hold the high watermark back at once (KIP-841, KAFKA-13916). One that
        has restarted since the leader saw it fetch may have lost what it fetched; the leader names the incarnation that
        it means, and an absent ``broker_epoch`` skips that (KIP-903).
        """
        if registration is None or not registration.is_active:
            return False
        return broker_epoch is None or broker_epoch == registration.broker_epoch

    def isr_after_leaving(
        self,
        *,
        isr: tuple[ReplicaId, ...],
        leaving: Collection[ReplicaId],
        emptied: Collection[ReplicaId],
        elr_enable: bool,
    ) -> tuple[ReplicaId, ...]:
        """Name who stays in sync when replicas are fenced, stop, have stopped uncleanly, or are ``emptied``.

        The last member is remembered as long as it is the only one that may hold everything: in the ELR where there is
        one, and then the ISR is empty (KIP-966); otherwise by staying in the ISR although it is dead. One that holds
        nothing any more is not remembered.
        """
        staying = tuple(replica for replica in isr if replica not in leaving)
        if staying or elr_enable:
            return staying
        return tuple(replica for replica in isr[-1:] if replica not in emptied)

    def eligible_leader_replicas(
        self,
        *,
        before: PartitionRegistration,
        isr: tuple[ReplicaId, ...],
        stopped_uncleanly: Collection[ReplicaId],
        effective_min_isr: int,
        elr_enable: bool,
    ) -> tuple[ReplicaId, ...]:
        """Name who holds everything that is committed although it is not in the new ``isr`` (KIP-966).

        While fewer than the minimum are in sync nothing is committed, so who leaves the ISR then, or had left it,
        misses nothing, unless it has lost the tail of its log since. With enough in sync again that ends for all.
        """
        if len(isr) >= effective_min_isr:
            return ()
        eligible = {*before.elr, *(before.isr if elr_enable else ())}
        return tuple(
            replica
            for replica in before.replicas
            if replica in eligible and replica not in isr and replica not in stopped_uncleanly
        )

    def electable(self, *, active: frozenset[ReplicaId], offline: frozenset[ReplicaId]) -> frozenset[ReplicaId]:
        """Name who can lead a partition at all: the active brokers whose log of it can be used.

        1. The log directory of the last replica in sync fails. 2. If it went on leading, or were elected again, clients
        would ask it for ever, and an operator could let nobody else lead.
        """
        return active - offline

    def leader_candidates(
        self,
        *,
        replicas: tuple[ReplicaId, ...],
        isr: tuple[ReplicaId, ...],
        elr: tuple[ReplicaId, ...],
        active: Collection[ReplicaId],
    ) -> tuple[ReplicaId, ...]:
        """Name who can lead without any loss, in the order of the assignment.

        The active members of the ISR; where it has none, those of the ELR (KIP-966).
        """
        in_sync = tuple(replica for replica in replicas if replica in isr and replica in active)
        return in_sync or tuple(replica for replica in replicas if replica in elr and replica in active)

    def elect_leader(
        self, *, leader_id: ReplicaId | None, candidates: tuple[ReplicaId, ...], preferred: ReplicaId | None
    ) -> ReplicaId | None:
        """Choose one of the candidates: ``preferred`` if one is named, else the present leader, else the first.

        A leader that may go on does so: every change of leaders interrupts the partition.
        """
        for first_choice in (preferred, leader_id):
            if first_choice is not None and first_choice in candidates:
                return first_choice
        return candidates[0] if candidates else None

    def last_resort_leader(
        self,
        *,
        replicas: tuple[ReplicaId, ...],
        isr: tuple[ReplicaId, ...],
        elr: tuple[ReplicaId, ...],
        last_known_leader: ReplicaId | None,
        active: Collection[ReplicaId],
        unclean_allowed: bool,
    ) -> ReplicaId | None:
        """Name who leads when nobody can without the risk of a loss; records that it misses are lost.

        Who led last, when nobody is known to hold everything any more: nobody holds more than it does (KIP-966).
        Otherwise the first replica that is active, and only where the topic prefers that to waiting (KIP-106).
        """
        if not isr and not elr and last_known_leader in active:
            return last_known_leader
        return next((replica for replica in replicas if unclean_allowed and replica in active), None)

    def bumps_leader_epoch(
        self, *, before: PartitionRegistration, leader_id: ReplicaId | None, replicas: tuple[ReplicaId, ...]
    ) -> bool:
        """Decide whether a change begins a new leader epoch: with another leader or none, or without a replica.

        A replica that has left the assignment must not go on fetching as if it had not. A change of the ISR alone
        interrupts nobody (KAFKA-15021).
        """
        return leader_id != before.leader_id or not set(before.replicas) <= set(replicas)

    def damage_begins_new_epoch(self) -> bool:
        """Decide whether a replica whose log is damaged ends the leader epoch, though its leader may stay: always.

        1. Its last fetch, from before the damage, is still on its way. 2. It begins anew with an empty log. 3. The
        fetch comes: in the same epoch the leader would let it into the ISR for what it had.
        """
        return True

    def reassignment_is_complete(self, *, target: tuple[ReplicaId, ...], isr: tuple[ReplicaId, ...]) -> bool:
        """Decide whether those that a reassignment removes may go: once all that are to stay are in sync (KIP-455).

        1. A partition is moved from one broker to another. 2. If the first went at once, its records went with it:
        what comes begins with an empty log, and is the only replica there is.
        """
        return set(target) <= set(isr)
