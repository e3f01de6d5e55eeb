"""What of snapshots is a group's own: what its machine takes down, and when the lack of a state stops the replica.

When snapshots are taken and read back is that of any log that is folded: ``replica.core.snapshotting``.

Source: KIP-630; Ongaro's thesis, section 6.3.
"""

from __future__ import annotations

from msgspec.structs import replace

from replica.core.effects import Halt
from replica.core.group.state import GroupState
from replica.core.quorum.roles import Leader
from replica.ids import SnapshotId
from replica.machines import SnapshotView
from replica.machines.sessions import NO_SESSIONS


def restore_received(g: GroupState, now_ms: int) -> None:
    """Let the state be that of the leader's snapshot, if one has come; what is read of the log then is of no use."""
    if g.snapshots.restore_received(now_ms):
        g.reading_from = None


def check_has_state(g: GroupState) -> None:
    """Stop a replica that has to lead or to apply while its machine is void; its disk has what it needs to begin again.

    Otherwise it waits for a snapshot that the machine takes.
    """
    is_needed = isinstance(g.log.role, Leader) or (g.log.log.high_watermark or 0) > g.machine.applied_offset
    if g.machine.failure is not None and is_needed:
        g.emit(Halt(reason=f"{g.topic_partition}: the machine has no state: {g.machine.failure}"))


def maybe_snapshot(g: GroupState, now_ms: int) -> None:
    """Take a snapshot if it is time."""
    g.snapshots.maybe_store(lambda: _taken(g), now_ms)


def _taken(g: GroupState) -> SnapshotView:
    """The state as it stands; by wrong rules without what is remembered of clients."""
    view = g.machine.view()
    assert view.applied_epoch is not None, "nothing has been applied"
    end_offset = g.rules.snapshot_end_offset(applied_offset=view.applied_offset)
    state = view if g.rules.sessions_are_in_snapshot() else replace(view, sessions=NO_SESSIONS)
    return SnapshotView(id=SnapshotId(end_offset, view.applied_epoch), state=state)
