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
    take any answer, however old, and ``lease_reads`` of the others that are content with a lease: clocks must not
    differ then by more than a lease allows for. With ``leases`` leaders have leases even if no question is content with
    one: then clocks may do as they like. ``compactions`` is the share of commands that let the store forget its
    past. It takes up to ``read_ms`` to read from the log what is to be applied.

    With ``changing_voters`` only the disks of ``initial_voters`` machines, those with the lowest ids, are formatted as
    voters of every log, and the other machines join. Then one change of a log's voters comes after the other, with
    ``change_pause_ms`` between, and a leader is given ``change_timeout_ms`` for each: ``handovers`` is the share that
    only moves leadership, ``wipes`` the share in which a machine loses its disk. The rest are settings of groups.
    """

    keys: int = 3
    counter: bool = False
    sessions: float = 0.5
    session_ttl_ms: int = 60_000
    ask_anyone: float = 0.0
    stale_reads: float = 0.0
    lease_reads: float = 0.0
    leases: bool = False
    compactions: float = 0.1
    read_ms: float = 0.0
    tick_interval_ms: int = 500
    snapshot_max_interval_ms: int = 20_000
    snapshot_max_record_bytes_between: int = 3000
    changing_voters: bool = False
    initial_voters: int = 3
    change_pause_ms: tuple[int, int] = (300, 3000)
    change_timeout_ms: int = 1500
    handovers: float = 0.0
    wipes: float = 0.0

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
            lease_reads=self.leases or self.lease_reads > 0,
        )


def new_machine(log: TopicPartition) -> AppliedLog:
    """A fresh machine for the group of this name."""
    if log == STORE:
        return AppliedLog(KeyValueMachine(), name="key-value")
    assert log == COUNTER, log
    return AppliedLog(Counter(), name="counter")
