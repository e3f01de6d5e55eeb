"""The authorizer: whether a caller may make a call, decided before the core sees it.

Owns the answers to those who may not. Rights are those of the committed access control list, as far as this replica has
applied it. What was decided is remembered until the list is another one, so that a call costs a look into a dictionary.

A replica that has just started knows an old list, or none: what it cannot allow it does not deny for good, but asks to
be asked later (BROKER_NOT_AVAILABLE). What replicas ask of each other takes the certificate of the replica that the
request speaks for; no entry of the list gives that to anybody.

Source: Kafka's ``Authorizer``, ``StandardAuthorizer`` (whose listeners start once the metadata is loaded).
"""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable, Collection, Iterable
from typing import Any, NamedTuple

import grpc.aio
from msgspec.structs import replace

from replica.core.messages import (
    DescribeClusterRequest,
    DescribeClusterResponse,
    FetchedPartition,
    FetchRequest,
    FetchResponse,
    Request,
    Response,
)
from replica.core.metadata.acls import THE_CLUSTER, Acl, AclTable, Operation, ResourceType
from replica.core.metadata.image import MetadataImage
from replica.core.metadata.replay import METADATA_LOG
from replica.core.refusals import refusal
from replica.errors import ErrorCode
from replica.server.audit import Audit
from replica.server.callers import Caller, caller_of
from replica.server.rights import NEEDS, Needs
from replica.server.tokens import TokenError, TokenKey

REMEMBERED_MAX = 10_000
"""Decisions that are remembered: names come from callers, who may name any number."""

RESOURCES_BYTES_MAX = 1000
"""How much a line says of what a call is about, which may be thousands of topics."""

_FAILED = {
    ResourceType.TOPIC: ErrorCode.TOPIC_AUTHORIZATION_FAILED,
    ResourceType.GROUP: ErrorCode.GROUP_AUTHORIZATION_FAILED,
    ResourceType.CLUSTER: ErrorCode.CLUSTER_AUTHORIZATION_FAILED,
}

Call = Callable[[Request], Awaitable[Response]]


class Resource(NamedTuple):
    """What a right is about; without a name, any of its kind."""

    type: ResourceType
    name: str | None

    def __str__(self) -> str:
        if self.type is ResourceType.CLUSTER:
            return "the cluster"
        return f"any {self.type}" if self.name is None else f"{self.type} {self.name}"


class Authorizer:
    """Judges callers by the list of ``image``; ``is_current`` tells whether that is as new as others have it.

    ``super_users`` may do whatever clients may. ``groups`` are the names of the groups that this replica hosts.
    ``make_table`` is what decides, of the entries that there are. ``unix_s`` is the time by which tokens expire.
    """

    def __init__(
        self,
        *,
        image: Callable[[], MetadataImage],
        is_current: Callable[[], bool],
        groups: Collection[str] = (),
        super_users: Collection[str] = (),
        tokens: TokenKey | None = None,
        audit: Audit,
        make_table: Callable[[Iterable[Acl]], AclTable] = AclTable,
        unix_s: Callable[[], float] = time.time,
    ) -> None:
        self._image = image
        self._is_current = is_current
        self._groups = frozenset(groups)
        self._super_users = frozenset(super_users)
        self._claims_of = None if tokens is None else tokens.claims
        self._unix_s = unix_s
        self._audit = audit
        self._make_table = make_table
        self._acls: frozenset[Acl] = frozenset()
        self._table = make_table(())
        self._remembered: dict[tuple[str, Operation, ResourceType, str | None], bool] = {}

    # --- who it is --------------------------------------------------------------------------------------------------

    def believed(self, known: Caller | None, context: grpc.aio.ServicerContext[Any, Any], rpc: str) -> Caller:
        """Who calls: on a stream that was used before, who is ``known``, unless the token has expired meanwhile.

        Raises TokenError, which says why somebody is not believed.
        """
        try:
            if known is None:
                return caller_of(context, self._claims_of)
            if known.expires_at_s is not None and self._unix_s() >= known.expires_at_s:
                raise TokenError("the token has expired")
            return known
        except TokenError as error:
            principal = "" if known is None else known.principal
            self._audit.denied(principal=principal, address=context.peer(), rpc=rpc, resource="", reason=str(error))
            raise

    def why_not_replica(self, request: Request, caller: Caller | None) -> str | None:
        """Why a caller may not ask this as a replica; None if it may."""
        needs = NEEDS[type(request)]
        assert needs.speaker is not None, request
        assert caller is not None, request
        speaker = getattr(request, needs.speaker)
        if caller.replica_id is not None and caller.replica_id == speaker:
            return None
        rpc = _rpc_of(request)
        reason = f"{rpc} in the name of replica {speaker} takes the certificate of replica-{speaker}"
        self._audit.denied(
            principal=caller.principal,
            address=caller.address,
            rpc=rpc,
            resource=f"replica {speaker}",
            reason="not its certificate",
        )
        return reason

    # --- what it may do ---------------------------------------------------------------------------------------------

    async def answer(self, request: Request, caller: Caller, call: Call) -> Response:
        """Let a client's call go on, or refuse it. Of what it asks for, it gets what it may have."""
        if isinstance(request, DescribeClusterRequest):
            return self._with_allowed_topics(request, caller, await call(request))
        needs = NEEDS[type(request)]
        assert needs.operation is not None, request
        names: tuple[str | None, ...] = (None,) if needs.of_any else tuple(needs.names(request))
        wanted = {name: self._resource(needs, name) for name in names}
        refused = {
            name: resource
            for name, resource in wanted.items()
            if not self.allows(caller.principal, needs.operation, *resource)
        }
        if not refused:
            if needs.is_administration:
                self._audit.allowed(**_said(request, caller, wanted.values()))
            return await call(request)
        self._audit.denied(**_said(request, caller, refused.values()))
        first = next(iter(refused.values()))
        error = _FAILED[first.type] if self._is_current() else ErrorCode.BROKER_NOT_AVAILABLE
        if isinstance(request, FetchRequest) and len(refused) < len(wanted):
            return await _without(request, refused, error, call)
        return _refusal(request, error, f"{caller.principal} may not {needs.operation} {first}")

    def allows(self, principal: str, operation: Operation, resource_type: ResourceType, name: str | None) -> bool:
        """Whether a principal may do this with a resource; without a name, with any of the kind."""
        acls = self._image().acls
        if acls is not self._acls:
            self._acls, self._table = acls, self._make_table(acls)
            self._remembered.clear()
        key = principal, operation, resource_type, name
        found = self._remembered.get(key)
        if found is not None:
            return found
        if len(self._remembered) >= REMEMBERED_MAX:
            self._remembered.clear()
        decided = principal in self._super_users or self._decide(*key)
        self._remembered[key] = decided
        return decided

    def _decide(self, principal: str, operation: Operation, resource_type: ResourceType, name: str | None) -> bool:
        if name is None:
            return self._table.allows_any(principal, operation, resource_type)
        return self._table.allows(principal, operation, resource_type, name)

    def _resource(self, needs: Needs, name: str | None) -> Resource:
        """What a name in a request stands for. No topic has the name of a group or of the metadata log."""
        if name is None or needs.kind is ResourceType.CLUSTER:
            return Resource(needs.kind, name)
        if name == METADATA_LOG.topic:
            return Resource(ResourceType.CLUSTER, THE_CLUSTER)
        if name in self._groups:
            return Resource(ResourceType.GROUP, name)
        return Resource(ResourceType.TOPIC if name in self._image().topics else needs.kind, name)

    def _with_allowed_topics(self, request: DescribeClusterRequest, caller: Caller, response: Response) -> Response:
        assert isinstance(response, DescribeClusterResponse), response
        if response.error is not ErrorCode.NONE:
            return response

        def may_describe(name: str) -> bool:
            return self.allows(caller.principal, Operation.DESCRIBE, ResourceType.TOPIC, name)

        refused = tuple(name for name in dict.fromkeys(request.topics or ()) if not may_describe(name))
        topics = tuple(topic for topic in response.topics if may_describe(topic.name))
        if (refused or len(topics) < len(response.topics)) and not self._is_current():
            return DescribeClusterResponse(error=ErrorCode.BROKER_NOT_AVAILABLE)
        return replace(response, topics=topics, unauthorized_topics=refused)


def _rpc_of(request: Request) -> str:
    return type(request).__name__.removesuffix("Request")


def _said(request: Request, caller: Caller, resources: Iterable[Resource]) -> dict[str, str]:
    """What a line of the audit says of a call."""
    named = ", ".join(map(str, resources))
    return {
        "principal": caller.principal,
        "address": caller.address,
        "rpc": _rpc_of(request),
        "resource": named[:RESOURCES_BYTES_MAX],
    }


def _refusal(request: Request, error: ErrorCode, message: str) -> Response:
    """The answer to a call that is refused as a whole, with a sentence where it has room for one."""
    response: Any = refusal(request, error)
    told: Response = replace(response, message=message) if "message" in response.__struct_fields__ else response
    return told


async def _without(request: FetchRequest, refused: Collection[str | None], error: ErrorCode, call: Call) -> Response:
    """What may be read of a fetch, at once, and the error for each log that may not, in the order of the request."""
    allowed = tuple(part for part in request.partitions if part.topic_partition.topic not in refused)
    response = await call(replace(request, partitions=allowed, max_wait_ms=0))
    assert isinstance(response, FetchResponse), response
    if response.error is not ErrorCode.NONE:
        return response
    read = {part.topic_partition: part for part in response.partitions}
    names = [part.topic_partition for part in request.partitions]
    return replace(
        response,
        partitions=tuple(read.get(name) or FetchedPartition(topic_partition=name, error=error) for name in names),
    )
