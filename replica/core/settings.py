"""The settings of a replica by the names of their options: what each does, what it may be, and how it is changed.

Owns the bounds. ``ServerOptions`` refuses what is outside of them, the command line and files are checked by them, the
reference shows them, and so does the controller when one is changed while replicas run. The core has bounds of its own
(above 0, at most ``INT32_MAX``), which are narrowed here where more cannot work. Imports nothing heavy, since the help
of the command line is written from it.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from msgspec import Struct

from replica.bounds import (
    ANSWER_BYTES_MAX,
    BROKERS_MAX,
    ENTRIES_MAX,
    FETCH_PARTITIONS_MAX,
    INT32_MAX,
    MESSAGE_BYTES_MAX,
    PARTITIONS_MAX,
    PLACE_BYTES,
    RECORDS_BYTES_MAX,
    REPLICAS_MAX,
    REQUEST_BYTES_MAX,
)
from replica.core.config import (
    PRODUCER_IDS_MAX,
    BrokerConfig,
    ControllerConfig,
    GroupConfig,
    LogFlush,
    MetadataConfig,
    QuorumConfig,
)
from replica.core.setting_kinds import Kind, Number, Switch, UpdateMode, Word

CALLS_MAX = 1_000_000
DAY_MS = 24 * 3_600_000
STOPPING_MS_MAX = 60_000
ANSWERS_BYTES_MAX = 1 << 40
MEMORY_BYTES_MIN = 128 << 20
"""What a replica has at least, and some requests."""
SEGMENT_BYTES_MIN = 1 << 10
SEGMENT_BYTES_MAX = 1 << 30
REQUEST_OVERHEAD_BYTES = 64 << 10
"""What a request says besides the data that it carries."""

Config = QuorumConfig | BrokerConfig | ControllerConfig | MetadataConfig | GroupConfig


class Part(Struct, frozen=True):
    """A part of the core: the field of ``ServerOptions`` for its parameters, their class, and its heading in the help.

    The name of each parameter's option begins with ``prefix``.
    """

    field: str
    config: type[Config]
    heading: str
    prefix: str = ""


PARTS = (
    Part("quorum", QuorumConfig, "Quorum logs"),
    Part("broker", BrokerConfig, "Partitions and the broker"),
    Part("controller", ControllerConfig, "The controller"),
    Part("metadata", MetadataConfig, "The cluster's metadata"),
    Part("group", GroupConfig, "Groups of state machines", prefix="group_"),
)


PER_BROKER, CLUSTER_WIDE = UpdateMode.PER_BROKER, UpdateMode.CLUSTER_WIDE

_SERVER: Mapping[str, Number] = {
    "replica_id": Number("id", "Refuse a data directory of another replica.", 0),
    "client_calls_max": Number("calls", "Refuse more calls of clients at once.", 1, CALLS_MAX, mode=PER_BROKER),
    "producer_ids_per_hour": Number(
        "ids",
        "Let one address be no more idempotent producers in an hour.",
        1,
        PRODUCER_IDS_MAX,
        mode=PER_BROKER,
    ),
    "connections_max": Number("connections", "Take no more connections at once, at each listener.", 1, CALLS_MAX),
    "connections_per_address_max": Number(
        "connections", "Let clients of one address have no more connections at a listener.", 1, CALLS_MAX
    ),
    "memory_bytes_max": Number(
        "bytes",
        "With more memory than this give up requests that are not complete.",
        MEMORY_BYTES_MIN,
        ANSWERS_BYTES_MAX,
    ),
    "producer_byte_rate": Number(
        "bytes/s",
        "Delay whoever writes more, as an identity: a principal, or an address without a name.",
        mode=PER_BROKER,
    ),
    "consumer_byte_rate": Number("bytes/s", "Delay whoever reads more, as an identity.", mode=PER_BROKER),
    "request_rate": Number("requests/s", "Delay whoever asks more, as an identity.", mode=PER_BROKER),
    "request_bytes_max": Number("bytes", "Refuse larger requests.", REQUEST_BYTES_MAX, MESSAGE_BYTES_MAX),
    "connection_answer_bytes_max": Number(
        "bytes",
        "What answers may hold that one connection has not taken.",
        PLACE_BYTES,
        ANSWERS_BYTES_MAX,
        mode=PER_BROKER,
    ),
    "answer_bytes_max": Number(
        "bytes",
        "What answers may hold that all connections have not taken.",
        PLACE_BYTES,
        ANSWERS_BYTES_MAX,
        mode=PER_BROKER,
    ),
    "handover_wait_ms": Number(
        "ms",
        "How long a replica that stops waits for others to lead what it leads.",
        1,
        STOPPING_MS_MAX,
        mode=PER_BROKER,
    ),
    "stop_grace_ms": Number("ms", "How long calls may end when stopping.", 1, STOPPING_MS_MAX, mode=PER_BROKER),
    "log_flush_offset_checkpoint_interval_ms": Number(
        "ms", "How often it is noted how far logs are flushed.", 1, DAY_MS, mode=PER_BROKER
    ),
    "log_flush_start_offset_checkpoint_interval_ms": Number(
        "ms", "How often it is noted where logs begin.", 1, DAY_MS, mode=PER_BROKER
    ),
    "file_delete_delay_ms": Number(
        "ms", "How long deleted files take space, for readers in flight.", 0, DAY_MS, mode=PER_BROKER
    ),
    "log_segment_bytes": Number(
        "bytes",
        "How long a file of a log gets; only whole files are ever deleted.",
        SEGMENT_BYTES_MIN,
        SEGMENT_BYTES_MAX,
        mode=PER_BROKER,
    ),
}

_QUORUM: Mapping[str, Number] = {
    "election_timeout_ms": Number(
        "ms", "A voter that knows no leader campaigns after so long, or up to twice as long: that is drawn."
    ),
    "election_backoff_max_ms": Number("ms", "The longest pause after a lost election."),
    "campaign_turn_ms": Number(
        "ms", "How much later the next voter campaigns where all know that the leader's process has ended."
    ),
    "fetch_timeout_ms": Number("ms", "A voter that gets no answer from the leader for so long looks for another.", 2),
    "request_timeout_ms": Number("ms", "How long an answer from another replica is waited for.", 2),
    "retry_backoff_ms": Number("ms", "The pause after a request to a leader has failed.", 1, INT32_MAX - 1),
    "fetch_max_wait_ms": Number("ms", "How long a leader lets a follower's fetch wait for records.", 1, INT32_MAX - 1),
    "high_watermark_wait_ms": Number(
        "ms", "How long a follower of a group that is owed a high watermark waits for it to come with records."
    ),
    "fetch_max_bytes": Number(
        "bytes", "Records in one answer to a fetch: of a quorum log, and of partitions.", 1, RECORDS_BYTES_MAX
    ),
    "transfer_timeout_max_ms": Number("ms", "A leader waits no longer for the one to whom it is to hand over."),
    "change_voters_timeout_max_ms": Number("ms", "A leader waits no longer for a new voter to catch up."),
    "snapshot_max_bytes": Number("bytes", "Larger snapshots are neither stored nor loaded; alike on all replicas."),
    "snapshot_hold_max_ms": Number(
        "ms", "A leader keeps a snapshot, and what follows it, no longer than this for a replica that loads it."
    ),
    "message_max_bytes": Number("bytes", "The largest batch of records.", 1, RECORDS_BYTES_MAX),
    "produce_timeout_max_ms": Number("ms", "A leader lets a write wait no longer for its replicas."),
    "fetch_wait_max_ms": Number("ms", "A leader lets a client's fetch wait no longer for records."),
    "dump_max_bytes": Number("bytes", "Of a log that is inspected, in one answer.", 1, RECORDS_BYTES_MAX),
    "parked_produces_max": Number("requests", "Writes of a log that may wait for its replicas."),
    "parked_fetches_max": Number("requests", "Fetches that may wait for records."),
    "observers_max": Number("replicas", "Of how many replicas that do not vote a leader remembers how far they are."),
}

_BROKER: Mapping[str, Number] = {
    "replica_lag_time_max_ms": Number(
        "ms", "A follower that has not caught up for so long leaves the ISR.", mode=PER_BROKER
    ),
    "replica_fetch_wait_max_ms": Number(
        "ms",
        "How long a leader lets a follower's fetch wait for records.",
        1,
        INT32_MAX - 1,
        mode=PER_BROKER,
    ),
    "replica_fetch_min_bytes": Number(
        "bytes",
        "A follower's fetch waits for so many bytes of records.",
        1,
        ANSWER_BYTES_MAX,
        mode=PER_BROKER,
    ),
    "replica_fetch_max_bytes": Number("bytes", "Records of one partition in an answer to a follower.", mode=PER_BROKER),
    "replica_fetch_response_max_bytes": Number(
        "bytes",
        "Records of all partitions in an answer to a follower.",
        1,
        ANSWER_BYTES_MAX,
        mode=PER_BROKER,
    ),
    "replica_fetch_backoff_ms": Number("ms", "A follower's pause after an error of a partition.", mode=PER_BROKER),
    "replica_socket_timeout_ms": Number(
        "ms", "How long a follower waits for the answer to a fetch.", 2, mode=PER_BROKER
    ),
    "replica_high_watermark_checkpoint_interval_ms": Number(
        "ms", "How often high watermarks are noted on the disk.", mode=PER_BROKER
    ),
    "broker_heartbeat_interval_ms": Number(
        "ms", "How often a broker tells the controller that it is alive.", 1, INT32_MAX - 1, mode=PER_BROKER
    ),
    "controller_request_timeout_ms": Number(
        "ms", "How long a broker waits for the controller's answer.", mode=PER_BROKER
    ),
    "controller_retry_backoff_ms": Number(
        "ms", "A broker's pause before it asks the controller again.", mode=PER_BROKER
    ),
    "alter_partition_retry_backoff_ms": Number(
        "ms", "A leader's pause after the controller has refused another ISR.", mode=PER_BROKER
    ),
    "log_retention_check_interval_ms": Number(
        "ms",
        "How often it is looked for records that are older, or more, than a topic keeps.",
        mode=PER_BROKER,
    ),
    "clock_skew_max_ms": Number("ms", "A larger step of the time that brokers agree on is not believed."),
    "delete_records_timeout_max_ms": Number("ms", "A leader lets a deletion of records wait no longer for replicas."),
    "fetch_partitions_max": Number("partitions", "Partitions that one fetch may name.", 1, FETCH_PARTITIONS_MAX),
    "parked_deletions_max": Number("requests", "Deletions of a partition that may wait for its replicas."),
    "metadata_read_max_bytes": Number("bytes", "Of the cluster's metadata, read from the disk at once."),
    "producer_id_expiration_ms": Number(
        "ms", "An idempotent producer that is silent for so long is forgotten.", mode=PER_BROKER
    ),
    "producer_ids_max": Number(
        "ids",
        "Idempotent producers that a partition remembers; beyond it new ones are refused.",
        1,
        PRODUCER_IDS_MAX,
    ),
}

_CONTROLLER: Mapping[str, Number] = {
    "broker_session_timeout_ms": Number("ms", "A broker that is silent for so long is fenced.", 2, mode=CLUSTER_WIDE),
    "default_replication_factor": Number(
        "replicas",
        "Replicas of a partition, where who creates a topic does not say.",
        1,
        REPLICAS_MAX,
        mode=CLUSTER_WIDE,
    ),
    "num_partitions": Number(
        "partitions",
        "Of a new topic, where who creates it does not say.",
        1,
        PARTITIONS_MAX,
        mode=CLUSTER_WIDE,
    ),
    "min_insync_replicas": Number(
        "replicas",
        "How many replicas must be in sync for acks=all, where a topic does not say.",
        1,
        REPLICAS_MAX,
        mode=CLUSTER_WIDE,
    ),
    "unclean_leader_election_interval_ms": Number(
        "ms",
        "How often leaders are looked for where there are none, unclean ones where they are allowed.",
        mode=CLUSTER_WIDE,
    ),
    "leader_imbalance_check_interval_seconds": Number(
        "s", "How often partitions are given back to their preferred leaders.", mode=CLUSTER_WIDE
    ),
    "partitions_max": Number("partitions", "Partitions of the cluster.", 1, PARTITIONS_MAX, mode=CLUSTER_WIDE),
    "brokers_max": Number("brokers", "Brokers of the cluster.", 1, BROKERS_MAX, mode=CLUSTER_WIDE),
    "pending_replies_max": Number("requests", "Requests that may wait for the controller's decisions."),
}

_METADATA: Mapping[str, Number] = {
    "metadata_log_max_record_bytes_between_snapshots": Number(
        "bytes",
        "A snapshot of the cluster's metadata is taken after so many bytes of applied records, or ...",
        mode=PER_BROKER,
    ),
    "metadata_log_max_snapshot_interval_ms": Number("ms", "... after so long.", mode=PER_BROKER),
}

_GROUP: Mapping[str, Number] = {
    "group_read_max_bytes": Number("bytes", "Of a group's log, read from the disk at once to be applied."),
    "group_entries_max": Number("entries", "Entries that one request may carry.", 1, ENTRIES_MAX),
    "group_answer_bytes_max": Number("bytes", "Outcomes in one answer.", 1, ANSWER_BYTES_MAX),
    "group_pending_applies_max": Number("requests", "Requests that may wait for their entries to be applied."),
    "group_query_max_bytes": Number(
        "bytes", "The largest request with questions.", 1, MESSAGE_BYTES_MAX - REQUEST_OVERHEAD_BYTES
    ),
    "group_pending_queries_max": Number("requests", "Requests with questions that may wait."),
    "group_pending_query_bytes_max": Number("bytes", "The size of requests with questions that may wait."),
    "group_pending_watches_max": Number("requests", "Requests that may wait for something new."),
    "group_pending_watch_bytes_max": Number("bytes", "The size of requests that may wait for something new."),
    "group_pending_read_indexes_max": Number("requests", "Other replicas that may wait for the read index."),
    "group_apply_timeout_max_ms": Number("ms", "A leader lets entries wait no longer to be applied."),
    "group_query_timeout_max_ms": Number("ms", "A replica lets questions wait no longer."),
    "group_tick_interval_ms": Number(
        "ms", "A leader of a group writes at least so often, so that the group's time goes on."
    ),
    "group_snapshot_max_interval_ms": Number("ms", "A snapshot of a group is taken after so long, or ..."),
    "group_snapshot_max_record_bytes_between": Number("bytes", "... after so many bytes of applied records."),
    "group_leader_imbalance_check_interval_seconds": Number(
        "s", "For how long a group's preferred leader must have kept up before it gets to lead again."
    ),
    "group_lease_clock_drift_max_percent": Number(
        "%", "By how much clocks may differ in speed where there are leases."
    ),
}

_WORDS: Mapping[str, Switch | Word] = {
    "log_level": Word("One line per step at debug.", ("debug", "info", "warning", "error"), mode=PER_BROKER),
    "log_flush": Word(
        "fsync: flush before acknowledging acks=all. os: let the system flush when it pleases; a power loss of several "
        "brokers at once can then lose acknowledged records.",
        tuple(each.value for each in LogFlush),
    ),
    "unclean_leader_election_enable": Switch(
        "Let a replica lead that is not in sync, where no other can: loses records.", CLUSTER_WIDE
    ),
    "auto_leader_rebalance_enable": Switch("Give partitions back to their preferred leaders.", CLUSTER_WIDE),
    "elr_enable": Switch("Remember who was in sync when fewer than the minimum were left, and may lead (KIP-966)."),
    "group_auto_leader_rebalance_enable": Switch(
        "Let each group be led by its preferred replica; the groups take turns."
    ),
    "group_lease_reads": Switch(
        "Let leaders of groups answer by lease: on every replica, or on none. Switch it on while all are stopped."
    ),
}

NUMBERS: Mapping[str, Number] = MappingProxyType(
    {**_SERVER, **_QUORUM, **_BROKER, **_CONTROLLER, **_METADATA, **_GROUP}
)
"""By the names of options, with underscores. A parameter that several parts of the core know has one entry."""

SETTINGS: Mapping[str, Kind] = MappingProxyType({**NUMBERS, **_WORDS})
"""The same with those that are no numbers. What else an option says (where to listen, whom to believe, which folder) is
in none of these tables: it is one process's own, and takes a restart."""
