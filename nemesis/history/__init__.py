"""What a run leaves on disk for its judges: the history, the replicas' final logs, and what the replicas reported.

The way of the data: ``events`` (the values that are recorded) -> ``schemas`` (their Arrow columns) -> ``writer``
(Parquet shards, written while the run goes on; ``pairing`` says which event completes which) -> ``reader`` (the shards
again, and what is wrong with them) -> ``json_lines`` (the same for people and other tools); ``tables`` is the short
way, from values to columns without files, ``stopped`` says what ended a run before its time, and ``workloads`` by which
promises it is judged.
Judging starts where this package ends: it needs the folder, never the cluster.
"""

from __future__ import annotations

from nemesis.history.events import (
    ACQUIRE,
    ADD,
    APPEND,
    BECAME_LEADER,
    CAS,
    DUMP,
    FINAL_ISR,
    FINAL_READ,
    HARNESS_PROCESS,
    HIGH_WATERMARK,
    INCREMENT,
    KILLED_FROM_OUTSIDE,
    LAST_KNOWN_LEADER_ELECTED,
    METADATA_LOG,
    MOVED,
    NEMESIS_PROCESS,
    OFFLINE,
    ON_LOGS,
    OPEN,
    POLL,
    READ,
    RELEASE,
    TRANSFER,
    UNCLEAN_ELECTION,
    VOTERS_CHANGED,
    VOTERS_LEARNED,
    WRITE,
    EventType,
    HistoryEvent,
    PolledRecord,
    ReplicaEvent,
    ReplicaLogBatch,
    RunEvent,
)
from nemesis.history.json_lines import export_jsonl
from nemesis.history.pairing import paired, pairs
from nemesis.history.reader import (
    HistoryError,
    ShardListing,
    is_complete,
    list_shards,
    read_history,
    read_replica_events,
    read_replica_logs,
)
from nemesis.history.schemas import HISTORY_SCHEMA, REPLICA_EVENT_SCHEMA, REPLICA_LOG_SCHEMA, Kind
from nemesis.history.tables import table_of
from nemesis.history.workloads import Workload, workload_of
from nemesis.history.writer import HistoryWriter

__all__ = [
    "ACQUIRE",
    "ADD",
    "APPEND",
    "BECAME_LEADER",
    "CAS",
    "DUMP",
    "FINAL_ISR",
    "FINAL_READ",
    "HARNESS_PROCESS",
    "HIGH_WATERMARK",
    "HISTORY_SCHEMA",
    "INCREMENT",
    "KILLED_FROM_OUTSIDE",
    "LAST_KNOWN_LEADER_ELECTED",
    "METADATA_LOG",
    "MOVED",
    "NEMESIS_PROCESS",
    "OFFLINE",
    "ON_LOGS",
    "OPEN",
    "POLL",
    "READ",
    "RELEASE",
    "REPLICA_EVENT_SCHEMA",
    "REPLICA_LOG_SCHEMA",
    "TRANSFER",
    "UNCLEAN_ELECTION",
    "VOTERS_CHANGED",
    "VOTERS_LEARNED",
    "WRITE",
    "EventType",
    "HistoryError",
    "HistoryEvent",
    "HistoryWriter",
    "Kind",
    "PolledRecord",
    "ReplicaEvent",
    "ReplicaLogBatch",
    "RunEvent",
    "ShardListing",
    "Workload",
    "export_jsonl",
    "is_complete",
    "list_shards",
    "paired",
    "pairs",
    "read_history",
    "read_replica_events",
    "read_replica_logs",
    "table_of",
    "workload_of",
]
