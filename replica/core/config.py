"""The parameters of the core, with Kafka's names and defaults, checked once at start.

Every queue, batch, wait and loop of the core has its named maximum here. Times are milliseconds, sizes bytes.
Source of names and defaults: Kafka's ``QuorumConfig``, ``KafkaRaftClient`` constants, ``message.max.bytes``.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from enum import StrEnum

from replica.bounds import (
    BATCH_BYTES_MAX,
    BROKERS_MAX,
    ENTRIES_MAX,
    FETCH_PARTITIONS_MAX,
    INT32_MAX,
    PARTITIONS_MAX,
)
from replica.core.metadata.levels import FIRST_LEVEL, NEWEST_LEVEL
from replica.ids import BrokerEpoch, ReplicaId
from replica.voters import VoterSet, is_directory_id

PRODUCER_IDS_MAX = 100_000
"""How many producers a log remembers at most, on disk as well; beyond it new ones are refused."""


class InvalidConfigError(ValueError):
    """A parameter, or a combination of them, that no replica should start with; the message says what to change."""


def check_numbers(config: QuorumConfig | BrokerConfig | ControllerConfig | MetadataConfig | GroupConfig) -> None:
    """Raise InvalidConfigError unless every number of a configuration is above 0 and at most ``INT32_MAX``."""
    for each in fields(config):
        value = getattr(config, each.name)
        if isinstance(value, int) and not isinstance(value, bool) and not 0 < value <= INT32_MAX:
            raise InvalidConfigError(f"{each.name} is {value}; it must be above 0 and at most {INT32_MAX}")


@dataclass(frozen=True, slots=True, kw_only=True)
class QuorumConfig:
    """Timing and limits of one quorum log.

    ``campaign_turn_ms`` is how much later the next voter campaigns where all know that the leader's process has ended.
    ``high_watermark_wait_ms`` is how long a follower of a group that is owed a high watermark waits for it to come with
    records.
    """

    election_timeout_ms: int = 1000
    election_backoff_max_ms: int = 1000
    campaign_turn_ms: int = 100
    fetch_timeout_ms: int = 2000
    request_timeout_ms: int = 2000
    retry_backoff_ms: int = 20
    fetch_max_wait_ms: int = 500
    high_watermark_wait_ms: int = 10
    fetch_max_bytes: int = 1 << 20
    transfer_timeout_max_ms: int = 30_000
    change_voters_timeout_max_ms: int = 600_000
    snapshot_max_bytes: int = 1 << 30
    snapshot_hold_max_ms: int = 1_800_000
    message_max_bytes: int = 1_048_588
    produce_timeout_max_ms: int = 120_000
    fetch_wait_max_ms: int = 30_000
    dump_max_bytes: int = 4 << 20
    parked_produces_max: int = 10_000
    parked_fetches_max: int = 10_000
    observers_max: int = 1000

    def __post_init__(self) -> None:
        check_numbers(self)
        if self.message_max_bytes > BATCH_BYTES_MAX:
            raise InvalidConfigError(
                f"message_max_bytes is {self.message_max_bytes}; of more than {BATCH_BYTES_MAX} nothing is replicated"
            )
        if self.fetch_max_wait_ms >= self.fetch_timeout_ms:
            raise InvalidConfigError(
                f"fetch_max_wait_ms ({self.fetch_max_wait_ms}) must be below "
                f"fetch_timeout_ms ({self.fetch_timeout_ms}), or an idle leader looks dead"
            )
        if self.fetch_max_wait_ms >= self.request_timeout_ms:
            raise InvalidConfigError(
                f"fetch_max_wait_ms ({self.fetch_max_wait_ms}) must be below "
                f"request_timeout_ms ({self.request_timeout_ms}), or an idle leader's answers come too late"
            )

    @property
    def check_quorum_timeout_ms(self) -> int:
        """How long a leader may go without fetches from a majority before it resigns: 1.5 fetch timeouts."""
        return self.fetch_timeout_ms * 3 // 2

    @property
    def begin_quorum_epoch_interval_ms(self) -> int:
        """How often a leader repeats BeginQuorumEpoch to a voter that does not fetch: half a fetch timeout."""
        return max(1, self.fetch_timeout_ms // 2)

    @property
    def snapshot_backoff_max_ms(self) -> int:
        """The longest pause after a snapshot that could not be loaded: half a fetch timeout, to keep the leader."""
        return max(self.retry_backoff_ms, self.fetch_timeout_ms // 2)


class LogFlush(StrEnum):
    """When a partition's records reach stable storage: before they are acknowledged, or when the system pleases.

    With ``os``, as in Kafka by default, a power loss of several brokers at once can lose acknowledged records.
    """

    FSYNC = "fsync"
    OS = "os"


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerConfig:
    """Timing and limits of a broker and its partitions."""

    replica_lag_time_max_ms: int = 30_000
    replica_fetch_wait_max_ms: int = 500
    replica_fetch_min_bytes: int = 1
    replica_fetch_max_bytes: int = 1 << 20
    replica_fetch_response_max_bytes: int = 10 << 20
    replica_fetch_backoff_ms: int = 1000
    replica_socket_timeout_ms: int = 30_000
    replica_high_watermark_checkpoint_interval_ms: int = 5000
    broker_heartbeat_interval_ms: int = 2000
    controller_request_timeout_ms: int = 2000
    controller_retry_backoff_ms: int = 100
    alter_partition_retry_backoff_ms: int = 100
    log_retention_check_interval_ms: int = 300_000
    clock_skew_max_ms: int = 60_000
    log_flush: LogFlush = LogFlush.FSYNC
    message_max_bytes: int = 1_048_588
    produce_timeout_max_ms: int = 120_000
    delete_records_timeout_max_ms: int = 120_000
    fetch_wait_max_ms: int = 30_000
    fetch_max_bytes: int = 16 << 20
    fetch_partitions_max: int = FETCH_PARTITIONS_MAX
    dump_max_bytes: int = 4 << 20
    parked_produces_max: int = 10_000
    parked_deletions_max: int = 1000
    parked_fetches_max: int = 10_000
    metadata_read_max_bytes: int = 1 << 20
    producer_id_expiration_ms: int = 86_400_000
    producer_ids_max: int = PRODUCER_IDS_MAX

    def __post_init__(self) -> None:
        check_numbers(self)
        if self.fetch_partitions_max > FETCH_PARTITIONS_MAX:
            raise InvalidConfigError(
                f"fetch_partitions_max ({self.fetch_partitions_max}) must be at most {FETCH_PARTITIONS_MAX}, "
                "as many as one message names"
            )
        if self.producer_ids_max > PRODUCER_IDS_MAX:
            raise InvalidConfigError(
                f"producer_ids_max ({self.producer_ids_max}) must be at most {PRODUCER_IDS_MAX}, as many as are on disk"
            )
        if self.replica_fetch_wait_max_ms >= self.replica_socket_timeout_ms:
            raise InvalidConfigError(
                f"replica_fetch_wait_max_ms ({self.replica_fetch_wait_max_ms}) must be below "
                f"replica_socket_timeout_ms ({self.replica_socket_timeout_ms}), or idle leaders answer too late"
            )
        if self.replica_fetch_wait_max_ms > self.replica_lag_time_max_ms:
            raise InvalidConfigError(
                f"replica_fetch_wait_max_ms ({self.replica_fetch_wait_max_ms}) must be at most "
                f"replica_lag_time_max_ms ({self.replica_lag_time_max_ms}), or a waiting follower looks out of sync"
            )


@dataclass(frozen=True, slots=True, kw_only=True)
class ControllerConfig:
    """Timing, limits and defaults that the active controller decides by."""

    broker_session_timeout_ms: int = 9000
    default_replication_factor: int = 1
    num_partitions: int = 1
    min_insync_replicas: int = 1
    unclean_leader_election_enable: bool = False
    unclean_leader_election_interval_ms: int = 300_000
    auto_leader_rebalance_enable: bool = True
    leader_imbalance_check_interval_seconds: int = 300
    elr_enable: bool = True
    partitions_max: int = PARTITIONS_MAX
    brokers_max: int = BROKERS_MAX
    pending_replies_max: int = 10_000

    def __post_init__(self) -> None:
        check_numbers(self)


@dataclass(frozen=True, slots=True, kw_only=True)
class MetadataConfig:
    """How often a replica takes a snapshot of the cluster's metadata: after so many bytes of records, or after so long.

    Whatever part it has in the cluster: each takes its own of the metadata log, and lets the log begin later by it.
    """

    metadata_log_max_record_bytes_between_snapshots: int = 20 << 20
    metadata_log_max_snapshot_interval_ms: int = 3_600_000

    def __post_init__(self) -> None:
        check_numbers(self)


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupConfig:
    """Timing and limits of one group: a state machine on a quorum log.

    A leader writes a tick when nothing was written for ``tick_interval_ms``, so that log time goes on (Kafka's
    ``metadata.max.idle.interval.ms``). A snapshot is taken after so many bytes of applied records, or after so long
    (``metadata.log.max.record.bytes.between.snapshots``, ``metadata.log.max.snapshot.interval.ms``). A leader that is
    not the preferred one hands over to it when that has kept up for ``leader_imbalance_check_interval_seconds``.

    Questions that wait for something new (*watches*) have places of their own, in number and in bytes, so that they
    keep nobody out. ``pending_read_indexes_max`` places are left to other replicas that ask for the read index.

    With ``lease_reads`` a leader answers questions with consistency LEASE by itself while its lease lasts. That is
    right only if all replicas of the group have it, with the same timeouts, and while one clock counts
    ``100 + lease_clock_drift_max_percent``, no other counts less than 100. A clock that stands still for a while, as
    with a suspended machine, does not hold to that.
    """

    read_max_bytes: int = 256 << 10
    entries_max: int = ENTRIES_MAX
    answer_bytes_max: int = 4 << 20
    pending_applies_max: int = 10_000
    query_max_bytes: int = 1 << 20
    pending_queries_max: int = 10_000
    pending_query_bytes_max: int = 64 << 20
    pending_watches_max: int = 10_000
    pending_watch_bytes_max: int = 64 << 20
    pending_read_indexes_max: int = 1000
    apply_timeout_max_ms: int = 120_000
    query_timeout_max_ms: int = 120_000
    tick_interval_ms: int = 500
    snapshot_max_interval_ms: int = 3_600_000
    snapshot_max_record_bytes_between: int = 20 << 20
    auto_leader_rebalance_enable: bool = True
    leader_imbalance_check_interval_seconds: int = 300
    lease_reads: bool = False
    lease_clock_drift_max_percent: int = 10

    def __post_init__(self) -> None:
        check_numbers(self)


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerIdentity:
    """How one incarnation of a broker introduces itself: ``address`` is where others reach it, ``HOST:PORT``.

    ``peer_address`` is where other replicas do, if that is another one; otherwise empty.

    ``incarnation_id`` is drawn anew for every process. ``previous_broker_epoch`` is that of the incarnation whose clean
    stop the data directory remembers; absent after any other end.
    """

    incarnation_id: str
    address: str
    peer_address: str = ""
    rack: str | None = None
    previous_broker_epoch: BrokerEpoch | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplicaConfig:
    """Who this replica is and with whom it forms a quorum. ``directory_id`` is that of its formatted data directory.

    ``initial_voters`` are those that the disk was formatted with: they vote in every quorum log until the log says
    otherwise (none: this disk has no vote until it is added). ``voters`` are whom to ask who leads.

    ``identity`` makes it a broker; absent, it hosts quorum logs only. ``controller`` lets it be elected to control the
    cluster, if it is a voter as well. ``driver_numbers`` are those that the driver goes by, by the names of their
    settings: some must not contradict those of the core.

    ``initial_level`` is the feature level at which a new cluster begins, ``newest_level`` the highest that this replica
    knows: lower ones are of older releases.
    """

    cluster_id: str
    replica_id: ReplicaId
    directory_id: str
    voters: tuple[ReplicaId, ...]
    initial_voters: VoterSet
    quorum: QuorumConfig = QuorumConfig()
    metadata: MetadataConfig = MetadataConfig()
    group: GroupConfig = GroupConfig()
    identity: BrokerIdentity | None = None
    broker: BrokerConfig = BrokerConfig()
    controller: ControllerConfig | None = None
    driver_numbers: Mapping[str, int] = field(default_factory=dict)
    initial_level: int = FIRST_LEVEL
    newest_level: int = NEWEST_LEVEL

    def __post_init__(self) -> None:
        if not self.voters and not self.initial_voters.voters:
            raise InvalidConfigError("voters is empty; name at least one voter")
        if len(set(self.voters)) != len(self.voters):
            raise InvalidConfigError(f"voters {self.voters} names a replica twice")
        for voter in self.initial_voters.voters:
            if not is_directory_id(voter.directory_id):
                raise InvalidConfigError(
                    f"initial voter {voter.replica_id} has the directory id {voter.directory_id!r}; "
                    "that is 22 characters of URL-safe base64"
                )
