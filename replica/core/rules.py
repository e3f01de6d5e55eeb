"""The decisions of the protocol, one small pure method each.

Each method is one sentence of the protocol on which a promise hangs. The core asks here and nowhere else, so that a
reader finds the decision by its name, a test can state it as a table, and a harness outside this package can prove that
it would notice if the decision were wrong: it subclasses ``Rules`` and overrides one method. A server that is started
normally always has these.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from replica.core.epoch_cache import LeaderEpochCache
from replica.ids import Epoch, EpochEndOffset, Offset


@dataclass(frozen=True, slots=True, kw_only=True)
class Truncation:
    """Cut the log at ``end_offset``; unless ``done``, the logs may still differ below and the leader is asked again."""

    end_offset: Offset
    done: bool


class Rules:
    """The right protocol."""

    def candidate_log_is_up_to_date(
        self, *, candidate_epoch: int, candidate_end: int, own_epoch: int, own_end: int
    ) -> bool:
        """Decide whether a candidate's log is good enough for a vote: later last epoch, or same and not shorter.

        Epochs are those of the last records (0 for an empty log), ends are exclusive. Raft section 5.4.1.
        """
        return (candidate_epoch, candidate_end) >= (own_epoch, own_end)

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

    def produce_is_committed(self, *, end_offset: Offset, high_watermark: Offset | None) -> bool:
        """Decide whether a batch that ends at ``end_offset`` may be acknowledged to an ``acks=all`` producer."""
        return high_watermark is not None and end_offset <= high_watermark

    def consumer_read_bound(self, *, high_watermark: Offset | None, log_end_offset: Offset) -> Offset | None:
        """Name the offset below which a consumer may read: the high watermark; nothing while that is unknown."""
        assert high_watermark is None or high_watermark <= log_end_offset, (high_watermark, log_end_offset)
        return high_watermark

    def last_fetched_epoch(self, *, last_epoch: Epoch | None, leader_epoch: Epoch) -> Epoch:
        """Name the epoch that a follower puts into its Fetch, by which a leader sees divergence: its last record's."""
        assert last_epoch is None or last_epoch <= leader_epoch, (last_epoch, leader_epoch)
        return Epoch(0) if last_epoch is None else last_epoch

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
