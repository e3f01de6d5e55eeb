"""Wrong rules about the end of a leadership: when a leader gives up, and what becomes of the writes that wait.

Owns nothing else. Source: KAFKA-15489, and a classic of every system with parked acknowledgements.
"""

# ruff: noqa: ARG002 - an override takes whatever the rule takes

from __future__ import annotations

from collections.abc import Sequence

from replica.core.rules import NEVER_MS, Rules


class NoCheckQuorum(Rules):
    """A leader that leads on, and takes writes, however long no majority has fetched from it."""

    def check_quorum_deadline_ms(self, *, last_fetches_ms: Sequence[int], needed: int, timeout_ms: int) -> int:
        """It never has to resign."""
        return NEVER_MS


class AcknowledgeAfterLeadership(Rules):
    """A deposed leader that acknowledges its waiting writes when the high watermark of others passes their ends."""

    def writes_wait_after_leadership(self) -> bool:
        """They wait on, and take any record at their offsets for their own."""
        return True
