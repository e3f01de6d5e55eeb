"""Sessions of followers' fetches: the leader remembers what each wants, so that a fetch names only what has changed.

Owns what is wanted in each session, and its one call that may wait. What a follower wants of a partition stands until
it is answered, and an answer has only the partitions of which there is something to say: idle ones cost neither side
anything, however many they are. That a fetch came at all counts for all that stand in its session (``last_fetches``).

A follower that asks for it is told of a new high watermark at once; any other with whatever goes to it next, at the
latest when its wait is over.

Source: KIP-227, Kafka ``FetchSession``; there what was answered stands on, here it has to be named again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, MutableMapping
from dataclasses import dataclass, field

from msgspec import Struct

from replica.core.log.serving import Read
from replica.core.messages import FetchPartition, FetchRequest
from replica.core.partition import SessionFetch
from replica.errors import ErrorCode
from replica.ids import BrokerEpoch, CallId, Offset, ReplicaId, TopicPartition


class ParkedSession(Struct, frozen=True, kw_only=True):
    """The call of a follower's session that waits."""

    call_id: CallId
    deadline_ms: int
    request: FetchRequest
    session: FetchSession


@dataclass(slots=True, kw_only=True)
class FetchSession:
    """One follower's session. ``epoch`` is that of its latest fetch.

    ``wanted`` has what stands, and ``marked`` the partitions that may have something to say, with what that is while a
    call waits: a partition that changes is looked at again at once.
    """

    session_id: int
    replica_id: ReplicaId
    broker_epoch: BrokerEpoch
    epoch: int = 0
    wanted: dict[TopicPartition, FetchPartition] = field(default_factory=dict)
    marked: dict[TopicPartition, Read | None] = field(default_factory=dict)
    parked: ParkedSession | None = None


class FetchSessions:
    """The sessions of all followers, at most one of each.

    ``look`` tells what a fetch would get now. ``last_fetches`` is told when each session was last heard of.
    """

    def __init__(
        self,
        look: Callable[[FetchPartition, FetchRequest], Read],
        last_fetches: MutableMapping[ReplicaId, SessionFetch],
    ) -> None:
        self._look = look
        self._sessions: dict[ReplicaId, FetchSession] = {}
        self._wanting: dict[TopicPartition, dict[ReplicaId, FetchSession]] = {}
        self._last_fetches = last_fetches

    def on_fetch(self, request: FetchRequest, now_ms: int) -> FetchSession | ErrorCode:
        """Find the session that a fetch goes on with, or begin one."""
        assert request.replica_id is not None, request
        assert request.broker_epoch is not None, request
        assert request.session_id is not None, request
        found = self._sessions.get(request.replica_id)
        if request.session_epoch == 0:
            named = (request.session_id, request.broker_epoch)
            if found is not None and (found.session_id, found.broker_epoch) == named:
                return ErrorCode.INVALID_FETCH_SESSION_EPOCH  # A copy: the next fetch would go on with what it wants.
            session = self._begin(request.session_id, request.replica_id, request.broker_epoch)
        else:
            if found is None or found.session_id != request.session_id:
                return ErrorCode.FETCH_SESSION_ID_NOT_FOUND
            if (found.epoch + 1, found.broker_epoch) != (request.session_epoch, request.broker_epoch):
                return ErrorCode.INVALID_FETCH_SESSION_EPOCH
            session = found
            session.epoch += 1
        self._last_fetches[request.replica_id] = SessionFetch(request.broker_epoch, now_ms)
        return session

    def _begin(self, session_id: int, replica_id: ReplicaId, broker_epoch: BrokerEpoch) -> FetchSession:
        before = self._sessions.get(replica_id)
        session = FetchSession(session_id=session_id, replica_id=replica_id, broker_epoch=broker_epoch)
        self._sessions[replica_id] = session
        if before is not None:
            session.parked = before.parked  # Its call is answered as that of any other fetch that went before.
            for name in tuple(before.wanted):
                self._forget(before, name)
        return session

    def want(self, session: FetchSession, part: FetchPartition) -> None:
        """Remember what the follower wants of a partition, in the place of what it wanted before."""
        name = part.topic_partition
        session.wanted[name] = part
        self._wanting.setdefault(name, {})[session.replica_id] = session

    def mark(self, name: TopicPartition) -> Iterable[FetchSession]:
        """Note that a partition has changed; name the sessions in which a call waits that is to be answered now."""
        for session in tuple(self._wanting.get(name, {}).values()):
            if session.parked is None:
                session.marked[name] = None
                continue
            request = session.parked.request
            read = self._look(session.wanted[name], request)
            if self._weigh(session, name, read) or (read.bytes and _has_enough(session, request)):
                yield session

    def read(
        self, session: FetchSession, request: FetchRequest, fetched: Mapping[TopicPartition, Read]
    ) -> dict[TopicPartition, Read] | None:
        """Tell what the follower is to hear now, of what it has just ``fetched`` first; None if it has to wait."""
        marked, session.marked = session.marked, {}
        reads = {**fetched, **{name: self._look_at(session, request, name) for name in marked if name not in fetched}}
        is_final = [self._weigh(session, name, read) for name, read in reads.items()]
        if not any(is_final) and not _has_enough(session, request):
            return None
        return {name: read for name, read in reads.items() if name in session.marked}

    def read_marked(self, session: FetchSession) -> dict[TopicPartition, Read]:
        """Tell what the follower can be told now: its marked partitions have all been looked at."""
        return {name: read for name, read in session.marked.items() if read is not None}

    def on_told(self, session: FetchSession, reads: Mapping[TopicPartition, Read]) -> None:
        """Note that the follower is told all this."""
        session.parked = None
        session.marked.clear()
        for name in reads:
            del session.wanted[name]
            self._forget(session, name)

    def _weigh(self, session: FetchSession, name: TopicPartition, read: Read) -> bool:
        """Note whether a partition has something to say; tell whether the follower must hear it at once."""
        if _is_news(session.wanted[name], read):
            session.marked[name] = read
        else:
            session.marked.pop(name, None)
        return read.is_final

    def _look_at(self, session: FetchSession, request: FetchRequest, name: TopicPartition) -> Read:
        return self._look(session.wanted[name], request)

    def _forget(self, session: FetchSession, name: TopicPartition) -> None:
        wanting = self._wanting[name]
        del wanting[session.replica_id]
        if not wanting:
            del self._wanting[name]


def _is_news(part: FetchPartition, read: Read) -> bool:
    """Tell whether a partition has something to say that its follower has not said itself."""
    return (
        read.is_final
        or read.range is not None
        or _is_later(read.answer.high_watermark, part.high_watermark)
        or _is_later(read.answer.log_start_offset, part.log_start_offset)
    )


def _is_later(offset: Offset | None, known: Offset | None) -> bool:
    return offset is not None and known is not None and offset > known


def _has_enough(session: FetchSession, request: FetchRequest) -> bool:
    """Tell whether as many bytes have come together as the follower waits for."""
    return sum(read.bytes for read in session.marked.values() if read is not None) >= request.min_bytes
