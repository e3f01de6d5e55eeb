"""Decisions of a partition that is kept by its in-sync replicas: who is in sync, and what that lets be read.

In the order of a leadership; then those of a follower, and of producers that send a batch twice.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum

from replica.core.log.epoch_cache import LeaderEpochCache
from replica.errors import ErrorCode
from replica.ids import BrokerEpoch, Epoch, EpochEndOffset, Offset, PartitionEpoch, ReplicaId


class RefusedProposal(StrEnum):
    """What becomes of an ISR that the controller did not commit."""

    REVERTED = "reverted"
    """It certainly never will count: the last committed ISR holds again. By the right rules none is that certain."""
    WITHDRAWN = "withdrawn"
    """A copy of it may arrive yet: both ISRs count until the controller has committed something newer."""
    STUCK = "stuck"
    """The controller knows something newer: both ISRs count until the metadata that says what comes."""
    RETRIED = "retried"
    """Nobody knows what became of it: both ISRs count, and it is sent again."""


class PartitionRules:
    """What holds for a log whose leaders the controller appoints."""

    # --- beginning ----------------------------------------------------------------------------------------------------

    def high_watermark_after_restart(
        self, *, checkpointed: Offset | None, log_start_offset: Offset, log_end_offset: Offset
    ) -> Offset:
        """Name the high watermark to start with: the checkpointed one, as far as the log reaches (KAFKA-769)."""
        return min(max(checkpointed or Offset(0), log_start_offset), log_end_offset)

    def metadata_is_older(self, *, partition_epoch: PartitionEpoch, known: PartitionEpoch) -> bool:
        """Decide whether metadata tells of the past: by its partition epoch, which every change raises."""
        return partition_epoch < known

    def metadata_replaces_isr(self, *, partition_epoch: PartitionEpoch, known: PartitionEpoch) -> bool:
        """Decide whether metadata of the present leader epoch says anew who is in sync: only if it is newer.

        A late copy of what is known would drop the maximal ISR while a proposal is out (KIP-497).
        """
        return partition_epoch > known

    def epoch_is_assigned_at_once(self) -> bool:
        """Decide whether a new leader's epoch begins in its cache before anything is written in it: always.

        Otherwise it could not say where the epochs before its own end (KAFKA-7415).
        """
        return True

    def new_leader_high_watermark(self, *, high_watermark: Offset, log_end_offset: Offset) -> Offset:
        """Name the high watermark that a new leader starts from: its own, which may be behind the true one.

        What lies above may be uncommitted, so its log end would be too much (KAFKA-3978).
        """
        assert high_watermark <= log_end_offset, (high_watermark, log_end_offset)
        return high_watermark

    def remotes_are_kept(self, *, old_epoch: Epoch, new_epoch: Epoch) -> bool:
        """Decide whether a leader that leads on in a new epoch still believes how far the others were in its old one.

        Only if it led the epoch just before: in one between, led by another, a follower may have cut its log.
        """
        return new_epoch == old_epoch + 1

    # --- producing ----------------------------------------------------------------------------------------------------

    def has_enough_replicas(self, *, isr_size: int, min_insync_replicas: int) -> bool:
        """Decide whether an ``acks=all`` write may count on enough in-sync replicas."""
        return isr_size >= min_insync_replicas

    def min_isr_is_checked_before_append(self) -> bool:
        """Decide whether a write that lacks in-sync replicas is refused before it is appended: its answer says so."""
        return True

    # --- a follower's fetch -------------------------------------------------------------------------------------------

    def is_stale_incarnation(
        self, *, broker_epoch: BrokerEpoch | None, registered: BrokerEpoch | None, last_seen: BrokerEpoch | None
    ) -> bool:
        """Decide whether a fetch comes from an incarnation of its broker that has ended (KIP-903).

        What that one had, the one after it may have lost.
        """
        return broker_epoch is not None and any(
            known is not None and broker_epoch < known for known in (registered, last_seen)
        )

    def partition_epoch_end(
        self, *, epochs: LeaderEpochCache, epoch: Epoch, log_end_offset: Offset
    ) -> EpochEndOffset | None:
        """Answer where an epoch ends: with the largest known one not above it; absent for one above all (KAFKA-6857).

        The epoch in the answer is what lets the asker find an end that both logs share (KIP-279).
        """
        return epochs.end_offset_for(epoch, log_end_offset)

    def is_below_log_start(self, *, fetch_offset: Offset, log_start_offset: Offset) -> bool:
        """Decide whether a fetch is out of range before it is compared: below the log start (KAFKA-12996).

        A follower so far behind would be told to truncate, for ever, where it has to begin anew.
        """
        return fetch_offset < log_start_offset

    def last_caught_up_ms(
        self,
        *,
        fetch_offset: Offset,
        leader_end_offset: Offset,
        last_fetch_leader_end_offset: Offset,
        last_fetch_ms: int | None,
        last_caught_up_ms: int | None,
        now_ms: int,
    ) -> int | None:
        """Name when a follower was last known to have all there was: now, or when it fetched before.

        The second counts if it has now all there was then: under constant load it is always one fetch behind.
        """
        if fetch_offset >= leader_end_offset:
            return now_ms
        if fetch_offset >= last_fetch_leader_end_offset and last_fetch_ms is not None:
            return last_fetch_ms if last_caught_up_ms is None else max(last_caught_up_ms, last_fetch_ms)
        return last_caught_up_ms

    def is_caught_up(
        self,
        *,
        end_offset: Offset | None,
        leader_end_offset: Offset,
        last_caught_up_ms: int | None,
        now_ms: int,
        lag_time_max_ms: int,
    ) -> bool:
        """Decide whether a follower keeps up: it has everything, or had so not too long ago.

        Time alone puts nobody out who has everything (KAFKA-7152).
        """
        if end_offset == leader_end_offset:
            return True
        return last_caught_up_ms is not None and now_ms - last_caught_up_ms <= lag_time_max_ms

    # --- the ISR ------------------------------------------------------------------------------------------------------

    def is_eligible_for_isr(
        self, *, is_active: bool, broker_epoch: BrokerEpoch | None, registered: BrokerEpoch | None
    ) -> bool:
        """Decide whether a broker may count as in sync: active, and the incarnation that fetched.

        (KIP-841, KIP-903.) A fetch that does not name its incarnation is taken for that of the registered one.
        """
        return is_active and (broker_epoch is None or broker_epoch == registered)

    def may_join_isr(self, *, end_offset: Offset, high_watermark: Offset, epoch_start_offset: Offset) -> bool:
        """Decide whether a follower has enough to be in sync: all that is committed, and may be without being known.

        A new leader's high watermark may be behind the true one, but its epoch's start is not (KAFKA-7128).
        """
        return end_offset >= high_watermark and end_offset >= epoch_start_offset

    def counted_isr(
        self, *, isr: frozenset[ReplicaId], joining: frozenset[ReplicaId], leaving: frozenset[ReplicaId]
    ) -> frozenset[ReplicaId]:
        """Name who must have a record before it is committed: all that the controller may count as in sync (KIP-497).

        One that is proposed counts already, and one that is to leave does so until the controller has committed that.
        """
        assert leaving <= isr, (leaving, isr)
        return isr | joining

    def reply_is_current(
        self,
        *,
        proposed: tuple[Epoch, PartitionEpoch],
        committed: tuple[Epoch | None, PartitionEpoch | None] | None,
        own: tuple[Epoch, PartitionEpoch],
    ) -> bool:
        """Decide whether an answer is about the leader epoch and partition epoch that its proposal was made from.

        Newer metadata may have come first (KAFKA-12686). What was ``committed``, if anything, is of the same leadership
        and not older.
        """
        if proposed != own:
            return False
        if committed is None:
            return True
        leader_epoch, partition_epoch = committed
        return leader_epoch == own[0] and partition_epoch is not None and partition_epoch >= own[1]

    def refused_proposal(self, *, error: ErrorCode | None) -> RefusedProposal:
        """Decide what becomes of a proposal that was refused, or (None) never answered.

        Silence is no refusal: the controller may have committed the ISR, or may do so yet. Nor is a refusal the last
        word where a candidate was not eligible just then: it may be soon, and another copy of the request may arrive.
        """
        match error:
            case ErrorCode.OPERATION_NOT_ATTEMPTED | ErrorCode.INELIGIBLE_REPLICA:
                return RefusedProposal.WITHDRAWN
            case (
                ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
                | ErrorCode.UNKNOWN_TOPIC_ID
                | ErrorCode.FENCED_LEADER_EPOCH
                | ErrorCode.INVALID_UPDATE_VERSION
                | ErrorCode.INVALID_REQUEST
                | ErrorCode.NEW_LEADER_ELECTED
            ):
                return RefusedProposal.STUCK
            case _:
                return RefusedProposal.RETRIED

    # --- the high watermark -------------------------------------------------------------------------------------------

    def may_advance_high_watermark(self, *, isr_size: int, min_insync_replicas: int) -> bool:
        """Decide whether anything may be committed now: with as many in-sync replicas as are demanded (KAFKA-15583)."""
        return isr_size >= min_insync_replicas

    def is_waited_for(self, *, is_caught_up: bool, is_eligible: bool) -> bool:
        """Decide whether the high watermark waits for a replica that is not in the ISR: if it is about to join.

        Safety does not need that; but the high watermark would run away from it for ever.
        """
        return is_caught_up and is_eligible

    def leader_acknowledges(self, *, flushed_end_offset: Offset, log_end_offset: Offset) -> Offset:
        """Name how much of its own log a leader counts: what is on stable storage, as of every other replica."""
        assert flushed_end_offset <= log_end_offset, (flushed_end_offset, log_end_offset)
        return flushed_end_offset

    def isr_high_watermark(self, *, end_offsets: Sequence[Offset | None], current: Offset) -> Offset:
        """Compute a leader's high watermark from what all that count hold: what the shortest log has.

        One that has not been heard of in this epoch may hold nothing. It never falls within a leadership.
        """
        known = [end_offset for end_offset in end_offsets if end_offset is not None]
        return current if len(known) < len(end_offsets) else max(current, min(known))

    def high_watermark_is_checked_after_isr_change(self) -> bool:
        """Decide whether a new ISR may commit records by itself: those that waited for who is gone (KAFKA-13091)."""
        return True

    # --- reading and forgetting ---------------------------------------------------------------------------------------

    def knows_high_watermark(self, *, high_watermark: Offset, epoch_start_offset: Offset) -> bool:
        """Decide whether a new leader may tell clients where the log ends: once it has reached its epoch (KIP-207)."""
        return high_watermark >= epoch_start_offset

    def high_watermark_of_emptied_log(self, *, high_watermark: Offset, log_start_offset: Offset) -> Offset:
        """Name the high watermark of a log that has dropped everything to begin anew: its new start (KAFKA-9491).

        Whatever it was before, it was about records that are gone.
        """
        assert high_watermark >= 0, high_watermark
        return log_start_offset

    def deletable_end(self, *, high_watermark: Offset, log_end_offset: Offset) -> Offset:
        """Name the offset below which records may be forgotten: what is above may be needed yet (KAFKA-5634)."""
        assert high_watermark <= log_end_offset, (high_watermark, log_end_offset)
        return high_watermark

    def may_expire_by_time(self, *, is_known: bool, steady_ms: int | None, check_interval_ms: int) -> bool:
        """Decide whether records may go because they are old: by the cluster's time, if no jump made them so.

        One machine's clock is not asked. A jump of the cluster's time has ``steady_ms`` passed since it (absent without
        one), and is believed once it has lasted from one check to the next.
        """
        return is_known and (steady_ms is None or steady_ms >= check_interval_ms)

    # --- following ----------------------------------------------------------------------------------------------------

    def fetching_restarts(
        self, *, old_epoch: Epoch, new_epoch: Epoch, old_leader_id: ReplicaId | None, new_leader_id: ReplicaId | None
    ) -> bool:
        """Decide whether a follower begins anew, comparing logs first: in every new epoch (KAFKA-7164).

        Also under the leader that it had: what led in between may have been missed.
        """
        assert new_epoch > old_epoch or old_leader_id == new_leader_id, (old_epoch, old_leader_id, new_leader_id)
        return new_epoch != old_epoch

    def answer_is_current(self, *, asked_leader_epoch: Epoch | None, leader_epoch: Epoch) -> bool:
        """Decide whether a follower takes an answer: if it still follows in the leader epoch in which it asked.

        The leader of an earlier epoch may have another log: its records, and where it says that the logs part, are
        nothing to the present one (KIP-320).
        """
        return asked_leader_epoch == leader_epoch

    def truncation_drops_empty_epochs(self) -> bool:
        """Decide whether an epoch that begins where a log is cut goes even if no record does (KAFKA-10706).

        A former leader that never wrote in its epoch would name it for ever, and be told each time that the logs part.
        """
        return True

    # --- a damaged log ------------------------------------------------------------------------------------------------

    def may_begin_anew(self, *, damaged_in: Epoch, leader_epoch: Epoch, is_counted_on: bool, has_leader: bool) -> bool:
        """Decide whether a replica may put its damaged log aside, and fetch all anew from a leader that is another one.

        Not while it may be elected: then the others count on what it has, and perhaps nobody else has it. Nor in the
        leader epoch in which it was ``damaged_in``: what it has acknowledged there may let it into the ISR yet.
        """
        return has_leader and not is_counted_on and leader_epoch > damaged_in

    # --- producers ----------------------------------------------------------------------------------------------------

    def producer_states_follow_log(self) -> bool:
        """Decide whether what is known of producers is what stands in the log: always, whoever appended it or cut it.

        Else a new leader would take a batch for new that its predecessor appended, or one that is gone for a duplicate.
        """
        return True

    def may_take_producer(self, *, is_known: bool, producers: int, ids_max: int) -> bool:
        """Decide whether a batch may be one producer more to remember: if nobody must be forgotten for it.

        Else a repetition of what that one has sent would be taken for new, and be written twice.
        """
        return is_known or producers < ids_max

    def sequence_error(
        self, *, known_epoch: int | None, next_sequence: int, producer_epoch: int, base_sequence: int
    ) -> ErrorCode | None:
        """Refuse a producer's batch that is not the one that comes next after those in the log.

        An older epoch is a producer that was replaced; a newer one begins at 0. Of a producer that is not known
        (``known_epoch`` absent) any batch may come first: what came before may have expired.
        """
        if known_epoch is None:
            return None
        if producer_epoch < known_epoch:
            return ErrorCode.INVALID_PRODUCER_EPOCH
        expected = next_sequence if producer_epoch == known_epoch else 0
        return None if base_sequence == expected else ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
