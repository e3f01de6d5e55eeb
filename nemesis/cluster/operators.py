"""What operators ask and change, of our replicas and by the client that operators use: voters, and moved partitions.

Owns the translation of that client's failures into *definitely not done* and *unknown*, how patient the harness is, and
whom it reaches how: it dials through the harness's links, which no fault touches, and names voters by the address at
which clients reach them.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Mapping, Sequence
from contextlib import asynccontextmanager

from nemesis.cluster.control import Control
from nemesis.cluster.topic_client import named
from nemesis.errors import NotDoneError, UnknownOutcomeError
from nemesis.history import METADATA_LOG
from replica.client.admin import Admin
from replica.client.cluster_view import ViewConfig
from replica.client.failures import AdminError, ClientError, NotWrittenError
from replica.client.groups.failures import TransferFailedError, VotersNotChangedError
from replica.client.groups.quorum import describe_quorum, transfer_leadership
from replica.client.groups.voters import add_voter, remove_voter
from replica.ids import ReplicaId
from replica.rpc.tls import TlsFiles
from replica.voters import ReplicaKey

CHANGE_MS_MAX = 5000
"""How long a change is tried."""
LOOK_MS_MAX = 800
"""How long a question is tried."""
RETRY_MS, RETRY_MS_MAX = 50, 200


def looking(cluster_id: str, dial: Mapping[ReplicaId, str], tls: TlsFiles | None) -> ViewConfig:
    """For a question; ``dial`` is where each replica is dialled."""
    return _view(cluster_id, dial, tls, api_ms=LOOK_MS_MAX, request_ms=LOOK_MS_MAX)


def changing(cluster_id: str, dial: Mapping[ReplicaId, str], tls: TlsFiles | None, *, request_ms: int) -> ViewConfig:
    """For a change, of which one attempt takes ``request_ms`` at most."""
    return _view(cluster_id, dial, tls, api_ms=CHANGE_MS_MAX, request_ms=request_ms)


def _view(
    cluster_id: str, dial: Mapping[ReplicaId, str], tls: TlsFiles | None, *, api_ms: int, request_ms: int
) -> ViewConfig:
    return ViewConfig(
        cluster_id=cluster_id,
        dial=dial,
        tls=tls,
        request_timeout_ms=request_ms,
        api_timeout_ms=api_ms,
        metadata_timeout_ms=LOOK_MS_MAX // 2,
        retry_backoff_ms=RETRY_MS,
        retry_backoff_max_ms=RETRY_MS_MAX,
    )


MOVE_REQUEST_MS_MAX = 1500
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
        self._to_change = changing(cluster_id, self._dial, tls, request_ms=MOVE_REQUEST_MS_MAX)
        self.logs = logs
        self.replication_factor = replication_factor

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


VOTER_REQUEST_MS_MAX = 2500
"""How long one attempt at a change takes."""


class QuorumVoters:
    """A ``SystemVoters``. ``dial`` is where each node is dialled, ``advertised`` how it is named to the others."""

    def __init__(
        self,
        control: Control,
        *,
        cluster_id: str,
        logs: tuple[str, ...],
        dial: Mapping[int, str],
        advertised: Mapping[int, str],
        tls: TlsFiles | None = None,
    ) -> None:
        self._control = control
        self.logs = logs
        """The metadata log and those of the state machines; none where their voters cannot be changed."""
        self._dial = {ReplicaId(node): address for node, address in dial.items()}
        self._to_look = looking(cluster_id, self._dial, tls)
        self._to_change = changing(cluster_id, self._dial, tls, request_ms=VOTER_REQUEST_MS_MAX)
        self._advertised = advertised

    async def of(self, log: str) -> tuple[int, ...] | None:
        """Those in force at the leader, committed or not, but for those that have another disk now."""
        try:
            described = await describe_quorum(self._dial.values(), _group_of(log), view_config=self._to_look)
        except ClientError:
            return None
        voters = {voter.replica_id: voter.directory_id for voter in described.current_voters}
        disks = await asyncio.gather(*(self._control.directory_id(node, log) for node in voters))
        on_their_disks = (node for node, disk in zip(voters, disks, strict=True) if disk in (None, voters[node]))
        return tuple(sorted(on_their_disks))

    async def add(self, log: str, node: int) -> None:
        """Add a node on the disk that it has now, when it has caught up."""
        directory_id = await self._control.directory_id(node, log)
        if directory_id is None:
            raise NotDoneError(f"replica {node} does not answer, so that its disk is not known")
        call = add_voter(
            self._dial.values(),
            _group_of(log),
            ReplicaId(node),
            address=self._advertised[node],
            directory_id=directory_id,
            view_config=self._to_change,
        )
        await outcome_of(call)

    async def remove(self, log: str, node: int) -> None:
        """Remove a node on whatever disk."""
        key = ReplicaKey(ReplicaId(node), None)
        await outcome_of(remove_voter(self._dial.values(), _group_of(log), key, view_config=self._to_change))

    async def transfer(self, log: str, node: int) -> None:
        """Let a voter lead once it has everything, and see that it does."""
        await outcome_of(
            transfer_leadership(self._dial.values(), _group_of(log), ReplicaId(node), view_config=self._to_change)
        )


def _group_of(log: str) -> str | None:
    """The name of a group by that of its log; absent for the metadata log."""
    return None if log == METADATA_LOG else log.rpartition("-")[0]


async def outcome_of(call: Awaitable[object]) -> None:
    """Make a change; raises NotDoneError, UnknownOutcomeError. Whatever does not say that it is not made may be."""
    try:
        await call
    except (VotersNotChangedError, TransferFailedError, NotWrittenError) as error:
        raise NotDoneError(str(error)) from error
    except ClientError as error:
        raise UnknownOutcomeError(str(error)) from error
