"""What an operator sees of a replica: its log lines and its counters.

Owns which lines exist. Watches steps from outside, compares the state after a step with what it saw last, and changes
nothing. One ``step`` line per step at debug level; what happens seldom and matters (``role_changed``,
``log_truncated``) at info.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from structlog.typing import FilteringBoundLogger

from replica.core.effects import Append, Effect, Truncate
from replica.core.events import Event, RequestReceived, ResponseReceived
from replica.core.messages import PeerRequest
from replica.ids import Epoch, Offset, ReplicaId, TopicPartition
from replica.server.metrics import LogView, Metrics


@dataclass(frozen=True, slots=True, kw_only=True)
class Leadership:
    """Who a replica is and whom it follows: what ``role_changed`` reports."""

    role: str
    epoch: Epoch
    leader_id: ReplicaId | None


class ReplicaObserver:
    """Writes the log lines and keeps the counters of one replica; fills the driver's StepObserver port.

    ``with_steps`` is whether lines at debug level are wanted at all: otherwise they are not even made.
    """

    def __init__(
        self,
        *,
        logs: Mapping[TopicPartition, LogView],
        metrics: Metrics,
        logger: FilteringBoundLogger,
        with_steps: bool,
    ) -> None:
        self._logs = logs
        self._metrics = metrics
        self._logger = logger
        self._with_steps = with_steps
        self._seen: dict[TopicPartition, Leadership] = {}
        self._end_offsets: dict[TopicPartition, Offset] = {name: log.log.log_end_offset for name, log in logs.items()}
        self._unreachable: set[ReplicaId] = set()

    def on_step(self, event: Event, effects: tuple[Effect, ...], now_ms: int) -> None:
        """Write what this step was, and what changed by it."""
        self._metrics.steps.inc()
        for effect in effects:
            self._on_effect(effect)
        for topic_partition, log in self._logs.items():
            self._on_leadership(topic_partition, log)
            self._end_offsets[topic_partition] = log.log.log_end_offset
        if isinstance(event, ResponseReceived):
            self._on_answer(event.replica_id)
        if self._with_steps:
            self._on_debug(event, effects, now_ms)

    def on_flushed(self, topic_partition: TopicPartition, end_offset: Offset, seconds: float) -> None:
        """Count one flush."""
        labels = (topic_partition.topic, str(topic_partition.partition))
        self._metrics.flush_seconds.labels(*labels).observe(seconds)
        if self._with_steps:
            self._logger.debug("flushed", log=str(topic_partition), end_offset=end_offset, seconds=seconds)

    def on_peer_unreachable(self, replica_id: ReplicaId, request: PeerRequest, reason: str) -> None:
        """Say once that a peer does not answer, not at every retry."""
        if replica_id not in self._unreachable:
            self._unreachable.add(replica_id)
            self._logger.info("peer_unreachable", peer=replica_id, request=type(request).__name__, reason=reason)

    def on_halted(self, reason: str, error: Exception | None) -> None:
        """Say why this replica stops."""
        self._logger.error("halted", reason=reason, exc_info=error)

    def _on_answer(self, replica_id: ReplicaId) -> None:
        if replica_id in self._unreachable:
            self._unreachable.remove(replica_id)
            self._logger.info("peer_reachable", peer=replica_id)

    def _on_leadership(self, topic_partition: TopicPartition, log: LogView) -> None:
        seen = self._seen.get(topic_partition)
        now = Leadership(role=log.role.name, epoch=log.epoch, leader_id=log.leader_id)
        if now != seen:
            self._seen[topic_partition] = now
            self._logger.info(
                "role_changed",
                log=str(topic_partition),
                role=now.role,
                epoch=now.epoch,
                leader_id=now.leader_id,
                log_end_offset=log.log.log_end_offset,
            )

    def _on_effect(self, effect: Effect) -> None:
        if isinstance(effect, Append):
            labels = (effect.topic_partition.topic, str(effect.topic_partition.partition))
            self._metrics.appended_batches.labels(*labels).inc(len(effect.batches))
        elif isinstance(effect, Truncate):
            labels = (effect.topic_partition.topic, str(effect.topic_partition.partition))
            self._metrics.truncations.labels(*labels).inc()
            self._logger.info(
                "log_truncated",
                log=str(effect.topic_partition),
                from_offset=self._end_offsets[effect.topic_partition],
                end_offset=effect.end_offset,
            )

    def _on_debug(self, event: Event, effects: tuple[Effect, ...], now_ms: int) -> None:
        self._logger.debug(
            "step",
            now_ms=now_ms,
            received=_name_of(event),
            effects=[type(effect).__name__ for effect in effects],
            logs={
                str(topic_partition): {
                    "role": log.role.name,
                    "epoch": log.epoch,
                    "high_watermark": log.high_watermark,
                    "log_end_offset": log.log.log_end_offset,
                }
                for topic_partition, log in self._logs.items()
            },
        )


def _name_of(event: Event) -> str:
    if isinstance(event, RequestReceived):
        return type(event.request).__name__
    if isinstance(event, ResponseReceived):
        return type(event.response).__name__
    return type(event).__name__
