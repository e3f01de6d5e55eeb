"""The key-value store, typed: each command and question as a method, each answer as a value.

Owns how commands become bytes and answers values. What a command does, and what its result says, is the machine's:
``replica.machines.key_value``. Source: etcd's ``rpc.proto``.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Iterable
from dataclasses import dataclass
from random import Random
from typing import Any, Generic, TypeVar

from replica.client.clock import Clock
from replica.client.cluster_view import ViewConfig
from replica.client.connections import Closing, Connections
from replica.client.failures import OutcomeUnknownError, ReadFailedError
from replica.client.groups.client import GroupClient
from replica.client.groups.config import GroupConfig
from replica.client.groups.key_value_bounds import check_numbers
from replica.client.groups.key_value_failures import KeyValueRejectedError, RevisionCompactedError
from replica.client.groups.queries import Node
from replica.client.groups.watch import WatchConfig, watched
from replica.core.messages import Consistency
from replica.encoding import MalformedError
from replica.ids import Offset, ReplicaId
from replica.machines.key_value import (
    KeyRange,
    LeaseId,
    commands,
    decode_response,
    encode_command,
    encode_request,
    results,
    single,
)

DEFAULT_GROUP = "kv"
ResultT = TypeVar("ResultT", bound=results.Result)


@dataclass(frozen=True, slots=True, kw_only=True)
class Revised(Generic[ResultT]):
    """A result, and the store's revision after it: what a command has changed, it changed there."""

    revision: int
    result: ResultT


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadFrom:
    """How recent an answer must be, and who is asked. By default it is not older than the question."""

    consistency: Consistency = Consistency.LINEARIZABLE
    node: Node | ReplicaId = Node.LEADER


LINEARIZABLE = ReadFrom()
STALE = ReadFrom(consistency=Consistency.STALE, node=Node.ANY)
"""From any replica, as it is there."""


class KeyValueClient(Closing):
    """An async client of one key-value store. ``bootstrap`` is one or more ``HOST:PORT`` of any replicas.

    Keys and values are bytes. Use it within one event loop, and close it. Commands are applied once. All methods raise
    what ``GroupClient`` raises; KeyValueRejectedError where the store says no; RevisionCompactedError for a revision
    that is forgotten; ValueError for a number that no command can hold. ``timeout_ms`` is by default that of
    ``view_config``.
    """

    def __init__(
        self,
        bootstrap: str | Iterable[str],
        group: str = DEFAULT_GROUP,
        config: GroupConfig | None = None,
        *,
        view_config: ViewConfig | None = None,
        connections: Connections | None = None,
        clock: Clock | None = None,
        random: Random | None = None,
    ) -> None:
        self.group = GroupClient(
            bootstrap,
            group,
            config,
            view_config=view_config,
            connections=connections,
            clock=clock,
            random=random,
        )

    async def close(self) -> None:
        """Give up the calls that are open, end the session, and close the connections. Leases stay."""
        await self.group.close()

    # --- writing ----------------------------------------------------------------------------------------------------

    async def put(
        self, key: bytes, value: bytes, *, lease_id: LeaseId | None = None, timeout_ms: int | None = None
    ) -> Revised[results.PutResult]:
        """Let a key be, attached to the lease that is given, and to no other."""
        command = commands.Put(key=key, value=value, lease_id=lease_id)
        return await self._do(command, results.PutResult, timeout_ms)

    async def delete(self, keys: bytes | KeyRange, *, timeout_ms: int | None = None) -> Revised[results.DeleteResult]:
        """Delete one key, or all of a range, at one revision; tells how many there were."""
        command = commands.Delete(keys=keys if isinstance(keys, KeyRange) else single(keys))
        return await self._do(command, results.DeleteResult, timeout_ms)

    async def compare_and_set(
        self,
        key: bytes,
        expected: bytes | None,
        value: bytes,
        *,
        lease_id: LeaseId | None = None,
        timeout_ms: int | None = None,
    ) -> Revised[results.CompareAndSetResult]:
        """Put if the key's value is ``expected``; None: if there is no such key. Tells what stands there then."""
        command = commands.CompareAndSetValue(key=key, expected=expected, value=value, lease_id=lease_id)
        return await self._do(command, results.CompareAndSetResult, timeout_ms)

    async def compare_and_set_revision(
        self,
        key: bytes,
        mod_revision: int,
        value: bytes,
        *,
        lease_id: LeaseId | None = None,
        timeout_ms: int | None = None,
    ) -> Revised[results.CompareAndSetResult]:
        """Put if the key was last changed at ``mod_revision``; 0: if there is no such key."""
        command = commands.CompareAndSetRevision(key=key, mod_revision=mod_revision, value=value, lease_id=lease_id)
        return await self._do(command, results.CompareAndSetResult, timeout_ms)

    async def increment(
        self, key: bytes, delta: int = 1, *, timeout_ms: int | None = None
    ) -> Revised[results.IncrementResult]:
        """Add to a number of 64 bits in decimal digits; a key that is not there counts as 0."""
        return await self._do(commands.Increment(key=key, delta=delta), results.IncrementResult, timeout_ms)

    async def transact(
        self,
        comparisons: Iterable[commands.Comparison],
        then: Iterable[commands.Operation],
        otherwise: Iterable[commands.Operation] = (),
        *,
        timeout_ms: int | None = None,
    ) -> Revised[results.TransactionResult]:
        """If all comparisons hold, do ``then``, else ``otherwise``: all of it at one revision, or nothing."""
        command = commands.Transaction(comparisons=tuple(comparisons), then=tuple(then), otherwise=tuple(otherwise))
        return await self._do(command, results.TransactionResult, timeout_ms)

    async def compact(self, revision: int, *, timeout_ms: int | None = None) -> Revised[results.CompactResult]:
        """Forget what was before ``revision``."""
        return await self._do(commands.Compact(revision=revision), results.CompactResult, timeout_ms)

    # --- leases -----------------------------------------------------------------------------------------------------

    async def grant_lease(self, ttl_ms: int, *, timeout_ms: int | None = None) -> Revised[results.LeaseResult]:
        """Make a lease. It ends when it is not kept alive for ``ttl_ms`` of log time, and its keys with it."""
        return await self._do(commands.GrantLease(ttl_ms=ttl_ms), results.LeaseResult, timeout_ms)

    async def keep_lease_alive(
        self, lease_id: LeaseId, *, timeout_ms: int | None = None
    ) -> Revised[results.LeaseResult]:
        """Let a lease live for its whole time from now on, once. Rejected, LEASE_NOT_FOUND, if it has ended."""
        return await self._do(commands.KeepLeaseAlive(lease_id=lease_id), results.LeaseResult, timeout_ms)

    async def revoke_lease(self, lease_id: LeaseId, *, timeout_ms: int | None = None) -> Revised[results.DeleteResult]:
        """End a lease and delete its keys; tells how many there were."""
        return await self._do(commands.RevokeLease(lease_id=lease_id), results.DeleteResult, timeout_ms)

    async def describe_lease(
        self, lease_id: LeaseId, *, read_from: ReadFrom = LINEARIZABLE, timeout_ms: int | None = None
    ) -> Revised[results.DescribeLeaseResult]:
        """What a lease has left, and its keys."""
        request = commands.DescribeLease(lease_id=lease_id)
        return await self._ask(request, results.DescribeLeaseResult, read_from, timeout_ms)

    # --- reading ----------------------------------------------------------------------------------------------------

    async def get(
        self,
        key: bytes,
        *,
        revision: int | None = None,
        read_from: ReadFrom = LINEARIZABLE,
        timeout_ms: int | None = None,
    ) -> bytes | None:
        """The value of one key, now or as it stood at ``revision``; None where there is no such key."""
        answer = await self.get_revised(key, revision=revision, read_from=read_from, timeout_ms=timeout_ms)
        return None if answer.result.found is None else answer.result.found.value

    async def get_revised(
        self,
        key: bytes,
        *,
        revision: int | None = None,
        read_from: ReadFrom = LINEARIZABLE,
        timeout_ms: int | None = None,
    ) -> Revised[results.GetResult]:
        """One key with its revisions, its version and its lease, and the store's revision."""
        request = commands.Get(key=key, revision=revision)
        return await self._ask(request, results.GetResult, read_from, timeout_ms)

    async def range(
        self,
        keys: KeyRange,
        *,
        limit: int | None = None,
        revision: int | None = None,
        read_from: ReadFrom = LINEARIZABLE,
        timeout_ms: int | None = None,
    ) -> Revised[results.RangeResult]:
        """The keys of a range in their order, now or at ``revision``, up to a limit; ``more`` if it goes on.

        ``replica.machines.key_value.prefix`` makes the range of a prefix. To read on, ask at the revision of the first
        answer, from the last key and a zero byte on.
        """
        request = commands.Range(keys=keys, limit=limit, revision=revision)
        return await self._ask(request, results.RangeResult, read_from, timeout_ms)

    async def describe(
        self, *, read_from: ReadFrom = LINEARIZABLE, timeout_ms: int | None = None
    ) -> Revised[results.DescribeStoreResult]:
        """How far the store goes back, and how much is in it."""
        return await self._ask(commands.DescribeStore(), results.DescribeStoreResult, read_from, timeout_ms)

    async def watch(
        self,
        keys: bytes | KeyRange,
        *,
        from_revision: int | None = None,
        read_from: ReadFrom = LINEARIZABLE,
        config: WatchConfig | None = None,
    ) -> AsyncGenerator[results.WatchResult, None]:
        """Yield what changes, for ever: the events of whole revisions, in order, without gaps and without repetition.

        Without ``from_revision`` it begins behind the revision that the store has at the first step. Each value says
        from which revision to go on (``next_revision``), so that another watch can take over.

        Raises RevisionCompactedError if a revision that is still to be told is forgotten; ReadFailedError if nobody
        could be asked for as long as ``config`` says. Either ends it: begin again, from ``next_revision`` in the second
        case, and in the first with what ``range`` shows at a revision that can be read.
        """
        keys = keys if isinstance(keys, KeyRange) else single(keys)
        if from_revision is None:
            from_revision = (await self.describe(read_from=read_from)).revision + 1
        config = config or WatchConfig()

        async def poll(request: commands.Watch, after: Offset | None) -> tuple[results.WatchResult, Offset]:
            check_numbers(request)
            reply = await self.group.query(
                encode_request(request),
                consistency=read_from.consistency,
                node=read_from.node,
                after_offset=after,
                wait_ms=config.poll_ms,
                timeout_ms=config.poll_ms + config.timeout_ms,
            )
            return _result(reply.reply, results.WatchResult, ReadFailedError).result, reply.applied_offset

        async for result in watched(poll, keys, from_revision, config):
            yield result

    # --- bytes ------------------------------------------------------------------------------------------------------

    async def _do(
        self, command: commands.Command, result_type: type[ResultT], timeout_ms: int | None
    ) -> Revised[ResultT]:
        check_numbers(command)
        reply = await self.group.apply(encode_command(command), timeout_ms=timeout_ms)
        return _result(reply, result_type, OutcomeUnknownError)

    async def _ask(
        self, request: commands.Request, result_type: type[ResultT], read_from: ReadFrom, timeout_ms: int | None
    ) -> Revised[ResultT]:
        check_numbers(request)
        answer = await self.group.query(
            encode_request(request),
            consistency=read_from.consistency,
            node=read_from.node,
            timeout_ms=timeout_ms,
        )
        return _result(answer.reply, result_type, ReadFailedError)


def _result(
    reply: bytes, result_type: type[ResultT], unreadable: type[OutcomeUnknownError | ReadFailedError]
) -> Revised[ResultT]:
    """Read a reply. Raises what the store said instead, or ``unreadable``: the group has another machine."""
    try:
        response = decode_response(reply)
    except MalformedError as error:
        raise unreadable(f"the answer is none of a key-value store: {error}") from error
    result: Any = response.result
    match result:
        case results.Rejected(error=rejection, message=message):
            raise KeyValueRejectedError(rejection, message)
        case results.Compacted(compact_revision=compact_revision):
            raise RevisionCompactedError(compact_revision)
        case _ if not isinstance(result, result_type):
            raise unreadable(f"the store answered with {type(result).__name__}, not {result_type.__name__}")
    return Revised(revision=response.revision, result=result)
