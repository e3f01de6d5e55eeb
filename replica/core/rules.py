"""The decisions of the protocol, one small pure method each.

Each method is one sentence of the protocol on which a promise hangs. The core asks here and nowhere else, so that a
reader finds the decision by its name, a test can state it as a table, and a harness outside this package can prove that
it would notice if the decision were wrong: it subclasses ``Rules`` and overrides one method. A server that is started
normally always has these.

In the order of a leadership: votes, what must be on disk, fetching and divergence, the high watermark, the end.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from replica.core.effects import QuorumState
from replica.core.epoch_cache import LeaderEpochCache
from replica.errors import ErrorCode
from replica.ids import Epoch, EpochEndOffset, Offset

NEVER_MS = 1 << 62
"""A time that does not come."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Truncation:
    """Cut the log at ``end_offset``; unless ``done``, the logs may still differ below and the leader is asked again."""

    end_offset: Offset
    done: bool


class Rules:
    """The right protocol."""

    # --- votes and epochs -------------------------------------------------------------------------------------------

    def candidate_log_is_up_to_date(
        self, *, candidate_epoch: int, candidate_end: int, own_epoch: int, own_end: int
    ) -> bool:
        """Decide whether a candidate's log is good enough for a vote: later last epoch, or same and not shorter.

        Epochs are those of the last records (0 for an empty log), ends are exclusive. Raft section 5.4.1.
        """
        return (candidate_epoch, candidate_end) >= (own_epoch, own_end)

    def epoch_error(self, *, current_leader_epoch: Epoch | None, own_epoch: Epoch) -> ErrorCode | None:
        """Refuse a request from an older or a newer epoch than the replica's own; one that names none is taken.

        Otherwise an acknowledgement from an earlier leadership would count in this one (KIP-320).
        """
        if current_leader_epoch is None or current_leader_epoch == own_epoch:
            return None
        return ErrorCode.FENCED_LEADER_EPOCH if current_leader_epoch < own_epoch else ErrorCode.UNKNOWN_LEADER_EPOCH

    # --- what must be on disk ---------------------------------------------------------------------------------------

    def quorum_state_is_stored(self, *, stored: QuorumState, now: QuorumState) -> bool:
        """Decide whether a change of epoch, leader or vote is stored before anything that reveals it: every one is.

        A voter that forgot its vote in a crash could vote twice in one epoch. Raft section 5.2.
        """
        return stored != now

    def may_fetch(self, *, flushed_end_offset: Offset, log_end_offset: Offset) -> bool:
        """Decide whether a follower's next Fetch may go out: when all that its offset acknowledges is flushed."""
        return flushed_end_offset == log_end_offset

    def leads_on_after_restart(self) -> bool:
        """Decide whether a leader that restarts goes on leading in its epoch: never, it resigns.

        It may have lost an unflushed tail, and would put other records under the same offsets and the same epoch.
        """
        return False

    # --- fetching and divergence ------------------------------------------------------------------------------------

    def kept_by_new_follower(self, *, high_watermark: Offset | None, log_end_offset: Offset) -> Offset:
        """Name how much of its log a replica keeps when it begins to follow: all, until the leader finds divergence.

        What lies above its own high watermark may be committed, and may be needed for the majority (KIP-101).
        """
        assert high_watermark is None or high_watermark <= log_end_offset, (high_watermark, log_end_offset)
        return log_end_offset

    def last_fetched_epoch(self, *, last_epoch: Epoch | None, leader_epoch: Epoch) -> Epoch:
        """Name the epoch that a follower puts into its Fetch, by which a leader sees divergence: its last record's."""
        assert last_epoch is None or last_epoch <= leader_epoch, (last_epoch, leader_epoch)
        return Epoch(0) if last_epoch is None else last_epoch

    def epoch_end(
        self, *, epochs: LeaderEpochCache, epoch: Epoch, log_start_offset: Offset, log_end_offset: Offset
    ) -> EpochEndOffset:
        """Answer where an epoch ends as a quorum log does: with an epoch that it has, or with its very beginning.

        The answer is about the largest known epoch not above the one asked for. One that is above all ends at the log
        end, in the last known epoch; one that is below all ends at the log start, in epoch 0 (KIP-279, KAFKA-6857).
        """
        latest = epochs.latest
        if latest is None or epoch < epochs.entries[0].epoch:
            return EpochEndOffset(Epoch(0), log_start_offset)
        if epoch >= latest.epoch:
            return EpochEndOffset(latest.epoch, log_end_offset)
        answer = epochs.end_offset_for(epoch, log_end_offset)
        assert answer is not None, (epoch, epochs.entries)
        return answer

    def has_diverged(self, *, end: EpochEndOffset, fetch_offset: Offset, last_fetched_epoch: Epoch) -> bool:
        """Decide whether a reader's log has left the leader's, given where the reader's last epoch ends there.

        ``end_offset < fetch_offset`` is strict: a reader that stands exactly where its epoch ends has not diverged.
        """
        return end.epoch != last_fetched_epoch or end.end_offset < fetch_offset

    def fetch_acknowledges(self, *, diverged: bool) -> bool:
        """Decide whether a follower's fetch offset counts as its acknowledgement: not if it diverged (KAFKA-13141)."""
        return not diverged

    def truncation(self, *, epochs: LeaderEpochCache, log_end_offset: Offset, leader: EpochEndOffset) -> Truncation:
        """Decide where a follower cuts its log when the leader says where an epoch ends in its own.

        The follower looks the epoch up in its own cache. If it knows it, both ends bound what they share; if it only
        knows an older one, it cuts there and asks again, which ends because its last epoch falls each time (KIP-279).
        """
        local = epochs.end_offset_for(leader.epoch, log_end_offset)
        if local is None:
            return Truncation(end_offset=min(leader.end_offset, log_end_offset), done=True)
        if local.epoch != leader.epoch:
            return Truncation(end_offset=min(local.end_offset, log_end_offset), done=False)
        return Truncation(end_offset=min(local.end_offset, leader.end_offset, log_end_offset), done=True)

    def may_truncate(self, *, end_offset: Offset, high_watermark: Offset | None) -> bool:
        """Decide whether a log may be cut at ``end_offset``: below its high watermark never, the replica then halts."""
        return high_watermark is None or end_offset >= high_watermark

    # --- the high watermark -----------------------------------------------------------------------------------------

    def quorum_high_watermark(
        self, *, voter_end_offsets: Sequence[Offset], epoch_start_offset: Offset, current: Offset | None
    ) -> Offset | None:
        """Compute a quorum leader's high watermark from what its voters (itself included) hold on stable storage.

        The largest offset that a majority has reached; but unknown until that lies beyond the start of the leader's own
        epoch, since a record of an older epoch can still be replaced even if a majority holds it (Raft figure 8).
        It never falls.
        """
        reached = sorted(voter_end_offsets, reverse=True)[len(voter_end_offsets) // 2]
        if reached <= epoch_start_offset:
            return current
        return reached if current is None else max(current, reached)

    def follower_high_watermark(
        self, *, leader_high_watermark: Offset, log_end_offset: Offset, diverged: bool
    ) -> Offset | None:
        """Name the high watermark that a follower takes from a Fetch answer: the leader's, as far as its log reaches.

        None from an answer that says that the logs have diverged: what this log holds there is not what is committed
        (KAFKA-14704).
        """
        return None if diverged else min(leader_high_watermark, log_end_offset)

    def produce_is_committed(self, *, end_offset: Offset, high_watermark: Offset | None) -> bool:
        """Decide whether a batch that ends at ``end_offset`` may be acknowledged to an ``acks=all`` producer."""
        return high_watermark is not None and end_offset <= high_watermark

    def consumer_read_bound(self, *, high_watermark: Offset | None, log_end_offset: Offset) -> Offset | None:
        """Name the offset below which a consumer may read: the high watermark; nothing while that is unknown."""
        assert high_watermark is None or high_watermark <= log_end_offset, (high_watermark, log_end_offset)
        return high_watermark

    # --- the end of a leadership ------------------------------------------------------------------------------------

    def check_quorum_deadline_ms(self, *, last_fetches_ms: Sequence[int], needed: int, timeout_ms: int) -> int:
        """Name when a leader resigns: when fewer than ``needed`` voters have fetched for so long (KAFKA-15489).

        ``needed`` is a majority without the leader. A leader that needs nobody never runs out.
        """
        return NEVER_MS if needed == 0 else sorted(last_fetches_ms)[-needed] + timeout_ms

    def writes_wait_after_leadership(self) -> bool:
        """Decide whether an ``acks=all`` write still waits when the leadership ends: never, its outcome is unknown.

        The high watermark that passes its end later may be about other records at the same offsets.
        """
        return False
