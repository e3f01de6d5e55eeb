"""Replicated state machines: what a quorum log's records mean, applied one after the other. Values in, values out.

The way of a command, file by file: ``entries`` is what a record of the log says; ``batches`` is how committed records
come in; ``applied`` folds them, at the log time that ``log_time`` has stamped, past the ``sessions`` that make every
command count once, into a ``machine``; ``outcomes`` is what comes out. ``snapshots`` is the whole state as bytes, and
``client_session`` the client's side of a session; ``description`` is what a log says of its machine.

The machines: ``key_value``, the built-in one; ``counter`` and ``lock``, small enough to learn from. ``registry`` finds
them by name, and those that others have brought. But for that one, nothing here knows a clock, a file or a network.
"""

from __future__ import annotations

from replica.ids import SnapshotId
from replica.machines.applied import AppliedEntry, AppliedLog, MachineFailedError, Snapshot, SnapshotView
from replica.machines.batches import CommittedBatch, committed_batch
from replica.machines.client_session import ClientSession
from replica.machines.description import MachineDescription, MachineMismatchError, Trait
from replica.machines.entries import (
    CloseSession,
    DescribeMachine,
    Entry,
    KeepSessionAlive,
    MalformedEntry,
    OpenSession,
    PlainCommand,
    SessionCommand,
    SessionId,
    Tick,
    decode_entry,
    encode_entry,
)
from replica.machines.log_time import LeaderClock
from replica.machines.machine import (
    CorruptSnapshotError,
    EncodedState,
    ForeignSnapshotError,
    InvalidCommandError,
    StateMachine,
    StateView,
)
from replica.machines.outcomes import (
    Answered,
    Done,
    Outcome,
    Refusal,
    Refused,
    SessionOpened,
    decode_outcome,
    definitely_not_applied,
    encode_outcome,
)
from replica.machines.sessions import SessionLimits
