"""Who has the partitions of our replicas' topics, and how that is changed, by the client that operators use.

Owns the translation of that client's failures into *definitely not done* and *unknown*, and whom it reaches how: it
dials through the harness's links, which no fault touches.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager

from nemesis.cluster.operator_views import changing, looking
from nemesis.cluster.topic_client import named
from nemesis.errors import NotDoneError, UnknownOutcomeError
from replica.client.admin import Admin
from replica.client.failures import AdminError, ClientError
from replica.ids import ReplicaId
from replica.rpc.tls import TlsFiles

REQUEST_MS_MAX = 1500
"""How long one attempt at a change takes."""


class ReplicaMoves:
    """A ``SystemMoves`` of ``logs``; ``dial`` is where each node is dialled."""

    def __init__(
        self,
        *,
        cluster_id: str,
        dial: Mapping[int, str],
        logs: tuple[str, ...],
        replication_factor: int,
        tls: TlsFiles | None = None,
    ) -> None:
        self._dial = {ReplicaId(node): address for node, address in dial.items()}
        self._to_look = looking(cluster_id, self._dial, tls)
        self._to_change = changing(cluster_id, self._dial, tls, request_ms=REQUEST_MS_MAX)
        self._logs = logs
        self._replication_factor = replication_factor

    @property
    def logs(self) -> tuple[str, ...]:
        """Every partition of every topic."""
        return self._logs

    @property
    def replication_factor(self) -> int:
        """That of the topics."""
        return self._replication_factor

    async def begin(self, log: str, replicas: Sequence[int]) -> None:
        """Ask the controller to begin; each partition by itself, so that each has an answer of its own."""
        async with self._changing() as admin:
            await admin.alter_partition_reassignments({named(log): replicas})

    async def cancel(self, log: str) -> None:
        """Ask the controller to cancel; refused where nothing is under way."""
        async with self._changing() as admin:
            await admin.alter_partition_reassignments({named(log): None})

    async def elect_preferred(self, log: str) -> None:
        """Ask the controller for a preferred election; refused where it is not needed."""
        async with self._changing() as admin:
            await admin.elect_leader(named(log))

    async def under_way(self) -> frozenset[str] | None:
        """What the controller lists."""
        try:
            async with Admin(self._dial.values(), self._to_look) as admin:
                listed = await admin.list_partition_reassignments()
        except ClientError:
            return None
        return frozenset(str(one.topic_partition) for one in listed)

    @asynccontextmanager
    async def _changing(self) -> AsyncIterator[Admin]:
        """A client for one change. An administrator's error says whether it may be made; no other lets it begin."""
        try:
            async with Admin(self._dial.values(), self._to_change) as admin:
                yield admin
        except AdminError as error:
            raise (UnknownOutcomeError if error.may_be_done else NotDoneError)(str(error)) from error
        except ClientError as error:
            raise NotDoneError(str(error)) from error
