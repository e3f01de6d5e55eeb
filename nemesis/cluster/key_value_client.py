"""The workloads' client of the key-value store over ours: numbers in decimal digits, honest outcomes.

Owns the form of keys and values and the translation of errors into *definitely not done* and *unknown*. Each process of
a workload has a client of its own, with its own connections, its own session and its own opinion of who leads. A
command whose answer was lost is sent again within its session, where it counts once; whether it was done is unknown
only when the time is up.
"""

from __future__ import annotations

from collections.abc import Awaitable, Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import TypeVar

from nemesis.cluster.store import Answer, Found
from nemesis.cluster.topic_client import RETRY_MS, RETRY_MS_MAX, decode_value, encode_value
from nemesis.errors import NotDoneError, UnknownOutcomeError
from replica.client.cluster_view import ViewConfig
from replica.client.failures import ClientError, NotWrittenError
from replica.client.groups.config import GroupConfig
from replica.client.groups.key_value import LINEARIZABLE, STALE, KeyValueClient, ReadFrom
from replica.core.messages import Consistency
from replica.ids import ReplicaId
from replica.machines.key_value import KeyRange, KeyValue, commands, prefix, results
from replica.rpc.tls import TlsFiles

GROUP = "kv"
"""The group of the store; its log is that of the group's only partition."""
GROUP_LOG = f"{GROUP}-0"
MACHINE = "key-value"
ResultT = TypeVar("ResultT")


class Reads(StrEnum):
    """How recent an answer to a read must be."""

    LINEARIZABLE = "linearizable"
    LEASE = "lease"
    """As recent as linearizable ones, as long as clocks do not differ by more than leases allow for."""
    STALE = "stale"
    """Whatever the replica has that is asked. That is not linearizable, and a judge must find it."""


SMALL_SNAPSHOT_RECORD_BYTES = 16_384
"""Where disks are wiped or broken: so small that there are snapshots to be loaded, and to be lost."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StoreOptions:
    """How the workloads' clients use the store; ``store_timeout_ms`` bounds one operation with all its attempts.

    Replicas take a snapshot of it after ``snapshot_record_bytes`` of records: so few that in a run of a minute one that
    was away for long has to load it.
    """

    reads: Reads = Reads.LINEARIZABLE
    store_timeout_ms: int = 2500
    store_request_timeout_ms: int = 1000
    snapshot_record_bytes: int = 65_536


_READ_FROM: Mapping[Reads, ReadFrom] = {
    Reads.LINEARIZABLE: LINEARIZABLE,
    Reads.LEASE: ReadFrom(consistency=Consistency.LEASE),
    Reads.STALE: STALE,
}


def open_store(
    addresses: Mapping[int, str], *, cluster_id: str, options: StoreOptions, tls: TlsFiles | None = None
) -> KeyValueStore:
    """A client with connections of its own. ``addresses`` is all it dials, by TLS where it is given files."""
    config = ViewConfig(
        cluster_id=cluster_id,
        tls=tls,
        dial={ReplicaId(node): address for node, address in addresses.items()},
        request_timeout_ms=options.store_request_timeout_ms,
        api_timeout_ms=options.store_timeout_ms,
        metadata_timeout_ms=options.store_request_timeout_ms // 2,
        retry_backoff_ms=RETRY_MS,
        retry_backoff_max_ms=RETRY_MS_MAX,
    )
    group = GroupConfig(close_timeout_ms=1)
    return KeyValueStore(KeyValueClient(addresses.values(), GROUP, group, view_config=config), options.reads)


class KeyValueStore:
    """One process's client of the store, over a client of ours that it closes."""

    def __init__(self, client: KeyValueClient, reads: Reads = Reads.LINEARIZABLE) -> None:
        self._client = client
        self._read_from = _READ_FROM[reads]

    async def get(self, key: str) -> Answer:
        """Read one key."""
        done = await _read(self._client.get_revised(_key(key), read_from=self._read_from))
        return Answer(revision=done.revision, found=_found([done.result.found]))

    async def get_all(self, prefix: str) -> Answer:
        """Read all keys that begin so."""
        done = await _read(self._client.range(_below(prefix), read_from=self._read_from))
        if done.result.more:
            raise NotDoneError(f"{prefix} has more keys than one answer holds")
        return Answer(revision=done.revision, found=_found(done.result.found))

    async def put(self, key: str, value: int) -> Answer:
        """Write one key."""
        done = await _done(self._client.put(_key(key), encode_value(value)))
        return Answer(revision=done.revision)

    async def compare_and_set(self, key: str, expected: int | None, value: int, *, ttl_ms: int | None = None) -> Answer:
        """Write a key if it holds what is expected; with ``ttl_ms`` attached to a lease of its own."""
        lease_id = None
        if ttl_ms is not None:
            try:
                lease_id = (await _done(self._client.grant_lease(ttl_ms))).result.lease_id
            except UnknownOutcomeError as error:
                # An unknown lease is attached to nothing.
                raise NotDoneError(f"no lease: {error}") from error
        asked = None if expected is None else encode_value(expected)
        call = self._client.compare_and_set(_key(key), asked, encode_value(value), lease_id=lease_id)
        done = await _done(call)
        current = done.result.current
        return Answer(revision=done.revision, done=done.result.succeeded, found=_found([current]))

    async def delete_if(self, key: str, expected: int) -> Answer:
        """Delete a key if it holds what is expected."""
        condition = commands.CompareValue(key=_key(key), operator=commands.Operator.EQUAL, value=encode_value(expected))
        delete = commands.Delete(keys=KeyRange(start=_key(key), end=_key(key) + b"\0"))
        done = await _done(self._client.transact([condition], [delete], [commands.Get(key=_key(key))]))
        return _transacted(done.revision, done.result)

    async def increment(self, key: str, amount: int) -> Answer:
        """Add to a key."""
        done = await _done(self._client.increment(_key(key), amount))
        found = {key: Found(value=done.result.number, changed_at=done.revision)}
        return Answer(revision=done.revision, found=found)

    async def put_all_if(self, prefix: str, unchanged_since: Mapping[str, int], values: Mapping[str, int]) -> Answer:
        """Write keys at one revision, if others have not changed."""
        conditions = [
            commands.CompareNumber(
                key=_key(key),
                field=commands.NumberField.MOD_REVISION,
                operator=commands.Operator.EQUAL,
                number=revision,
            )
            for key, revision in unchanged_since.items()
        ]
        puts = [commands.Put(key=_key(key), value=encode_value(value)) for key, value in values.items()]
        done = await _done(self._client.transact(conditions, puts, [commands.Range(keys=_below(prefix))]))
        return _transacted(done.revision, done.result)

    async def close(self) -> None:
        """Give the session and the connections back; what was not answered stays unknown."""
        await self._client.close()


async def _done(call: Awaitable[ResultT]) -> ResultT:
    """The result of a command. What does not say that it certainly was not done is unknown."""
    try:
        return await call
    except NotWrittenError as error:
        raise NotDoneError(str(error)) from error
    except ClientError as error:
        raise UnknownOutcomeError(str(error)) from error


async def _read(call: Awaitable[ResultT]) -> ResultT:
    """The result of a question, which changes nothing whatever becomes of it."""
    try:
        return await call
    except ClientError as error:
        raise NotDoneError(str(error)) from error


def _transacted(revision: int, result: results.TransactionResult) -> Answer:
    """What the alternative of a transaction has read, if that was done."""
    found: list[KeyValue | None] = []
    for one in () if result.succeeded else result.results:
        match one:
            case results.GetResult(found=key):
                found.append(key)
            case results.RangeResult(found=keys):
                found += keys
            case _:
                raise UnknownOutcomeError(f"a transaction that was refused did {one}")
    return Answer(revision=revision, done=result.succeeded, found=_found(found))


def _found(keys: Iterable[KeyValue | None]) -> dict[str, Found]:
    return {
        key.key.decode(errors="replace"): Found(value=_number(key.value), changed_at=key.mod_revision)
        for key in keys
        if key is not None
    }


def _number(value: bytes) -> int:
    """The number; of a counter it may be negative."""
    return -decode_value(value[1:]) if value[:1] == b"-" and value[1:].isdigit() else decode_value(value)


def _key(key: str) -> bytes:
    return key.encode()


def _below(start: str) -> KeyRange:
    return prefix(start.encode())
