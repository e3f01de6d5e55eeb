"""The metrics of a broker and of the cluster, counted from the metadata at the moment of the scrape.

Owns which there are, and who answers for them: a leader for its partitions, the active controller for the cluster.
"""

from __future__ import annotations

from collections.abc import Iterator

from prometheus_client.core import GaugeMetricFamily
from prometheus_client.metrics_core import Metric

from replica.server.view import PartitionView, ReplicaView


class ClusterCollector:
    """Counts partitions, and what the active controller answers for, at the moment of the scrape."""

    def __init__(self, view: ReplicaView) -> None:
        self._view = view

    def collect(self) -> Iterator[Metric]:
        partitions = tuple(self._view.partitions.values())
        led = [partition for partition in partitions if partition.leader_id == self._view.replica_id]
        info = GaugeMetricFamily("replica_info", "1, with the id of the replica.", labels=["replica_id"])
        info.add_metric([str(self._view.replica_id)], 1)
        yield info
        yield _gauge("partition_count", "Partitions hosted here.", len(partitions))
        yield _gauge(
            "offline_replica_count",
            "Partitions that are offline here, their logs being damaged.",
            len(self._view.offline),
        )
        yield _gauge(
            "offline_log_directory_count",
            "Log directories of which the disk has refused: nothing is done there until the next start.",
            len(self._view.failed_directories),
        )
        yield _gauge("leader_count", "Partitions led here.", len(led))
        yield _gauge(
            "under_replicated_partitions",
            "Partitions led here with fewer in-sync replicas than replicas.",
            sum(_in_sync(partition) < _replicas(partition) for partition in led),
        )
        yield _gauge(
            "under_min_isr_partition_count",
            "Partitions led here with fewer in-sync replicas than acks=all needs.",
            sum(_in_sync(partition) < partition.effective_min_isr for partition in led),
        )
        yield _gauge(
            "at_min_isr_partition_count",
            "Partitions led here with just as many in-sync replicas as acks=all needs.",
            sum(_in_sync(partition) == partition.effective_min_isr for partition in led),
        )
        yield from self._decided()

    def _decided(self) -> Iterator[Metric]:
        """Count what the active controller answers for; 0 on any other replica, so that a sum counts nothing twice."""
        is_active, image = self._view.is_active_controller, self._view.image
        brokers = image.brokers.values() if is_active else ()
        partitions = [registration for _, registration in image.partitions()] if is_active else []
        offline = sum(registration.leader_id is None for registration in partitions)
        waiting = sum(registration.waits_for_operator for registration in partitions)
        yield _gauge("active_controller_count", "1 if this replica is the active controller.", int(is_active))
        yield _gauge("offline_partitions_count", "Partitions that nobody leads.", offline)
        yield _gauge(
            "partitions_waiting_for_operator_count",
            "Of these, those that wait for a choice.",
            waiting,
        )
        yield _gauge(
            "active_broker_count", "Brokers that are not fenced.", sum(not broker.fenced for broker in brokers)
        )
        yield _gauge("fenced_broker_count", "Brokers that are fenced.", sum(broker.fenced for broker in brokers))


def _gauge(name: str, documentation: str, value: int) -> GaugeMetricFamily:
    return GaugeMetricFamily(f"replica_{name}", documentation, value=value)


def _in_sync(partition: PartitionView) -> int:
    return 0 if partition.registration is None else len(partition.registration.isr)


def _replicas(partition: PartitionView) -> int:
    return 0 if partition.registration is None else len(partition.registration.replicas)
