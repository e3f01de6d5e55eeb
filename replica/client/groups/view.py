"""What a client knows of one group: who leads it, who else may have it, and where they are dialled.

Owns the newest leadership that was heard of, and how a newer one is found: any replica says who leads as far as it
knows, and where all voters and brokers are (DescribeReplica). Leadership never goes back to an older epoch; a leader
that does not answer is asked again only when a whole round of the others knows no better.

Source: Kafka's ``Metadata`` and ``PartitionLeaderStrategy``; KIP-951 for hints in passing.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from dataclasses import replace
from random import Random

from replica.client.asking import RETRIABLE, AnswerT, Failed, is_refused, unanswered
from replica.client.clock import Clock, Deadline, SystemClock
from replica.client.cluster_view import ViewConfig
from replica.client.connections import Closing, Connections, Endpoint, GrpcConnections, bootstrap_endpoints
from replica.client.failures import ClusterUnreachableError, ReadFailedError
from replica.client.groups.failures import UnknownGroupError
from replica.core.messages import (
    CurrentLeader,
    DescribeReplicaRequest,
    DescribeReplicaResponse,
    Request,
    Response,
)
from replica.errors import AUTHORIZATION_FAILED, ErrorCode
from replica.ids import Epoch, ReplicaId, TopicPartition
from replica.rpc.transport import TransportError


class GroupView(Closing):
    """One group as one client sees it. ``bootstrap`` is whom it asks first. Use it within one event loop.

    ``random`` chooses among replicas where any will do.
    """

    def __init__(
        self,
        bootstrap: str | Iterable[str],
        group: TopicPartition,
        config: ViewConfig | None = None,
        *,
        connections: Connections | None = None,
        clock: Clock | None = None,
        random: Random | None = None,
    ) -> None:
        self.group = group
        self.config = config or ViewConfig()
        self.clock: Clock = clock or SystemClock()
        self.cluster_id: str | None = None
        """Of which cluster those are that have answered; absent before the first."""
        self._bootstrap = bootstrap_endpoints(bootstrap)
        self._connections: Connections = connections or GrpcConnections(tls=self.config.tls)
        self._random = random or Random()
        self._addresses: dict[ReplicaId, str] = {}
        self._leader: CurrentLeader | None = None
        self._in_vain: CurrentLeader | None = None
        """The leadership that was found wanting: it is not asked again before others were."""
        self._silent: set[Endpoint] = set()
        """Who has not answered the last time: asked last."""
        self._without: set[ReplicaId] = set()
        """Replicas that do not have the group."""
        self._chosen: ReplicaId | None = None
        self._round: asyncio.Task[None] | None = None
        self._round_over = asyncio.Event()
        self._last = Failed(reason="nobody was asked")

    def deadline(self, timeout_ms: int | None = None) -> Deadline:
        """Begin a call that may take so long; by default what is configured."""
        return Deadline(self.clock, self.config.api_timeout_ms if timeout_ms is None else timeout_ms)

    async def close(self) -> None:
        """Close the connections; calls in flight fail."""
        if self._round is not None:
            self._round.cancel()
            await asyncio.gather(self._round, return_exceptions=True)
        await self._connections.close()

    async def call(self, endpoint: Endpoint, request: Request, timeout_ms: int) -> Response:
        """Ask somebody, once. Raises NotAppliedError or TransportError."""
        try:
            answer = await self._connections.call(endpoint, request, timeout_ms)
        except TransportError:
            self._silent.add(endpoint)
            raise
        self._silent.discard(endpoint)
        return answer

    async def ask(
        self, endpoint: Endpoint, request: Request, response_type: type[AnswerT], timeout_ms: int
    ) -> AnswerT | Failed:
        """Ask somebody, once; who does not answer is not asked again before others were."""
        try:
            answer = await self.call(endpoint, request, timeout_ms)
        except TransportError as error:
            self.on_failure(endpoint)
            return unanswered(error)
        assert isinstance(answer, response_type), answer
        return answer

    # --- whom to ask ------------------------------------------------------------------------------------------------

    @property
    def leader_epoch(self) -> Epoch:
        """The newest epoch of which was heard; 0 before the first."""
        return Epoch(0) if self._leader is None else self._leader.leader_epoch

    async def find_leader(self, deadline: Deadline) -> Endpoint | Failed:
        """Whom to ask as the leader, after at most one round of questions."""
        known = self._leader_endpoint()
        if known is None or self._leader == self._in_vain:
            await self._ask_around(deadline)
            self._in_vain = None
            known = self._leader_endpoint()
        return known or self._last

    async def find_any(self, deadline: Deadline) -> Endpoint | Failed:
        """Whom to ask where any replica will do: the same one as long as it answers."""
        if not self._addresses:
            await self._ask_around(deadline)
        known = [self.endpoint_of(replica_id) for replica_id in sorted({*self._addresses} - self._without)]
        able = [endpoint for endpoint in known if endpoint is not None]
        answering = [endpoint for endpoint in able if endpoint not in self._silent] or able
        if not answering:
            if not self._addresses:
                return self._last
            self._without.clear()  # Asked again the next time: one of them may have been given the group since.
            return Failed(reason=f"no replica has a group {self.group.topic!r}", no_such_group=True, is_final=True)
        chosen = next((endpoint for endpoint in answering if endpoint.broker_id == self._chosen), None)
        chosen = chosen or self._random.choice(answering)
        self._chosen = chosen.broker_id
        return chosen

    async def find(self, replica_id: ReplicaId, deadline: Deadline) -> Endpoint | Failed:
        """Where to dial one replica."""
        if self.endpoint_of(replica_id) is None:
            await self._ask_around(deadline)
        return self.endpoint_of(replica_id) or Failed(reason=f"no address is known for replica {replica_id}")

    def endpoint_of(self, replica_id: ReplicaId) -> Endpoint | None:
        """Where to dial a replica; absent where it is not known."""
        address = self.config.dial.get(replica_id) or self._addresses.get(replica_id)
        return None if address is None else Endpoint(replica_id, address)

    # --- what answers teach -----------------------------------------------------------------------------------------

    def on_hint(self, hint: CurrentLeader | None) -> bool:
        """Somebody has named the leader. Returns whether that is news that can be acted upon without delay."""
        if hint is None or not self._is_newer(hint):
            return False
        self._leader = hint
        return self._leader_endpoint() is not None

    def on_failure(self, endpoint: Endpoint) -> None:
        """Who was asked has not answered, or is not the right one: look around before it is asked again."""
        if self._leader is not None and endpoint.broker_id == self._leader.leader_id:
            self._in_vain = self._leader
        if endpoint.broker_id == self._chosen:
            self._chosen = None

    def on_refusal(self, endpoint: Endpoint, error: ErrorCode, hint: CurrentLeader | None) -> Failed:
        """Learn from a refusal who leads. Raises ReadFailedError for what asking again cannot cure."""
        if error not in RETRIABLE:
            raise ReadFailedError(f"{self.group}: {endpoint} answered {error}", error=error)
        is_news = self.on_hint(hint)
        if not is_news:
            self.on_failure(endpoint)
        return Failed(reason=f"{endpoint}: {error}", error=error, at_once=is_news)

    def failure(self, failed: Failed) -> ReadFailedError | UnknownGroupError:
        """The error of a question that was not answered."""
        if failed.no_such_group:
            return UnknownGroupError(self.group.topic)
        return (ClusterUnreachableError if failed.unreachable else ReadFailedError)(failed.reason, error=failed.error)

    def on_without_group(self, endpoint: Endpoint) -> None:
        """A replica does not have the group."""
        self._without.add(endpoint.broker_id)

    def _is_newer(self, heard: CurrentLeader) -> bool:
        """Epochs grow; within one, a leader becomes known once."""
        if self._leader is None or heard.leader_epoch > self._leader.leader_epoch:
            return True
        return (
            heard.leader_epoch == self._leader.leader_epoch
            and self._leader.leader_id is None
            and heard.leader_id is not None
        )

    def _leader_endpoint(self) -> Endpoint | None:
        if self._leader is None or self._leader.leader_id is None:
            return None
        return self.endpoint_of(self._leader.leader_id)

    # --- asking around ----------------------------------------------------------------------------------------------

    async def _ask_around(self, deadline: Deadline) -> None:
        """Wait for a round of questions, or the end of the time. Whoever calls meanwhile shares the round."""
        if self._round is None or self._round.done():
            self._round_over = asyncio.Event()
            self._round = asyncio.create_task(self._ask_all(self._round_over))
        await self.clock.wait(self._round_over, deadline.left_ms())

    async def _ask_all(self, over: asyncio.Event) -> None:
        """Ask one after the other until somebody knows a leader that was not asked in vain."""
        try:
            heard: list[str] = []
            without = silent = refused = 0
            asked: set[Endpoint] = set()
            while (endpoint := self._next_of(asked)) is not None:
                asked.add(endpoint)
                answer = await self._described_by(endpoint)
                silent += isinstance(answer, Failed)
                refused += isinstance(answer, Failed) and answer.refused
                without += isinstance(answer, DescribeReplicaResponse) and not self._learn(answer)
                heard.append(answer.reason if isinstance(answer, Failed) else _told_by(endpoint, answer))
                if self._leader_endpoint() is not None and self._leader != self._in_vain:
                    return
                if answer.error in AUTHORIZATION_FAILED:
                    self._last = Failed(reason=heard[-1], error=answer.error, is_final=True)
                    return
            is_nowhere = without == len(asked)
            self._last = Failed(
                reason=heard[-1],
                refused=refused == len(asked) and not self._addresses,
                no_such_group=is_nowhere,
                is_final=is_nowhere,
                unreachable=silent == len(asked),
            )
        finally:
            over.set()

    def _next_of(self, asked: set[Endpoint]) -> Endpoint | None:
        """The next of all that can be dialled: replicas that answer, those given at first, the leader that does not.

        Who is learned of in this round is asked in it as well; no address is asked twice.
        """
        known = [self.endpoint_of(replica_id) for replica_id in sorted({*self._addresses, *self.config.dial})]
        learned = [endpoint for endpoint in known if endpoint is not None]
        addresses = {endpoint.address for endpoint in asked}
        to_ask = [endpoint for endpoint in (*learned, *self._bootstrap) if endpoint.address not in addresses]
        suspect = None if self._in_vain is None else self._in_vain.leader_id
        return min(
            to_ask,
            key=lambda endpoint: (endpoint.broker_id == suspect, endpoint in self._silent, endpoint.broker_id < 0),
            default=None,
        )

    async def _described_by(self, endpoint: Endpoint) -> DescribeReplicaResponse | Failed:
        request = DescribeReplicaRequest(topic_partition=self.group)
        try:
            answer = await self.call(endpoint, request, self.config.metadata_timeout_ms)
        except TransportError as error:
            return replace(unanswered(error), refused=is_refused(error))
        assert isinstance(answer, DescribeReplicaResponse), answer
        return answer

    def _learn(self, answer: DescribeReplicaResponse) -> bool:
        """Take over what a replica says. Returns whether it has the group."""
        self.cluster_id = answer.cluster_id or self.cluster_id
        if answer.addresses:
            self._addresses = dict(answer.addresses)
        if answer.leader is not None:
            self.on_hint(answer.leader)
        return answer.error is not ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def _told_by(endpoint: Endpoint, answer: DescribeReplicaResponse) -> str:
    if answer.error is not ErrorCode.NONE:
        return f"{endpoint}: {answer.error}"
    return f"{endpoint} knows no leader that answers"
