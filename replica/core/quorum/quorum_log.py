"""One quorum log as a machine: an event and the time in, effects out.

Owns the table of requests and nothing else. A step first lets the event change what it concerns, then lets the present
role do what is due (*pump*), until the role has nothing more to do at this instant; what remains is a deadline.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import wraps
from typing import Any, Concatenate, ParamSpec, assert_never, cast

from replica.bounds import BATCH_BYTES_MAX
from replica.core import messages as m
from replica.core.effects import Effect
from replica.core.events import (
    BatchFound,
    ClockRead,
    Event,
    Flushed,
    LogDamaged,
    LogDirectoryFailed,
    LogRead,
    LogStartMoved,
    PeerRefused,
    ProducersScanned,
    RequestReceived,
    ResignRequested,
    ResponseReceived,
    SendFailed,
    SnapshotStored,
    SnapshotTooLarge,
    Started,
    StorageFailed,
    Ticked,
)
from replica.core.log import inspecting
from replica.core.log.recovered import StoredSnapshot
from replica.core.quorum import (
    catching_up,
    describing,
    elections,
    following,
    hearing,
    invariants,
    leading,
    leasing,
    membership,
    transferring,
)
from replica.core.quorum.fetching import on_fetch
from replica.core.quorum.producing import on_produce
from replica.core.quorum.roles import Candidate, Follower, Leader, Prospective, Resigned, Unattached
from replica.core.quorum.serving import complete_fetches, confirmed_read_round
from replica.core.quorum.snapshots import (
    on_fetch_snapshot,
    on_snapshot_stored,
    on_snapshot_too_large,
    snapshots_wait_until_ms,
    store_snapshot,
)
from replica.core.quorum.state import QuorumLogState
from replica.core.quorum.transitions import observe_answer, restore
from replica.core.refusals import refusal
from replica.errors import ErrorCode
from replica.ids import CallId, CorrelationId, SnapshotId
from replica.records import RecordBatch

P = ParamSpec("P")

ROLE_CHANGES_MAX = 8
"""More changes of role in one instant than any path through the roles has: beyond that the core is going in circles."""


class BatchTooLargeError(ValueError):
    """A batch that cannot be replicated; nothing was appended."""


def _on_delete_records(q: QuorumLogState, call_id: CallId, request: m.DeleteRecordsRequest, _now_ms: int) -> None:
    """Only what a snapshot contains goes from a quorum log."""
    q.reply(call_id, refusal(request, ErrorCode.INVALID_TOPIC_EXCEPTION))


def _propose(q: QuorumLogState, batch: RecordBatch, _now_ms: int) -> None:
    """Append a batch of the replica's own, as the leader that it must be.

    Raises BatchTooLargeError, before anything is appended, for one that no message could carry: no follower could
    fetch it, nothing behind it could ever be committed, and the leader would be deposed.
    """
    if batch.size_bytes > BATCH_BYTES_MAX:
        raise BatchTooLargeError(f"a batch of {batch.size_bytes} bytes; at most {BATCH_BYTES_MAX} are replicated")
    assert isinstance(q.role, Leader), q.role
    assert q.role.transfer is None, q.role.transfer
    q.append(batch.stamped(base_offset=q.log.log_end_offset, leader_epoch=q.leader_epoch))
    complete_fetches(q)


QUORUM_REQUESTS: Mapping[type[m.Request], Callable[[QuorumLogState, CallId, Any, int], None]] = {
    m.ProduceRequest: on_produce,
    m.FetchRequest: on_fetch,
    m.OffsetForLeaderEpochRequest: inspecting.on_offset_for_leader_epoch,
    m.ListOffsetsRequest: inspecting.on_list_offsets,
    m.VoteRequest: elections.on_vote_request,
    m.BeginQuorumEpochRequest: leading.on_begin_quorum_epoch_request,
    m.EndQuorumEpochRequest: leading.on_end_quorum_epoch_request,
    m.DescribeQuorumRequest: describing.on_describe_quorum,
    m.TransferLeadershipRequest: transferring.on_transfer_leadership,
    m.AddVoterRequest: membership.on_add_voter,
    m.RemoveVoterRequest: membership.on_remove_voter,
    m.DescribeReplicaRequest: inspecting.on_describe_replica,
    m.DumpLogRequest: inspecting.on_dump_log,
    m.FetchSnapshotRequest: on_fetch_snapshot,
    m.DeleteRecordsRequest: _on_delete_records,
}
"""Who answers what."""


def _stepped(
    act: Callable[Concatenate[QuorumLogState, P], None],
) -> Callable[Concatenate[QuorumLog, P], tuple[Effect, ...]]:
    """Make of a change a step of its own, whose effects are returned. The last argument is the time."""

    @wraps(act)
    def step(self: QuorumLog, /, *args: P.args, **kwargs: P.kwargs) -> tuple[Effect, ...]:
        assert self.halted is None, self.halted
        before = invariants.observe(self)
        act(self, *args, **kwargs)
        return self._finish(before, cast(int, args[-1]))

    return step


class QuorumLog(QuorumLogState):
    """One log kept by a quorum. Not reentrant; between two steps it is at rest."""

    def step(self, event: Event, now_ms: int) -> tuple[Effect, ...]:
        """Take one event at ``now_ms`` (monotonic milliseconds) and return what the driver must do, in order.

        After a Halt every further event is met with silence.
        """
        if self.halted is not None:
            return ()
        before = invariants.observe(self)
        self._handle(event, now_ms)
        return self._finish(before, now_ms)

    def _finish(self, before: invariants.Observation, now_ms: int) -> tuple[Effect, ...]:
        """Let the role do what is due now, check what must hold, and hand over the effects."""
        self.steps += 1
        self._pump(now_ms)
        if __debug__ and self.halted is None:
            invariants.check_state(self, before)
            invariants.check_step(before, self)
        return self.take_outbox()

    # --- for whom the log is replayed -------------------------------------------------------------------------------

    propose = _stepped(_propose)
    begin_read_round = _stepped(leasing.begin_read_round)
    confirmed_read_round = property(confirmed_read_round)
    lease_end_ms = property(leasing.lease_end_ms)
    begin_transfer = _stepped(transferring.begin_transfer)
    watched_leader = property(hearing.watched_leader)

    store_snapshot = _stepped(store_snapshot)
    snapshots_wait_until_ms = property(snapshots_wait_until_ms)
    received_snapshot = property(catching_up.received_snapshot)
    install_snapshot = _stepped(catching_up.install_snapshot)
    reject_snapshot = _stepped(catching_up.reject_snapshot)

    @property
    def snapshots(self) -> tuple[StoredSnapshot, ...]:
        """The snapshots on stable storage, oldest first; the log begins where the oldest ends, if not at 0.

        Two, but after a crash between the storing of one and what follows: then three, until the next is stored.
        """
        return self.log.snapshots

    @property
    def is_storing_snapshot(self) -> bool:
        """Whether one is on its way to stable storage; at most one is at a time."""
        return self.storing is not None

    @property
    def snapshots_rejected(self) -> int:
        """How many snapshots in a row this follower was given by its leader that cannot be loaded."""
        return self.role.rejected if isinstance(self.role, Follower) else 0

    def may_store(self, snapshot_id: SnapshotId) -> bool:
        """Tell whether a snapshot can say who votes: who was formatted without voters cannot before the log says so."""
        return bool(self.voter_history.as_of(snapshot_id.end_offset).base.voters)

    # --- events -----------------------------------------------------------------------------------------------------

    @property
    def deadline_ms(self) -> int | None:
        """When ``step(Ticked())`` is wanted at the latest; absent while only an event can change anything."""
        if self.halted is not None:
            return None
        match self.role:
            case Unattached():
                return following.unattached_deadline_ms(self, self.role)
            case Prospective() | Candidate():
                return elections.campaign_deadline_ms(self.role)
            case Leader():
                return leading.leader_deadline_ms(self, self.role)
            case Follower():
                return following.follower_deadline_ms(self, self.role)
            case Resigned():
                return leading.resigned_deadline_ms(self.role)
            case _:
                assert_never(self.role)

    def _handle(self, event: Event, now_ms: int) -> None:
        match event:
            case Started():
                restore(self, now_ms)
            case Ticked():
                pass
            case RequestReceived(call_id=call_id, request=request):
                QUORUM_REQUESTS[type(request)](self, call_id, request, now_ms)
            case ResponseReceived(correlation_id=correlation_id, response=response):
                self._on_response(correlation_id, response, now_ms)
            case SendFailed(correlation_id=correlation_id):
                elections.on_vote_send_failed(self, correlation_id, now_ms)
                following.on_follow_send_failed(self, correlation_id, now_ms)
                leading.on_end_quorum_epoch_send_failed(self, correlation_id, now_ms)
            case PeerRefused(replica_id=replica_id, refused_at_ms=refused_at_ms):
                hearing.on_peer_refused(self, replica_id, refused_at_ms, now_ms)
            case Flushed(end_offset=end_offset):
                self.log.flushed(end_offset)
            case StorageFailed(reason=reason):
                self.halt(reason)
            case ResignRequested():
                leading.resign(self, now_ms)
            case SnapshotStored(snapshot_id=snapshot_id, size_bytes=size_bytes):
                on_snapshot_stored(self, StoredSnapshot(id=snapshot_id, size_bytes=size_bytes))
            case SnapshotTooLarge(snapshot_id=snapshot_id, size_bytes=size_bytes):
                on_snapshot_too_large(self, snapshot_id, size_bytes)
            case LogRead() | BatchFound() | ProducersScanned() | LogStartMoved() | ClockRead():
                raise AssertionError(f"{event} is nothing to a quorum log")
            case LogDamaged() | LogDirectoryFailed():
                raise AssertionError(f"{event} is nothing to a quorum log")
            case _:
                assert_never(event)

    def _on_response(self, correlation_id: CorrelationId, response: m.PeerResponse, now_ms: int) -> None:
        match response:
            case m.VoteResponse():
                elections.on_vote_response(self, correlation_id, response, now_ms)
            case m.FetchResponse():
                following.on_fetch_response(self, correlation_id, response, now_ms)
            case m.FetchSnapshotResponse():
                catching_up.on_fetch_snapshot_response(self, correlation_id, response, now_ms)
            case m.BeginQuorumEpochResponse():
                observe_answer(self, response.error, response.current_leader, now_ms)
            case m.EndQuorumEpochResponse():
                leading.on_end_quorum_epoch_response(self, correlation_id, response, now_ms)
            case (
                m.ListOffsetsResponse()
                | m.ReadIndexResponse()
                | m.BrokerRegistrationResponse()
                | m.BrokerHeartbeatResponse()
                | m.AlterPartitionResponse()
            ):
                raise AssertionError(f"a quorum log never asks for {response}")
            case _:
                assert_never(response)

    def _pump(self, now_ms: int) -> None:
        """Let the role do what is due; a new role gets its turn at once."""
        for _ in range(ROLE_CHANGES_MAX):
            if self.halted is not None:
                return
            self.follow_voters()
            role_type, epoch = type(self.role), self.leader_epoch
            self._pump_role(now_ms)
            if (type(self.role), self.leader_epoch) == (role_type, epoch):
                return
        raise AssertionError(f"more than {ROLE_CHANGES_MAX} changes of role at {now_ms}: now {self.role}")

    def _pump_role(self, now_ms: int) -> None:
        match self.role:
            case Unattached():
                following.pump_unattached(self, self.role, now_ms)
            case Prospective():
                elections.pump_prospective(self, self.role, now_ms)
            case Candidate():
                elections.pump_candidate(self, self.role, now_ms)
            case Leader():
                leading.pump_leader(self, now_ms)
            case Follower():
                following.pump_follower(self, self.role, now_ms)
            case Resigned():
                leading.pump_resigned(self, self.role, now_ms)
            case _:
                assert_never(self.role)
