"""Decisions of a group: when its machine leads, what a read waits for, and what a snapshot is.

In the order of the way of a command: written, read, kept.
"""

from __future__ import annotations

from replica.core.messages import Consistency
from replica.ids import Offset


class GroupRules:
    """What holds for a state machine on a quorum log."""

    def machine_leads(self, *, leads_log: bool, applied_offset: Offset, epoch_start_offset: Offset) -> bool:
        """Decide whether a machine is told that it leads: while its log is led here, once its epoch's start is applied.

        1. A wrote x=2, which is committed, and B has it, but does not know that it is. 2. B leads. 3. Told so now, its
        machine would be asked for x, and answer 1. Whoever has applied the first record of the own epoch has applied
        all before it (KAFKA-15345). Who has resigned leads no more, whatever it still applies (KAFKA-17333).
        """
        return leads_log and applied_offset > epoch_start_offset

    def needs_read_index(self, *, consistency: Consistency) -> bool:
        """Decide whether a question waits until its replica knows how far to have applied: all but stale ones do.

        1. A leads and is cut off. 2. B leads in its place and commits x=2. 3. A, which knows nothing of that, is asked
        for x. What it has applied is old; a majority must have said since that it still leads. A lease is no other
        answer: no leader has one.
        """
        return consistency is not Consistency.STALE

    def read_is_served(self, *, applied_offset: Offset, read_index: Offset) -> bool:
        """Decide whether a question is answered: once everything below its read index is applied.

        1. x=2 is committed on A, and its client is told. 2. The machine of B, which is behind, is asked for x. B learns
        that it must have applied x=2: before it has, its answer would be old.
        """
        return applied_offset >= read_index

    def snapshot_end_offset(self, *, applied_offset: Offset) -> Offset:
        """Name the end of a snapshot, exclusive: the offset of the first record that is not in it (KAFKA-14618).

        1. A snapshot of what lies below 10 is named after its last offset, 9. 2. Who loads it applies the record at 9
        again.
        """
        return applied_offset

    def sessions_are_in_snapshot(self) -> bool:
        """Decide whether a snapshot holds the sessions: always, they are part of the state.

        1. A command is applied, its answer is lost. 2. A replica starts from a snapshot, and leads. 3. The client sends
        the command again. A replica that has forgotten the session cannot tell that it was applied.
        """
        return True
