"""The numbers of one replica, for Prometheus.

Owns their names and meanings. State is read when somebody asks for the page, never pushed on the hot path. Naming
follows Prometheus' own guide: ``<subsystem>_<thing>_<unit>``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Protocol

from prometheus_client import CollectorRegistry, Counter, Histogram, start_http_server
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.metrics_core import Metric

from replica.ids import Epoch, Offset, ReplicaId, TopicPartition


class NamedRole(Protocol):
    """A role, as far as an operator cares: its lower-case name."""

    @property
    def name(self) -> str:
        """``leader``, ``follower`` and so on."""


class LogEnd(Protocol):
    """The end of one log."""

    @property
    def log_end_offset(self) -> Offset:
        """Where the next record goes (exclusive end)."""


class LogView(Protocol):
    """What may be read of one log between steps."""

    @property
    def role(self) -> NamedRole:
        """What the replica is to this log."""

    @property
    def epoch(self) -> Epoch:
        """The leader epoch it has reached."""

    @property
    def leader_id(self) -> ReplicaId | None:
        """Who leads that epoch, as far as it knows."""

    @property
    def high_watermark(self) -> Offset | None:
        """Everything below is committed; absent while unknown."""

    @property
    def log(self) -> LogEnd:
        """The log itself."""


FLUSH_BUCKETS_SECONDS = (0.0001, 0.0003, 0.001, 0.003, 0.01, 0.03, 0.1, 0.3, 1.0, 3.0)
_LABELS = ["topic", "partition"]


class Metrics:
    """The counters and histograms of one replica, on a registry of its own."""

    def __init__(self, logs: Mapping[TopicPartition, LogView]) -> None:
        self.registry = CollectorRegistry()
        self.registry.register(_LogCollector(logs))
        self.steps = Counter("replica_steps", "Events that the core has taken.", registry=self.registry)
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

    def listen(self, host: str, port: int) -> Callable[[], None]:
        """Serve the page at ``http://host:port/metrics`` from a thread; returns what stops it. Raises OSError."""
        server, thread = start_http_server(port, addr=host, registry=self.registry)

        def stop() -> None:
            server.shutdown()
            server.server_close()
            thread.join()

        return stop


class _LogCollector:
    """Reads the state of every log at the moment of the scrape."""

    def __init__(self, logs: Mapping[TopicPartition, LogView]) -> None:
        self._logs = logs

    def collect(self) -> Iterator[Metric]:
        end = GaugeMetricFamily("replica_log_end_offset", "The end of the log (exclusive).", labels=_LABELS)
        watermark = GaugeMetricFamily("replica_high_watermark", "Everything below is committed.", labels=_LABELS)
        epoch = GaugeMetricFamily("replica_leader_epoch", "The leader epoch reached.", labels=_LABELS)
        role = GaugeMetricFamily("replica_role", "1 for the role that the replica has.", labels=[*_LABELS, "role"])
        for topic_partition, log in self._logs.items():
            labels = [topic_partition.topic, str(topic_partition.partition)]
            end.add_metric(labels, log.log.log_end_offset)
            epoch.add_metric(labels, log.epoch)
            role.add_metric([*labels, log.role.name], 1)
            if log.high_watermark is not None:
                watermark.add_metric(labels, log.high_watermark)
        yield from (end, watermark, epoch, role)
