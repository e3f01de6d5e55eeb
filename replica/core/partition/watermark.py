"""What is committed: the leader's high watermark, and who is answered when it moves.

The high watermark is arithmetic over ends: the offset of each replica's last fetch in this leader epoch (it flushes
before it fetches) and the leader's own flushed end. It is computed anew after an append and its flush, a replica's
fetch, a new leadership, an ISR that was committed, and any other news from the controller; never by a timer.

Source: Kafka ``Partition.maybeIncrementLeaderHW``, ``DelayedProduce``.
"""

from __future__ import annotations

from replica.core.log.producing import acknowledge, is_committed
from replica.core.messages import ProduceResponse
from replica.core.partition.isr import counted_isr, is_caught_up, is_eligible
from replica.core.partition.roles import Leader
from replica.core.partition.state import PartitionState
from replica.errors import ErrorCode
from replica.ids import Offset, ReplicaId


def maybe_advance_high_watermark(p: PartitionState, now_ms: int) -> bool:
    """Recompute a leader's high watermark, and answer the writes that waited for it. Tell whether it moved."""
    role = p.role
    if not isinstance(role, Leader):
        return False
    if not p.rules.may_advance_high_watermark(
        isr_size=len(role.isr_state.isr), min_insync_replicas=p.effective_min_isr
    ):
        return False
    high_watermark = p.rules.isr_high_watermark(end_offsets=_end_offsets(p, role, now_ms), current=p.high_watermark)
    if high_watermark == p.high_watermark:
        return False
    p.log.advance_high_watermark(high_watermark)
    acknowledge_committed(p)
    return True


def _end_offsets(p: PartitionState, role: Leader, now_ms: int) -> list[Offset | None]:
    """How much each replica that counts has; absent for one that has not been heard of in this epoch."""
    own = p.rules.leader_acknowledges(flushed_end_offset=p.log.flushed_end_offset, log_end_offset=p.log.log_end_offset)
    isr = counted_isr(p, role)
    others = (
        remote.log_end_offset
        for replica_id, remote in role.remotes.items()
        if replica_id in isr or _is_waited_for(p, role, replica_id, now_ms)
    )
    return [own, *others]


def _is_waited_for(p: PartitionState, role: Leader, replica_id: ReplicaId, now_ms: int) -> bool:
    return p.rules.is_waited_for(
        is_caught_up=is_caught_up(p, role.remotes[replica_id], now_ms),
        is_eligible=is_eligible(p, replica_id, role.remotes[replica_id]),
    )


def acknowledge_committed(p: PartitionState) -> None:
    """Answer the parked appends that are committed now, oldest first.

    What is committed has enough replicas as long as the high watermark waits for them. If the rules let it run ahead,
    the answer says that it did.
    """
    for parked in p.produces.take_if(lambda parked: is_committed(p, parked)):
        if len(p.maximal_isr) >= p.effective_min_isr:
            acknowledge(p, parked.call_id, parked.base_offset)
        else:
            error = ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND
            p.reply(parked.call_id, ProduceResponse(error=error, current_leader=p.current_leader))
