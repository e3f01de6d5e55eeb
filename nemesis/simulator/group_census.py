"""What happened in a world of state machines that happens rarely, beside what is rare in any world.

Owns the counting. Judges nothing. Who leads which group is recorded for the first by ``census``, for others here.
"""

from __future__ import annotations

from nemesis.history import BECAME_LEADER
from nemesis.simulator.node import Node, Step
from nemesis.simulator.rare import Rare
from nemesis.simulator.record import Record
from nemesis.simulator.snapshot_census import OF_MACHINES, SnapshotCensus
from nemesis.simulator.world import Observer, World
from replica.core import effects as fx
from replica.core import events as ev
from replica.core import messages as m
from replica.core.quorum.roles import Leader
from replica.errors import ErrorCode
from replica.ids import Epoch, TopicPartition
from replica.machines import Refusal, Refused, SessionCommand, SessionId, decode_entry, decode_outcome
from replica.records import RecordBatch, decode_records

_COUNTED = frozenset[type]((fx.Reply, fx.Append))


class GroupCensus(Observer):
    """Counts ``Rare`` events of one world."""

    def __init__(self, world: World, record: Record) -> None:
        self._record = record
        self._logs = world.logs
        self._led: dict[TopicPartition, set[Epoch]] = {log: set() for log in world.logs}
        self._rare = record.rare
        self._snapshots = SnapshotCensus(record, world.logs, OF_MACHINES)
        self._numbered: set[tuple[SessionId, int]] = set()

    def on_boot(self, node: Node, torn_bytes: int) -> None:
        """See ``Observer``."""
        self._snapshots.on_boot(node, torn_bytes)

    def on_step(self, node: Node, step: Step) -> None:
        """See ``Observer``."""
        self._snapshots.on_step(node, step)
        if fx.Reply in step.kinds:
            self._rare[Rare.LEASE_READ] += is_answered_by_lease(step)
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
                self._rare[Rare.GROUP_FAILOVER] += bool(self._led[log])
                self._led[log].add(epoch)
                if log != self._logs[0]:
                    self._record.replica(node.replica_id, BECAME_LEADER, topic_partition=log, epoch=epoch)

    def _on_effect(self, node: Node, effect: fx.Effect) -> None:
        match effect:
            case fx.Reply(call_id=call_id, response=m.ApplyResponse() as response):
                request = node.requests[call_id]
                assert isinstance(request, m.ApplyRequest), request
                self._on_applied(request, response)
            case fx.Reply(call_id=call_id, response=m.QueryResponse(error=ErrorCode.NONE)):
                self._on_answered(node, node.requests[call_id])
            case fx.Reply(response=m.QueryResponse(error=ErrorCode.REQUEST_TIMED_OUT)):
                self._rare[Rare.LATE_READ] += 1
            case _:
                pass

    def _on_applied(self, request: m.ApplyRequest, response: m.ApplyResponse) -> None:
        if response.error is not ErrorCode.NONE:
            self._rare[Rare.UNKNOWN_COMMAND] += not response.not_appended
        for entry, outcome in zip(map(decode_entry, request.entries), response.outcomes, strict=False):
            if isinstance(entry, SessionCommand):
                told = decode_outcome(outcome)
                expired = isinstance(told, Refused) and told.refusal is Refusal.UNKNOWN_SESSION
                self._rare[Rare.SESSION_EXPIRED] += expired

    def _on_appended(self, node: Node, batches: tuple[RecordBatch, ...]) -> None:
        """A leader writes what it is asked to: a command may stand in its log already."""
        for entry in (decode_entry(record.value or b"") for batch in batches for record in decode_records(batch)):
            if isinstance(entry, SessionCommand):
                number = (entry.session_id, entry.sequence)
                self._rare[Rare.REPEATED_COMMAND] += number in self._numbered
                self._rare[Rare.REPEATED_AFTER_RESTORE] += (
                    number in self._numbered and node.replica_id in self._snapshots.restored
                )
                self._numbered.add(number)

    def _on_answered(self, node: Node, request: m.Request) -> None:
        assert isinstance(request, m.QueryRequest), request
        assert node.core is not None, node.replica_id
        leads = isinstance(node.core.logs[request.topic_partition].role, Leader)
        self._rare[Rare.FOLLOWER_READ] += not leads and request.consistency is not m.Consistency.STALE


def is_answered_by_lease(step: Step) -> bool:
    """Whether a question that trusts in clocks was answered in the step in which it came: nobody else was asked."""
    match step.event:
        case ev.RequestReceived(call_id=call_id, request=m.QueryRequest(consistency=m.Consistency.LEASE)):
            answers = [effect for effect in step.effects if isinstance(effect, fx.Reply) and effect.call_id == call_id]
            return any(answer.response.error is ErrorCode.NONE for answer in answers)
        case _:
            return False
