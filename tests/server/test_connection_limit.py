"""Connections of one address beyond its number are closed; those that were there, and others' addresses, are not."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from contextlib import ExitStack

import pytest
import structlog
from structlog.testing import capture_logs

from replica.server.connection_limit import BUDGET, ConnectionLimit
from replica.server.request_metrics import RequestCounts


class Door:
    """A listener of this process, those who dial it, and what was accepted of them."""

    def __init__(self, held: ExitStack) -> None:
        self._held = held
        self._listener = held.enter_context(socket.create_server(("127.0.0.1", 0)))
        self.address = self._listener.getsockname()
        self.accepted: list[socket.socket] = []

    def dial(self, host: str = "127.0.0.1") -> socket.socket:
        """Connect from an address of this machine."""
        dialled = self._held.enter_context(socket.create_connection(self.address, source_address=(host, 0)))
        self.accepted.append(self._held.enter_context(self._listener.accept()[0]))
        return dialled


@pytest.fixture
def door() -> Iterator[Door]:
    with ExitStack() as held:
        yield Door(held)


def is_closed(dialled: socket.socket) -> bool:
    """Whether the other side has ended a connection on which it says nothing."""
    dialled.setblocking(False)
    try:
        return dialled.recv(1) == b""
    except BlockingIOError:
        return False


def limit_of(door: Door, per_address_max: int) -> tuple[ConnectionLimit, RequestCounts]:
    counts = RequestCounts()
    logger = structlog.get_logger()
    return ConnectionLimit(per_address_max=per_address_max, port=door.address[1], logger=logger, counts=counts), counts


def test_the_newest_of_an_address_are_closed(door: Door) -> None:
    """Two may stay, whichever come later are closed and told of, and each address has its own number."""
    limit, counts = limit_of(door, 2)
    first = [door.dial(), door.dial()]
    limit.look()
    late, other = [door.dial() for _ in range(3)], door.dial("127.0.0.2")
    with capture_logs() as lines:
        limit.look()
        limit.look()
    assert [is_closed(each) for each in (*first, *late, other)] == [False, False, True, True, True, False]
    assert counts.over_budget == {BUDGET: 3}
    assert [(line["event"], line["peer"]) for line in lines] == [("connection_refused", "127.0.0.1")] * 3


def test_who_goes_leaves_a_place(door: Door) -> None:
    """A connection that has ended counts no more, and one that was closed for being too much does not either."""
    limit, _ = limit_of(door, 1)
    first, late = door.dial(), door.dial()
    limit.look()
    assert (is_closed(first), is_closed(late)) in {(False, True), (True, False)}
    for accepted in door.accepted:
        accepted.close()
    next_one = door.dial()
    limit.look()
    assert not is_closed(next_one)


def test_other_sockets_are_left_alone(door: Door) -> None:
    """What this process dials itself, and other listeners' connections, are nobody's that counts."""
    limit, counts = limit_of(door, 1)
    with ExitStack() as held:
        elsewhere = Door(held)
        others = [elsewhere.dial() for _ in range(3)]
        door.dial()
        limit.look()
        assert not any(map(is_closed, others))
    assert counts.over_budget == {}
