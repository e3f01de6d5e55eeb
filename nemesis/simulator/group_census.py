"""What happened in a world of state machines that happens rarely, beside what is rare in any world.

Owns the counting. Judges nothing. Who leads which group is recorded for the first by ``census``, for others here.
"""

from __future__ import annotations

from collections import Counter
from enum import StrEnum

from nemesis.history import BECAME_LEADER
from nemesis.simulator.node import Node, Step
from nemesis.simulator.record import Record
from nemesis.simulator.world import Observer, World
from replica.core import effects as fx
from replica.core import events as ev
from replica.core import messages as m
from replica.core.quorum.roles import Leader
from replica.errors import ErrorCode
from replica.ids import Epoch, ReplicaId, TopicPartition
from replica.machines import Refusal, Refused, SessionCommand, SessionId, decode_entry, decode_outcome
from replica.records import RecordBatch, decode_records


class GroupRare(StrEnum):
    """Events that a sweep over state machines should have seen."""

    GROUP_FAILOVER = "group-failover"
    SNAPSHOT_STORED = "snapshot-stored"
    SNAPSHOT_INSTALLED = "snapshot-installed"
    SNAPSHOT_IN_PIECES = "snapshot-in-pieces"
    SNAPSHOT_GONE = "snapshot-gone"
    RESTORED_AT_START = "restored-at-start"
    FOLLOWER_READ = "follower-read"
    LEASE_READ = "lease-read"
    LATE_READ = "late-read"
    REPEATED_COMMAND = "repeated-command"
    REPEATED_AFTER_RESTORE = "repeated-after-restore"
    SESSION_EXPIRED = "session-expired"
    UNKNOWN_COMMAND = "unknown-command"


_COUNTED = frozenset[type]((fx.InstallSnapshot, fx.Reply, fx.Append))


class GroupCensus(Observer):
    """Counts ``GroupRare`` events of one world."""

    def __init__(self, world: World, record: Record) -> None:
        self.counts: Counter[GroupRare] = Counter()
        self._record = record
        self._logs = world.logs
        self._led: dict[TopicPartition, set[Epoch]] = {log: set() for log in world.logs}
        self._restored: set[ReplicaId] = set()
        """Whose present process has begun with a snapshot, or loaded one."""
        self._numbered: set[tuple[SessionId, int]] = set()

    def on_boot(self, node: Node, torn_bytes: int) -> None:
        """See ``Observer``."""
        del torn_bytes
        self._restored.discard(node.replica_id)
        if any(node.recovered[log].snapshots for log in self._logs):
            self.counts[GroupRare.RESTORED_AT_START] += 1
            self._restored.add(node.replica_id)

    def on_step(self, node: Node, step: Step) -> None:
        """See ``Observer``."""
        self._on_event(step.event)
        if fx.Reply in step.kinds:
            self.counts[GroupRare.LEASE_READ] += is_answered_by_lease(step)
        is_asked = isinstance(step.event, ev.RequestReceived) and isinstance(step.event.request, m.ApplyRequest)
        for effect in () if step.kinds.isdisjoint(_COUNTED) else step.effects:
            self._on_effect(node, effect)
            if is_asked and isinstance(effect, fx.Append):
                self._on_appended(node, effect.batches)
        if node.core is None or not step.is_whole:
            return
        for log in self._logs:
            role, epoch = node.core.logs[log].role, node.core.logs[log].leader_epoch
            if isinstance(role, Leader) and epoch not in self._led[log]:
                self.counts[GroupRare.GROUP_FAILOVER] += bool(self._led[log])
                self._led[log].add(epoch)
                if log != self._logs[0]:
                    self._record.replica(node.replica_id, BECAME_LEADER, topic_partition=log, epoch=epoch)

    def _on_event(self, event: ev.Event | None) -> None:
        match event:
            case ev.SnapshotStored():
                self.counts[GroupRare.SNAPSHOT_STORED] += 1
            case ev.ResponseReceived(response=m.FetchSnapshotResponse() as response):
                self.counts[GroupRare.SNAPSHOT_IN_PIECES] += response.position > 0
                self.counts[GroupRare.SNAPSHOT_GONE] += response.error is ErrorCode.SNAPSHOT_NOT_FOUND
            case _:
                pass

    def _on_effect(self, node: Node, effect: fx.Effect) -> None:
        match effect:
            case fx.InstallSnapshot():
                self.counts[GroupRare.SNAPSHOT_INSTALLED] += 1
                self._restored.add(node.replica_id)
            case fx.Reply(call_id=call_id, response=m.ApplyResponse() as response):
                request = node.requests[call_id]
                assert isinstance(request, m.ApplyRequest), request
                self._on_applied(request, response)
            case fx.Reply(call_id=call_id, response=m.QueryResponse(error=ErrorCode.NONE)):
                self._on_answered(node, node.requests[call_id])
            case fx.Reply(response=m.QueryResponse(error=ErrorCode.REQUEST_TIMED_OUT)):
                self.counts[GroupRare.LATE_READ] += 1
            case _:
                pass

    def _on_applied(self, request: m.ApplyRequest, response: m.ApplyResponse) -> None:
        if response.error is not ErrorCode.NONE:
            self.counts[GroupRare.UNKNOWN_COMMAND] += not response.not_appended
        for entry, outcome in zip(map(decode_entry, request.entries), response.outcomes, strict=False):
            if isinstance(entry, SessionCommand):
                told = decode_outcome(outcome)
                expired = isinstance(told, Refused) and told.refusal is Refusal.UNKNOWN_SESSION
                self.counts[GroupRare.SESSION_EXPIRED] += expired

    def _on_appended(self, node: Node, batches: tuple[RecordBatch, ...]) -> None:
        """A leader writes what it is asked to: a command may stand in its log already."""
        for entry in (decode_entry(record.value or b"") for batch in batches for record in decode_records(batch)):
            if isinstance(entry, SessionCommand):
                number = (entry.session_id, entry.sequence)
                self.counts[GroupRare.REPEATED_COMMAND] += number in self._numbered
                self.counts[GroupRare.REPEATED_AFTER_RESTORE] += (
                    number in self._numbered and node.replica_id in self._restored
                )
                self._numbered.add(number)

    def _on_answered(self, node: Node, request: m.Request) -> None:
        assert isinstance(request, m.QueryRequest), request
        assert node.core is not None, node.replica_id
        leads = isinstance(node.core.logs[request.topic_partition].role, Leader)
        self.counts[GroupRare.FOLLOWER_READ] += not leads and request.consistency is not m.Consistency.STALE


def is_answered_by_lease(step: Step) -> bool:
    """Whether a question that trusts in clocks was answered in the step in which it came: nobody else was asked."""
    match step.event:
        case ev.RequestReceived(call_id=call_id, request=m.QueryRequest(consistency=m.Consistency.LEASE)):
            answers = [effect for effect in step.effects if isinstance(effect, fx.Reply) and effect.call_id == call_id]
            return any(answer.response.error is ErrorCode.NONE for answer in answers)
        case _:
            return False
