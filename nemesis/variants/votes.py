"""Wrong rules about votes and epochs: who gets a vote, whether it is remembered, and whose requests are too old.

Owns nothing else. Source: Raft section 5.2 and 5.4.1, KIP-320 and the first try at it in hachikuji/kafka-specification.
"""

# ruff: noqa: ARG002 - an override takes whatever the rule takes

from __future__ import annotations

from replica.core.effects import QuorumState
from replica.core.rules import Rules
from replica.errors import ErrorCode
from replica.ids import Epoch


class VoteWithoutComparingLogs(Rules):
    """A voter that gives its vote to whoever asks first."""

    def candidate_log_is_up_to_date(
        self, *, candidate_epoch: int, candidate_end: int, own_epoch: int, own_end: int
    ) -> bool:
        """Every log is good enough."""
        return True


class VoteForTheLongerLog(Rules):
    """A voter that compares only how long the logs are, so that uncommitted records of an old epoch win elections."""

    def candidate_log_is_up_to_date(
        self, *, candidate_epoch: int, candidate_end: int, own_epoch: int, own_end: int
    ) -> bool:
        """The longer log wins, whatever the epochs of the last records."""
        return candidate_end >= own_end


class VoteNotPersisted(Rules):
    """A voter that answers with its vote and does not store it, so that after a crash it can vote again."""

    def quorum_state_is_stored(self, *, stored: QuorumState, now: QuorumState) -> bool:
        """A new epoch or a new leader is stored, a vote by itself is not."""
        return (stored.leader_epoch, stored.leader_id) != (now.leader_epoch, now.leader_id)


class FenceOwnEpoch(Rules):
    """A leader that takes requests of its very own epoch for outdated ones, and so has no followers."""

    def epoch_error(self, *, current_leader_epoch: Epoch | None, own_epoch: Epoch) -> ErrorCode | None:
        """An epoch must be above the leader's; then it is unknown."""
        if current_leader_epoch is None:
            return None
        return ErrorCode.FENCED_LEADER_EPOCH if current_leader_epoch <= own_epoch else ErrorCode.UNKNOWN_LEADER_EPOCH
