"""What a run leaves on disk for its judges: the history, the replicas' final logs, and what the replicas reported.

The way of the data: ``events`` (the values that are recorded) -> ``schemas`` (their Arrow columns) -> ``recorder``
(their order and time while a run goes on) -> ``writer`` (Parquet shards; ``pairing`` says which event completes which)
-> ``reader`` (the shards again, and what is wrong with them) -> ``tables`` (the same for people and other tools, and
the short way, from values to columns without files); ``record_batches`` is how logs of replicas are decoded, by
nobody's code but the harness's; ``stopped`` says what ended a run before its time, ``document`` how it is to be judged,
and ``whole_files`` is how small files are written. Judging starts where this package ends: it needs the folder, never
the cluster. Whatever reads or writes columns is imported from its own file, so that who needs the names of events alone
does not load Arrow.
"""

from __future__ import annotations

from nemesis.history.errors import HistoryError
from nemesis.history.events import (
    APPEND,
    BECAME_LEADER,
    DUMP,
    FINAL_ISR,
    FINAL_READ,
    HARNESS_PROCESS,
    HIGH_WATERMARK,
    KILLED_FROM_OUTSIDE,
    LAST_KNOWN_LEADER_ELECTED,
    METADATA_LOG,
    MOVED,
    NEMESIS_PROCESS,
    OFFLINE,
    ON_LOGS,
    POLL,
    READ,
    UNCLEAN_ELECTION,
    VOTERS_CHANGED,
    VOTERS_LEARNED,
    EventType,
    HistoryEvent,
    PolledRecord,
    ReplicaEvent,
    ReplicaLogBatch,
    RunEvent,
)
