"""When what a log has led to is taken down, and when it is read back: at the start, and when the log lost it.

Owns the pace. How a snapshot is kept, and what of the log may go for it, the log knows; what is in it, the machine that
folds the log: a group's, or that of the cluster's metadata. Each replica takes its own. Here only a view of the state
is taken, which later records do not change; bytes are made of it where it is stored, while the machine goes on. The
next is taken after as many bytes of records as the last one has, at the least: however large the state is, snapshots
do not become most of what is written.

Source: KIP-630; Kafka ``SnapshotGenerator``.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from msgspec import Struct

from replica.core.effects import Effect, Halt
from replica.core.log.recovered import RecoveredLog
from replica.core.quorum import QuorumLog
from replica.core.quorum.snapshot_header import split_snapshot
from replica.ids import Offset, TopicPartition
from replica.machines import CorruptSnapshotError, ForeignSnapshotError, Snapshot, SnapshotView


def not_for_this_replica(log: TopicPartition, what: str, error: Exception) -> str:
    """Say why a replica stops that was started with another machine than the others, before it has applied anything."""
    advice = f"start it with the machine, the options and the release that the other replicas of {log.topic} have"
    return f"{what} is not for this replica: {error}; {advice}"


WANTED_INTERVAL_MS = 5000
"""How soon after the last one a snapshot is taken because somebody asked for it: each is as much work as the state."""


class Folding(Protocol):
    """Who folds the committed log into a state."""

    @property
    def applied_offset(self) -> Offset:
        """Everything below is in the state."""

    @property
    def failure(self) -> Exception | None:
        """Why there is no state; absent while there is."""

    def restore(self, snapshot: Snapshot) -> None:
        """Let the state be that of a snapshot, which is ahead of it. Raises CorruptSnapshotError."""


class SnapshotPace(Struct, frozen=True, kw_only=True):
    """A snapshot is due after so many bytes of applied records, or after so long."""

    record_bytes_between: int
    interval_ms: int


class Snapshotting:
    """The snapshots of one log that is folded by ``machine``; ``emit`` takes what the log wants done."""

    def __init__(self, *, log: QuorumLog, machine: Folding, pace: SnapshotPace, emit: Callable[[Effect], None]) -> None:
        self._log = log
        self._machine = machine
        self.pace = pace
        self._emit = emit
        self._bytes_applied = 0
        self._since_ms = 0
        """When the last snapshot was taken or restored, or the replica started."""

    def note_applied(self, size_bytes: int) -> None:
        """Count the bytes of records that the machine has applied."""
        self._bytes_applied += size_bytes

    # --- read back --------------------------------------------------------------------------------------------------

    def restore_recovered(self, recovered: RecoveredLog, now_ms: int) -> None:
        """Begin with the newest snapshot on disk, if there is one; a replica that cannot, halts."""
        self._since_ms = now_ms
        if not recovered.snapshots:
            assert recovered.log_start_offset == 0, (self._log.topic_partition, recovered.log_start_offset)
            return
        snapshot_id = recovered.snapshots[-1].id
        try:
            self._machine.restore(Snapshot(id=snapshot_id, data=split_snapshot(recovered.snapshot)[1]))
        except ForeignSnapshotError as error:
            self._halt(
                not_for_this_replica(self._log.topic_partition, f"the snapshot at {snapshot_id.end_offset}", error)
            )
        except CorruptSnapshotError as error:
            self._halt(f"the snapshot at {snapshot_id.end_offset} is corrupt: {error}")

    def restore_received(self, now_ms: int) -> bool:
        """Let the state be that of the leader's snapshot, and then let the log begin there; whether that was done.

        A snapshot that cannot be restored is refused, to be fetched again; until then the machine may be void. One that
        is sound and not of this machine will never be: the replica halts.
        """
        snapshot = self._log.received_snapshot
        if snapshot is None:
            return False
        try:
            is_restored = self._is_restored(snapshot)
        except ForeignSnapshotError as error:
            what = f"the snapshot of leader {self._log.leader_id}"
            self._halt(not_for_this_replica(self._log.topic_partition, what, error))
            return False
        if not is_restored:
            self._emit_all(self._log.reject_snapshot(now_ms))
            return False
        self._restart_count(now_ms)
        self._emit_all(self._log.install_snapshot(now_ms))
        return True

    def _is_restored(self, snapshot: Snapshot) -> bool:
        """Restore it if that is possible. Raises ForeignSnapshotError."""
        if snapshot.id.end_offset <= self._machine.applied_offset:
            return False
        try:
            self._machine.restore(snapshot)
        except ForeignSnapshotError:
            raise
        except CorruptSnapshotError:
            return False
        return True

    # --- taken ------------------------------------------------------------------------------------------------------

    @property
    def deadline_ms(self) -> int | None:
        """When a snapshot is due; absent where one is on its way, or would hold nothing new."""
        log, machine = self._log, self._machine
        newest = log.snapshots[-1].id.end_offset if log.snapshots else Offset(0)
        if log.is_storing_snapshot or machine.failure is not None or machine.applied_offset <= newest:
            return None
        bytes_between = max(self.pace.record_bytes_between, log.snapshot_bytes)
        waits_ms = 0 if self._bytes_applied >= bytes_between else self.pace.interval_ms
        if newest < log.snapshot_wanted <= machine.applied_offset:
            waits_ms = min(waits_ms, WANTED_INTERVAL_MS)
        return max(self._since_ms + waits_ms, log.snapshots_wait_until_ms or 0)

    def maybe_store(self, take: Callable[[], SnapshotView], now_ms: int) -> None:
        """Take a view and have it stored, if enough bytes were applied, or enough time has passed since the last.

        One that nobody could load is not stored: the whole log is kept then.
        """
        due_ms = self.deadline_ms
        if due_ms is None or now_ms < due_ms:
            return
        taken = take()
        self._restart_count(now_ms)
        if self._log.may_store(taken.id):
            self._emit_all(self._log.store_snapshot(taken, now_ms))

    def _restart_count(self, now_ms: int) -> None:
        self._bytes_applied = 0
        self._since_ms = now_ms

    def _halt(self, reason: str) -> None:
        self._emit(Halt(reason=f"{self._log.topic_partition}: {reason}"))

    def _emit_all(self, effects: tuple[Effect, ...]) -> None:
        for effect in effects:
            self._emit(effect)
