"""One group as a part of its replica: requests and reports in, effects out.

Owns the table of requests, and the order of what follows from an event. After a step of its replica that concerns it a
group *settles*: it looks at what its log has become, tells who waits, and asks for what comes next. Knows no other
group.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, assert_never

from replica.core.earliest import earliest
from replica.core.effects import Halt
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
from replica.core.group.state import GroupState
from replica.core.messages import ApplyRequest, GroupRequest, QueryRequest, ReadIndexRequest
from replica.core.snapshotting import not_for_this_replica
from replica.ids import CallId
from replica.machines import MachineFailedError, MachineMismatchError
from replica.records import CorruptRecordError

GROUP_REQUESTS: Mapping[type[GroupRequest], Callable[[GroupState, CallId, Any, int], None]] = {
    ApplyRequest: on_apply,
    QueryRequest: on_query,
    ReadIndexRequest: on_read_index,
}
"""Who answers what."""


class Group(GroupState):
    """A state machine, hosted on a log. The machine is a fresh one: what it begins with comes from ``recovered``."""

    @property
    def deadline_ms(self) -> int | None:
        """When it is to settle at the latest; absent while only an event can change anything."""
        return earliest(
            self.applies.deadline_ms,
            self.reads.deadline_ms,
            self.queries.deadline_ms,
            self.watches.deadline_ms,
            tick_deadline_ms(self),
            self.snapshots.deadline_ms,
            rebalance_deadline_ms(self),
        )

    def start(self, now_ms: int) -> None:
        """Begin with the snapshot on disk: once, before anything else."""
        assert self.recovered is not None, self.topic_partition
        recovered, self.recovered = self.recovered, None
        self._or_halt(lambda: self.snapshots.restore_recovered(recovered, now_ms))

    def on_request(self, call_id: CallId, request: GroupRequest, now_ms: int) -> None:
        """Take a request of a client, or of another replica; it is answered now or later."""
        GROUP_REQUESTS[type(request)](self, call_id, request, now_ms)

    def on_answer(self, event: ResponseReceived | SendFailed) -> None:
        """Take what became of a request that this group has sent."""
        match event:
            case ResponseReceived(correlation_id=correlation_id, response=response):
                on_response(self, correlation_id, response)
            case SendFailed(correlation_id=correlation_id):
                on_send_failed(self, correlation_id)
            case _:
                assert_never(event)

    def on_read(self, read: LogRead) -> None:
        """Apply what was read of the log."""
        self._or_halt(lambda: on_read(self, read))

    def settle(self, now_ms: int) -> None:
        """Do what follows from all that has happened in this step."""
        self._or_halt(lambda: self._settle(now_ms))

    def _settle(self, now_ms: int) -> None:
        restore_received(self, now_ms)
        check_has_state(self)
        follow_leadership(self, now_ms)
        begin_reads(self, now_ms)
        confirm_round(self, now_ms)
        answer_queries(self)
        expire_applies(self, now_ms)
        expire_reads(self, now_ms)
        expire_queries(self, now_ms)
        maybe_describe(self, now_ms)
        maybe_tick(self, now_ms)
        maybe_snapshot(self, now_ms)
        maybe_rebalance(self, now_ms)
        read_committed(self)
        if __debug__:
            invariants.check_state(self, self.applied_before)
            self.applied_before = self.machine.applied_offset

    def _or_halt(self, act: Callable[[], None]) -> None:
        """Let a bug of the machine, the log of another, or records that nobody can have written, stop the replica."""
        try:
            act()
        except (MachineFailedError, CorruptRecordError) as error:
            self.emit(Halt(reason=f"{self.topic_partition}: {error}"))
        except MachineMismatchError as error:
            reason = not_for_this_replica(self.topic_partition, "the log", error)
            self.emit(Halt(reason=f"{self.topic_partition}: {reason}"))
