"""The numbers of one replica, for Prometheus.

Owns their names and meanings. State is read when somebody asks for the page, never pushed on the hot path. Naming
follows Prometheus' own guide, ``<subsystem>_<thing>_<unit>``; what Kafka counts too has Kafka's name in that dress
(``UnderReplicatedPartitions`` -> ``replica_under_replicated_partitions``).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from prometheus_client import CollectorRegistry, Counter, Histogram
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.metrics_core import Metric

from replica.ids import Epoch, TopicPartition
from replica.server.metrics_page import serve_page
from replica.server.view import LogView, PartitionView, ReplicaView

FLUSH_BUCKETS_SECONDS = (0.0001, 0.0003, 0.001, 0.003, 0.01, 0.03, 0.1, 0.3, 1.0, 3.0)
LOOP_DELAY_BUCKETS_SECONDS = (0.001, 0.003, 0.01, 0.03, 0.1, 0.3, 1.0, 3.0)
_LABELS = ["topic", "partition"]


class Metrics:
    """The counters and histograms of one replica, on a registry of its own."""

    def __init__(self, view: ReplicaView) -> None:
        self.registry = CollectorRegistry()
        self.registry.register(_LogCollector(view))
        self.registry.register(_GroupCollector(view))
        self.registry.register(_ClusterCollector(view))
        self.steps = Counter("replica_steps", "Events that the core has taken.", registry=self.registry)
        self.isr_shrinks = Counter(
            "replica_isr_shrinks", "Times that replicas left the ISR of a partition led here.", registry=self.registry
        )
        self.isr_expands = Counter(
            "replica_isr_expands", "Times that replicas joined the ISR of a partition led here.", registry=self.registry
        )
        self.unclean_leader_elections = Counter(
            "replica_unclean_leader_elections",
            "Elections of a leader that may lack committed records, counted by the active controller.",
            registry=self.registry,
        )
        self._over_budget = Counter(
            "replica_requests_over_budget", "Requests refused, by the budget.", ["budget"], registry=self.registry
        )
        self.appended_batches = Counter(
            "replica_appended_batches", "Record batches written to the log.", _LABELS, registry=self.registry
        )
        self.truncations = Counter(
            "replica_truncations", "Times that the log's end was cut.", _LABELS, registry=self.registry
        )
        self.flush_seconds = Histogram(
            "replica_flush_seconds",
            "How long a flush to stable storage took.",
            _LABELS,
            registry=self.registry,
            buckets=FLUSH_BUCKETS_SECONDS,
        )
        self.loop_delay_seconds = Histogram(
            "replica_event_loop_delay_seconds",
            "How much later than it was due the event loop has come to something, fifty times a second.",
            registry=self.registry,
            buckets=LOOP_DELAY_BUCKETS_SECONDS,
        )

    def on_over_budget(self, budget: str) -> None:
        """Count a request that was refused because there is no room for it or for its answer."""
        self._over_budget.labels(budget).inc()

    def forget(self, topic_partition: TopicPartition) -> None:
        """Show nothing any more of a log that is gone."""
        labels = labels_of(topic_partition)
        for metric in (self.appended_batches, self.truncations, self.flush_seconds):
            metric.labels(*labels)  # One that was never counted cannot be removed.
            metric.remove(*labels)

    def listen(self, host: str, port: int) -> Callable[[], None]:
        """Serve the page at ``http://host:port/metrics`` from a thread; returns what stops it. Raises OSError."""
        return serve_page(self.registry, host, port)[1]


def labels_of(topic_partition: TopicPartition) -> list[str]:
    """Return the values of the labels that name a log."""
    return [topic_partition.topic, str(topic_partition.partition)]


class _LogCollector:
    """Reads the state of every log at the moment of the scrape."""

    def __init__(self, view: ReplicaView) -> None:
        self._view = view

    def collect(self) -> Iterator[Metric]:
        end = GaugeMetricFamily("replica_log_end_offset", "The end of the log (exclusive).", labels=_LABELS)
        watermark = GaugeMetricFamily("replica_high_watermark", "Everything below is committed.", labels=_LABELS)
        leader_epoch = GaugeMetricFamily("replica_leader_epoch", "The leader epoch reached.", labels=_LABELS)
        role = GaugeMetricFamily("replica_role", "1 for the role that the replica has.", labels=[*_LABELS, "role"])
        for topic_partition, log, epoch in self._logs():
            labels = labels_of(topic_partition)
            end.add_metric(labels, log.log.log_end_offset)
            leader_epoch.add_metric(labels, epoch)
            role.add_metric([*labels, log.role.name], 1)
            if log.high_watermark is not None:
                watermark.add_metric(labels, log.high_watermark)
        yield from (end, watermark, leader_epoch, role)

    def _logs(self) -> Iterator[tuple[TopicPartition, LogView | PartitionView, Epoch]]:
        for name, log in tuple(self._view.logs.items()):
            yield name, log, log.leader_epoch
        for name, partition in tuple(self._view.partitions.items()):
            yield name, partition, partition.leader_epoch


class _GroupCollector:
    """Reads the groups at the moment of the scrape."""

    def __init__(self, view: ReplicaView) -> None:
        self._view = view

    def collect(self) -> Iterator[Metric]:
        applied = GaugeMetricFamily(
            "replica_group_applied_offset", "The group's machine has applied everything below.", labels=_LABELS
        )
        leads = GaugeMetricFamily(
            "replica_group_machine_leads", "1 if the group's machine takes commands here.", labels=_LABELS
        )
        snapshot = GaugeMetricFamily(
            "replica_group_snapshot_end_offset", "The group's newest snapshot contains all below.", labels=_LABELS
        )
        for topic_partition, group in tuple(self._view.groups.items()):
            labels = labels_of(topic_partition)
            applied.add_metric(labels, group.applied_offset)
            leads.add_metric(labels, int(group.machine_leads))
            for newest in self._view.logs[topic_partition].snapshots[-1:]:
                snapshot.add_metric(labels, newest.id.end_offset)
        yield from (applied, leads, snapshot)


class _ClusterCollector:
    """Counts partitions, and what the active controller answers for, at the moment of the scrape."""

    def __init__(self, view: ReplicaView) -> None:
        self._view = view

    def collect(self) -> Iterator[Metric]:
        partitions = tuple(self._view.partitions.values())
        led = [partition for partition in partitions if partition.leader_id == self._view.replica_id]
        yield _gauge("partition_count", "Partitions hosted here.", len(partitions))
        yield _gauge(
            "offline_replica_count",
            "Partitions that are offline here, their logs being damaged.",
            len(self._view.offline),
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
