"""What a cluster of our replicas is made of: its size, its topics, its patience, and how its clients write.

Owns the values and what must hold between them. Replicas are less patient than in production: a run of a minute must
see sessions end, leaders change and replicas fall out of sync and come back.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, field

from nemesis.cluster.key_value_client import GROUP, GROUP_LOG, MACHINE, Reads, StoreOptions
from nemesis.cluster.topic_client import ClientOptions

TOPIC = "topic"
FSYNC, OS = "fsync", "os"
"""When logs are flushed: before anything is acknowledged, or when the operating system pleases."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicOptions:
    """The topics that the clients write to: so many, alike."""

    topic_count: int = 1
    partitions: int = 2
    replication_factor: int = 3
    min_insync_replicas: int = 2
    unclean_leader_election: bool = False
    retention_bytes: int | None = None
    """How much of a partition is kept; all of it where this is absent."""

    @property
    def topics(self) -> tuple[str, ...]:
        """Their names."""
        return tuple(f"{TOPIC}{number}" for number in range(1, self.topic_count + 1))

    @property
    def names(self) -> tuple[str, ...]:
        """The names of all their partitions."""
        return tuple(f"{topic}-{number}" for topic in self.topics for number in range(self.partitions))

    @property
    def trimmed(self) -> tuple[str, ...]:
        """The names of those from which retention may delete."""
        return () if self.retention_bytes is None else self.names

    @property
    def configs(self) -> dict[str, str]:
        """Their settings, by Kafka's names."""
        return {
            "min.insync.replicas": str(self.min_insync_replicas),
            "unclean.leader.election.enable": str(self.unclean_leader_election).lower(),
            **({} if self.retention_bytes is None else {"retention.bytes": str(self.retention_bytes)}),
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class Timing:
    """How patient replicas are, by the names of the options of ``replica start``."""

    election_timeout_ms: int = 500
    election_backoff_max_ms: int = 500
    fetch_timeout_ms: int = 1000
    fetch_max_wait_ms: int = 200
    request_timeout_ms: int = 1000
    broker_session_timeout_ms: int = 2500
    broker_heartbeat_interval_ms: int = 400
    controller_request_timeout_ms: int = 1000
    replica_lag_time_max_ms: int = 5000
    replica_fetch_wait_max_ms: int = 200
    replica_fetch_backoff_ms: int = 100
    replica_socket_timeout_ms: int = 1000
    replica_high_watermark_checkpoint_interval_ms: int = 1000
    handover_wait_ms: int = 2000
    leader_imbalance_check_interval_seconds: int = 10
    log_retention_check_interval_ms: int = 1000

    @property
    def arguments(self) -> Sequence[str]:
        """The options of ``replica start``."""
        return [word for name, value in asdict(self).items() for word in (f"--{name.replace('_', '-')}", str(value))]


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplicaOptions:
    """How many nodes, with which topics, timing and clients; ``server`` is how Python starts a replica.

    With ``store`` every replica hosts the key-value store as well. With ``can_stand_still`` replicas can be told
    to stand still at points of their work, with ``clocks_in_hand`` their clocks can be set, and with
    ``can_break_disks`` their disks can lose power, refuse and tarry; ``server`` must know these options. The options of
    ``replica start`` are appended to it. ``log_flush`` and ``log_segment_bytes`` are its options of these names. With
    ``tls`` everybody is known by a certificate, and clients may do what the access control list allows them.
    """

    nodes: int = 3
    topics: TopicOptions = field(default_factory=TopicOptions)
    timing: Timing = field(default_factory=Timing)
    client: ClientOptions = field(default_factory=ClientOptions)
    store: StoreOptions | None = None
    can_stand_still: bool = False
    clocks_in_hand: bool = False
    can_break_disks: bool = False
    tls: bool = False
    log_flush: str = FSYNC
    log_segment_bytes: int | None = None
    server: tuple[str, ...] = ("-m", "replica.cli", "start")

    @property
    def group_logs(self) -> tuple[str, ...]:
        """The names of the logs of the replicated state machines."""
        return () if self.store is None else (GROUP_LOG,)

    @property
    def log_names(self) -> tuple[str, ...]:
        """The names of all logs that clients write to."""
        return (*self.topics.names, *self.group_logs)

    @property
    def log_arguments(self) -> Sequence[str]:
        """The options of ``replica start`` that say how logs are kept, where that is not the usual."""
        flush = () if self.log_flush == FSYNC else ("--log-flush", self.log_flush)
        return flush if self.log_segment_bytes is None else (*flush, "--log-segment-bytes", str(self.log_segment_bytes))

    @property
    def group_arguments(self) -> Sequence[str]:
        """The options of ``replica start`` that name the state machines."""
        if self.store is None:
            return ()
        between = str(self.store.snapshot_record_bytes)
        leases = ("--group-lease-reads",) if self.store.reads is Reads.LEASE else ()
        return ("--group", f"{GROUP}={MACHINE}", "--group-snapshot-max-record-bytes-between", between, *leases)

    def __post_init__(self) -> None:
        if not self.topics.min_insync_replicas <= self.topics.replication_factor <= self.nodes:
            raise ValueError(
                f"min_insync_replicas ({self.topics.min_insync_replicas}), replication_factor "
                f"({self.topics.replication_factor}) and nodes ({self.nodes}) must not fall"
            )
