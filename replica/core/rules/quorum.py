"""Decisions of a log that is kept by a quorum: votes, what must be on disk, the majority's high watermark, snapshots.

In the order of a leadership; then those about snapshots, from the first to the last of one's life.
"""

from __future__ import annotations

from collections.abc import Sequence

from replica.core.effects import QuorumState
from replica.core.epoch_cache import LeaderEpochCache
from replica.ids import Epoch, EpochEndOffset, Offset, SnapshotId

NEVER_MS = 1 << 62
"""A time that does not come."""


class QuorumRules:
    """What holds for a log whose leaders are voted for."""

    def candidate_log_is_up_to_date(
        self, *, candidate_epoch: int, candidate_end: int, own_epoch: int, own_end: int
    ) -> bool:
        """Decide whether a candidate's log is good enough for a vote: later last epoch, or same and not shorter.

        Epochs are those of the last records (0 for an empty log), ends are exclusive. Raft section 5.4.1.
        """
        return (candidate_epoch, candidate_end) >= (own_epoch, own_end)

    def quorum_state_is_stored(self, *, stored: QuorumState, now: QuorumState) -> bool:
        """Decide whether a change of epoch, leader or vote is stored before anything that reveals it: every one is.

        A voter that forgot its vote in a crash could vote twice in one epoch. Raft section 5.2.
        """
        return stored != now

    def leads_on_after_restart(self) -> bool:
        """Decide whether a leader that restarts goes on leading in its epoch: never, it resigns.

        It may have lost an unflushed tail, and would put other records under the same offsets and the same epoch.
        """
        return False

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

    def may_truncate(self, *, end_offset: Offset, high_watermark: Offset | None) -> bool:
        """Decide whether a log may be cut at ``end_offset``: below its high watermark never, the replica then halts."""
        return high_watermark is None or end_offset >= high_watermark

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

    def check_quorum_deadline_ms(self, *, last_fetches_ms: Sequence[int], needed: int, timeout_ms: int) -> int:
        """Name when a leader resigns: when fewer than ``needed`` voters have fetched for so long (KAFKA-15489).

        ``needed`` is a majority without the leader. A leader that needs nobody never runs out.
        """
        return NEVER_MS if needed == 0 else sorted(last_fetches_ms)[-needed] + timeout_ms

    def read_round_of_fetch(self, *, echoed: int, current: int) -> int:
        """Name the read round that a voter's fetch confirms: the one that it echoes, not the one that it arrives in.

        1. Voter B sends a fetch. 2. The leader A is stopped, with the fetch in a buffer. 3. B votes for C, which
        commits a write. 4. A goes on, takes a read, and then B's fetch: received after the read, it was sent before. An
        echo proves that B heard of the round, and fetched, after it began.
        """
        return min(echoed, current)

    def log_start_after_snapshot(self, *, snapshots: Sequence[SnapshotId], log_start_offset: Offset) -> Offset:
        """Name where a log begins once the newest of its snapshots, oldest first, is stored: where the one before ends.

        So a snapshot always ends exactly where the log begins, and a follower that is a little behind still finds
        records. What is the first there is deletes nothing.
        """
        return log_start_offset if len(snapshots) < 2 else max(log_start_offset, snapshots[-2].end_offset)

    def last_epoch_of_log(self, *, record_epoch: Epoch | None, snapshot_epoch: Epoch | None) -> Epoch | None:
        """Name the last epoch that a log claims in votes and fetches: its last record's, or else its snapshot's.

        A log that has just begun anew at a snapshot has no record. Claiming nothing it would vote for logs that lack
        what the snapshot holds.
        """
        return snapshot_epoch if record_epoch is None else record_epoch

    def high_watermark_at_start(self, *, checkpointed: Offset | None, snapshot_end_offset: Offset) -> Offset:
        """Name what is known to be committed when a log with snapshots is opened: at least what the newest holds."""
        return snapshot_end_offset if checkpointed is None else max(checkpointed, snapshot_end_offset)

    def needs_snapshot(
        self, *, fetch_offset: Offset, last_fetched_epoch: Epoch, log_start_offset: Offset, oldest: SnapshotId
    ) -> bool:
        """Decide whether a follower is sent to a snapshot, by where it stands and the leader's ``oldest`` snapshot.

        So it is where it lacks what is gone from the log, and where the log cannot tell any more whether what it has
        is right: the epochs below the log's start are gone too. One that has nothing at all is served faster so.
        """
        if fetch_offset in (0, log_start_offset):
            return fetch_offset == 0 or last_fetched_epoch != oldest.epoch
        return fetch_offset < log_start_offset or last_fetched_epoch < oldest.epoch

    def may_load_snapshot(
        self, *, snapshot_id: SnapshotId, high_watermark: Offset, committed_epoch: Epoch, leader_epoch: Epoch
    ) -> bool:
        """Decide whether a follower takes a snapshot in place of its log: if that is ahead of all it knows committed.

        ``committed_epoch`` is of the record below the high watermark, 0 if there is none. What is not ahead of it could
        only take something committed away; an epoch that is not between the two is nobody's snapshot.
        """
        return snapshot_id.end_offset > high_watermark and committed_epoch <= snapshot_id.epoch <= leader_epoch
