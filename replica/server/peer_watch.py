"""Who sees that the process of a peer has ended: its connection ends, and nobody listens where it did.

Owns the watch over each peer whose end the core wants to hear of at once, and what counts as evidence. Where a process
has ended, its machine's system refuses every connection to the port at once (ECONNREFUSED), also a plain dial. A peer
that does not answer a dial gives no evidence, whatever else may be wrong with it: it may be cut off, or paused,
or its machine may be gone. One dial can meet a process that just starts again, so that a second one confirms it.

Knows nothing of what follows from evidence. That it is right it cannot know: a firewall may refuse in a peer's name.
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Awaitable, Callable
from enum import StrEnum
from typing import Protocol

from replica.core.events import PeerRefused
from replica.ids import ReplicaId
from replica.rpc.transport import LostConnection, TransportError

CONFIRM_S = 0.02
"""How long after a refused dial the next one confirms it."""
DIAL_TIMEOUT_S = 0.5
"""How long a dial may take to be refused; who takes longer is silent."""
PAUSE_FIRST_S = 0.03
PAUSE_MAX_S = 0.25
"""How long it is until a peer without a connection is dialled again: this doubles, from the first to the longest. While
a process is ending its connections may be gone before its port, which then still takes a dial."""


class Dialled(StrEnum):
    """What has come of a plain dial."""

    ACCEPTED = "accepted"
    REFUSED = "refused"
    SILENT = "silent"


class Connections(Protocol):
    """The connections to peers."""

    async def wait_lost(self, replica_id: ReplicaId) -> LostConnection:
        """Keep a connection to a replica, and return when it ends, or none can be had. Raises TransportError."""


async def dial(address: str) -> Dialled:
    """Connect to ``HOST:PORT`` and hang up. It is refused if it is at every address that the name stands for."""
    host, _, port = address.rpartition(":")
    loop = asyncio.get_running_loop()
    try:
        async with asyncio.timeout(DIAL_TIMEOUT_S):
            names = await loop.getaddrinfo(host.strip("[]"), int(port), type=socket.SOCK_STREAM)
            found = {await _dial_one(loop, family, kind, proto, where) for family, kind, proto, _, where in names}
    except (TimeoutError, OSError):
        return Dialled.SILENT
    return found.pop() if len(found) == 1 else Dialled.SILENT


async def _dial_one(
    loop: asyncio.AbstractEventLoop, family: int, kind: int, proto: int, where: tuple[object, ...]
) -> Dialled:
    with socket.socket(family, kind, proto) as dialling:
        dialling.setblocking(False)
        try:
            await loop.sock_connect(dialling, where)
        except ConnectionRefusedError:
            return Dialled.REFUSED
        except OSError:
            return Dialled.SILENT
    return Dialled.ACCEPTED


class DiallingWatch:
    """Watches peers by their connections, and by dials. ``now_ms`` is the clock by which the core is stepped."""

    def __init__(
        self,
        *,
        connections: Connections,
        submit: Callable[[PeerRefused], None],
        now_ms: Callable[[], int],
        dial: Callable[[str], Awaitable[Dialled]] = dial,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self._connections = connections
        self._submit = submit
        self._now_ms = now_ms
        self._dial = dial
        self._sleep = sleep
        self._watches: dict[ReplicaId, asyncio.Task[None]] = {}

    def watch(self, replica_ids: frozenset[ReplicaId]) -> None:
        """Watch these from now on, and nobody else."""
        for replica_id in self._watches.keys() - replica_ids:
            self._watches.pop(replica_id).cancel()
        for replica_id in sorted(replica_ids - self._watches.keys()):
            self._watches[replica_id] = asyncio.get_running_loop().create_task(self._keep_watch(replica_id))

    async def stop(self) -> None:
        """Watch nobody, and wait until that is so."""
        watches, self._watches = tuple(self._watches.values()), {}
        for each in watches:
            each.cancel()
        await asyncio.gather(*watches, return_exceptions=True)

    async def _keep_watch(self, replica_id: ReplicaId) -> None:
        """Tell of a peer's end, and again while that lasts, ever more seldom until there is a connection again."""
        pause_s = PAUSE_FIRST_S
        while True:
            try:
                lost = await self._connections.wait_lost(replica_id)
            except TransportError:
                pass  # Nobody knows where it is, for now.
            else:
                pause_s = PAUSE_FIRST_S if lost.was_ready else pause_s
                refused_at_ms = await self._refused_at_ms(lost.address)
                if refused_at_ms is not None:
                    self._submit(PeerRefused(replica_id=replica_id, refused_at_ms=refused_at_ms))
            await self._sleep(pause_s)
            pause_s = min(2 * pause_s, PAUSE_MAX_S)

    async def _refused_at_ms(self, address: str) -> int | None:
        """Dial twice; return when the second dial began, if both were refused."""
        if await self._dial(address) is not Dialled.REFUSED:
            return None
        await self._sleep(CONFIRM_S)
        dialled_ms = self._now_ms()
        return dialled_ms if await self._dial(address) is Dialled.REFUSED else None
