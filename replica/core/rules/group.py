"""Decisions of a group: when its machine leads, what a read waits for, what a snapshot is, and where it is led.

In the order of the way of a command: written, read, kept; then what concerns all groups together.
"""

from __future__ import annotations

from collections.abc import Sequence

from replica.core.messages import Consistency
from replica.ids import Offset, ReplicaId

PAUSES_MAX = 6
"""How often the pause between attempts to hand over is doubled at most."""


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
        for x. What it has applied is old; a majority must have said since that it still leads. Only a lease, where the
        question is content with one, says the same beforehand.
        """
        return consistency is not Consistency.STALE

    def lease_serves(self, *, consistency: Consistency, now_ms: int, lease_end_ms: int | None) -> bool:
        """Decide whether a leader knows the read index at once: if its lease lasts, and the question trusts in clocks.

        1. A leads, with a lease, and is stopped. 2. B leads in its place and commits x=2. 3. A goes on, and is asked
        for x before it hears of B. Its clock has gone on as well: the lease has ended.
        """
        return consistency is Consistency.LEASE and lease_end_ms is not None and now_ms < lease_end_ms

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

    def preferred_leader(self, *, place: int, voters: Sequence[ReplicaId]) -> ReplicaId:
        """Name who should lead a group: it follows from the group's place among all, so that each leads as many.

        The voters take turns, in the order of their ids, as brokers do for the partitions of a topic.
        """
        return sorted(voters)[place % len(voters)]

    def rebalance_pause_ms(self, *, interval_ms: int, attempts: int) -> int:
        """Name how long the preferred leader must have kept up before it is given the leadership.

        1. B is preferred, and keeps up, but is not elected: its requests for votes are lost. 2. A hands over to it, is
        elected again, and hands over. Each time nobody leads for a while. After each attempt that came to nothing the
        pause is twice as long.
        """
        return interval_ms << min(attempts, PAUSES_MAX)
