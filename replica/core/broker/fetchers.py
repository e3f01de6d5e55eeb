"""Fetching for all partitions that this broker follows: one session of fetches with each leader.

Owns what is out to whom, and what each leader knows to be wanted: a fetch names only what has changed since. A fetch
offset is an acknowledgement, so a fetch waits until all its partitions are flushed; one that backs off is left out.
What to ask and what the answer means is the partition's business.

Source: Kafka ``AbstractFetcherThread``, ``ReplicaFetcherManager``, ``FetchSessionHandler``; KIP-227.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field

from msgspec import Struct
from msgspec.structs import replace

from replica.core.config import ReplicaConfig
from replica.core.log.following import may_fetch
from replica.core.messages import (
    FetchPartition,
    FetchRequest,
    FetchResponse,
    ListOffsetsRequest,
    ListOffsetsResponse,
    PeerRequest,
    PeerResponse,
)
from replica.core.partition import Partition
from replica.deadlines import Deadlines
from replica.errors import ErrorCode
from replica.ids import BrokerEpoch, CorrelationId, ReplicaId, TopicPartition

_SESSION_IS_OVER = frozenset({ErrorCode.FETCH_SESSION_ID_NOT_FOUND, ErrorCode.INVALID_FETCH_SESSION_EPOCH})

Send = Callable[[ReplicaId, PeerRequest, int], CorrelationId]
Asked = FetchPartition | ListOffsetsRequest


class Wanted(Struct, frozen=True, kw_only=True):
    """What stands with a leader, and the partition itself: one of the same name may be another topic's by the time of
    the answer."""

    asked: Asked
    asker: Partition


@dataclass(slots=True, kw_only=True)
class Session:
    """What a leader knows to be wanted, as long as it knows the session. ``fetches`` is how many there were."""

    session_id: int
    fetches: int = 0
    wanted: dict[TopicPartition, Wanted] = field(default_factory=dict)


@dataclass(slots=True, kw_only=True)
class Followed:
    """What is followed under one leader.

    ``changed`` are the partitions that may want something else than the leader knows, and ``unflushed`` those that keep
    the next fetch waiting. Every fetch names those that are ``pressing``: not in sync, or not known to be committed to
    the end, since either is decided anew by each fetch and by no timer. ``questions`` is how many are out.
    """

    names: set[TopicPartition] = field(default_factory=set)
    changed: set[TopicPartition] = field(default_factory=set)
    unflushed: set[TopicPartition] = field(default_factory=set)
    pressing: set[TopicPartition] = field(default_factory=set)
    session: Session | None = None
    first: TopicPartition | None = None
    """Which partition was named first in the last fetch."""
    questions: int = 0

    def begin_anew(self) -> None:
        """End the session, so that the next fetch names all there is."""
        self.session = None
        self.changed |= self.names


class Question(Struct, frozen=True, kw_only=True):
    """What is out to a leader under one correlation id: a fetch of a session, or a question about one partition."""

    leader_id: ReplicaId
    asked: Session | Wanted


class Fetchers:
    """Every request that is out to a leader. ``is_waited_at`` tells where a consumer waits.

    ``on_told`` hears of each that is over: who was asked, and which partitions were told something.
    """

    def __init__(
        self,
        *,
        config: ReplicaConfig,
        partitions: Mapping[TopicPartition, Partition],
        is_waited_at: Callable[[TopicPartition], bool],
        send: Send,
        on_told: Callable[[ReplicaId, Iterable[TopicPartition]], None],
    ) -> None:
        self._broker_id = config.replica_id
        self._directory_id = config.directory_id
        self._cluster_id = config.cluster_id
        self.config = config.broker
        self._partitions = partitions
        self._is_waited_at = is_waited_at
        self._send = send
        self._on_told = on_told
        self._leader_of: dict[TopicPartition, ReplicaId] = {}
        self._followed: dict[ReplicaId, Followed] = {}
        self._questions: dict[CorrelationId, Question] = {}
        self._sessions = 0
        """How many sessions there were: each has an id of its own."""
        self._pauses = Deadlines[TopicPartition]()

    @property
    def deadline_ms(self) -> int | None:
        """When the first partition's pause is over, after which there is something to ask."""
        return self._pauses.earliest_ms

    def take_due(self, now_ms: int) -> set[ReplicaId]:
        """Name the leaders that are to be asked something because a pause is over."""
        due = self._pauses.take_due(now_ms)
        for name in due:
            self._followed[self._leader_of[name]].changed.add(name)
        return {self._leader_of[name] for name in due}

    def follow(self, topic_partition: TopicPartition, leader_id: ReplicaId | None) -> ReplicaId | None:
        """Fetch this partition from ``leader_id``, or from nobody; name whom it was fetched from until now."""
        before = self._leader_of.get(topic_partition)
        if before is not None and before != leader_id:
            self._leave(topic_partition, before)
        if leader_id is not None:
            self._leader_of[topic_partition] = leader_id
            self._followed.setdefault(leader_id, Followed()).names.add(topic_partition)
        return before

    def _leave(self, name: TopicPartition, leader_id: ReplicaId) -> None:
        """Fetch no more from a leader, which would otherwise go on believing that this partition is wanted."""
        followed = self._followed[leader_id]
        for names in (followed.names, followed.changed, followed.unflushed, followed.pressing):
            names.discard(name)
        del self._leader_of[name]
        self._pauses.set(name, None)
        if followed.session is not None and name in followed.session.wanted:
            followed.begin_anew()

    def note(self, topic_partition: TopicPartition) -> ReplicaId | None:
        """Note that something of a partition may have changed; name the leader to be asked, if there is one."""
        leader_id = self._leader_of.get(topic_partition)
        if leader_id is None:
            return None
        followed, partition = self._followed[leader_id], self._partitions[topic_partition]
        followed.changed.add(topic_partition)
        _keep(followed.unflushed, topic_partition, is_in=not may_fetch(partition))
        _keep(followed.pressing, topic_partition, is_in=self._is_pressing(partition))
        self._pauses.set(topic_partition, partition.fetch_deadline_ms)
        return leader_id

    def _is_pressing(self, partition: Partition) -> bool:
        is_in_sync = self._broker_id in partition.in_sync_replicas
        return not is_in_sync or partition.high_watermark < partition.log.log_end_offset

    # --- asking -----------------------------------------------------------------------------------------------------

    def pump(self, leader_id: ReplicaId, broker_epoch: BrokerEpoch, now_ms: int) -> None:
        """Ask this leader what its followers here want to know, unless something is out to it or still to be flushed.

        1. Partition A has appended and flushes. 2. A fetch without it goes out and is parked for want of records.
        3. A's acknowledgement waits as long as that fetch: hence the fetch waits for A's flush instead.
        """
        followed = self._followed[leader_id]
        if followed.questions or followed.unflushed:
            return
        named: dict[TopicPartition, Wanted] = {}
        others: list[Wanted] = []
        looked_at, followed.changed = sorted(followed.changed | followed.pressing), set()
        for name in looked_at:
            wanted = self._wanted_by(self._partitions[name], now_ms)
            if wanted is not None and isinstance(wanted.asked, FetchPartition):
                if name in followed.pressing or not _is_known(followed.session, name, wanted):
                    named[name] = wanted
                continue
            if followed.session is not None and name in followed.session.wanted:
                followed.begin_anew()  # What the leader takes to be wanted still is not: it must hear of that.
                return self.pump(leader_id, broker_epoch, now_ms)
            if wanted is not None:
                others.append(wanted)
        self._fetch(leader_id, followed, named, broker_epoch)
        for question in others:
            assert not isinstance(question.asked, FetchPartition), question
            self._ask(leader_id, question.asked, question)
        return None

    def _wanted_by(self, partition: Partition, now_ms: int) -> Wanted | None:
        """Say what a partition wants to know; of a new high watermark at once only where a consumer waits for that."""
        asked = partition.next_request(now_ms)
        if isinstance(asked, FetchPartition) and not self._is_waited_at(partition.topic_partition):
            asked = replace(asked, high_watermark_may_wait=True)
        return None if asked is None else Wanted(asked=asked, asker=partition)

    def _fetch(
        self,
        leader_id: ReplicaId,
        followed: Followed,
        named: Mapping[TopicPartition, Wanted],
        broker_epoch: BrokerEpoch,
    ) -> None:
        """Go on with the session, if anything is wanted."""
        session = followed.session
        if session is None:
            if not named:
                return
            self._sessions += 1
            session = followed.session = Session(session_id=self._sessions)
        elif not named and not session.wanted:
            return
        names = self._in_turn(followed, named)
        left = named.keys() - set(names)
        followed.changed |= left
        is_in_a_hurry = any(not _is_known(session, name, named[name]) for name in left)
        session.wanted |= {name: named[name] for name in names}
        request = FetchRequest(
            partitions=tuple(asked for name in names if isinstance(asked := named[name].asked, FetchPartition)),
            replica_id=self._broker_id,
            replica_directory_id=self._directory_id,
            broker_epoch=broker_epoch,
            cluster_id=self._cluster_id,
            max_wait_ms=0 if is_in_a_hurry else self.config.replica_fetch_wait_max_ms,
            min_bytes=self.config.replica_fetch_min_bytes,
            max_bytes=self.config.replica_fetch_response_max_bytes,
            session_id=session.session_id,
            session_epoch=session.fetches,
        )
        session.fetches += 1
        self._ask(leader_id, request, session)

    def _in_turn(self, followed: Followed, named: Iterable[TopicPartition]) -> list[TopicPartition]:
        """Begin behind the partition that came first the last time, and take as many as one request may name.

        An answer is filled in the order in which it was asked for: in a fixed order the last would starve.
        """
        names = sorted(named)
        first_before = followed.first
        later = [name for name in names if first_before is None or name > first_before]
        turned = (later + names[: len(names) - len(later)])[: self.config.fetch_partitions_max]
        followed.first = turned[0] if turned else first_before
        return turned

    def _ask(self, leader_id: ReplicaId, request: PeerRequest, asked: Session | Wanted) -> None:
        correlation_id = self._send(leader_id, request, self.config.replica_socket_timeout_ms)
        self._questions[correlation_id] = Question(leader_id=leader_id, asked=asked)
        self._followed[leader_id].questions += 1

    # --- answers ----------------------------------------------------------------------------------------------------

    def owns(self, correlation_id: CorrelationId) -> bool:
        """Whether this is the id of something that is out to a leader."""
        return correlation_id in self._questions

    def on_response(self, correlation_id: CorrelationId, response: PeerResponse, now_ms: int) -> None:
        """Hand an answer to the partitions that it is about."""
        question = self._take(correlation_id)
        told: set[TopicPartition] = set()
        match question.asked, response:
            case Session() as session, FetchResponse(error=ErrorCode.NONE, partitions=answers):
                for answer in answers:  # By its answer the leader forgets what a partition has wanted.
                    wanted = session.wanted.pop(answer.topic_partition, None)
                    if wanted is None:
                        continue
                    if self._is_here(wanted) and isinstance(wanted.asked, FetchPartition):
                        wanted.asker.on_fetched(wanted.asked, answer, now_ms)
                    told.add(answer.topic_partition)
            case Session() as session, FetchResponse(error=error) if error in _SESSION_IS_OVER:
                self._end(question.leader_id, session)
            case Wanted(asked=ListOffsetsRequest() as asked) as wanted, ListOffsetsResponse():
                if self._is_here(wanted):
                    wanted.asker.on_leader_offset(asked, response, now_ms)
                told.add(asked.topic_partition)
            case _:
                told |= self._give_up(question, now_ms)
        self._on_told(question.leader_id, told)

    def on_failed(self, correlation_id: CorrelationId, now_ms: int) -> None:
        """Let the partitions ask again later."""
        question = self._take(correlation_id)
        self._on_told(question.leader_id, self._give_up(question, now_ms))

    def _give_up(self, question: Question, now_ms: int) -> set[TopicPartition]:
        """Let all that this was about ask again later. Whether the leader knows the session still, nobody can say."""
        asked = question.asked
        waiting = tuple(asked.wanted.values()) if isinstance(asked, Session) else (asked,)
        if isinstance(asked, Session):
            self._end(question.leader_id, asked)
        for wanted in waiting:
            if self._is_here(wanted):
                wanted.asker.on_ask_failed(wanted.asked, now_ms)
        return {wanted.asked.topic_partition for wanted in waiting}

    def _end(self, leader_id: ReplicaId, session: Session) -> None:
        followed = self._followed[leader_id]
        if followed.session is session:
            followed.begin_anew()

    def _is_here(self, wanted: Wanted) -> bool:
        """Tell whether who asked still wants to know.

        1. A fetch is out. 2. The topic is deleted, and another of its name created, with the same leader and epoch.
        3. The answer comes: its records are those of the first topic.
        """
        return self._partitions.get(wanted.asked.topic_partition) is wanted.asker

    def _take(self, correlation_id: CorrelationId) -> Question:
        question = self._questions.pop(correlation_id)
        self._followed[question.leader_id].questions -= 1
        return question


def _is_known(session: Session | None, name: TopicPartition, wanted: Wanted) -> bool:
    """Tell whether the leader knows already that just this is wanted."""
    known = None if session is None else session.wanted.get(name)
    return known is not None and known.asker is wanted.asker and known.asked == wanted.asked


def _keep(names: set[TopicPartition], name: TopicPartition, *, is_in: bool) -> None:
    if is_in:
        names.add(name)
    else:
        names.discard(name)
