"""What happened in a cluster world that happens rarely, beside what is rare in any world.

Owns the counting of what the controller decides, seen from the committed metadata as the first replica applies it, and
of what brokers do, seen from their steps; and the rows of what partitions had happen to them. Judges nothing. Looks at
partitions only where a step was about them.

Source: Kafka's metrics of the same events (``IsrShrinksPerSec``, ``UncleanLeaderElectionsPerSec``).

What has become of a partition's move, by what is decided of it before and after. Decisions that are applied together
count as the one that they come to.
"""

from __future__ import annotations

from collections import Counter

from nemesis.history import BECAME_LEADER
from nemesis.simulator import passing_topic
from nemesis.simulator.node import Node, Step
from nemesis.simulator.rare import Rare
from nemesis.simulator.record import Record
from nemesis.simulator.world import Observer
from replica.core import effects as fx
from replica.core import events as ev
from replica.core import messages as m
from replica.core.metadata.image import MetadataImage
from replica.core.metadata.records import LeaderRecoveryState, PartitionRegistration
from replica.core.metadata.replay import METADATA_LOG
from replica.core.partition.roles import Leader
from replica.core.replica import Replica
from replica.errors import ErrorCode
from replica.ids import Epoch, Offset, ReplicaId, TopicPartition
from replica.records import scan_batches
from replica.voters import ReplicaKey

_COUNTED = frozenset[type]((fx.Truncate, fx.RaiseLogStart, fx.DeleteLog, fx.ReplaceLog, fx.StartLogAt))


class ClusterCensus(Observer):
    """Counts ``Rare`` events of one world, and records who leads partitions and what they truncate."""

    def __init__(self, record: Record) -> None:
        self._record = record
        self._rare = record.rare
        self._image = MetadataImage()
        self._applied = Offset(0)
        self._images: dict[ReplicaId, MetadataImage] = {}
        """The image of each replica whose roles were looked at."""
        self._led: dict[tuple[ReplicaId, TopicPartition], Epoch] = {}
        self._high_watermarks: dict[tuple[ReplicaId, TopicPartition], Offset] = {}
        self._controllers: set[Epoch] = set()
        self._former_disks: set[ReplicaKey] = set()

    def on_boot(self, node: Node, torn_bytes: int) -> None:
        del torn_bytes
        damaged = sum(found.damage is not None for found in node.recovered.values())
        self._rare[Rare.PARTITION_OFFLINE_AT_START] += damaged
        self._images.pop(node.replica_id, None)
        for key in [key for key in self._high_watermarks if key[0] == node.replica_id]:
            del self._high_watermarks[key]

    def on_disk_changed(self, node: Node) -> None:
        counted_on: list[set[ReplicaId | None]] = [
            {*registration.isr, *registration.elr} or {registration.last_known_leader}
            for _, registration in self._image.partitions()
        ]
        self._rare[Rare.DISK_REPLACED] += 1
        self._rare[Rare.EARLIER_DISK_PUT_BACK] += node.key in self._former_disks
        self._former_disks.add(list(node.lost)[-1])
        self._rare[Rare.COUNTED_ON_DISK_REPLACED] += any(node.replica_id in one for one in counted_on)
        self._rare[Rare.LAST_COUNTED_ON_DISK_REPLACED] += {node.replica_id} in counted_on

    def on_step(self, node: Node, step: Step) -> None:
        if ev.LogDamaged in step.kinds:
            self._rare[Rare.PARTITION_OFFLINE] += 1
        for effect in () if step.kinds.isdisjoint(_COUNTED) else step.effects:
            match effect:
                case fx.Truncate(topic_partition=log, end_offset=end_offset) if log != METADATA_LOG:
                    self._rare[Rare.PARTITION_TRUNCATED] += 1
                    if log.topic != passing_topic.NAME:
                        self._record.replica(node.replica_id, "truncated", topic_partition=log, offset=end_offset)
                case fx.RaiseLogStart(topic_partition=log) if log != METADATA_LOG:
                    self._rare[Rare.LOG_START_RAISED] += 1
                case fx.DeleteLog(topic_partition=log):
                    self._rare[Rare.LOG_DELETED] += 1
                    self._rare[Rare.LOG_DELETED_AFTER_START] += log in node.recovered
                case fx.ReplaceLog():
                    self._rare[Rare.DAMAGED_LOG_REPLACED] += 1
                case fx.StartLogAt():
                    self._rare[Rare.OUT_OF_RANGE_RESET] += 1
                case _:
                    pass
        if node.core is None or not step.is_whole:
            return
        self._look_at_event(node.replica_id, node.core, step)
        self._look_at_metadata(node.replica_id, node.core)

    def _look_at_event(self, replica_id: ReplicaId, core: Replica, step: Step) -> None:
        match step.event:
            case ev.RequestReceived(call_id=call_id, request=m.ProduceRequest() as request):
                self._rare[Rare.DUPLICATE_PRODUCE_SUPPRESSED] += _is_suppressed(request, call_id, step)
            case ev.ResponseReceived(response=m.FetchResponse(partitions=partitions)):
                for part in partitions:
                    self._look_at_high_watermark(replica_id, core, part.topic_partition)
            case _:
                pass

    def _look_at_high_watermark(self, replica_id: ReplicaId, core: Replica, log: TopicPartition) -> None:
        partition = None if core.broker is None else core.broker.partitions.get(log)
        if partition is None:
            return
        before = self._high_watermarks.get((replica_id, log), Offset(0))
        self._high_watermarks[replica_id, log] = partition.high_watermark
        self._rare[Rare.HW_REGRESSION_ON_FOLLOWER] += partition.high_watermark < before

    # --- metadata ---------------------------------------------------------------------------------------------------

    def _look_at_metadata(self, replica_id: ReplicaId, core: Replica) -> None:
        if core.controller is not None and core.controller.is_active:
            epoch = core.logs[METADATA_LOG].leader_epoch
            if epoch not in self._controllers:
                self._controllers.add(epoch)
                self._rare[Rare.CONTROLLER_FAILOVER] += len(self._controllers) > 1
        image = core.metadata.image
        if image is self._images.get(replica_id):
            return
        known = self._images.get(replica_id)
        self._images[replica_id] = image
        self._look_at_roles(replica_id, core)
        if known is not None and known.topics is not image.topics:
            self._look_at_epochs(known, image)
        if core.metadata.applied_offset > self._applied:
            before, self._image, self._applied = self._image, image, core.metadata.applied_offset
            self._compare(before, image)

    def _look_at_roles(self, replica_id: ReplicaId, core: Replica) -> None:
        for log, partition in {} if core.broker is None else core.broker.partitions.items():
            if partition.is_leader and self._led.get((replica_id, log)) != partition.leader_epoch:
                self._led[replica_id, log] = partition.leader_epoch
                if log.topic == passing_topic.NAME:
                    continue  # To who knows topics by their names, its epochs begin again and again.
                assert isinstance(partition.role, Leader), partition
                self._record.replica(
                    replica_id,
                    BECAME_LEADER,
                    topic_partition=log,
                    epoch=partition.leader_epoch,
                    detail={"log_end_offset": partition.role.epoch_start_offset},
                )

    def _look_at_epochs(self, before: MetadataImage, after: MetadataImage) -> None:
        """Count the leader epochs that a broker takes up when they are over, and those that it never hears of."""
        for log, registration in after.partitions():
            known, newest = before.partition(log), self._image.partition(log)
            if known is None or newest is None or registration.leader_epoch == known.leader_epoch:
                continue
            self._rare[Rare.STALE_METADATA] += registration.leader_epoch < newest.leader_epoch
            self._rare[Rare.LEADER_EPOCH_MISSED] += registration.leader_epoch > known.leader_epoch + 1

    def _compare(self, before: MetadataImage, after: MetadataImage) -> None:
        self._rare[Rare.SETTING_CHANGED] += before.configs != after.configs
        self._rare[Rare.LEVEL_RAISED] += before.level != after.level
        if before.brokers is not after.brokers:
            for broker in after.brokers.values():
                was = before.brokers.get(broker.broker_id)
                if was is not None and was is not broker:
                    self._rare[Rare.BROKER_FENCED] += broker.fenced and not was.fenced
                    stops = broker.in_controlled_shutdown and not was.in_controlled_shutdown
                    self._rare[Rare.CONTROLLED_SHUTDOWN] += stops
        if before.topics is not after.topics:
            was_set = {topic.topic_id: topic.configs for topic in before.topics.values()}
            self._rare[Rare.TOPIC_SETTING_CHANGED] += any(
                topic.configs != was_set.get(topic.topic_id, topic.configs) for topic in after.topics.values()
            )
            for log, registration in after.partitions():
                known = before.partition(log)
                if known is not None and known is not registration:
                    self._compare_partition(known, registration)

    def _compare_partition(self, was: PartitionRegistration, now: PartitionRegistration) -> None:
        count_move(self._rare, was, now)
        self._rare[Rare.ISR_SHRINK] += not set(was.isr) <= set(now.isr)
        self._rare[Rare.ISR_EXPAND] += not set(now.isr) <= set(was.isr)
        self._rare[Rare.PARTITION_WAITED_FOR_OPERATOR] += now.waits_for_operator and not was.waits_for_operator
        if now.leader_id is not None and now.leader_id != was.leader_id:
            self._rare[Rare.LEADER_FAILOVER] += 1
            self._rare[Rare.ELR_ELECTION] += now.leader_id in was.elr
            is_unclean = now.leader_recovery_state is LeaderRecoveryState.RECOVERING
            self._rare[Rare.UNCLEAN_ELECTION] += is_unclean


def _is_suppressed(request: m.ProduceRequest, call_id: int, step: Step) -> bool:
    """Whether a numbered batch was taken without being appended, since the log has it already."""
    (batch,) = scan_batches(request.records, verify=False)
    if not batch.is_idempotent:
        return False
    for effect in step.effects:
        match effect:
            case fx.Append(topic_partition=log) if log == request.topic_partition:
                return False
            case fx.Reply(call_id=answered, response=m.ProduceResponse(error=error)) if answered == call_id:
                return error is ErrorCode.NONE
            case _:
                pass
    return True


def count_move(rare: Counter[Rare], was: PartitionRegistration, now: PartitionRegistration) -> None:
    """Count what has happened to it, if anything has."""
    is_cancelled = was.is_reassigned and _members(now) == set(was.replicas) - set(was.adding_replicas)
    if now.is_reassigned and was.is_reassigned:
        rare[Rare.REASSIGNMENT_CHANGED] += _target(was) != _target(now)
    elif now.is_reassigned:
        rare[Rare.REASSIGNMENT_BEGUN] += 1
    elif is_cancelled:
        rare[Rare.REASSIGNMENT_CANCELLED] += 1
    elif was.is_reassigned or was.replicas != now.replicas:
        rare[Rare.REASSIGNMENT_BEGUN] += not was.is_reassigned
        rare[Rare.REASSIGNMENT_COMPLETED] += 1
        rare[Rare.REASSIGNED_LEADER] += was.leader_id not in {None, *_members(now)}


def _members(registration: PartitionRegistration) -> set[ReplicaId]:
    return set(registration.replicas)


def _target(registration: PartitionRegistration) -> tuple[ReplicaId, ...]:
    return tuple(replica for replica in registration.replicas if replica not in registration.removing_replicas)
