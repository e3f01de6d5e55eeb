"""The state as bytes: taken when enough was applied, restored at the start and when the log has lost what is missing.

Owns when a snapshot is taken. How it is kept, and what of the log may go for it, the log knows; what is in it, the
machine. Each replica takes its own. The machine stands still meanwhile. The next is taken after as many bytes of
records as the last one has, at the least: however large the state is, snapshots do not become most of what is written.

Source: KIP-630; Kafka ``SnapshotGenerator``.
"""

from __future__ import annotations

from dataclasses import replace

from replica.core.effects import Halt
from replica.core.group.state import GroupState
from replica.core.quorum.roles import Leader
from replica.core.recovered import RecoveredLog
from replica.ids import Offset, SnapshotId
from replica.machines import CorruptSnapshotError, ForeignSnapshotError, Snapshot
from replica.machines.snapshots import decode_state, encode_state, sealed, unsealed


def restore_recovered(g: GroupState, recovered: RecoveredLog, now_ms: int) -> None:
    """Begin with the newest snapshot on disk, if there is one; a replica that cannot, halts."""
    g.snapshot_ms = now_ms
    if not recovered.snapshots:
        assert recovered.log_start_offset == 0, (g.topic_partition, recovered.log_start_offset)
        return
    snapshot_id = recovered.snapshots[-1].id
    g.snapshot_size_bytes = len(recovered.snapshot)
    try:
        g.machine.restore(Snapshot(id=snapshot_id, data=g.log.machine_state(recovered.snapshot)))
    except CorruptSnapshotError as error:
        g.emit(Halt(reason=f"{g.topic_partition}: the snapshot at {snapshot_id.end_offset} is corrupt: {error}"))


def restore_received(g: GroupState, now_ms: int) -> None:
    """Let the state be that of the leader's snapshot, and then let the log begin there.

    A snapshot that cannot be restored is refused, to be fetched again; until then the machine may be void. One that is
    sound and not of this machine will never be: the replica halts.
    """
    snapshot = g.log.received_snapshot
    if snapshot is None:
        return
    try:
        is_restored = _is_restored(g, snapshot)
    except ForeignSnapshotError as error:
        reason = f"{g.topic_partition}: the snapshot of leader {g.log.leader_id} is not for this replica: {error}"
        g.emit(Halt(reason=f"{reason}; start all replicas with the same options for this group"))
        return
    if not is_restored:
        g.emit_all(g.log.reject_snapshot(now_ms))
        return
    g.reading_from = None
    _restart_count(g, snapshot, now_ms)
    g.emit_all(g.log.install_snapshot(now_ms))


def _is_restored(g: GroupState, snapshot: Snapshot) -> bool:
    """Restore it if that is possible. Raises ForeignSnapshotError."""
    if snapshot.id.end_offset <= g.machine.applied_offset:
        return False
    try:
        g.machine.restore(snapshot)
    except ForeignSnapshotError:
        raise
    except CorruptSnapshotError:
        return False
    return True


def check_has_state(g: GroupState) -> None:
    """Stop a replica that has to lead or to apply while its machine is void; its disk has what it needs to begin again.

    Otherwise it waits for a snapshot that the machine takes.
    """
    is_needed = isinstance(g.log.role, Leader) or (g.log.log.high_watermark or 0) > g.machine.applied_offset
    if g.machine.failure is not None and is_needed:
        g.emit(Halt(reason=f"{g.topic_partition}: the machine has no state: {g.machine.failure}"))


def maybe_snapshot(g: GroupState, now_ms: int) -> None:
    """Take a snapshot if enough bytes were applied, or enough time has passed since the last."""
    due_ms = snapshot_deadline_ms(g)
    if due_ms is None or now_ms < due_ms:
        return
    taken = _taken(g)
    _restart_count(g, taken, now_ms)
    if g.log.may_store(taken):  # Of what nobody could load the whole log is kept.
        g.emit_all(g.log.store_snapshot(taken, now_ms))


def _restart_count(g: GroupState, snapshot: Snapshot, now_ms: int) -> None:
    g.bytes_since_snapshot = 0
    g.snapshot_size_bytes = len(snapshot.data)
    g.snapshot_ms = now_ms


def snapshot_deadline_ms(g: GroupState) -> int | None:
    """Name when a snapshot is due; absent where one is on its way, or would hold nothing new."""
    newest = g.log.snapshots[-1].id.end_offset if g.log.snapshots else Offset(0)
    if g.log.is_storing_snapshot or g.machine.failure is not None or g.machine.applied_offset <= newest:
        return None
    bytes_between = max(g.config.snapshot_max_record_bytes_between, g.snapshot_size_bytes)
    waits_ms = 0 if g.bytes_since_snapshot >= bytes_between else g.config.snapshot_max_interval_ms
    return max(g.snapshot_ms + waits_ms, g.log.snapshots_wait_until_ms or 0)


def _taken(g: GroupState) -> Snapshot:
    taken = g.machine.snapshot()
    end_offset = g.rules.snapshot_end_offset(applied_offset=taken.id.end_offset)
    data = taken.data if g.rules.sessions_are_in_snapshot() else _without_sessions(taken.data)
    return Snapshot(id=SnapshotId(end_offset, taken.id.epoch), data=data)


def _without_sessions(data: bytes) -> bytes:
    """Leave out what is remembered of clients; by the right rules it never is."""
    return sealed(encode_state(replace(decode_state(unsealed(data)), sessions=())))
