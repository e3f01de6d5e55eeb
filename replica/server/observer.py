"""What an operator sees of a replica: its log lines and its counters.

Owns which lines exist. Watches steps from outside, compares the state after a step with what it saw last, and changes
nothing. One ``step`` line per step at debug level; what happens seldom and matters (``role_changed``,
``log_truncated``, and what ``cluster_lines``, ``snapshot_lines`` and ``voter_lines`` tell) at info, and as a warning a
leader that cannot be dialled (``leader_address_unknown``), one that cannot be (``leader_refused``), and clocks that
cannot be believed (``time_not_believed``).
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Mapping, Sequence
from dataclasses import dataclass

from structlog.typing import FilteringBoundLogger

from replica.core.effects import (
    Append,
    ApplyRetention,
    CreateLog,
    DeleteLog,
    Effect,
    Flush,
    InstallSnapshot,
    ReplaceLog,
    Reply,
    ReplyWithRecords,
    Send,
    StartLogAt,
    Truncate,
)
from replica.core.events import Event, PeerRefused, RequestReceived, ResponseReceived
from replica.core.messages import CurrentLeader, PeerRequest
from replica.ids import Epoch, Offset, ReplicaId, TopicPartition
from replica.server.cluster_lines import ClusterLines
from replica.server.metrics import Metrics
from replica.server.offline_lines import OfflineLines
from replica.server.snapshot_lines import SnapshotLines
from replica.server.view import LogView, PartitionView, ReplicaView
from replica.server.voter_lines import VoterLines

_FREQUENT = frozenset({Flush, Send, Reply, ReplyWithRecords})
"""Effects of which nothing is told."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Leadership:
    """Who a replica is and whom it follows: what ``role_changed`` reports."""

    role: str
    epoch: Epoch
    leader_id: ReplicaId | None


class ReplicaObserver:
    """Writes the log lines and keeps the counters of one replica; fills the driver's StepObserver port.

    ``addresses`` has whoever can be dialled. ``end_offsets`` are the ends of its logs before the first step.
    ``damaged`` are the logs that were found damaged, and why.
    ``with_steps`` is whether lines at debug level are wanted at all: otherwise they are not even made.
    """

    def __init__(
        self,
        *,
        view: ReplicaView,
        addresses: Container[ReplicaId],
        end_offsets: Mapping[TopicPartition, Offset],
        metrics: Metrics,
        logger: FilteringBoundLogger,
        with_steps: bool,
        damaged: Mapping[TopicPartition, str] | None = None,
    ) -> None:
        self._view = view
        self._addresses = addresses
        self._metrics = metrics
        self._logger = logger
        self.with_steps = with_steps
        self._cluster = ClusterLines(view=view, metrics=metrics, logger=logger)
        self._snapshots = SnapshotLines(logger=logger)
        self._offline = OfflineLines(logger=logger)
        self._offline.tell_found(damaged or {})
        self._voters = VoterLines(logs=view.logs, logger=logger)
        self._steps: dict[TopicPartition, int] = {}
        """How many steps of each quorum log there were when it was looked at."""
        self._seen: dict[TopicPartition, Leadership] = {}
        self._tellings = view.tellings
        self._end_offsets = dict(end_offsets)
        self._refused: dict[TopicPartition, CurrentLeader | None] = {}
        self._believes_time = True
        self._unreachable: set[ReplicaId] = set()
        self._without_address: set[ReplicaId] = set()
        self._refused_peers: set[ReplicaId] = set()

    def on_step(self, event: Event, effects: tuple[Effect, ...], now_ms: int) -> None:
        """Write what this step was, and what changed by it."""
        self._metrics.steps += 1
        rare: list[Effect] = []
        for effect in effects:
            if isinstance(effect, Append):
                self._on_append(effect)
            elif type(effect) not in _FREQUENT:
                rare.append(effect)
        if rare:
            self._on_rare_effects(rare)
        stepped: dict[TopicPartition, LogView] = {}
        for name, log in self._view.logs.items():
            if self._steps.get(name) != log.steps:
                self._steps[name], stepped[name] = log.steps, log
        if stepped:
            self._on_stepped(stepped)
        told: Sequence[TopicPartition] = ()
        if self._view.tellings != self._tellings:
            # The partitions are many, and take other roles only when they are told something.
            told, self._tellings = self._view.told_since(self._tellings), self._view.tellings
            self._on_told(told)
        self._cluster.on_step(self._view.image, told)
        self._snapshots.on_step(event, rare, stepped)
        self._offline.on_step(event, rare, self._view.offline)
        if isinstance(event, ResponseReceived):
            self._on_answer(event.replica_id)
        elif isinstance(event, PeerRefused):
            self._on_peer_refused(event.replica_id)
        if self.with_steps:
            self._on_debug(event, effects, now_ms)

    def _on_told(self, told: Iterable[TopicPartition]) -> None:
        for topic_partition in told:
            partition = self._view.partitions.get(topic_partition)
            if partition is not None:
                registration = partition.registration
                more = {} if registration is None else {"isr": registration.isr}
                self._on_leadership(topic_partition, partition, partition.leader_epoch, **more)

    def _on_stepped(self, logs: Mapping[TopicPartition, LogView]) -> None:
        """Write what changed of the quorum logs that the step was of: the others are as they were."""
        for topic_partition, log in logs.items():
            self._on_leadership(topic_partition, log, log.leader_epoch)
            if log.refused_leader is not self._refused.get(topic_partition):
                self._on_refused(topic_partition, log)
        self._voters.on_step(logs)

    def on_flushed(self, topic_partition: TopicPartition, end_offset: Offset, seconds: float) -> None:
        """Count one flush."""
        self._metrics.on_flushed(topic_partition, seconds)
        if self.with_steps:
            self._logger.debug("flushed", log=str(topic_partition), end_offset=end_offset, seconds=seconds)

    def on_peer_unreachable(self, replica_id: ReplicaId, request: PeerRequest, reason: str) -> None:
        """Say once that a peer does not answer, not at every retry."""
        if replica_id not in self._unreachable:
            self._unreachable.add(replica_id)
            self._logger.info("peer_unreachable", peer=replica_id, request=type(request).__name__, reason=reason)
        if replica_id not in self._addresses and replica_id not in self._without_address:
            self._on_no_address(replica_id)

    def on_halted(self, reason: str, error: Exception | None) -> None:
        """Say why this replica stops."""
        self._logger.error("halted", reason=reason, exc_info=error)

    def _on_no_address(self, replica_id: ReplicaId) -> None:
        """Warn once of a leader that nobody here can find: the logs that follow it stand still until it is named."""
        logs = [str(name) for name, log in self._view.logs.items() if log.leader_id == replica_id]
        if logs:
            self._without_address.add(replica_id)
            self._logger.warning("leader_address_unknown", leader_id=replica_id, logs=logs)

    def _on_peer_refused(self, replica_id: ReplicaId) -> None:
        """Say once that the process of a peer has ended, until it answers again."""
        if replica_id not in self._refused_peers:
            self._refused_peers.add(replica_id)
            self._logger.info("peer_refused", peer=replica_id)

    def _on_answer(self, replica_id: ReplicaId) -> None:
        self._refused_peers.discard(replica_id)
        self._without_address.discard(replica_id)
        if replica_id in self._unreachable:
            self._unreachable.remove(replica_id)
            self._logger.info("peer_reachable", peer=replica_id)

    def _on_leadership(
        self, topic_partition: TopicPartition, log: LogView | PartitionView, epoch: Epoch, **told: object
    ) -> None:
        seen = self._seen.get(topic_partition)
        now = Leadership(role=log.role.name, epoch=epoch, leader_id=log.leader_id)
        if now != seen:
            self._seen[topic_partition] = now
            self._metrics.role_changes[topic_partition][now.role] += 1
            self._logger.info(
                "role_changed",
                log=str(topic_partition),
                topic=topic_partition.topic,
                partition=topic_partition.partition,
                role=now.role,
                epoch=now.epoch,
                leader_id=now.leader_id,
                log_end_offset=log.log.log_end_offset,
                **told,
            )

    def _on_refused(self, topic_partition: TopicPartition, log: LogView) -> None:
        """Warn of whoever was named as the leader of an epoch, and is not; of the same one not again and again."""
        before, refused = self._refused.get(topic_partition), log.refused_leader
        self._refused[topic_partition] = refused
        if refused is not None and refused != before:
            self._logger.warning(
                "leader_refused",
                log=str(topic_partition),
                epoch=refused.leader_epoch,
                refused_id=refused.leader_id,
                leader_id=log.leader_id,
            )

    def _on_append(self, effect: Append) -> None:
        log, batches = effect.topic_partition, effect.batches
        self._metrics.appended_batches[log] += len(batches)
        if batches:
            self._end_offsets[log] = batches[-1].end_offset

    def _on_rare_effects(self, effects: list[Effect]) -> None:
        for effect in effects:
            self._on_effect(effect)
        self._on_logs("logs_created", [effect.topic_partition for effect in effects if isinstance(effect, CreateLog)])
        self._on_logs("logs_deleted", [effect.topic_partition for effect in effects if isinstance(effect, DeleteLog)])

    def _on_effect(self, effect: Effect) -> None:
        match effect:
            case Truncate(topic_partition=log, end_offset=end_offset):
                self._on_truncated(log, end_offset)
            case StartLogAt(topic_partition=log, start_offset=start_offset):
                self._on_truncated(log, start_offset)
            case InstallSnapshot(topic_partition=log, snapshot_id=snapshot_id):
                self._end_offsets[log] = snapshot_id.end_offset
            case CreateLog(topic_partition=log) | ReplaceLog(topic_partition=log):
                self._end_offsets[log] = Offset(0)
            case ApplyRetention(retention_ms=int(), unix_ms=unix_ms):
                self._on_time(is_believed=unix_ms is not None)
            case DeleteLog(topic_partition=log):
                del self._end_offsets[log]
                self._seen.pop(log, None)
                self._cluster.forget(log)
                self._metrics.forget(log)
            case _:
                pass

    def _on_time(self, *, is_believed: bool) -> None:
        """Say once that nothing is deleted for its age, because the cluster's time has jumped, and once when it is."""
        if is_believed == self._believes_time:
            return
        self._believes_time = is_believed
        if is_believed:
            self._logger.info("time_believed")
        else:
            self._logger.warning("time_not_believed", reason="the clocks of the brokers have jumped, or are not known")

    def _on_logs(self, event: str, logs: list[TopicPartition]) -> None:
        """Write one line for all logs that come or go by one step: a topic may have many."""
        if logs:
            self._logger.info(event, logs=[str(log) for log in logs])

    def _on_truncated(self, log: TopicPartition, end_offset: Offset) -> None:
        from_offset, self._end_offsets[log] = self._end_offsets[log], end_offset
        self._metrics.truncations[log] += 1
        view = self._view.logs.get(log) or self._view.partitions.get(log)
        self._logger.info(
            "log_truncated",
            log=str(log),
            from_offset=from_offset,
            end_offset=end_offset,
            epoch=None if view is None else view.leader_epoch,
            leader_id=None if view is None else view.leader_id,
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
                    "epoch": log.leader_epoch,
                    "high_watermark": log.high_watermark,
                    "log_end_offset": log.log.log_end_offset,
                }
                for topic_partition, log in self._view.logs.items()
            },
            partitions=self._touched(effects),
        )

    def _touched(self, effects: tuple[Effect, ...]) -> dict[str, dict[str, int]]:
        """Show the partitions that the step has written to; there may be too many to show all at every step."""
        names = {effect.topic_partition for effect in effects if isinstance(effect, Append | Truncate | StartLogAt)}
        return {
            str(name): {"high_watermark": partition.high_watermark, "log_end_offset": partition.log.log_end_offset}
            for name in sorted(names)
            if (partition := self._view.partitions.get(name)) is not None
        }


def _name_of(event: Event) -> str:
    if isinstance(event, RequestReceived):
        return type(event.request).__name__
    if isinstance(event, ResponseReceived):
        return type(event.response).__name__
    return type(event).__name__
