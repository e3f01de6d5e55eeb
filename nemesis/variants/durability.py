"""Wrong rules about what must be on disk: before a follower acknowledges, and before a leader goes on leading.

Owns nothing else. They do harm only where a crash takes what was not flushed. Source: KIP-595, "Why fsync" of Redpanda.
"""

# ruff: noqa: ARG002 - an override takes whatever the rule takes

from __future__ import annotations

from replica.core.rules import Rules
from replica.ids import Epoch, Offset


class FetchBeforeFsync(Rules):
    """A follower that fetches on, and thereby acknowledges, what it has appended and not flushed."""

    def may_fetch(self, *, flushed_end_offset: Offset, log_end_offset: Offset) -> bool:
        """A fetch waits for no flush."""
        return True


class RestartedLeaderLeadsOn(Rules):
    """A leader that after a restart goes on in its epoch, though it may have lost what it had sent to others."""

    def leads_on_after_restart(self) -> bool:
        """The recorded leader leads at once, without a new epoch."""
        return True


class LazyEpochCheckpoint(Rules):
    """A replica that does not store where an epoch begins before it appends the epoch's first batch."""

    def new_epoch_is_stored(self, *, epoch: Epoch) -> bool:
        """Some truncation or snapshot will store it, or a later recovery find it in the batches."""
        return False


class MessageBeforeItsLog(Rules):
    """A replica whose votes, acknowledgements and fetches do not wait for what its disk has still to do."""

    def messages_wait_for_their_log(self) -> bool:
        """A message goes out at once."""
        return False
