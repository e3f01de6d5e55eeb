"""A group of three replicas that run a real machine, without a network: what is lost on the way, a test says."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from enum import Enum, auto

from replica.client.cluster_view import ViewConfig
from replica.client.connections import Endpoint
from replica.client.groups.client import GroupClient
from replica.client.groups.config import GroupConfig
from replica.core import messages as m
from replica.errors import ErrorCode
from replica.ids import Epoch, Offset, ReplicaId, TopicPartition
from replica.machines import (
    AppliedLog,
    CommittedBatch,
    Entry,
    SessionCommand,
    SessionLimits,
    StateMachine,
    decode_entry,
    encode_outcome,
)
from replica.machines.counter import Counter
from replica.rpc.transport import NotAppliedError, TransportError
from tests.client.virtual import VirtualClock

GROUP = TopicPartition("g", 0)
ADDRESSES = {ReplicaId(number): f"r{number}:1" for number in (1, 2, 3)}
VIEW = ViewConfig(
    api_timeout_ms=2_000,
    request_timeout_ms=300,
    metadata_timeout_ms=100,
    retry_backoff_ms=10,
    retry_backoff_max_ms=40,
)


class Fate(Enum):
    """What becomes of one ApplyRequest."""

    ANSWERED = auto()
    ANSWER_LOST = auto()
    NEVER_SENT = auto()
    APPLIED_LATE = auto()
    """No answer, and applied all the same: after the next request."""
    REQUEST_LOST = auto()


class FakeGroup:
    """Three replicas of one machine, and the way to them. Whoever leads applies at once; the others, unless held back.

    ``fates`` are those of the next ApplyRequests, ``refusals`` the answers to the next ones that are not served;
    ``down`` refuses connections, ``silent`` swallows what is sent. Log time is the clock's.
    """

    def __init__(self, make: Callable[[], StateMachine] = Counter, limits: SessionLimits | None = None) -> None:
        self.clock = VirtualClock()
        self.leader = m.CurrentLeader(leader_id=ReplicaId(1), leader_epoch=Epoch(1))
        self.believed: dict[ReplicaId, m.CurrentLeader] = {}
        self.has_group = set(ADDRESSES)
        self.down: set[ReplicaId] = set()
        self.silent: set[ReplicaId] = set()
        self.held_back: set[ReplicaId] = set()
        self.fates: deque[Fate] = deque()
        self.refusals: deque[m.ApplyResponse | m.QueryResponse] = deque()
        self.latency_ms = 0
        self.transfer_error = ErrorCode.NONE
        self.elected: int | None = None
        self.calls: list[tuple[Endpoint, m.Request]] = []
        self.is_closed = False
        self.answer_bytes_max = 1 << 20
        self.logs = {replica: AppliedLog(make(), name="m", limits=limits) for replica in ADDRESSES}
        self._batches: list[CommittedBatch] = []
        self._late: list[m.ApplyRequest] = []
        self._changed = asyncio.Event()
        self.in_flight = self.in_flight_most = 0

    def client(self, config: GroupConfig | None = None, view_config: ViewConfig = VIEW) -> GroupClient:
        """A client of this group."""
        return GroupClient(
            "r1:1,r2:1", GROUP.topic, config, view_config=view_config, connections=self, clock=self.clock
        )

    def lead(self, replica_id: int | None) -> None:
        """Let another replica lead, in a new epoch."""
        leader_id = None if replica_id is None else ReplicaId(replica_id)
        self.leader = m.CurrentLeader(leader_id=leader_id, leader_epoch=Epoch(self.leader.leader_epoch + 1))

    def applies(self) -> list[m.ApplyRequest]:
        """All ApplyRequests, in the order in which they were sent."""
        return [request for _, request in self.calls if isinstance(request, m.ApplyRequest)]

    def entries(self, kind: type[Entry]) -> list[Entry]:
        """All entries of one kind that were sent, copies included."""
        sent = [decode_entry(entry) for request in self.applies() for entry in request.entries]
        return [entry for entry in sent if isinstance(entry, kind)]

    def asked(self, kind: type[m.Request]) -> list[int]:
        """Whom requests of one kind went to, in order."""
        return [endpoint.broker_id for endpoint, request in self.calls if isinstance(request, kind)]

    def pass_ms(self, milliseconds: int) -> None:
        """Let time pass for the group alone: nobody is heard of meanwhile."""
        self.clock.pass_ms(milliseconds)
        self._commit(())

    # --- the port ---------------------------------------------------------------------------------------------------

    async def call(self, endpoint: Endpoint, request: m.Request, timeout_ms: int) -> m.Response:
        """Serve a request, or lose it."""
        assert timeout_ms > 0, timeout_ms
        self.calls.append((endpoint, request))
        self.in_flight += 1
        self.in_flight_most = max(self.in_flight, self.in_flight_most)
        try:
            return await self._call(endpoint, request, timeout_ms)
        finally:
            self.in_flight -= 1

    async def close(self) -> None:
        """Note that it was closed."""
        self.is_closed = True

    async def _call(self, endpoint: Endpoint, request: m.Request, timeout_ms: int) -> m.Response:
        await (self.clock.sleep(self.latency_ms) if self.latency_ms else asyncio.sleep(0))
        replica = ReplicaId(int(endpoint.address[1]))
        if replica in self.down:
            raise NotAppliedError(f"{endpoint} refuses connections")
        if replica in self.silent:
            await self.clock.sleep(timeout_ms)
            raise TransportError(f"{endpoint}: DEADLINE_EXCEEDED")
        match request:
            case m.DescribeReplicaRequest():
                return self._described_by(replica)
            case m.ApplyRequest():
                return self._apply(replica, request)
            case m.QueryRequest():
                return await self._query(replica, request)
            case m.DescribeQuorumRequest():
                return self._quorum(replica)
            case m.TransferLeadershipRequest(target_id=target_id):
                return self._transfer(replica, target_id)
            case _:
                raise AssertionError(request)

    def _leader_by(self, replica: ReplicaId) -> m.CurrentLeader:
        return self.believed.get(replica, self.leader)

    def _described_by(self, replica: ReplicaId) -> m.DescribeReplicaResponse:
        if replica not in self.has_group:
            return m.DescribeReplicaResponse(error=ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, addresses=ADDRESSES)
        leader = self._leader_by(replica)
        return m.DescribeReplicaResponse(error=ErrorCode.NONE, leader=leader, addresses=ADDRESSES)

    def _quorum(self, replica: ReplicaId) -> m.DescribeQuorumResponse:
        if replica != self.leader.leader_id:
            return m.DescribeQuorumResponse(
                error=ErrorCode.NOT_LEADER_OR_FOLLOWER, current_leader=self._leader_by(replica)
            )
        voters = tuple(
            m.QuorumReplicaState(replica_id=voter, log_end_offset=Offset(90 + voter), last_fetch_ms_ago=voter)
            for voter in ADDRESSES
        )
        return m.DescribeQuorumResponse(
            error=ErrorCode.NONE, current_leader=self.leader, high_watermark=Offset(92), current_voters=voters
        )

    def _transfer(self, replica: ReplicaId, target_id: ReplicaId) -> m.TransferLeadershipResponse:
        """The target is elected at once, or ``elected``; ``transfer_error`` is the answer of the leader."""
        leader = self._leader_by(replica)
        if replica != self.leader.leader_id:
            return m.TransferLeadershipResponse(error=ErrorCode.NOT_LEADER_OR_FOLLOWER, current_leader=leader)
        if self.transfer_error is ErrorCode.NONE:
            self.lead(self.elected or target_id)
        return m.TransferLeadershipResponse(error=self.transfer_error, current_leader=leader)

    # --- the machine ------------------------------------------------------------------------------------------------

    def _apply(self, replica: ReplicaId, request: m.ApplyRequest) -> m.ApplyResponse:
        assert request.entries, "an empty request"
        refusal = self._refusal(replica)
        if refusal is not None:
            return m.ApplyResponse(error=refusal, not_appended=True, current_leader=self._leader_by(replica))
        if self.refusals and isinstance(self.refusals[0], m.ApplyResponse):
            answer = self.refusals.popleft()
            assert isinstance(answer, m.ApplyResponse)
            return answer
        fate = self.fates.popleft() if self.fates else Fate.ANSWERED
        late, self._late = self._late, []
        if fate is Fate.NEVER_SENT:
            raise NotAppliedError("refuses connections")
        if fate is Fate.APPLIED_LATE:
            self._late.append(request)
        answer = m.ApplyResponse(error=ErrorCode.NONE)
        if fate in (Fate.ANSWERED, Fate.ANSWER_LOST):
            answer = self._answer(request)
        for before in late:
            self._commit(before.entries)
        if fate is not Fate.ANSWERED:
            raise TransportError(f"replica {replica}: UNAVAILABLE: the answer was lost")
        return answer

    def _answer(self, request: m.ApplyRequest) -> m.ApplyResponse:
        outcomes = self._commit(request.entries)
        if sum(map(len, outcomes)) > self.answer_bytes_max:
            return m.ApplyResponse(error=ErrorCode.MESSAGE_TOO_LARGE)
        return m.ApplyResponse(error=ErrorCode.NONE, outcomes=outcomes)

    def _refusal(self, replica: ReplicaId) -> ErrorCode | None:
        if replica not in self.has_group:
            return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        return None if replica == self.leader.leader_id else ErrorCode.NOT_LEADER_OR_FOLLOWER

    def _commit(self, entries: tuple[bytes, ...]) -> tuple[bytes, ...]:
        base = self._batches[-1].end_offset if self._batches else 0
        batch = CommittedBatch(
            base_offset=Offset(base),
            end_offset=Offset(base + max(1, len(entries))),
            epoch=self.leader.leader_epoch,
            timestamp_ms=self.clock.now_ms(),
            entries=entries,
        )
        self._batches.append(batch)
        outcomes: list[bytes] = []
        for replica in ADDRESSES:
            told = outcomes if replica == self.leader.leader_id else []
            if replica not in self.held_back:
                self._catch_up(replica, told)
        changed, self._changed = self._changed, asyncio.Event()
        changed.set()
        return tuple(outcomes[-len(entries) :])

    def _catch_up(self, replica: ReplicaId, told: list[bytes]) -> None:
        log = self.logs[replica]
        for batch in self._batches:
            if batch.base_offset >= log.applied_offset:
                log.apply(batch, lambda entry: told.append(encode_outcome(entry.outcome)))

    async def _query(self, replica: ReplicaId, request: m.QueryRequest) -> m.QueryResponse:
        if replica not in self.has_group:
            return m.QueryResponse(error=ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        if self.refusals and isinstance(self.refusals[0], m.QueryResponse):
            answer = self.refusals.popleft()
            assert isinstance(answer, m.QueryResponse)
            return answer
        log, end_ms = self.logs[replica], self.clock.now_ms() + request.timeout_ms
        while request.after_offset is not None and log.applied_offset <= request.after_offset:
            if self.clock.now_ms() >= end_ms:
                break
            await self.clock.wait(self._changed, end_ms - self.clock.now_ms())
        if replica in self.held_back and request.consistency is m.Consistency.LINEARIZABLE:
            return m.QueryResponse(error=ErrorCode.REQUEST_TIMED_OUT, current_leader=self.leader)
        outcomes = tuple(encode_outcome(log.query(each)) for each in request.requests)
        return m.QueryResponse(error=ErrorCode.NONE, outcomes=outcomes, applied_offset=log.applied_offset)

    def copies(self) -> list[int]:
        """How often each command was sent, in the order of their sequences."""
        commands = [entry for entry in self.entries(SessionCommand) if isinstance(entry, SessionCommand)]
        return [
            sum(entry.sequence == sequence for entry in commands)
            for sequence in sorted({entry.sequence for entry in commands})
        ]


def refused(error: ErrorCode, *, not_appended: bool = True) -> m.ApplyResponse:
    """An answer without outcomes."""
    return m.ApplyResponse(error=error, not_appended=not_appended)
