"""Wrong rules about logs that begin at a snapshot: where they do.

Owns nothing else. Source: KIP-630.
"""

from __future__ import annotations

from collections.abc import Sequence

from replica.core.rules import Rules
from replica.ids import Offset, SnapshotId


class BeginsAfterItsSnapshot(Rules):
    """A log that takes the end of a snapshot for its last offset, and lets the record go that stands there."""

    def log_start_after_snapshot(self, *, snapshots: Sequence[SnapshotId], log_start_offset: Offset) -> Offset:
        """One record more goes."""
        right = super().log_start_after_snapshot(snapshots=snapshots, log_start_offset=log_start_offset)
        return right if right == log_start_offset else Offset(right + 1)
