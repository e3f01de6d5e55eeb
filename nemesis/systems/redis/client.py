"""The workloads' client of Redis: keys and numbers of whoever the sentinels call the master.

Owns the form of keys and commands and the translation of failures into *definitely not done* and *unknown*. A client
asks a sentinel once and keeps its connection until that fails it or the server says that it is no master: so clients do
with Redis. Nothing is sent again. ``a/b`` is the field ``b`` of the hash ``a``, so that all below ``a/`` are read at
once; any other key is a string. Redis claims no order of all changes: answers have no revisions.

Source: the documents "Redis Sentinel" and "Guidelines for Redis clients with support for Redis Sentinel".
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any

from redis.asyncio import Connection, Sentinel
from redis.asyncio.retry import Retry
from redis.backoff import NoBackoff
from redis.exceptions import (
    BusyLoadingError,
    ConnectionError,
    MasterDownError,
    ReadOnlyError,
    RedisError,
    ResponseError,
)

from nemesis.cluster.store import Answer, Found
from nemesis.errors import NotDoneError, UnknownOutcomeError, UnsupportedError

OPERATION_S_MAX = 2.5
"""One operation with all its attempts to find a master."""
ANSWER_S_MAX = 1.0
"""One command."""
CONNECT_S_MAX = 0.5
RETRY_S = 0.05
PROTOCOL = 2
"""The form of answers that every version of the library and of the server takes alike."""
MASTER = "main"
"""What the sentinels call the master that they watch."""
REFUSED = (ReadOnlyError, MasterDownError, BusyLoadingError)
"""What a server says that does not do what it is told."""
COMPARE_AND_SET = """
local held = redis.call('GET', KEYS[1])
if held == ARGV[1] or (not held and ARGV[1] == '') then redis.call('SET', KEYS[1], ARGV[2]); return {1, held} end
return {0, held}
"""
"""Redis runs a script alone, and has no such command."""
Address = tuple[str, int]


class RedisStore:
    """One process's client. ``sentinels`` are asked in this order who is the master."""

    def __init__(self, sentinels: Sequence[Address]) -> None:
        once = {
            "socket_timeout": CONNECT_S_MAX,
            "socket_connect_timeout": CONNECT_S_MAX,
            "retry": Retry(NoBackoff(), 0),
        }
        once |= {"protocol": PROTOCOL}
        self._sentinel = Sentinel(sentinels, sentinel_kwargs=once)
        self._connection: Connection | None = None

    async def get(self, key: str) -> Answer:
        """Read one key."""
        return Answer(revision=None, found=_found(key, await self._read("GET", key)))

    async def get_all(self, prefix: str) -> Answer:
        """Read all fields of a hash."""
        told = await self._read("HGETALL", prefix.removesuffix("/"))
        found = {prefix + field.decode(): _number(held) for field, held in zip(told[::2], told[1::2], strict=True)}
        return Answer(revision=None, found=found)

    async def put(self, key: str, value: int) -> Answer:
        """Write one key."""
        name, _, field = key.partition("/")
        await self._change(*(("HSET", name, field, value) if field else ("SET", key, value)))
        return Answer(revision=None)

    async def compare_and_set(self, key: str, expected: int | None, value: int, *, ttl_ms: int | None = None) -> Answer:
        """Write a key if it holds what is expected, by a script."""
        assert ttl_ms is None, "locks are not lent from Redis"
        done, held = await self._change("EVAL", COMPARE_AND_SET, 1, key, "" if expected is None else expected, value)
        return Answer(revision=None) if done else Answer(revision=None, done=False, found=_found(key, held))

    async def delete_if(self, key: str, expected: int) -> Answer:
        """Nothing that a workload asks for here."""
        raise UnsupportedError(f"deleting {key} if it holds {expected} is not done with Redis")

    async def increment(self, key: str, amount: int) -> Answer:
        """Add to a key."""
        total = await self._change("INCRBY", key, amount)
        return Answer(revision=None, found={key: Found(value=int(total), changed_at=None)})

    async def put_all_if(self, prefix: str, unchanged_since: Mapping[str, int], values: Mapping[str, int]) -> Answer:
        """Nothing that a workload asks for here."""
        del unchanged_since
        raise UnsupportedError(f"writing {sorted(values)} below {prefix} at once is not done with Redis")

    async def close(self) -> None:
        """Give the connections back."""
        await self._drop()
        for sentinel in self._sentinel.sentinels:
            await sentinel.aclose()

    # --- commands -----------------------------------------------------------------------------------------------------

    async def _read(self, *command: str) -> Any:
        """A command that changes nothing: whatever becomes of it is no harm."""
        try:
            return await self._change(*command)
        except UnknownOutcomeError as error:
            raise NotDoneError(str(error)) from error

    async def _change(self, *command: str | int) -> Any:
        """Tell the master of the day, once. Raises NotDoneError or UnknownOutcomeError."""
        connection = await self._connected()
        try:
            async with asyncio.timeout(ANSWER_S_MAX):
                await connection.send_command(*command)
                return await connection.read_response()
        except REFUSED as error:
            await self._drop()
            raise NotDoneError(f"{connection.host} refused: {error}") from error
        except ResponseError as error:
            raise NotDoneError(f"{connection.host} refused: {error}") from error
        except (RedisError, OSError, TimeoutError) as error:
            await self._drop()
            raise UnknownOutcomeError(f"{connection.host} gave no answer: {error!r}") from error

    async def _connected(self) -> Connection:
        """The connection to the master, found anew where there is none. Raises NotDoneError."""
        if self._connection is not None:
            return self._connection
        loop = asyncio.get_running_loop()
        deadline_s = loop.time() + OPERATION_S_MAX
        last: Exception = ConnectionError("nobody was asked")
        while loop.time() < deadline_s:
            try:
                self._connection = await self._connect()
                return self._connection
            except (RedisError, OSError, TimeoutError) as error:
                last = error
                await asyncio.sleep(RETRY_S)
        raise NotDoneError(f"no master within {OPERATION_S_MAX} s; last: {last!r}")

    async def _connect(self) -> Connection:
        host, port = await self._sentinel.discover_master(MASTER)
        connection = Connection(
            host=host,
            port=port,
            socket_timeout=ANSWER_S_MAX,
            socket_connect_timeout=CONNECT_S_MAX,
            retry=Retry(NoBackoff(), 0),
            protocol=PROTOCOL,
        )
        await connection.connect()
        return connection

    async def _drop(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            await connection.disconnect(nowait=True)


def _found(key: str, held: bytes | None) -> Mapping[str, Found]:
    return {} if held is None else {key: _number(held)}


def _number(held: bytes) -> Found:
    return Found(value=int(held), changed_at=None)
