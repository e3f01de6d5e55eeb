"""All that one group knows, and who waits for what.

Owns the data; decides nothing. The log's own state is with the log, the machine's with the machine; the modules beside
this one read and change all three.
"""

from __future__ import annotations

from collections.abc import Callable

from msgspec import Struct

from replica.core.config import GroupConfig
from replica.core.effects import Effect, Reply
from replica.core.log.recovered import RecoveredLog
from replica.core.messages import PeerRequest, QueryRequest, ReadIndexRequest, Response
from replica.core.purgatory import Purgatory
from replica.core.quorum import QuorumLog
from replica.core.rules import Rules
from replica.core.snapshotting import SnapshotPace, Snapshotting
from replica.ids import CallId, CorrelationId, Epoch, Offset, ReplicaId
from replica.machines import AppliedLog, LeaderClock

SendToPeer = Callable[[ReplicaId, PeerRequest, int], CorrelationId]
"""Send a request to a peer, with its timeout in milliseconds; the answer comes under the id."""


class Leadership(Struct, frozen=True, kw_only=True):
    """The machine leads, in ``epoch``; ``clock`` stamps what it writes.

    ``has_described`` is whether it has written which machine the log is of.
    """

    epoch: Epoch
    clock: LeaderClock
    has_described: bool = False


class ParkedApply(Struct, frozen=True, kw_only=True):
    """Entries in ``[base_offset, end_offset)`` of the log, which wait to be applied."""

    call_id: CallId
    deadline_ms: int
    base_offset: Offset
    end_offset: Offset
    epoch: Epoch


class ParkedRead(Struct, frozen=True, kw_only=True):
    """A question that waits for its read index: it is one of those of ``batch``, which learn it together."""

    call_id: CallId
    deadline_ms: int
    request: QueryRequest | ReadIndexRequest
    batch: int


class ParkedQuery(Struct, frozen=True, kw_only=True):
    """A question whose read index is known: it waits for the machine to get there, or for something to happen."""

    call_id: CallId
    deadline_ms: int
    request: QueryRequest
    read_index: Offset


def size_of(request: QueryRequest) -> int:
    """How many bytes are asked."""
    return sum(map(len, request.requests))


def _size_bytes(parked: ParkedRead | ParkedQuery) -> int:
    return size_of(parked.request) if isinstance(parked.request, QueryRequest) else 0


class ReadRound(Struct, frozen=True, kw_only=True):
    """A batch of reads on the leader: right as of ``read_index`` once the log has confirmed ``read_round``."""

    batch: int
    read_round: int
    read_index: Offset


class Watch(Struct, frozen=True, kw_only=True):
    """The preferred leader is watched since ``since_ms``, when the log ended at ``end_offset``."""

    since_ms: int
    end_offset: Offset


class AskedLeader(Struct, frozen=True, kw_only=True):
    """A batch of reads on a follower, for which the leader is asked."""

    batch: int
    correlation_id: CorrelationId


class GroupState:
    """One group as its replica sees it."""

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
        self.topic_partition = log.topic_partition
        self.config = config
        self.log = log
        self.recovered: RecoveredLog | None = recovered
        """What was found on disk, until it begins with that."""
        self.machine = machine
        self.rules = rules
        self.emit = emit
        self.send = send
        self.place = place
        """The group's among all, from which it follows who should lead; absent where that is all the same."""
        self.leadership: Leadership | None = None
        """Absent while the machine does not lead."""
        self.seen: tuple[Epoch, ReplicaId | None] = (log.leader_epoch, None)
        """The epoch and the leader at the last look."""
        self.written_ms = 0
        """When this leader has last written."""
        self.applied_before = Offset(0)
        """How far the machine had come when the group last settled."""
        self.applies: Purgatory[ParkedApply] = Purgatory(config.pending_applies_max)
        log.answers_wait = lambda: len(self.applies) > 0
        self.reads: Purgatory[ParkedRead] = Purgatory(
            config.pending_queries_max + config.pending_read_indexes_max, _size_bytes
        )
        """Without a read index, in the order of their batches."""
        self.queries: Purgatory[ParkedQuery] = Purgatory(config.pending_queries_max, _size_bytes)
        """With a read index, to be answered once so much is applied."""
        self.watches: Purgatory[ParkedQuery] = Purgatory(config.pending_watches_max, _size_bytes)
        """With a read index, to be answered once something new is applied as well."""
        self.queries_seen_at: Offset | None = None
        """How far was applied when the waiting queries were last looked at; absent if others have come since."""
        self.batches_begun = 0
        """Reads of later batches wait to be begun, all together."""
        self.batch_wanted = 0
        self.round: ReadRound | None = None
        """The one that is out, on the leader."""
        self.asked: AskedLeader | None = None
        self.reading_from: Offset | None = None
        """Where the read of the log that is out begins; absent if there is none."""
        self.watch: Watch | None = None
        """Of the preferred leader; absent while this replica does not lead, or need not hand over."""
        self.transfers_tried = 0
        """How often it was handed to the preferred leader since that has last led."""
        pace = SnapshotPace(
            record_bytes_between=config.snapshot_max_record_bytes_between, interval_ms=config.snapshot_max_interval_ms
        )
        self.snapshots = Snapshotting(log=log, machine=machine, pace=pace, emit=emit)

    @property
    def applied_offset(self) -> Offset:
        """The machine has applied everything below."""
        return self.machine.applied_offset

    @property
    def log_time_ms(self) -> int:
        """The largest stamp that was applied."""
        return self.machine.log_time_ms

    @property
    def machine_leads(self) -> bool:
        """Whether the machine takes commands."""
        return self.leadership is not None

    def digest(self) -> str:
        """A hash of the state: equal on all replicas that have applied equally much. Costs a snapshot."""
        return self.machine.digest()

    @property
    def preferred_leader(self) -> ReplicaId | None:
        """Who should lead, of those who vote now; absent where that is all the same, or nobody is known to vote."""
        voters = self.log.voters.ids
        if self.place is None or not voters:
            return None
        return self.rules.preferred_leader(place=self.place, voters=voters)

    def has_place_for_query(self, size_bytes: int) -> bool:
        """Whether another question of this size may wait."""
        held_bytes = self.reads.size_bytes + self.queries.size_bytes
        return (
            len(self.reads) + len(self.queries) < self.config.pending_queries_max
            and held_bytes + size_bytes <= self.config.pending_query_bytes_max
        )

    def has_place_for_watch(self, size_bytes: int) -> bool:
        """Whether another question of this size may wait for something new."""
        return not self.watches.is_full and self.watches.size_bytes + size_bytes <= self.config.pending_watch_bytes_max

    def reply(self, call_id: CallId, response: Response) -> None:
        """Answer a call."""
        self.emit(Reply(call_id=call_id, response=response))

    def emit_all(self, effects: tuple[Effect, ...]) -> None:
        """Pass on what the log wants done."""
        for effect in effects:
            self.emit(effect)
