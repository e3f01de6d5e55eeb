"""The values that a run records, one frozen class for each of its three tables.

Owns what each column means. Knows nothing of files. The words of operations are Jepsen's (``jepsen.history``): a
process invokes an operation and completes it as *ok* (it happened), *fail* (it definitely did not) or *info* (nobody
knows).
"""

from __future__ import annotations

from enum import StrEnum

from msgspec import Struct

NEMESIS_PROCESS = -1
"""The process number of whoever injects the faults; clients are 0 or more."""
HARNESS_PROCESS = -2
"""The process number of the harness's own looking and reading: it is no client, and it is no fault."""

METADATA_LOG = "__cluster_metadata-0"
"""The name of the log in which a cluster keeps what it has decided; clients do not write to it."""

APPEND = "append"
"""Append one value, unique in its topic-partition."""
POLL = "poll"
"""Read on from a position."""
FINAL_READ = "final-read"
"""Read after everything has healed, as one poll or several; the last of them is not ``limited``: it saw the end."""

READ = "read"
"""Read a whole object: a register, a set, a counter, all accounts of a bank, the holder of a lock."""
DUMP = "dump"
"""What the harness does in the end: it reads all logs of a node, and counts in ``detail`` what it has read."""
ON_LOGS = frozenset({APPEND, POLL, FINAL_READ})
"""The operations on logs; all others are on objects, and declared by their workload."""


class EventType(StrEnum):
    """What an event says of its operation."""

    INVOKE = "invoke"
    OK = "ok"
    FAIL = "fail"
    INFO = "info"


class PolledRecord(Struct, frozen=True, kw_only=True):
    """One record that a poll returned. Control records are never returned, so offsets may have gaps."""

    offset: int
    value: int


class HistoryEvent(Struct, frozen=True, kw_only=True):
    """One line of the history: an operation begins or ends.

    ``index`` counts from 0 without gaps over the whole run and is the order in which things happened; ``time_ns`` is
    monotonic since the run began. ``invoked``, in a completion, is the index of its invocation: who writes the history
    fills it in (``pairing``). ``value`` is what an append writes. ``acks``, in its invocation, is what the writer
    asked for where that is less than all: 1 or 0, and then an ok says only that the leader has it, or that it was sent.
    ``offset`` is, in the ok of an append, where the value stands; of a poll, the position it asks from. A completion
    repeats what was asked (the value, the position), so that it is not taken for that of another operation where lines
    are missing. ``records`` belong to the ok of a poll, with the ``high_watermark`` that came with them.
    ``leader_epoch`` is that of the leader that answered. ``node`` is the replica that the client talked to. ``detail``
    is JSON; for the nemesis it says what was really done.

    Of polls: ``limited`` (in the ok) says that the poll stopped at its own limit, so that it tells nothing of where the
    log ends. ``strict`` (in the invocation) says that the reader was promised everything acknowledged before it asked.
    ``seek`` (in the invocation) says that the process chose this position; else it reads on from its last ok poll.

    Of operations on objects ``topic_partition`` names the object. ``value`` is, in the invocation, what is written, set
    or added, the amount, or the number of the lock's holder; in the completion, what the object holds, absent for
    nothing. ``offset``, in the completion, is the revision of the store at which the operation took effect, or which
    it saw: the place that the servers claim for it in the one order of all. A fail with an offset was answered: what it
    was conditional on was not so, and it is a read of what the answer tells. ``detail`` has what is no single number,
    as the operation's workload says (``nemesis.workload``); ``changed_at``, in the completion, is the revision at which
    the value came to be.
    """

    index: int
    time_ns: int
    process: int
    type: EventType
    f: str
    invoked: int | None = None
    topic_partition: str | None = None
    value: int | None = None
    offset: int | None = None
    records: tuple[PolledRecord, ...] | None = None
    high_watermark: int | None = None
    leader_epoch: int | None = None
    error: str | None = None
    node: int | None = None
    acks: int | None = None
    limited: bool | None = None
    strict: bool | None = None
    seek: bool | None = None
    detail: str | None = None


class ReplicaLogBatch(Struct, frozen=True, kw_only=True):
    """One batch of one replica's log, as it was found when the run had ended.

    ``crc`` is the batch's own checksum. ``values`` has one entry for each offset of the batch, or is absent where the
    records are not values (control batches, metadata) or could not be decoded. ``producer_id``, ``producer_epoch`` and
    ``base_sequence`` number the batches of idempotent producers, and are absent in all others. The high watermark and
    the end offset are the replica's own, the same in each of its rows; ``complete`` says that its dump reached the end
    offset. A replica whose log is empty has one row without a batch (``base_offset`` and what belongs to it absent),
    else it could not be told from a replica that was not read.
    """

    replica_id: int
    topic_partition: str
    base_offset: int | None
    last_offset: int | None
    leader_epoch: int | None
    crc: int | None
    is_control: bool
    high_watermark: int | None
    log_end_offset: int
    complete: bool
    values: tuple[int, ...] | None = None
    log_start_offset: int = 0
    producer_id: int | None = None
    producer_epoch: int | None = None
    base_sequence: int | None = None


class ReplicaEvent(Struct, frozen=True, kw_only=True):
    """Something that a replica reported of itself: became-leader, became-follower, truncated, and so on.

    ``time_ns`` is on the clock of the history. ``offset`` of a truncation is the new log end offset.

    Three are told by the controller of a topic-partition, with its new leader epoch, and as ``detail`` JSON with who
    was in sync (``isr``) and who else was eligible to lead (``elr``). *offline*: it has no leader. *unclean-election*:
    the ``leader_id`` was elected though it was neither; *last-known-leader-elected*: so was the one that led last, when
    nobody was either. The detail of became-leader names the ``log_end_offset`` with which the leader began, and the
    ``isr`` of a partition.

    Two are told when the harness has looked, with ``time_ns`` after the look. *high-watermark*: the ``replica_id`` said
    that its own was ``offset``, and of which leader epoch it was; ``detail`` is its role. *final-isr*: the last of the
    metadata about a topic-partition, with its leader as ``replica_id`` (-1 without one), that one's high watermark as
    it was just before (``offset``, absent where it did not answer), and as ``detail`` JSON with ``isr``, ``replicas``,
    ``restored`` (whether all replicas were in sync in the time given) and ``after_s``.
    """

    time_ns: int
    replica_id: int
    event: str
    epoch: int | None = None
    offset: int | None = None
    topic_partition: str | None = None
    detail: str | None = None


HIGH_WATERMARK = "high-watermark"
FINAL_ISR = "final-isr"
DUMPED = "dumped"
"""A replica's log was read, and had ``offset`` batches: what the history says of a dump, as an event of the replica. It
stands in no table; judges make it of the harness's ``dump``."""
DUE = "due"
"""A replica (-1: any) has a log by what ``test.json`` says of the run, as an event. It stands in no table."""
GAPLESS = "gapless"
"""Every offset of a log holds a client's record, by what ``test.json`` says of the run, as an event of no replica. It
stands in no table."""
TRIMMED = "trimmed"
"""Retention may delete a log's beginning, by what ``test.json`` says of the run, as an event of no replica. It stands
in no table."""
STARTED = "started"
BECAME_LEADER = "became-leader"
OFFLINE = "offline"
UNCLEAN_ELECTION = "unclean-election"
LAST_KNOWN_LEADER_ELECTED = "last-known-leader-elected"
VOTERS_CHANGED, VOTERS_LEARNED = "voters-changed", "voters-learned"
"""Others vote in a quorum log: by a record that its leader has just appended, or as another replica learns it."""

KILLED_FROM_OUTSIDE = "killed-from-outside"
"""A replica's process ended by a signal that neither it nor the harness has sent; the detail names it."""
MOVED = "moved"
"""A partition was seen to have come to where it was moved."""

RunEvent = HistoryEvent | ReplicaLogBatch | ReplicaEvent
