"""Decisions of a log that is kept by a quorum: votes, what must be on disk, the majority's high watermark, snapshots.

In the order of a leadership; then those about snapshots, from the first to the last of one's life.
"""

from __future__ import annotations

from collections.abc import Sequence

from replica.core.effects import QuorumState
from replica.core.log.epoch_cache import LeaderEpochCache
from replica.ids import Epoch, EpochEndOffset, Offset, SnapshotId
from replica.voters import ReplicaKey, VoterEntry, VoterSet

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

    def lease_begins_ms(self, *, round_began_ms: int, echo_came_ms: int) -> int:
        """Name when the lease of a confirmed round begins: when the round did, not when the majority's fetches came.

        1. A leads, and is asked for x. B hears of the round, and sends its fetch, which waits in a buffer. 2. A timeout
        later B campaigns, is elected by C, and commits x=2. 3. B's fetch arrives at A, and confirms that A has led at
        the time of 1. Counted from the arrival of the fetch, A would answer x=1 by lease from now on.
        """
        return min(round_began_ms, echo_came_ms)

    def lease_end_ms(self, *, begins_ms: int, timeout_ms: int, clock_drift_max_percent: int) -> int:
        """Name when a lease ends, on the leader's clock: before any voter's clock has counted a timeout.

        ``timeout_ms`` is for how long a voter that has heard of the round neither votes nor campaigns. While the
        leader's clock counts 100, that of a voter may count so many percent more.

        1. A's clock is slow: it counts 1000 while B's counts 1100. 2. B gives A up after 1000, is elected and commits
        x=2. 3. A has counted 909. From then on it must not answer x=1. Nothing holds if its clock is slower still.
        """
        return begins_ms + timeout_ms * 100 // (100 + clock_drift_max_percent)

    def withholds_vote(self, *, now_ms: int, heard_leader_ms: int | None, fetch_timeout_ms: int) -> bool:
        """Decide whether a voter votes for nobody, in whatever epoch: for a fetch timeout since it heard from a leader.

        It does not take a candidate's epoch either. Only where leases are on: without them any vote is safe.

        1. C is cut off, becomes a candidate of epoch 6 with the pre-vote of B, which knew no leader just then, and asks
        B for its vote. The request is late. 2. A leads epoch 5, and B follows it, echoes a round, and so gives A a
        lease. 3. C's request arrives. With B's vote C leads, and commits x=2. 4. A, within its lease, answers x=1.

        A leader that has resigned has no lease: who hears that from it votes again.
        """
        return heard_leader_ms is not None and now_ms < heard_leader_ms + fetch_timeout_ms

    def gives_up_refused_leader(self, *, refused_at_ms: int, heard_ms: int, withholds_vote: bool) -> bool:
        """Decide whether a follower gives its leader up because nobody listens there: if it has not heard of it since.

        What is older is of an earlier process, or of a leader that is back. Not while a leader may count on its vote:

        1. A answers by lease, since B has echoed its round; C has not heard from A for long. 2. A firewall refuses B
        and C in A's name. 3. B campaigns at once, is elected by C, and commits x=2. 4. A still answers x=1.
        """
        return refused_at_ms >= heard_ms and not withholds_vote

    def heard_leader_at_start_ms(self, *, now_ms: int) -> int | None:
        """Name when a voter that starts has last heard from a leader: just now, for all that it knows.

        1. B echoes a round of A, crashes and starts again. 2. C, which has not heard of A for long, asks B for its
        vote. B has forgotten the round; A has not, and answers by lease.
        """
        return now_ms

    def may_hand_over(
        self,
        *,
        target_end_offset: Offset | None,
        target_has_fetched: bool,
        high_watermark: Offset | None,
        log_end_offset: Offset,
    ) -> bool:
        """Decide whether a leader resigns in favour of another: if that lives, has the whole log, and all is committed.

        1. A, asked to let B lead, resigns at once. 2. B, which lacks A's last record, cannot be elected by C, which has
        it. Meanwhile nobody leads, and who waited for that record does not know what became of it.
        """
        return target_has_fetched and target_end_offset == log_end_offset == high_watermark

    def voters_in_force(
        self,
        *,
        base: VoterSet,
        entries: Sequence[VoterEntry],
        high_watermark: Offset | None,  # noqa: ARG002 - what wrong rules go by
    ) -> VoterSet:
        """Name who votes: the last set in the log, committed or not, from the moment when it is appended.

        1. A leads A, B and C, and adds D and then E. B has both records, and does not know that they are committed; C
        has none of them. 2. A commits a write with D and E, three of five. 3. Going by what it knows to be committed, B
        is elected by C, two of three, without the write.
        """
        return entries[-1].voters if entries else base

    def may_change_voters(self, *, high_watermark: Offset | None, changed_at: Offset | None) -> bool:
        """Decide whether a leader appends another set: once the last one, and a record of its own epoch, is committed.

        ``high_watermark`` is unknown until a record of the own epoch is committed; ``changed_at`` is where the record
        of the last set stands.

        1. A of A, B, C and D appends a set without D, which nobody else gets. 2. C leads with B and D, appends one
        without B, commits it with D, and crashes. 3. A leads with B: two of the three of its set. It commits its own
        set, and other records where C had committed some. Had C to commit something of its epoch first, B would not
        vote for A (Ongaro, "bug in single-server membership changes", 2015). And two changes at once can leave a
        majority of the oldest and one of the newest set without anybody in common.
        """
        return high_watermark is not None and (changed_at is None or changed_at < high_watermark)

    def has_vote(self, *, voters: VoterSet, key: ReplicaKey) -> bool:
        """Decide whether a replica on a disk is one of the voters: the id is not enough.

        1. B acknowledges a record; with A it is committed. 2. B's disk is lost; B comes back with an empty one. 3. C,
        without the record, is elected by B, which has forgotten it.
        """
        return voters.has(key)

    def campaigns(self, *, is_voter: bool, was_voter: bool, is_committed: bool) -> bool:
        """Decide whether a replica asks for votes: a voter, and who may have been one up to now.

        ``was_voter`` is of the set before the last, and ``is_committed`` of the record that names the last.

        1. A leads A and B, removes itself, and crashes before B has the record. 2. B, which needs the vote of A, does
        not get it: A has the longer log. If A did not ask for the vote of B, nobody would ever lead again (Ongaro's
        thesis, section 4.2.2).
        """
        return is_voter or (was_voter and not is_committed)

    def leader_counts_itself(self, *, is_voter: bool) -> bool:
        """Decide whether a leader is one of those whose ends and fetches it counts: only if it is a voter.

        1. A leads A, B, C and D, and removes itself. C and D have the record, and are cut off from A before they fetch
        again. 2. C is elected by D, two of three, and commits x=2. 3. A, which counts itself and B, two of three, still
        answers x=1.
        """
        return is_voter

    def has_caught_up(
        self, *, has_fetched: bool, log_end_offset: Offset | None, wanted: Offset, round_ms: int, round_max_ms: int
    ) -> bool:
        """Decide whether a new voter may be added: it has fetched, since that was asked for, all that was wanted then.

        And that did not take long: else what has come meanwhile is another round (Ongaro, section 4.2.1).

        1. D, which has nothing, is added to A, B and C. 2. B fails. Until D has everything nothing can be committed.
        """
        has_all = log_end_offset is not None and log_end_offset >= wanted
        return has_fetched and has_all and round_ms <= round_max_ms

    def truncation_takes_voters_back(self) -> bool:
        """Decide whether a truncation takes back the voters that the records it drops have named: always.

        1. A appends a set with D, which nobody gets, and is replaced. 2. A follows, and drops the record. Going by it
        still, A would count, and ask, one whom nobody else does.
        """
        return True

    def voters_are_in_snapshot(self) -> bool:
        """Decide whether a snapshot says who votes: always, it stands for the records that have said so.

        1. A log begins at a snapshot, and the set of A, B and D in the record before that. 2. E, which was formatted
        when A, B and C voted, loads it. It would vote for, and with, C.
        """
        return True

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
