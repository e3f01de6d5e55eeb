"""When the machine leads, and what it does of its own accord: it lets log time go on.

The log leads first: its first record of the epoch has to be committed and applied before the machine is told. An end of
the leadership ends at once all that waits for it: what was written has an unknown end, a read may be put again.

A leader whose log is idle writes a tick, always, as Kafka's controller writes its NoOpRecord: what expires in a machine
only the machine knows. A tick that is not applied yet is not followed by another.

Source: Kafka ``KafkaRaftClient.ListenerContext.maybeFireLeaderChange``; KAFKA-15345, KAFKA-17333; KIP-835.
"""

from __future__ import annotations

from replica.core.group.proposing import fail_applies, write
from replica.core.group.read_index import fail_reads
from replica.core.group.state import GroupState, Leadership
from replica.core.quorum.roles import Leader
from replica.errors import ErrorCode
from replica.ids import Offset
from replica.machines import LeaderClock, Tick, encode_entry

TICK = (encode_entry(Tick()),)


def follow_leadership(g: GroupState, now_ms: int) -> None:
    """Notice that the leadership has changed, and whether the machine leads now."""
    seen = (g.log.leader_epoch, g.log.leader_id)
    if seen != g.seen:
        g.seen = seen
        fail_reads(g, ErrorCode.NOT_LEADER_OR_FOLLOWER)
    leads = _machine_leads(g)
    if g.leadership is not None and (not leads or g.leadership.epoch != g.log.leader_epoch):
        g.leadership = None
        fail_applies(g)
    if g.leadership is None and leads:
        clock = LeaderClock(log_time_ms=g.machine.log_time_ms, now_ms=now_ms)
        g.leadership = Leadership(epoch=g.log.leader_epoch, clock=clock)
        g.written_ms = now_ms


def _machine_leads(g: GroupState) -> bool:
    role = g.log.role
    return g.rules.machine_leads(
        leads_log=isinstance(role, Leader),
        applied_offset=g.machine.applied_offset,
        epoch_start_offset=role.epoch_start_offset if isinstance(role, Leader) else Offset(0),
    )


def maybe_tick(g: GroupState, now_ms: int) -> None:
    """Write a tick if nothing was written for long enough."""
    due_ms = tick_deadline_ms(g)
    if due_ms is not None and now_ms >= due_ms:
        write(g, TICK, now_ms)


def tick_deadline_ms(g: GroupState) -> int | None:
    """Name when the leader has to write a tick; absent where it need not."""
    if g.leadership is None or g.log.is_handing_over or g.machine.applied_offset < g.log.log.log_end_offset:
        return None
    return g.written_ms + g.config.tick_interval_ms
