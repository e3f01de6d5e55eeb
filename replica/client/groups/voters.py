"""Who votes in a quorum log: adding a voter and removing one, tried until it is done or the time is up.

Owns what a failed attempt says about the change, and how a new voter is asked for its disk. A change that was tried
before can be tried again: what is there already is refused, and the leader refuses a second change before the first is
decided, so that a refusal tells what became of an attempt that got no clear answer.

Source: KIP-853, AddRaftVoter and RemoveRaftVoter.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace

from replica.client.asking import RETRIABLE, Failed, repeated
from replica.client.clock import Clock, Deadline
from replica.client.cluster_view import ViewConfig
from replica.client.connections import Connections, Endpoint
from replica.client.failures import ReadFailedError
from replica.client.groups.failures import UnknownGroupError, VotersNotChangedError, VotersUnknownError
from replica.client.groups.quorum import describe, quorum_view
from replica.client.groups.view import GroupView
from replica.core.messages import (
    AddVoterRequest,
    ChangeVotersResponse,
    DescribeReplicaRequest,
    DescribeReplicaResponse,
    RemoveVoterRequest,
)
from replica.errors import ErrorCode
from replica.ids import ReplicaId
from replica.voters import ReplicaKey, Voter

_Request = AddVoterRequest | RemoveVoterRequest

_REASONS = {
    ErrorCode.DUPLICATE_VOTER: "a replica of this id votes already; if it is on another disk, remove that one first",
    ErrorCode.VOTER_NOT_FOUND: "no replica of this id votes, or none on this disk",
}


async def add_voter(
    bootstrap: str | Iterable[str],
    group: str | None,
    replica_id: ReplicaId,
    *,
    address: str | None = None,
    directory_id: str | None = None,
    view_config: ViewConfig | None = None,
    connections: Connections | None = None,
    clock: Clock | None = None,
) -> Voter:
    """Let a replica vote in a group's log, or in the metadata log without a group; returns once that is committed.

    ``address`` is where others reach it, by default where the cluster dials it. Without a ``directory_id`` it is asked
    for that of its disk. Raises VotersNotChangedError, VotersUnknownError, UnknownGroupError.
    """
    async with quorum_view(bootstrap, group, view_config, connections, clock) as view:
        deadline = view.deadline()
        endpoint = await _endpoint_of(view, replica_id, address, deadline)
        if address is None or directory_id is None:
            found = await _described(view, endpoint, deadline)
            address = address or found.peer_address or endpoint.address
            directory_id = directory_id or found.directory_id
        voter = Voter(replica_id=replica_id, directory_id=directory_id, address=address)

        def request(timeout_ms: int) -> AddVoterRequest:
            return AddVoterRequest(
                topic_partition=view.group, voter=voter, timeout_ms=timeout_ms, cluster_id=view.config.cluster_id
            )

        invalid = "the leader cannot add such a voter: check its id, its address and its directory id"
        await _Change(view=view, deadline=deadline, request=request, key=voter.key, invalid=invalid).make()
    return voter


async def remove_voter(
    bootstrap: str | Iterable[str],
    group: str | None,
    key: ReplicaKey,
    *,
    view_config: ViewConfig | None = None,
    connections: Connections | None = None,
    clock: Clock | None = None,
) -> None:
    """Let a voter vote no more, on whatever disk if ``key`` names none; returns once that is committed.

    Raises what ``add_voter`` raises.
    """
    async with quorum_view(bootstrap, group, view_config, connections, clock) as view:

        def request(timeout_ms: int) -> RemoveVoterRequest:
            return RemoveVoterRequest(
                topic_partition=view.group, voter=key, timeout_ms=timeout_ms, cluster_id=view.config.cluster_id
            )

        invalid = "the last voter cannot be removed"
        await _Change(view=view, deadline=view.deadline(), request=request, key=key, invalid=invalid).make()


# --- the new voter ----------------------------------------------------------------------------------------------------


async def _endpoint_of(view: GroupView, replica_id: ReplicaId, address: str | None, deadline: Deadline) -> Endpoint:
    if address is not None:
        return Endpoint(replica_id, address)
    found = await view.find(replica_id, deadline)
    if isinstance(found, Failed):
        raise _not_changed(view, f"{found.reason}; say where it is reached, by ID=HOST:PORT")
    return found


async def _described(view: GroupView, endpoint: Endpoint, deadline: Deadline) -> DescribeReplicaResponse:
    """Ask a replica for the id of its disk, and where other replicas reach it, until it answers."""
    request = DescribeReplicaRequest(topic_partition=view.group)
    answer, _ = await repeated(
        lambda: view.ask(endpoint, request, DescribeReplicaResponse, deadline.left_ms()),
        deadline,
        view.config.backoff(),
        late="no answer",
    )
    if isinstance(answer, Failed):
        raise _not_changed(view, f"{answer.reason}, so that its disk is not known")
    if answer.error is not ErrorCode.NONE:
        raise _not_changed(view, f"{endpoint} does not host this log", answer.error)
    if answer.replica_id != endpoint.broker_id:
        raise _not_changed(view, f"at {endpoint.address} is replica {answer.replica_id}")
    return answer


# --- the change -------------------------------------------------------------------------------------------------------


@dataclass(slots=True, kw_only=True)
class _Change:
    """A change of the voters until its outcome is known. ``may_be_made`` by an attempt that got no clear answer.

    ``invalid`` is what INVALID_REQUEST says of this kind of change.
    """

    view: GroupView
    deadline: Deadline
    request: Callable[[int], _Request]
    key: ReplicaKey
    invalid: str
    may_be_made: bool = False

    async def make(self) -> None:
        failed, _ = await repeated(self._attempt, self.deadline, self.view.config.backoff(), late="not done")
        if failed is not None:
            raise self._failure(failed.reason)

    async def _attempt(self) -> Failed | None:
        """Ask the leader once; absent if the change is made."""
        timeout_ms = self.deadline.left_ms(self.view.config.request_timeout_ms)
        endpoint = await self.view.find_leader(self.view.deadline(timeout_ms))
        if isinstance(endpoint, Failed):
            if endpoint.no_such_group and not self.may_be_made:
                raise UnknownGroupError(self.view.group.topic)
            return replace(endpoint, is_final=False)
        timeout_ms = self.deadline.left_ms(self.view.config.request_timeout_ms)
        # The leader shall give up before the call does: its answer says more than none.
        request = self.request(max(1, timeout_ms * 9 // 10))
        answer = await self.view.ask(endpoint, request, ChangeVotersResponse, timeout_ms)
        if isinstance(answer, Failed):
            self.may_be_made |= answer.may_be_done
            return answer
        return await self._judged(endpoint, answer)

    async def _judged(self, endpoint: Endpoint, answer: ChangeVotersResponse) -> Failed | None:
        if answer.error is ErrorCode.NONE or (self.may_be_made and await self._is_made(answer.error)):
            return None
        self.may_be_made |= not answer.not_appended
        if answer.error not in RETRIABLE:
            reasons = {**_REASONS, ErrorCode.INVALID_REQUEST: self.invalid}
            raise self._failure(reasons.get(answer.error, f"{endpoint} answered {answer.error}"), answer.error)
        if answer.error is not ErrorCode.THROTTLING_QUOTA_EXCEEDED and not self.view.on_hint(answer.current_leader):
            self.view.on_failure(endpoint)
        if answer.error is ErrorCode.REQUEST_TIMED_OUT and answer.not_appended:
            return Failed(reason="the new voter has not caught up; it must run, on the disk of this directory id")
        return Failed(reason=f"{endpoint}: {answer.error}")

    async def _is_made(self, error: ErrorCode) -> bool:
        """Whether a refusal only says that an earlier attempt has made the change."""
        if error is ErrorCode.VOTER_NOT_FOUND:
            return True
        if error is not ErrorCode.DUPLICATE_VOTER:
            return False
        try:
            described = await describe(self.view, self.deadline)
        except ReadFailedError:
            return False
        return any(ReplicaKey(voter.replica_id, voter.directory_id) == self.key for voter in described.current_voters)

    def _failure(self, reason: str, error: ErrorCode | None = None) -> VotersNotChangedError | VotersUnknownError:
        if self.may_be_made:
            return VotersUnknownError(f"{self.view.group}: it is unknown whether the voters are changed: {reason}")
        return _not_changed(self.view, reason, error)


def _not_changed(view: GroupView, reason: str, error: ErrorCode | None = None) -> VotersNotChangedError:
    return VotersNotChangedError(f"{view.group}: the voters are not changed: {reason}", error=error)
