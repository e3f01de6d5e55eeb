"""The voters of our replicas' quorum logs: who they are, and how that is changed, by the client that operators use.

Owns the translation of that client's failures into *definitely not done* and *unknown*, and whom it reaches how: it
dials through the harness's links, which no fault touches, and names voters by the address at which clients reach them.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Mapping

from nemesis.cluster.control import Control
from nemesis.cluster.operator_views import changing, looking
from nemesis.errors import NotDoneError, UnknownOutcomeError
from nemesis.history import METADATA_LOG
from replica.client.failures import ClientError, NotWrittenError
from replica.client.groups.failures import TransferFailedError, VotersNotChangedError
from replica.client.groups.quorum import describe_quorum, transfer_leadership
from replica.client.groups.voters import add_voter, remove_voter
from replica.ids import ReplicaId
from replica.rpc.tls import TlsFiles
from replica.voters import ReplicaKey

REQUEST_MS_MAX = 2500
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
        self._logs = logs
        self._dial = {ReplicaId(node): address for node, address in dial.items()}
        self._to_look = looking(cluster_id, self._dial, tls)
        self._to_change = changing(cluster_id, self._dial, tls, request_ms=REQUEST_MS_MAX)
        self._advertised = advertised

    @property
    def logs(self) -> tuple[str, ...]:
        """The metadata log and those of the state machines; none where their voters cannot be changed."""
        return self._logs

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
