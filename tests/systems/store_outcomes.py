"""What comes of one operation on a store, and the two operations that tests of stores' clients ask for."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TypeVar

from nemesis.cluster.store import Answer, StoreClient
from nemesis.errors import NotDoneError, UnknownOutcomeError

Client = TypeVar("Client", bound=StoreClient)


async def outcome(client: Client, work: Callable[[Client], Awaitable[Answer]]) -> Answer | type[Exception]:
    """What comes of it; the client is closed then."""
    try:
        return await work(client)
    except (NotDoneError, UnknownOutcomeError) as error:
        return type(error)
    finally:
        await client.close()


async def put(client: StoreClient) -> Answer:
    """A change."""
    return await client.put("a", 1)


async def get(client: StoreClient) -> Answer:
    """A read."""
    return await client.get("a")
