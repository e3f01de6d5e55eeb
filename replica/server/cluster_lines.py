"""What happens in the cluster, as log lines: who controls it, which brokers come and go, whose ISR shrinks and grows.

Owns these lines and their counters. Each is written by the one who answers for it: a broker of itself, the active
controller of the other brokers and of elections (``election_lines``), the leader of a partition of its ISR. Looks only
when the metadata has changed, and at those partitions only that were told of it just now.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from structlog.typing import FilteringBoundLogger

from replica.core.metadata.image import BrokerRegistration, MetadataImage
from replica.core.metadata.records import PartitionRegistration
from replica.core.metadata.replay import METADATA_LOG
from replica.ids import ReplicaId, TopicPartition
from replica.server.election_lines import ElectionLines
from replica.server.metrics import Metrics
from replica.server.view import ReplicaView


class ClusterLines:
    """Compares the metadata after a step with what it saw last."""

    def __init__(self, *, view: ReplicaView, metrics: Metrics, logger: FilteringBoundLogger) -> None:
        self._view = view
        self._metrics = metrics
        self._logger = logger
        self._image = view.image
        self._was_active = False
        self._registrations: dict[TopicPartition, PartitionRegistration] = {}
        self._elections = ElectionLines(metrics=metrics, logger=logger)

    def forget(self, log: TopicPartition) -> None:
        """Take it that this partition is gone: another of its name would be another's."""
        self._registrations.pop(log, None)

    def on_step(self, image: MetadataImage, told: Iterable[TopicPartition] = ()) -> None:
        """Write what has changed by the last step, of the partitions of those that were ``told`` something in it.

        ``image`` is what the cluster has decided by now.
        """
        is_active = self._view.is_active_controller
        if is_active != self._was_active:
            self._was_active = is_active
            epoch = self._view.logs[METADATA_LOG].leader_epoch
            self._logger.info("controller_active" if self._was_active else "controller_renounced", epoch=epoch)
            if self._was_active:
                self._elections.on_active(self._image)
        if image is not self._image:
            self._on_image(image)
        self._on_partitions(told)

    def _on_image(self, image: MetadataImage) -> None:
        before, self._image = self._image, image
        if image.brokers is not before.brokers:
            self._on_brokers(before.brokers, image.brokers)
        if self._was_active and image.topics is not before.topics:
            self._elections.on_topics(before, image)

    def _on_brokers(
        self, before: Mapping[ReplicaId, BrokerRegistration], now: Mapping[ReplicaId, BrokerRegistration]
    ) -> None:
        for broker_id, broker in now.items():
            if broker is not before.get(broker_id) and (self._was_active or broker_id == self._view.replica_id):
                self._on_broker(before.get(broker_id), broker)
        for broker_id in before.keys() - now.keys():
            if self._was_active:
                self._logger.info(
                    "broker_unregistered", broker_id=broker_id, broker_epoch=before[broker_id].broker_epoch
                )

    def _on_broker(self, before: BrokerRegistration | None, now: BrokerRegistration) -> None:
        who = {"broker_id": now.broker_id, "broker_epoch": now.broker_epoch}
        was_fenced, was_leaving = True, False
        if before is None or before.broker_epoch != now.broker_epoch:
            self._logger.info("broker_registered", **who, address=now.address, rack=now.rack)
        else:
            was_fenced, was_leaving = before.fenced, before.in_controlled_shutdown
        if now.fenced != was_fenced:
            self._logger.info("broker_fenced" if now.fenced else "broker_unfenced", **who)
        if now.in_controlled_shutdown and not was_leaving:
            self._logger.info("broker_leaving", **who)

    def _on_partitions(self, told: Iterable[TopicPartition]) -> None:
        for name in told:
            partition, before = self._view.partitions.get(name), self._registrations.get(name)
            now = None if partition is None else partition.registration
            if now is None:
                continue
            self._registrations[name] = now
            if before is not None and before is not now and self._leads_on(before, now):
                self._on_isr(name, before, now)

    def _leads_on(self, before: PartitionRegistration, now: PartitionRegistration) -> bool:
        return now.leader_id == self._view.replica_id and now.leader_epoch == before.leader_epoch

    def _on_isr(self, name: TopicPartition, before: PartitionRegistration, now: PartitionRegistration) -> None:
        left = sorted(set(before.isr) - set(now.isr))
        joined = sorted(set(now.isr) - set(before.isr))
        what = {"log": str(name), "epoch": now.leader_epoch, "partition_epoch": now.partition_epoch}
        if left:
            self._metrics.isr_shrinks += 1
            self._logger.info("isr_shrunk", **what, isr=list(now.isr), left=left)
        if joined:
            self._metrics.isr_expands += 1
            self._logger.info("isr_expanded", **what, isr=list(now.isr), joined=joined)
