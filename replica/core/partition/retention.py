"""What may be forgotten: of the log what is committed and old enough, of idempotent producers who is silent."""

from __future__ import annotations

from replica.core.effects import ApplyRetention
from replica.core.partition.state import PartitionState


def maybe_apply_retention(p: PartitionState, now_ms: int) -> None:
    """Ask now and then, leader or not, what is old enough to be forgotten of what is committed; and who is.

    A follower that remembered producers for ever would take no new ones once it leads.
    """
    if p.retention_check_at_ms is None or now_ms < p.retention_check_at_ms:
        return
    p.retention_check_at_ms = now_ms + p.config.log_retention_check_interval_ms
    p.producers.expire(now_ms)
    if p.topic.retention_ms is None and p.topic.retention_bytes is None:
        return
    may_expire = p.rules.may_expire_by_time(
        is_known=p.clock.is_known,
        steady_ms=p.clock.steady_ms(now_ms),
        check_interval_ms=p.config.log_retention_check_interval_ms,
    )
    p.emit(
        ApplyRetention(
            topic_partition=p.topic_partition,
            high_watermark=p.rules.deletable_end(high_watermark=p.high_watermark, log_end_offset=p.log.log_end_offset),
            unix_ms=p.clock.unix_ms(now_ms) if may_expire else None,
            retention_ms=p.topic.retention_ms,
            retention_bytes=p.topic.retention_bytes,
        )
    )
