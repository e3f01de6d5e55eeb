"""One group as a part of its replica: requests and reports in, effects out.

Owns the table of requests, and the order of what follows from an event. After a step of its replica that concerns it a
group *settles*: it looks at what its log has become, tells who waits, and asks for what comes next. Knows no other
group.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, assert_never

from replica.core.config import GroupConfig
from replica.core.earliest import earliest
from replica.core.effects import Effect, Halt
from replica.core.events import LogRead, ResponseReceived, SendFailed
from replica.core.group import invariants
from replica.core.group.applying import on_read, read_committed
from replica.core.group.balancing import maybe_rebalance, rebalance_deadline_ms
from replica.core.group.leading import follow_leadership, maybe_tick, tick_deadline_ms
from replica.core.group.proposing import expire_applies, maybe_describe, on_apply
from replica.core.group.read_index import (
    begin_reads,
    confirm_round,
    expire_reads,
    on_read_index,
    on_response,
    on_send_failed,
)
from replica.core.group.reading import answer_queries, expire_queries, on_query
from replica.core.group.snapshotting import check_has_state, maybe_snapshot, restore_received
from replica.core.group.state import GroupState, SendToPeer
from replica.core.log.recovered import RecoveredLog
from replica.core.messages import ApplyRequest, GroupRequest, QueryRequest, ReadIndexRequest
from replica.core.quorum import QuorumLog
from replica.core.rules import Rules
from replica.core.snapshotting import not_for_this_replica
from replica.ids import CallId, Offset
from replica.machines import AppliedLog, MachineFailedError, MachineMismatchError
from replica.records import CorruptRecordError

GROUP_REQUESTS: Mapping[type[GroupRequest], Callable[[GroupState, CallId, Any, int], None]] = {
    ApplyRequest: on_apply,
    QueryRequest: on_query,
    ReadIndexRequest: on_read_index,
}
"""Who answers what."""


class Group:
    """A state machine, hosted on a log. The machine is a fresh one: what it begins with comes from ``recovered``.

    ``place`` is the group's among all, from which it follows who should lead; absent where that is all the same.
    """

    def __init__(
        self,
        *,
        config: GroupConfig,
        log: QuorumLog,
        recovered: RecoveredLog,
        machine: AppliedLog,
        rules: Rules,
        emit: Callable[[Effect], None],
        send: SendToPeer,
        place: int | None = None,
    ) -> None:
        assert machine.applied_offset == 0, (log.topic_partition, machine.applied_offset)
        self._state = GroupState(
            topic_partition=log.topic_partition,
            config=config,
            log=log,
            machine=machine,
            rules=rules,
            emit=emit,
            send=send,
            place=place,
        )
        log.answers_wait = lambda: len(self._state.applies) > 0
        self._recovered: RecoveredLog | None = recovered
        self._applied_before = Offset(0)

    @property
    def applied_offset(self) -> Offset:
        """The machine has applied everything below."""
        return self._state.machine.applied_offset

    @property
    def log_time_ms(self) -> int:
        """The largest stamp that was applied."""
        return self._state.machine.log_time_ms

    @property
    def machine_leads(self) -> bool:
        """Whether the machine takes commands."""
        return self._state.leadership is not None

    def digest(self) -> str:
        """A hash of the state: equal on all replicas that have applied equally much. Costs a snapshot."""
        return self._state.machine.digest()

    @property
    def deadline_ms(self) -> int | None:
        """When it is to settle at the latest; absent while only an event can change anything."""
        g = self._state
        return earliest(
            g.applies.deadline_ms,
            g.reads.deadline_ms,
            g.queries.deadline_ms,
            g.watches.deadline_ms,
            tick_deadline_ms(g),
            g.snapshots.deadline_ms,
            rebalance_deadline_ms(g),
        )

    def start(self, now_ms: int) -> None:
        """Begin with the snapshot on disk: once, before anything else."""
        assert self._recovered is not None, self._state.topic_partition
        recovered, self._recovered = self._recovered, None
        self._or_halt(lambda: self._state.snapshots.restore_recovered(recovered, now_ms))

    def on_request(self, call_id: CallId, request: GroupRequest, now_ms: int) -> None:
        """Take a request of a client, or of another replica; it is answered now or later."""
        GROUP_REQUESTS[type(request)](self._state, call_id, request, now_ms)

    def on_answer(self, event: ResponseReceived | SendFailed) -> None:
        """Take what became of a request that this group has sent."""
        match event:
            case ResponseReceived(correlation_id=correlation_id, response=response):
                on_response(self._state, correlation_id, response)
            case SendFailed(correlation_id=correlation_id):
                on_send_failed(self._state, correlation_id)
            case _:
                assert_never(event)

    def on_read(self, read: LogRead) -> None:
        """Apply what was read of the log."""
        self._or_halt(lambda: on_read(self._state, read))

    def settle(self, now_ms: int) -> None:
        """Do what follows from all that has happened in this step."""
        self._or_halt(lambda: self._settle(now_ms))

    def _settle(self, now_ms: int) -> None:
        g = self._state
        restore_received(g, now_ms)
        check_has_state(g)
        follow_leadership(g, now_ms)
        begin_reads(g, now_ms)
        confirm_round(g, now_ms)
        answer_queries(g)
        expire_applies(g, now_ms)
        expire_reads(g, now_ms)
        expire_queries(g, now_ms)
        maybe_describe(g, now_ms)
        maybe_tick(g, now_ms)
        maybe_snapshot(g, now_ms)
        maybe_rebalance(g, now_ms)
        read_committed(g)
        if __debug__:
            invariants.check_state(g, self._applied_before)
            self._applied_before = g.machine.applied_offset

    def _or_halt(self, act: Callable[[], None]) -> None:
        """Let a bug of the machine, the log of another, or records that nobody can have written, stop the replica."""
        try:
            act()
        except (MachineFailedError, CorruptRecordError) as error:
            self._state.emit(Halt(reason=f"{self._state.topic_partition}: {error}"))
        except MachineMismatchError as error:
            reason = not_for_this_replica(self._state.topic_partition, "the log", error)
            self._state.emit(Halt(reason=f"{self._state.topic_partition}: {reason}"))
