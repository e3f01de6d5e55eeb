"""Who is let in next: of the calls of clients that come at once, a few of each address at each turn of the event loop.

Owns the line of each address, and how many calls of one connection may be on their way in. The event loop takes what
there is in the order of its coming: beside thousands of calls of one address, those of others would wait at each step
of their way for all of them. So an address that has many waits by itself, and as a call is accepted as long as a turn
takes, nobody is let in while new ones come. Where one address calls alone it never waits.

A connection has at most ``COMING_MAX`` requests on new streams on their way in: gRPC lets a stream send no more than
its window as long as nobody reads, and a whole request as soon as somebody does. Source: deficit round robin (Shreedhar
and Varghese, 1995), with calls in the place of bytes.
"""

from __future__ import annotations

import asyncio
import time
from collections import Counter, deque
from collections.abc import Callable
from weakref import WeakValueDictionary

LET_IN_PER_TURN = 4
"""How many calls of one address are let in at each turn of the event loop, where others call, too."""
COMING_MAX = 8
"""How many requests on new streams one connection sends at once: a bulk producer needs no more."""
BESIDE_S = 10.0
"""For how long an address that has called counts as one of several."""
NEWCOMERS_FIRST_MAX = 64
"""After so many turns at which a call was accepted, those that wait are let in all the same."""


class Turns:
    """The lines of all addresses; ``seconds`` is a clock that never goes back."""

    def __init__(self, *, seconds: Callable[[], float] = time.monotonic) -> None:
        self._seconds = seconds
        self._lines: dict[str, deque[asyncio.Future[None]]] = {}
        self._let_in = Counter[str]()
        """At this turn, by address."""
        self._doors = WeakValueDictionary[str, asyncio.Semaphore]()
        """Of each connection, as long as it has streams."""
        self._latest, self._alone_from_s = "", 0.0
        """Which address has called last, and from when on it is the only one if no other does."""
        self._is_armed = False
        self._newcomers, self._turns_passed = 0, 0

    async def arrival(self, peer: str) -> Arrival:
        """A new stream of a connection, which gRPC names ``peer``: wait until its first request may come."""
        self._newcomers += 1
        door = self._doors.get(peer)
        if door is None:
            self._doors[peer] = door = asyncio.Semaphore(COMING_MAX)
        await door.acquire()
        return Arrival(self, peer.rpartition(":")[0], door)

    def take(self, address: str) -> asyncio.Future[None] | None:
        """Whether a call must wait for its turn, and for what."""
        if address != self._latest:
            self._alone_from_s = self._seconds() + BESIDE_S if self._latest else 0.0
            self._latest = address
        if address not in self._lines and self._seconds() >= self._alone_from_s:
            return None
        if not self._is_armed:
            self._arm()
        if address not in self._lines and self._let_in[address] < LET_IN_PER_TURN:
            self._let_in[address] += 1
            return None
        turn = asyncio.get_running_loop().create_future()
        self._lines.setdefault(address, deque()).append(turn)
        return turn

    def _arm(self) -> None:
        self._is_armed = True
        asyncio.get_running_loop().call_soon(self._on_turn)

    def _on_turn(self) -> None:
        """Let the first ones of each line in, unless somebody new has come meanwhile."""
        self._is_armed = False
        self._let_in.clear()
        newcomers, self._newcomers = self._newcomers, 0
        if newcomers and self._turns_passed < NEWCOMERS_FIRST_MAX:
            self._turns_passed += 1
        else:
            self._turns_passed = 0
            for address in tuple(self._lines):
                self._let_first_in(address)
        if self._lines:
            self._arm()

    def _let_first_in(self, address: str) -> None:
        line = self._lines[address]
        while line and self._let_in[address] < LET_IN_PER_TURN:
            turn = line.popleft()
            if not turn.done():  # Its call may have been given up.
                turn.set_result(None)
                self._let_in[address] += 1
        if not line:
            del self._lines[address]


class Arrival:
    """A stream of which the first request is on its way in, until it is let in or the stream has ended."""

    def __init__(self, turns: Turns, address: str, door: asyncio.Semaphore) -> None:
        self._turns = turns
        self._address = address
        self._door = door
        self._is_coming = True

    def __enter__(self) -> Arrival:
        return self

    def __exit__(self, *_: object) -> None:
        self.end()

    def take_turn(self) -> asyncio.Future[None] | None:
        """Whether a request of the stream must wait until it is let in, and for what."""
        return self._turns.take(self._address)

    def end(self) -> None:
        """It is in, or gone: the next one may come."""
        if self._is_coming:
            self._is_coming = False
            self._door.release()
