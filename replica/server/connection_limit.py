"""How many connections one address has: beyond its number the newest are closed, and others are not accepted.

Owns the count, which gRPC does not tell: the process looks at its own descriptors, again and again, for sockets that
were accepted at a listener. One too many is shut down, and gRPC closes it as if the other side had gone. So for a
moment there may be more, up to what a listener takes in all. While an address has its number, and for a while after it
had one too many, the kernel drops what it dials with: who dials again whenever it is closed would bring as many calls
each time as a connection may. Needs Linux' ``/proc``; where the kernel takes no filter, connections are only closed.
Source: Kafka's ``max.connections.per.ip``.
"""

from __future__ import annotations

import asyncio
import os
import socket
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress

from structlog.typing import FilteringBoundLogger

from replica.core.config import InvalidConfigError
from replica.server.dial_filter import KEPT_OUT_MAX, keep_out
from replica.server.refusal_lines import RefusalLines
from replica.server.request_metrics import RequestCounts

BUDGET = "connections_per_address_max"
LOOK_S = 0.2
"""How often descriptors are looked at; a thousand take 3 ms."""

KEPT_OUT_S = 10.0
"""For how long nobody gets in from an address of which a connection was closed."""

DESCRIPTORS = "/proc/self/fd"
_MAPPED = "::ffff:"
"""How an IPv4 address begins at a listener of IPv6."""


class ConnectionLimit:
    """Lets each address have ``per_address_max`` connections to the listener at ``port``.

    ``seconds`` is a clock that never goes back.
    """

    def __init__(
        self,
        *,
        per_address_max: int,
        port: int,
        logger: FilteringBoundLogger,
        counts: RequestCounts,
        seconds: Callable[[], float] = time.monotonic,
    ) -> None:
        if not os.path.isdir(DESCRIPTORS):
            raise InvalidConfigError(f"--connections-per-address-max needs {DESCRIPTORS}, which Linux alone has")
        self._per_address_max = per_address_max
        self._port = port
        self._lines = RefusalLines(logger, event="connection_refused")
        self._counts = counts
        self._seconds = seconds
        self._listeners: set[str] = set()
        self._kept_out: list[str] = []
        self._until_s: dict[str, float] = {}
        """Until when those are kept out that had one too many."""
        self._addresses: dict[str, str] = {}
        """Of each socket that there was, by its number in the kernel, whose connection it is; empty if nobody's that
        counts."""

    async def run(self) -> None:
        """Look until cancelled."""
        while True:
            self.look()
            await asyncio.sleep(LOOK_S)

    def look(self) -> None:
        """Close what is too much: of each address, those that were not there at the last look."""
        sockets = dict(_sockets())
        found = {inode: self._addresses.get(inode) for inode in sockets}
        self._addresses = {inode: address for inode, address in found.items() if address is not None}
        counts = defaultdict[str, int](int)
        for address in self._addresses.values():
            counts[address] += 1
        for inode, known in found.items():
            if known is None:
                self._addresses[inode] = self._admitted(inode, int(sockets[inode]), counts)
        self._keep_out({address for address, count in counts.items() if count >= self._per_address_max}, sockets)

    def _keep_out(self, full: set[str], sockets: Mapping[str, str]) -> None:
        """Tell the kernel whose dials it is to drop, if it is others than before."""
        now_s = self._seconds()
        self._until_s = {address: until_s for address, until_s in self._until_s.items() if until_s > now_s}
        kept_out = sorted((full | self._until_s.keys()) - {""})[:KEPT_OUT_MAX]
        if kept_out != self._kept_out:
            self._kept_out = kept_out
            for listener in self._listeners.intersection(sockets):
                with suppress(OSError), socket.socket(fileno=os.dup(int(sockets[listener]))) as copy:
                    keep_out(copy, kept_out)

    def _admitted(self, inode: str, descriptor: int, counts: defaultdict[str, int]) -> str:
        """Whose connection it is that has come; one too many is shut down."""
        # What the number stands for may change at any time, but not for a copy of it.
        with suppress(OSError), socket.socket(fileno=os.dup(descriptor)) as copy:
            if copy.family not in (socket.AF_INET, socket.AF_INET6) or copy.getsockname()[1] != self._port:
                return ""
            if copy.getsockopt(socket.SOL_SOCKET, socket.SO_ACCEPTCONN):
                self._listeners.add(inode)
                return ""
            address: str = copy.getpeername()[0].removeprefix(_MAPPED)
            counts[address] += 1
            if counts[address] > self._per_address_max:
                copy.shutdown(socket.SHUT_RDWR)
                self._until_s[address] = self._seconds() + KEPT_OUT_S
                self._counts.over_budget[BUDGET] += 1
                self._lines.warn(peer=address, error=BUDGET)
                return ""
            return address
        return ""


def _sockets() -> Iterator[tuple[str, str]]:
    """This process' sockets: the kernel's number of each, and the descriptor."""
    for descriptor in os.listdir(DESCRIPTORS):
        with suppress(OSError):  # It was closed meanwhile.
            target = os.readlink(f"{DESCRIPTORS}/{descriptor}")
            if target.startswith("socket:"):
                yield target, descriptor
