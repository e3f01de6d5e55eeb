"""What a world is like in which the replicas are brokers and controllers: its topics, its pace, its clients.

Owns the part of a climate that only such worlds have, as flat fields, and the configurations of the core that follow
from it. Knows nothing of worlds.
"""

from __future__ import annotations

from dataclasses import dataclass

from replica.core.config import BrokerConfig, ControllerConfig, LogFlush, MetadataConfig
from replica.core.metadata.levels import FIRST_LEVEL, NEWEST_LEVEL
from replica.ids import TopicPartition


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterClimate:
    """``topics`` with ``partitions`` partitions each, in ``replication_factor`` replicas, and how they are used.

    Without ``fsync`` records reach the disk when the system pleases, so that such a world must not lose its power.
    ``idempotent`` is the share of processes that number what they append, and then try again until they know.
    ``weak_acks`` is the share of the other appends that ask for ``acks`` of 0 or 1, which promise nothing.
    ``follower_reads`` is the share of reads that ask any replica, and not whoever leads. With ``retention_bytes`` of -1
    everything is kept. ``appointee_ambush`` is how often a broker is struck when the controller makes it leader instead
    of another; with ``laggards`` the preferred leader, too, when it takes over with a shorter log than the others have.
    Beside the voters there are ``observers``: brokers that only follow the metadata log. So many times a minute
    (``disk_losses``) a broker is out of service for a while, most times to come back with an empty disk, and who votes
    changes; so many times a minute (``reassignments``) somebody moves a partition, or gives a move another target, or
    cancels it. A ``passing_topic`` beside the others is created and deleted, again and again. So many times a minute
    (``rot``) a cold batch of a partition rots on one disk, (``setting_changes``) somebody changes what brokers and
    topics go by while they run, (``upgrades``) a replica of an older release is restarted with the newer one, which
    knows a higher feature level, and (``directory_losses``) the disk of one of two log directories fails on a broker,
    which is restarted with it as it was, or with an empty one in its place; with ``only_copies_fail`` also one that
    holds the only copy of something, which then comes back as it was. Where settings change and nothing is
    upgraded, the cluster begins at the newest feature level.
    The rest are the settings of brokers and controllers, with Kafka's names.
    """

    topics: int = 2
    partitions: int = 2
    replication_factor: int = 3
    min_insync_replicas: int = 2
    fsync: bool = True
    unclean_leader_election_enable: bool = False
    elr_enable: bool = True
    idempotent: float = 0.0
    weak_acks: float = 0.0
    appointee_ambush: float = 0.0
    laggards: bool = False
    follower_reads: float = 0.0
    replica_fetch_wait_max_ms: int = 500
    replica_socket_timeout_ms: int = 2000
    broker_heartbeat_interval_ms: int = 2000
    broker_session_timeout_ms: int = 9000
    replica_lag_time_max_ms: int = 10_000
    replica_fetch_max_bytes: int = 1 << 20
    replica_fetch_backoff_ms: int = 1000
    controller_retry_backoff_ms: int = 100
    controller_request_timeout_ms: int = 2000
    replica_high_watermark_checkpoint_interval_ms: int = 5000
    leader_imbalance_check_interval_seconds: int = 300
    retention_bytes: int = -1
    log_retention_check_interval_ms: int = 300_000
    observers: int = 0
    disk_losses: float = 0.0
    reassignments: float = 0.0
    rot: float = 0.0
    directory_losses: float = 0.0
    only_copies_fail: bool = False
    passing_topic: bool = False
    setting_changes: float = 0.0
    upgrades: float = 0.0
    metadata_log_max_record_bytes_between_snapshots: int = 20 << 20
    metadata_log_max_snapshot_interval_ms: int = 3_600_000

    @property
    def is_patient(self) -> bool:
        """Whether what is awaited may take as long as it does: a fetch its wait, a session some heartbeats."""
        return (
            self.replica_fetch_wait_max_ms < self.replica_socket_timeout_ms <= self.replica_lag_time_max_ms
            and 3 * self.broker_heartbeat_interval_ms <= self.broker_session_timeout_ms
            and 3 * self.controller_request_timeout_ms <= self.broker_session_timeout_ms
        )

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the topics."""
        return tuple(f"topic{number}" for number in range(1, self.topics + 1))

    @property
    def topic_partitions(self) -> tuple[TopicPartition, ...]:
        """All partitions of all topics."""
        return tuple(TopicPartition(name, number) for name in self.names for number in range(self.partitions))

    @property
    def initial_level(self) -> int:
        """The feature level at which the cluster begins."""
        return NEWEST_LEVEL if self.setting_changes and not self.upgrades else FIRST_LEVEL

    @property
    def broker_config(self) -> BrokerConfig:
        """How the brokers are set."""
        return BrokerConfig(
            replica_fetch_wait_max_ms=self.replica_fetch_wait_max_ms,
            replica_socket_timeout_ms=self.replica_socket_timeout_ms,
            replica_lag_time_max_ms=self.replica_lag_time_max_ms,
            replica_fetch_max_bytes=self.replica_fetch_max_bytes,
            replica_fetch_response_max_bytes=self.replica_fetch_max_bytes,
            replica_fetch_backoff_ms=self.replica_fetch_backoff_ms,
            replica_high_watermark_checkpoint_interval_ms=self.replica_high_watermark_checkpoint_interval_ms,
            broker_heartbeat_interval_ms=self.broker_heartbeat_interval_ms,
            log_retention_check_interval_ms=self.log_retention_check_interval_ms,
            controller_retry_backoff_ms=self.controller_retry_backoff_ms,
            controller_request_timeout_ms=self.controller_request_timeout_ms,
            alter_partition_retry_backoff_ms=self.controller_retry_backoff_ms,
            log_flush=LogFlush.FSYNC if self.fsync else LogFlush.OS,
        )

    @property
    def metadata_config(self) -> MetadataConfig:
        """How often snapshots of the metadata are taken."""
        return MetadataConfig(
            metadata_log_max_record_bytes_between_snapshots=self.metadata_log_max_record_bytes_between_snapshots,
            metadata_log_max_snapshot_interval_ms=self.metadata_log_max_snapshot_interval_ms,
        )

    @property
    def controller_config(self) -> ControllerConfig:
        """How the controllers are set."""
        return ControllerConfig(
            broker_session_timeout_ms=self.broker_session_timeout_ms,
            elr_enable=self.elr_enable,
            leader_imbalance_check_interval_seconds=self.leader_imbalance_check_interval_seconds,
        )

    @property
    def topic_configs(self) -> dict[str, str]:
        """The settings that every topic is created with."""
        return {
            "min.insync.replicas": f"{self.min_insync_replicas}",
            **({} if self.retention_bytes < 0 else {"retention.bytes": f"{self.retention_bytes}"}),
            "unclean.leader.election.enable": "true" if self.unclean_leader_election_enable else "false",
        }
