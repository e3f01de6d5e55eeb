"""What happened rarely in a world, whatever its kind.

Owns the counting, and the rows of what replicas had happen to them. Judges nothing.
"""

from __future__ import annotations

from nemesis.simulator.node import Crash, Node, Step
from nemesis.simulator.rare import Rare
from nemesis.simulator.record import Record
from nemesis.simulator.world import LOG, Observer
from replica.core import effects as fx
from replica.core import events as ev
from replica.core import messages as m
from replica.core.quorum.roles import Candidate, Leader, Resigned
from replica.ids import Epoch, ReplicaId, TopicPartition
from replica.storage import StorageError


class Census(Observer):
    """Counts ``Rare`` events of one world, and records elections and truncations."""

    def __init__(self, record: Record, log: TopicPartition = LOG) -> None:
        self.steps = 0
        self._record = record
        self._rare = record.rare
        self._log = log
        self._roles: dict[ReplicaId, tuple[type, Epoch]] = {}
        self._candidates: dict[Epoch, set[ReplicaId]] = {}
        self._led: set[Epoch] = set()

    def on_boot(self, node: Node, torn_bytes: int) -> None:
        """See ``Observer``."""
        self._rare[Rare.TORN_TAIL] += torn_bytes > 0
        self._roles.pop(node.replica_id, None)

    def on_step(self, node: Node, step: Step) -> None:
        """See ``Observer``."""
        self.steps += 1
        for effect in step.effects if fx.Truncate in step.kinds else ():
            if isinstance(effect, fx.Truncate) and effect.topic_partition == self._log:
                self._rare[Rare.DIVERGENCE_TRUNCATED] += 1
                self._record.replica(node.replica_id, "truncated", topic_partition=self._log, offset=effect.end_offset)
        if fx.Append in step.kinds:
            self._rare[Rare.SEVERAL_RECORDS] += _appends_several(step)
        if node.core is not None and step.is_whole:
            log = node.core.logs[self._log]
            now = (type(log.role), log.leader_epoch)
            before = self._roles.get(node.replica_id)
            if now != before:
                self._roles[node.replica_id] = now
                self._on_role(node.replica_id, now, before)

    def on_down(self, node: Node, crash: Crash) -> None:
        """See ``Observer``."""
        self._rare[Rare.POWER_LOSS] += crash.cause.startswith("power")
        self._rare[Rare.CRASH_BETWEEN_EFFECTS] += 0 < crash.performed < crash.effects
        self._rare[Rare.CRASH_IN_EFFECT] += crash.cause == "power-in-step"
        self._rare[Rare.STORAGE_FAILURE] += node.storage_failed and crash.cause.startswith("halt")
        files = node.disk.files
        self._rare[Rare.FULL_DISK] += files.refused_for_space > 0
        files.refused_for_space = 0

    def on_refused_start(self, node: Node, error: StorageError) -> None:
        """See ``Observer``."""
        del error
        self._rare[Rare.DAMAGE_DETECTED] += node.is_retired
        self._rare[Rare.FULL_DISK] += node.disk.files.refused_for_space > 0
        node.disk.files.refused_for_space = 0

    def finish(self) -> None:
        """Count what only the end shows: epochs in which several campaigned and nobody won."""
        lost = [epoch for epoch, who in self._candidates.items() if len(who) > 1 and epoch not in self._led]
        self._rare[Rare.SPLIT_VOTE] += len(lost)

    def _on_role(self, replica_id: ReplicaId, now: tuple[type, Epoch], before: tuple[type, Epoch] | None) -> None:
        role, epoch = now
        if role is Candidate:
            self._candidates.setdefault(epoch, set()).add(replica_id)
        elif role is Leader:
            self._led.add(epoch)
            self._rare[Rare.ELECTION] += 1
            self._record.replica(replica_id, "became-leader", topic_partition=self._log, epoch=epoch)
        elif role is Resigned and before is not None and before[0] is Leader:
            self._rare[Rare.RESIGNATION] += 1


def _appends_several(step: Step) -> bool:
    """Whether a leader has appended a client's batch of several records."""
    match step.event:
        case ev.RequestReceived(request=m.ProduceRequest(topic_partition=log)):
            appends = [effect for effect in step.effects if isinstance(effect, fx.Append)]
            batches = [batch for effect in appends if effect.topic_partition == log for batch in effect.batches]
            return any(batch.end_offset - batch.base_offset > 1 for batch in batches)
        case _:
            return False
