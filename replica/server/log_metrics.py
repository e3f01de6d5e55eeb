"""The metrics of logs and groups, read from their state at the moment of the scrape.

Owns which there are: where a log begins and ends, how far it is committed, who leads it, how far its followers are.
"""

from __future__ import annotations

from collections.abc import Iterator

from prometheus_client.core import GaugeMetricFamily
from prometheus_client.metrics_core import Metric

from replica.ids import Epoch, TopicPartition
from replica.server.view import LogView, PartitionView, ReplicaView, follower_ends

LABELS = ["topic", "partition"]


def labels_of(topic_partition: TopicPartition) -> list[str]:
    """Return the values of the labels that name a log."""
    return [topic_partition.topic, str(topic_partition.partition)]


class LogCollector:
    """Reads every log."""

    def __init__(self, view: ReplicaView) -> None:
        self._view = view

    def collect(self) -> Iterator[Metric]:
        start = GaugeMetricFamily("replica_log_start_offset", "Where the log begins.", labels=LABELS)
        end = GaugeMetricFamily("replica_log_end_offset", "The end of the log (exclusive).", labels=LABELS)
        watermark = GaugeMetricFamily("replica_high_watermark", "Everything below is committed.", labels=LABELS)
        leader_epoch = GaugeMetricFamily("replica_leader_epoch", "The leader epoch reached.", labels=LABELS)
        has_leader = GaugeMetricFamily("replica_has_leader", "1 if somebody is known to lead the log.", labels=LABELS)
        role = GaugeMetricFamily("replica_role", "1 for the role that the replica has.", labels=[*LABELS, "role"])
        for topic_partition, log, epoch in self._logs():
            labels = labels_of(topic_partition)
            start.add_metric(labels, log.log.log_start_offset)
            end.add_metric(labels, log.log.log_end_offset)
            leader_epoch.add_metric(labels, epoch)
            has_leader.add_metric(labels, int(log.leader_id is not None))
            role.add_metric([*labels, log.role.name], 1)
            if log.high_watermark is not None:
                watermark.add_metric(labels, log.high_watermark)
        yield from (start, end, watermark, leader_epoch, has_leader, role, self._lags())

    def _lags(self) -> Metric:
        lags = GaugeMetricFamily(
            "replica_follower_lag",
            "Records that a follower has not fetched yet, as the leader knows; absent before its first fetch.",
            labels=[*LABELS, "follower"],
        )
        for topic_partition, log, _ in self._logs():
            log_end_offset = log.log.log_end_offset  # Before the followers': one may be ahead of it then.
            for follower, end_offset in follower_ends(log.role).items():
                lag = max(0, log_end_offset - end_offset)
                lags.add_metric([*labels_of(topic_partition), str(follower)], lag)
        return lags

    def _logs(self) -> Iterator[tuple[TopicPartition, LogView | PartitionView, Epoch]]:
        for name, log in tuple(self._view.logs.items()):
            yield name, log, log.leader_epoch
        for name, partition in tuple(self._view.partitions.items()):
            yield name, partition, partition.leader_epoch


class GroupCollector:
    """Reads every group."""

    def __init__(self, view: ReplicaView) -> None:
        self._view = view

    def collect(self) -> Iterator[Metric]:
        applied = GaugeMetricFamily(
            "replica_group_applied_offset", "The group's machine has applied everything below.", labels=LABELS
        )
        leads = GaugeMetricFamily(
            "replica_group_machine_leads", "1 if the group's machine takes commands here.", labels=LABELS
        )
        snapshot = GaugeMetricFamily(
            "replica_group_snapshot_end_offset", "The group's newest snapshot contains all below.", labels=LABELS
        )
        for topic_partition, group in tuple(self._view.groups.items()):
            labels = labels_of(topic_partition)
            applied.add_metric(labels, group.applied_offset)
            leads.add_metric(labels, int(group.machine_leads))
            for newest in self._view.logs[topic_partition].snapshots[-1:]:
                snapshot.add_metric(labels, newest.id.end_offset)
        yield from (applied, leads, snapshot)
