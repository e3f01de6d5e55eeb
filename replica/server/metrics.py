"""The numbers of one replica, for Prometheus.

Owns what is counted, and the page. State is read when somebody asks for the page, never pushed on the hot path; what
must be counted on the way is a plain number until then. Naming follows Prometheus' own guide,
``<subsystem>_<thing>_<unit>``; what Kafka counts too has Kafka's name in that dress (``UnderReplicatedPartitions`` ->
``replica_under_replicated_partitions``), and what only etcd does has etcd's (``has_leader``).
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping

from prometheus_client import CollectorRegistry, ProcessCollector
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily
from prometheus_client.metrics_core import Metric

from replica.ids import TopicPartition
from replica.server.cluster_metrics import ClusterCollector
from replica.server.histogram import Histogram
from replica.server.load_metrics import Load, LoadCollector
from replica.server.log_metrics import LABELS, GroupCollector, LogCollector, labels_of
from replica.server.metrics_page import serve_page
from replica.server.request_metrics import RequestCounts
from replica.server.view import ReplicaView

FLUSH_BUCKETS_SECONDS = (0.0001, 0.0003, 0.001, 0.003, 0.01, 0.03, 0.1, 0.3, 1.0, 3.0)
LOOP_DELAY_BUCKETS_SECONDS = (0.001, 0.003, 0.01, 0.03, 0.1, 0.3, 1.0, 3.0)


class Metrics:
    """The counts of one replica, on a registry of its own, beside what is read from its state."""

    def __init__(self, view: ReplicaView) -> None:
        self.steps = 0
        self.is_ready = False
        self.isr_shrinks = 0
        self.isr_expands = 0
        self.unclean_leader_elections = 0
        self.loop_delay_seconds = Histogram(LOOP_DELAY_BUCKETS_SECONDS)
        self.requests = RequestCounts()
        self.appended_batches: Counter[TopicPartition] = Counter()
        self.truncations: Counter[TopicPartition] = Counter()
        self.role_changes: defaultdict[TopicPartition, Counter[str]] = defaultdict(Counter)
        """How often each log was seen to take up a role, or to be in it in another epoch or under another leader."""
        self._flush_seconds: dict[TopicPartition, Histogram] = {}
        self.registry = CollectorRegistry()
        for collector in (LogCollector(view), GroupCollector(view), ClusterCollector(view), self, self.requests):
            self.registry.register(collector)
        ProcessCollector(registry=self.registry)

    def watch(self, load: Load) -> None:
        """Show also what the replica has under way."""
        self.registry.register(LoadCollector(load))

    def on_flushed(self, topic_partition: TopicPartition, seconds: float) -> None:
        """Count a flush."""
        took = self._flush_seconds.get(topic_partition)
        if took is None:
            took = self._flush_seconds[topic_partition] = Histogram(FLUSH_BUCKETS_SECONDS)
        took.observe(seconds)

    def forget(self, topic_partition: TopicPartition) -> None:
        """Show nothing any more of a log that is gone."""
        for counted in (self.appended_batches, self.truncations, self.role_changes, self._flush_seconds):
            counted.pop(topic_partition, None)

    def listen(self, host: str, port: int) -> Callable[[], None]:
        """Serve the page at ``http://host:port/metrics`` from a thread; returns what stops it. Raises OSError."""
        return serve_page(self.registry, host, port)[1]

    # --- for the page: in its thread, while counting goes on --------------------------------------------------------

    def collect(self) -> Iterator[Metric]:
        """Make metrics of the counts."""
        yield GaugeMetricFamily("replica_ready", "1 if the replica is ready, as its health says.", value=self.is_ready)
        yield CounterMetricFamily("replica_steps", "Events that the core has taken.", value=self.steps)
        yield CounterMetricFamily(
            "replica_isr_shrinks", "Times that replicas left the ISR of a partition led here.", value=self.isr_shrinks
        )
        yield CounterMetricFamily(
            "replica_isr_expands", "Times that replicas joined the ISR of a partition led here.", value=self.isr_expands
        )
        yield CounterMetricFamily(
            "replica_unclean_leader_elections",
            "Elections of a leader that may lack committed records, counted by the active controller.",
            value=self.unclean_leader_elections,
        )
        yield _by_log("replica_appended_batches", "Record batches written to the log.", self.appended_batches)
        yield _by_log("replica_truncations", "Times that the log's end was cut.", self.truncations)
        yield self._roles()
        yield from self._durations()

    def _roles(self) -> Metric:
        roles = CounterMetricFamily(
            "replica_role_changes",
            "Lines `role_changed` of the log by its new role: of a quorum log, `candidate` and `leader` are elections.",
            labels=[*LABELS, "role"],
        )
        for topic_partition, counted in tuple(self.role_changes.items()):
            for role, count in tuple(counted.items()):
                roles.add_metric([*labels_of(topic_partition), role], count)
        return roles

    def _durations(self) -> Iterator[Metric]:
        flushes = HistogramMetricFamily(
            "replica_flush_seconds", "How long a flush to stable storage took (fsync).", labels=LABELS
        )
        for topic_partition, took in tuple(self._flush_seconds.items()):
            took.add_to(flushes, labels_of(topic_partition))
        delays = HistogramMetricFamily(
            "replica_event_loop_delay_seconds",
            "How much later than it was due the event loop has come to something, fifty times a second.",
        )
        self.loop_delay_seconds.add_to(delays, [])
        yield from (flushes, delays)


def _by_log(name: str, documentation: str, counted: Mapping[TopicPartition, int]) -> Metric:
    family = CounterMetricFamily(name, documentation, labels=LABELS)
    for topic_partition, count in tuple(counted.items()):
        family.add_metric(labels_of(topic_partition), count)
    return family
