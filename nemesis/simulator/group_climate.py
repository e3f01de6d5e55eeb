"""What a world is like in which the logs carry state machines: which ones, how often snapshots are, who asks what.

Owns the part of a climate that only such worlds have, as flat fields, and what follows from it: logs, fresh machines
for them, and the configuration of the core. Knows nothing of worlds.
"""

from __future__ import annotations

from dataclasses import dataclass

from replica.core.config import GroupConfig
from replica.ids import TopicPartition
from replica.machines import AppliedLog
from replica.machines.counter import Counter
from replica.machines.key_value import KeyValueMachine

STORE = TopicPartition("kv", 0)
COUNTER = TopicPartition("counter", 0)


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupClimate:
    """A key-value store of ``keys`` registers, beside it perhaps a ``counter``, and how they are used.

    ``sessions`` is the share of processes that open a session and send a command again until they know; the others send
    each once. A session ends when nothing is heard of it for ``session_ttl_ms``. ``ask_anyone`` is the share of
    questions that are put to any replica, and not to whoever seems to lead; ``stale_reads`` the share of those that
    take any answer, however old. ``compactions`` is the share of commands that let the store forget its past. It
    takes up to ``read_ms`` to read from the log what is to be applied. The rest are settings of groups.
    """

    keys: int = 3
    counter: bool = False
    sessions: float = 0.5
    session_ttl_ms: int = 60_000
    ask_anyone: float = 0.0
    stale_reads: float = 0.0
    compactions: float = 0.1
    read_ms: float = 0.0
    tick_interval_ms: int = 500
    snapshot_max_interval_ms: int = 20_000
    snapshot_max_record_bytes_between: int = 3000

    @property
    def logs(self) -> tuple[TopicPartition, ...]:
        """The log of each group."""
        return (STORE, COUNTER) if self.counter else (STORE,)

    @property
    def registers(self) -> tuple[str, ...]:
        """The keys of the store."""
        return tuple(f"x{number}" for number in range(1, self.keys + 1))

    def new_machines(self) -> dict[TopicPartition, AppliedLog]:
        """A fresh machine for each group."""
        return {log: new_machine(log) for log in self.logs}

    @property
    def config(self) -> GroupConfig:
        """How groups are set."""
        return GroupConfig(
            tick_interval_ms=self.tick_interval_ms,
            snapshot_max_interval_ms=self.snapshot_max_interval_ms,
            snapshot_max_record_bytes_between=self.snapshot_max_record_bytes_between,
        )


def new_machine(log: TopicPartition) -> AppliedLog:
    """A fresh machine for the group of this name."""
    if log == STORE:
        return AppliedLog(KeyValueMachine(), name="key-value")
    assert log == COUNTER, log
    return AppliedLog(Counter(), name="counter")
