"""What counts as evidence that a peer's process has ended, and what never does."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Iterator
from contextlib import contextmanager

from replica.core.events import PeerRefused
from replica.ids import ReplicaId
from replica.rpc.transport import LostConnection, NotAppliedError
from replica.server.peer_watch import CONFIRM_S, PAUSE_FIRST_S, PAUSE_MAX_S, Dialled, DiallingWatch, dial
from tests.server.local_cluster import held_address

PEER = ReplicaId(2)
ACCEPTED, REFUSED, SILENT = Dialled.ACCEPTED, Dialled.REFUSED, Dialled.SILENT


class Street:
    """Where the peer is: its connection ends when told to, dials come out as told, and all pauses are noted."""

    def __init__(self, *dials: Dialled) -> None:
        self.dials = list(dials)
        self.pauses: list[float] = []
        self.evidence: list[PeerRefused] = []
        self.lost: asyncio.Queue[LostConnection | NotAppliedError] = asyncio.Queue()
        self.now_ms = 1000
        self.watch = DiallingWatch(
            connections=self,
            submit=self.evidence.append,
            now_ms=lambda: self.now_ms,
            dial=self.dial,
            sleep=self.sleep,
        )

    async def wait_lost(self, replica_id: ReplicaId) -> LostConnection:
        """Wait until the test lets the connection end."""
        assert replica_id == PEER
        lost = await self.lost.get()
        if isinstance(lost, NotAppliedError):
            raise lost
        return lost

    async def dial(self, address: str) -> Dialled:
        """Come out as the test says; each dial takes a while."""
        assert address == "peer:1"
        self.now_ms += 5
        return self.dials.pop(0)

    async def sleep(self, seconds: float) -> None:
        """Note the pause."""
        self.pauses.append(seconds)
        self.now_ms += int(seconds * 1000)
        await asyncio.sleep(0)

    async def lose(self, times: int = 1, *, was_ready: bool = True) -> None:
        """Let the connection end, and its watch look at that, so often."""
        for _ in range(times):
            paused = sum(pause != CONFIRM_S for pause in self.pauses)
            self.lost.put_nowait(LostConnection(address="peer:1", was_ready=was_ready))
            while sum(pause != CONFIRM_S for pause in self.pauses) == paused:
                await asyncio.sleep(0)


async def test_two_refused_dials_after_a_lost_connection_are_evidence() -> None:
    """It is told once, with the time at which the second dial began."""
    street = Street(REFUSED, REFUSED)
    street.watch.watch(frozenset({PEER}))
    await street.lose()
    assert street.evidence == [PeerRefused(replica_id=PEER, refused_at_ms=1000 + 5 + int(CONFIRM_S * 1000))]
    await street.watch.stop()


async def test_anything_else_is_no_evidence() -> None:
    """Not a peer that takes one of the dials, nor one that is silent, nor one whose address nobody knows."""
    street = Street(ACCEPTED, REFUSED, ACCEPTED, SILENT, REFUSED, SILENT)
    street.watch.watch(frozenset({PEER}))
    await street.lose(4)
    street.lost.put_nowait(NotAppliedError("no address is known"))
    while not street.lost.empty():
        await asyncio.sleep(0)
    assert (street.evidence, street.dials) == ([], [])
    await street.watch.stop()


async def test_who_stays_refused_is_told_again_ever_more_seldom() -> None:
    """Evidence may come before it can count, so that it comes again; a peer that was back is a new case."""
    street = Street(*[REFUSED] * 14)
    street.watch.watch(frozenset({PEER}))
    await street.lose()
    await street.lose(5, was_ready=False)
    assert len(street.evidence) == 6
    pauses = [pause for pause in street.pauses if pause != CONFIRM_S]
    assert pauses == [min(PAUSE_FIRST_S * 2**times, PAUSE_MAX_S) for times in range(6)]
    await street.lose()
    assert street.pauses[-1] == PAUSE_FIRST_S
    await street.watch.stop()


async def test_who_is_watched_no_more_is_left_alone() -> None:
    """A watch that is over neither dials nor tells; one that goes on is not begun anew."""
    street = Street(REFUSED, REFUSED)
    street.watch.watch(frozenset({PEER}))
    await asyncio.sleep(0)
    street.watch.watch(frozenset({PEER}))
    street.watch.watch(frozenset())
    street.lost.put_nowait(LostConnection(address="peer:1", was_ready=True))
    for _ in range(5):
        await asyncio.sleep(0)
    assert (street.evidence, street.dials) == ([], [REFUSED, REFUSED])
    await street.watch.stop()


# --- dialling -------------------------------------------------------------------------------------------------------


@contextmanager
def listening(backlog: int = 5) -> Iterator[str]:
    """A port at which somebody listens, and never answers."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen(backlog)
        yield f"127.0.0.1:{listener.getsockname()[1]}"


async def test_a_port_at_which_nobody_listens_refuses() -> None:
    """That is what the end of a process leaves behind."""
    with held_address() as address:
        assert await dial(address) is REFUSED


async def test_a_process_that_stands_still_accepts() -> None:
    """Its system takes the connection: a paused peer gives no evidence."""
    with listening() as address:
        assert await dial(address) is ACCEPTED


async def test_what_cannot_be_reached_is_silent() -> None:
    """A name that nobody knows, and a queue of connections that is full."""
    assert await dial("no-such-host.invalid:9092") is SILENT
    with listening(backlog=0) as address, socket.socket() as first, socket.socket() as second:
        host, _, port = address.rpartition(":")
        for other in (first, second):
            other.setblocking(False)
            other.connect_ex((host, int(port)))
        assert await dial(address) in (SILENT, ACCEPTED)
