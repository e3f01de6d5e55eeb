"""Answering Fetch: several partitions in one answer, at once or when one of them has something to say.

Owns the parked fetches and which partition wakes which of them. What each partition has to say is the partition's
business, and what a follower wants besides is its session's. A follower's progress is noted once, when its fetch
comes, not again when it is answered; others are concerned only where it commits something or changes who is in sync.
Its fetch offset is an acknowledgement, so that it names its cluster, itself and its disk, as its broker has registered.

Source: Kafka ``ReplicaManager.fetchMessages``, ``DelayedFetch``; KIP-1166 for waking on a new high watermark.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, MutableMapping, Sequence
from dataclasses import dataclass, field

from msgspec import Struct

from replica.bounds import BROKERS_MAX
from replica.core.broker.fetch_sessions import FetchSession, FetchSessions, ParkedSession
from replica.core.config import ReplicaConfig
from replica.core.earliest import earliest
from replica.core.effects import Effect, Reply
from replica.core.log.serving import Read, answer_fetch, is_answerable
from replica.core.messages import FetchedPartition, FetchPartition, FetchRequest, FetchResponse
from replica.core.metadata.image import BrokerRegistration
from replica.core.partition import ConsumersView, Partition, SessionFetch
from replica.core.purgatory import Purgatory
from replica.errors import ErrorCode
from replica.ids import CallId, ReplicaId, TopicPartition


class ParkedFetch(Struct, frozen=True, kw_only=True):
    """A fetch that waits for records, or for a high watermark above the one that its sender knows.

    ``bytes_ready`` is what each partition had to give when it was looked at last.
    """

    call_id: CallId
    deadline_ms: int
    request: FetchRequest
    bytes_ready: dict[TopicPartition, int]


@dataclass(slots=True)
class _Waiting:
    """The fetches that wait at one partition, and what it has for each.

    Consumers of no rack are ``alike``: they are looked at when they can see something else than in ``view``, which is
    there once one has been looked at again. ``others`` are looked at whenever something happens to the partition.
    """

    alike: dict[CallId, tuple[ParkedFetch, FetchPartition]] = field(default_factory=dict)
    others: dict[CallId, tuple[ParkedFetch, FetchPartition]] = field(default_factory=dict)
    has_view: bool = False
    view: ConsumersView | None = None

    def of(self, request: FetchRequest) -> dict[CallId, tuple[ParkedFetch, FetchPartition]]:
        """Those among which a fetch like this one waits."""
        return self.alike if request.replica_id is None and request.rack_id is None else self.others


class FetchServer:
    """The fetches that wait, each for all the partitions that it names.

    ``on_change`` is told of partitions that a fetch has changed, ``on_parked`` of the time when one is to be answered
    at the latest, and ``emit`` takes the answers.
    """

    def __init__(
        self,
        *,
        config: ReplicaConfig,
        registered: Callable[[ReplicaId], BrokerRegistration | None],
        partitions: Mapping[TopicPartition, Partition],
        why_not_hosted: Callable[[TopicPartition], ErrorCode],
        last_fetches: MutableMapping[ReplicaId, SessionFetch],
        on_change: Callable[[TopicPartition], None],
        on_parked: Callable[[int], None],
        emit: Callable[[Effect], None],
    ) -> None:
        self._cluster_id = config.cluster_id
        self._registered = registered
        self._why_not_hosted = why_not_hosted
        self._config = config.broker
        self._partitions = partitions
        self._on_change = on_change
        self._on_parked = on_parked
        self._emit = emit
        self._parked: Purgatory[ParkedFetch] = Purgatory(config.broker.parked_fetches_max)
        self._waiting_at: dict[TopicPartition, _Waiting] = {}
        self._sessions = FetchSessions(self._look_at, last_fetches)
        self._parked_sessions: Purgatory[ParkedSession] = Purgatory(BROKERS_MAX)

    @property
    def deadline_ms(self) -> int | None:
        """When a parked fetch is to be answered at the latest."""
        return earliest(self._parked.deadline_ms, self._parked_sessions.deadline_ms)

    def is_waited_at(self, topic_partition: TopicPartition) -> bool:
        """Tell whether a consumer waits for something to happen to this partition."""
        waiting = self._waiting_at.get(topic_partition)
        if waiting is None:
            return False
        return bool(waiting.alike) or any(parked.request.replica_id is None for parked, _ in waiting.others.values())

    def on_fetch(self, call_id: CallId, request: FetchRequest, now_ms: int) -> None:
        """Answer a fetch, or park it. One of its session that still waits is of a follower that has given it up."""
        error = self._error(request)
        if error is not None:
            self._refuse(call_id, error)
            return
        if request.session_id is None:
            self._on_lone_fetch(call_id, request, now_ms)
            return
        session = self._sessions.on_fetch(request, now_ms)
        if isinstance(session, ErrorCode):
            self._refuse(call_id, session)
            return
        before = None if session.parked is None else self._parked_sessions.take(session.parked.call_id)
        session.parked = None
        fetched: dict[TopicPartition, Read] = {}
        for part in request.partitions:
            fetched[part.topic_partition] = self._fetch(part, request, now_ms)
            self._sessions.want(session, part)
        if before is not None:
            self._emit(Reply(call_id=before.call_id, response=FetchResponse()))
        reads = self._sessions.read(session, request, fetched)
        max_wait_ms = min(request.max_wait_ms, self._config.fetch_wait_max_ms)
        if reads is None and max_wait_ms > 0:
            session.parked = ParkedSession(
                call_id=call_id, deadline_ms=now_ms + max_wait_ms, request=request, session=session
            )
            self._parked_sessions.add(session.parked)
            self._on_parked(session.parked.deadline_ms)
            return
        if reads is None:
            reads = self._sessions.read_marked(session)
        self._answer_session(session, call_id, request, reads)

    def _on_lone_fetch(self, call_id: CallId, request: FetchRequest, now_ms: int) -> None:
        """Take a fetch of no session, as consumers send it."""
        reads = [self._fetch(part, request, now_ms) for part in request.partitions]
        max_wait_ms = min(request.max_wait_ms, self._config.fetch_wait_max_ms)
        if max_wait_ms <= 0 or self._parked.is_full or is_answerable(request, reads):
            self._answer(call_id, request, reads)
            return
        ready = {part.topic_partition: read.bytes for part, read in zip(request.partitions, reads, strict=True)}
        parked = ParkedFetch(call_id=call_id, deadline_ms=now_ms + max_wait_ms, request=request, bytes_ready=ready)
        self._parked.add(parked)
        self._on_parked(parked.deadline_ms)
        for part in request.partitions:
            self._waiting_at.setdefault(part.topic_partition, _Waiting()).of(request)[call_id] = parked, part
            self._on_change(part.topic_partition)  # A follower asks its leader for more once a consumer waits here.

    def _answer_session(
        self, session: FetchSession, call_id: CallId, request: FetchRequest, reads: Mapping[TopicPartition, Read]
    ) -> None:
        self._sessions.on_told(session, reads)
        self._answer(call_id, request, tuple(reads.values()))

    def _answer_parked(self, parked: ParkedSession) -> None:
        reads = self._sessions.read_marked(parked.session)
        self._answer_session(parked.session, parked.call_id, parked.request, reads)

    def _error(self, request: FetchRequest) -> ErrorCode | None:
        """Refuse what is malformed as a whole."""
        names = {part.topic_partition for part in request.partitions}
        names_cluster = request.cluster_id is not None
        if request.cluster_id != self._cluster_id and (names_cluster or request.replica_id is not None):
            return ErrorCode.INCONSISTENT_CLUSTER_ID
        believable = (
            len(names) == len(request.partitions) <= self._config.fetch_partitions_max
            and request.max_wait_ms >= 0
            and request.max_bytes > 0
            and (request.replica_id is None) == (request.broker_epoch is None)
            and (request.session_id is None or request.replica_id is not None)
        )
        if not believable:
            return ErrorCode.INVALID_REQUEST
        return None if request.replica_id is None else self._disk_error(request.replica_id, request)

    def _disk_error(self, replica_id: ReplicaId, request: FetchRequest) -> ErrorCode | None:
        """Refuse who names another disk than its broker has registered with: it acknowledges nothing."""
        registered = self._registered(replica_id)
        is_own = registered is not None and registered.directory_id == request.replica_directory_id
        return None if is_own else ErrorCode.STALE_BROKER_EPOCH

    def _fetch(self, part: FetchPartition, request: FetchRequest, now_ms: int) -> Read:
        partition = self._partitions.get(part.topic_partition)
        if partition is None:
            return self._not_hosted(part)
        before = partition.high_watermark, partition.maximal_isr
        read = partition.fetch(
            part,
            replica_id=request.replica_id,
            broker_epoch=request.broker_epoch,
            rack_id=request.rack_id,
            now_ms=now_ms,
        )
        if before != (partition.high_watermark, partition.maximal_isr):
            self._on_change(part.topic_partition)
        return read

    def _not_hosted(self, part: FetchPartition) -> Read:
        error = self._why_not_hosted(part.topic_partition)
        return Read(answer=FetchedPartition(topic_partition=part.topic_partition, error=error))

    # --- what wakes a parked fetch ----------------------------------------------------------------------------------

    def complete(self, touched: Iterable[TopicPartition]) -> None:
        """Answer the parked fetches that have something to wait for no more, after these partitions have changed."""
        woken: dict[CallId, ParkedFetch] = {}
        sessions: dict[ReplicaId, FetchSession] = {}
        for topic_partition in touched:
            sessions |= {session.replica_id: session for session in self._sessions.mark(topic_partition)}
            waiting = self._waiting_at.get(topic_partition)
            if waiting is None:
                continue
            concerned = waiting.others | waiting.alike if self._note_view(topic_partition, waiting) else waiting.others
            for call_id, (parked, part) in concerned.items():
                # Only at what has changed: a fetch may name thousands, and each write would pay for all of them.
                read = self._look_at(part, parked.request)
                more = read.bytes - parked.bytes_ready[topic_partition]
                parked.bytes_ready[topic_partition] = read.bytes
                if read.is_final or (more and sum(parked.bytes_ready.values()) >= parked.request.min_bytes):
                    woken[call_id] = parked
        for call_id in sorted(woken):
            request = woken[call_id].request
            reads = self._look(request)
            if is_answerable(request, reads):
                self._release(woken[call_id])
                self._answer(call_id, request, reads)
        for _, session in sorted(sessions.items()):
            assert session.parked is not None, session
            self._answer_parked(self._parked_sessions.take(session.parked.call_id))

    def expire(self, now_ms: int) -> None:
        """Answer the parked fetches whose time is up, with what there is."""
        for parked in self._parked.take_expired(now_ms):
            self._forget(parked)
            self._answer(parked.call_id, parked.request, self._look(parked.request))
        for of_session in self._parked_sessions.take_expired(now_ms):
            self._answer_parked(of_session)

    def _look(self, request: FetchRequest) -> list[Read]:
        return [self._look_at(part, request) for part in request.partitions]

    def _look_at(self, part: FetchPartition, request: FetchRequest) -> Read:
        partition = self._partitions.get(part.topic_partition)
        if partition is None:
            return self._not_hosted(part)
        return partition.look(part, replica_id=request.replica_id, rack_id=request.rack_id)

    def _note_view(self, name: TopicPartition, waiting: _Waiting) -> bool:
        """Note what consumers can see of a partition; tell whether that is something else than before."""
        partition = self._partitions.get(name)
        view = None if partition is None else partition.consumers_view
        is_news = not waiting.has_view or waiting.view != view
        waiting.has_view, waiting.view = True, view
        return is_news

    def _release(self, parked: ParkedFetch) -> None:
        self._forget(self._parked.take(parked.call_id))

    def _forget(self, parked: ParkedFetch) -> None:
        for part in parked.request.partitions:
            waiting = self._waiting_at[part.topic_partition]
            del waiting.of(parked.request)[parked.call_id]
            if not waiting.alike and not waiting.others:
                del self._waiting_at[part.topic_partition]

    # --- the answer -------------------------------------------------------------------------------------------------

    def _answer(self, call_id: CallId, request: FetchRequest, reads: Sequence[Read]) -> None:
        self._emit(answer_fetch(call_id, request, reads, max_bytes=self._config.fetch_max_bytes))

    def _refuse(self, call_id: CallId, error: ErrorCode) -> None:
        self._emit(Reply(call_id=call_id, response=FetchResponse(error=error)))
