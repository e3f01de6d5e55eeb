"""The workloads' client of etcd, over the JSON gateway of its gRPC service (``/v3/kv/...``).

Owns the form of requests and answers and the translation of failures into *definitely not done* and *unknown*. A client
talks to one member until that fails it, then to the next. A request is sent again only when it certainly was not done:
when no connection came about, or it only reads. Revisions are etcd's own: the one order of all changes.

Source: etcd 3.4, ``etcdserverpb/rpc.proto``; in its gateway keys and values are base64 and 64-bit numbers are strings.
"""

from __future__ import annotations

import asyncio
from base64 import b64decode, b64encode
from collections.abc import Mapping, Sequence
from typing import Any

import aiohttp

from nemesis.cluster.store import Answer, Found
from nemesis.errors import NotDoneError, UnknownOutcomeError

OPERATION_S_MAX = 2.5
"""One operation with all its attempts."""
REQUEST_S_MAX = 1.0
"""One attempt of what may be tried again."""
CONNECT_S_MAX = 0.5
RETRY_S = 0.05
REFUSED_CODES = frozenset({3, 5, 8, 9, 11, 12, 16})
"""gRPC codes of what etcd says before it proposes anything, or in the place of applying it."""
JsonObject = Mapping[str, Any]


class RefusedError(Exception):
    """A member said that it did nothing, or no connection came about; another one may do it."""


class LostError(Exception):
    """No answer that says what became of a request."""


class EtcdStore:
    """One process's client. ``endpoints`` are the members' addresses, the first of them the one it talks to first.

    With ``stale_reads`` a member answers reads from what it has (etcd's ``serializable``), which is not linearizable.
    """

    def __init__(self, endpoints: Sequence[str], *, stale_reads: bool = False) -> None:
        self._endpoints = list(endpoints)
        self._how = {"serializable": True} if stale_reads else {}
        self._session = open_session()

    async def get(self, key: str) -> Answer:
        """Read one key."""
        return _ranged(await self._read({"key": _encoded(key)}))

    async def get_all(self, prefix: str) -> Answer:
        """Read all keys that begin so."""
        return _ranged(await self._read(_all_below(prefix)))

    async def put(self, key: str, value: int) -> Answer:
        """Write one key."""
        done = await self._change("kv/put", _put(key, value))
        return Answer(revision=_revision(done))

    async def compare_and_set(self, key: str, expected: int | None, value: int, *, ttl_ms: int | None = None) -> Answer:
        """Write a key if it holds what is expected; with ``ttl_ms`` attached to a lease of its own."""
        put = _put(key, value) if ttl_ms is None else _put(key, value) | {"lease": await self._lease(ttl_ms)}
        condition = _absent(key) if expected is None else _holds(key, expected)
        return await self._transact([condition], [{"request_put": put}], {"key": _encoded(key)})

    async def delete_if(self, key: str, expected: int) -> Answer:
        """Delete a key if it holds what is expected."""
        deletion = {"request_delete_range": {"key": _encoded(key)}}
        return await self._transact([_holds(key, expected)], [deletion], {"key": _encoded(key)})

    async def increment(self, key: str, amount: int) -> Answer:
        """Add to a key by reading it and writing it if nobody has changed it meanwhile, until that is so."""
        loop = asyncio.get_running_loop()
        deadline_s = loop.time() + OPERATION_S_MAX
        while loop.time() < deadline_s:
            found = (await self.get(key)).found.get(key)
            before, changed_at = (0, 0) if found is None else (found.value, found.revision)
            done = await self.put_all_if(key, {key: changed_at}, {key: before + amount})
            if done.done:
                found = Found(value=before + amount, changed_at=done.revision)
                return Answer(revision=done.revision, found={key: found})
        raise NotDoneError(f"others changed {key} all the time")

    async def put_all_if(self, prefix: str, unchanged_since: Mapping[str, int], values: Mapping[str, int]) -> Answer:
        """Write keys in one transaction if those of ``unchanged_since`` were last changed then."""
        conditions = [_unchanged(key, revision) for key, revision in unchanged_since.items()]
        puts = [{"request_put": _put(key, value)} for key, value in values.items()]
        return await self._transact(conditions, puts, _all_below(prefix))

    async def close(self) -> None:
        """Give the connections back."""
        await self._session.close()

    # --- requests -----------------------------------------------------------------------------------------------------

    async def _lease(self, ttl_ms: int) -> str:
        try:
            granted = await self._change("lease/grant", {"TTL": -(-ttl_ms // 1000)})
        except UnknownOutcomeError as error:
            raise NotDoneError(f"no lease: {error}") from error
        return str(granted["ID"])

    async def _transact(self, conditions: Sequence[Any], then: Sequence[Any], otherwise: JsonObject) -> Answer:
        """Do all of ``then`` if all conditions hold, else read what ``otherwise`` asks for."""
        body = {"compare": conditions, "success": then, "failure": [{"request_range": otherwise}]}
        done = await self._change("kv/txn", body)
        if done.get("succeeded"):
            return Answer(revision=_revision(done))
        seen = done["responses"][0]["response_range"]
        return Answer(revision=_revision(done), done=False, found=_found(seen))

    async def _read(self, body: JsonObject) -> JsonObject:
        """Ask one member after the other. Raises NotDoneError when the time is up."""
        loop = asyncio.get_running_loop()
        deadline_s = loop.time() + OPERATION_S_MAX
        while (left_s := deadline_s - loop.time()) > 0:
            try:
                async with asyncio.timeout(min(left_s, REQUEST_S_MAX)):
                    return await self._call("kv/range", {**body, **self._how})
            except (RefusedError, LostError, TimeoutError):
                await self._turn_away()
        raise NotDoneError(f"no member answered within {OPERATION_S_MAX} s")

    async def _change(self, path: str, body: JsonObject) -> JsonObject:
        """Ask members until one may have done it. Raises NotDoneError or UnknownOutcomeError."""
        refused = "no member could be asked in time"
        is_asked = False
        try:
            async with asyncio.timeout(OPERATION_S_MAX) as limit:
                while True:
                    try:
                        is_asked = True
                        return await self._call(path, body)
                    except RefusedError as error:
                        is_asked, refused = False, str(error)
                        await self._turn_away()
                        if _left_s(limit) < RETRY_S:  # Nobody is asked who could not answer in time.
                            raise NotDoneError(refused) from error
        except LostError as error:
            self._next_member()
            raise UnknownOutcomeError(str(error)) from error
        except TimeoutError:
            if is_asked:
                self._next_member()
                raise UnknownOutcomeError(f"{self._endpoints[0]} did not answer within {OPERATION_S_MAX} s") from None
            raise NotDoneError(refused) from None

    async def _call(self, path: str, body: JsonObject) -> JsonObject:
        return await call(self._session, self._endpoints[0], path, body)

    async def _turn_away(self) -> None:
        self._next_member()
        await asyncio.sleep(RETRY_S)

    def _next_member(self) -> None:
        self._endpoints.append(self._endpoints.pop(0))


def _left_s(limit: asyncio.Timeout) -> float:
    when_s = limit.when()
    assert when_s is not None, "it has a time"
    return when_s - asyncio.get_running_loop().time()


def open_session() -> aiohttp.ClientSession:
    """Connections of their own, without a proxy, whatever the environment says."""
    return aiohttp.ClientSession(trust_env=False, timeout=aiohttp.ClientTimeout(sock_connect=CONNECT_S_MAX))


async def call(session: aiohttp.ClientSession, endpoint: str, path: str, body: JsonObject) -> JsonObject:
    """One request to one member. Raises RefusedError or LostError."""
    try:
        async with session.post(f"http://{endpoint}/v3/{path}", json=body) as response:
            answer: JsonObject = await response.json(content_type=None)
            status = response.status
    except (aiohttp.ClientConnectorError, aiohttp.ConnectionTimeoutError) as error:
        raise RefusedError(f"{endpoint} cannot be reached: {error}") from error
    except (aiohttp.ClientError, ValueError) as error:
        raise LostError(f"{endpoint} gave no answer: {error!r}") from error
    if status == 200:
        return answer
    said = f"{endpoint} said {answer.get('error')!r}, code {answer.get('code')}"
    raise RefusedError(said) if answer.get("code") in REFUSED_CODES else LostError(said)


# --- the forms of requests and answers --------------------------------------------------------------------------------


def _encoded(text: str) -> str:
    return b64encode(text.encode()).decode()


def _put(key: str, value: int) -> dict[str, Any]:
    return {"key": _encoded(key), "value": _encoded(str(value))}


def _all_below(prefix: str) -> JsonObject:
    """The range of all keys that begin so: up to the prefix with its last character one higher."""
    return {"key": _encoded(prefix), "range_end": _encoded(prefix[:-1] + chr(ord(prefix[-1]) + 1))}


def _holds(key: str, value: int) -> JsonObject:
    return {"key": _encoded(key), "target": "VALUE", "result": "EQUAL", "value": _encoded(str(value))}


def _absent(key: str) -> JsonObject:
    return {"key": _encoded(key), "target": "CREATE", "result": "EQUAL", "create_revision": "0"}


def _unchanged(key: str, revision: int) -> JsonObject:
    return {"key": _encoded(key), "target": "MOD", "result": "EQUAL", "mod_revision": str(revision)}


def _revision(answer: JsonObject) -> int:
    return int(answer["header"]["revision"])


def _ranged(answer: JsonObject) -> Answer:
    return Answer(revision=_revision(answer), found=_found(answer))


def _found(answer: JsonObject) -> Mapping[str, Found]:
    """What a range tells; a range of nothing has no ``kvs``."""
    return {
        b64decode(entry["key"]).decode(): Found(
            value=int(b64decode(entry["value"])), changed_at=int(entry["mod_revision"])
        )
        for entry in answer.get("kvs", ())
    }
