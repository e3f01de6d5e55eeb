"""Connections of one address beyond its number are closed, and while it has its number it dials in vain."""

from __future__ import annotations

import select
import socket
from collections.abc import Iterator
from contextlib import ExitStack

import pytest
import structlog
from structlog.testing import capture_logs

from replica.server.connection_limit import BUDGET, KEPT_OUT_S, ConnectionLimit
from replica.server.dial_filter import KEPT_OUT_MAX, keep_out
from replica.server.request_metrics import RequestCounts


class Door:
    """A listener of this process, those who dial it, and what was accepted of them."""

    def __init__(self, held: ExitStack) -> None:
        self._held = held
        self._listener = held.enter_context(socket.create_server(("127.0.0.1", 0)))
        self.address = self._listener.getsockname()
        self.now_s = 0.0
        self.accepted: list[socket.socket] = []

    def dial(self, host: str = "127.0.0.1") -> socket.socket:
        """Connect from an address of this machine."""
        dialled = self._held.enter_context(socket.create_connection(self.address, source_address=(host, 0)))
        self.accepted.append(self._held.enter_context(self._listener.accept()[0]))
        return dialled

    def lets_in(self, host: str = "127.0.0.1") -> bool:
        """Whether the kernel takes up a connection from an address."""
        with socket.socket() as dialling:
            return is_taken_up(dialling, (host, 0), self.address)


def is_taken_up(dialling: socket.socket, source: tuple[str, int], target: tuple[str, int]) -> bool:
    """Whether the other side answers; on loopback it does so at once."""
    dialling.bind(source)
    dialling.setblocking(False)
    dialling.connect_ex(target)
    return bool(select.select([], [dialling], [], 0.1)[1])


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
    limit = ConnectionLimit(
        per_address_max=per_address_max,
        port=door.address[1],
        logger=logger,
        counts=counts,
        seconds=lambda: door.now_s,
    )
    return limit, counts


def test_the_newest_of_an_address_are_closed(door: Door) -> None:
    """Three may stay, whichever come later are closed and told of, and each address has its own number."""
    limit, counts = limit_of(door, 3)
    first = [door.dial(), door.dial()]
    limit.look()
    late, other = [door.dial() for _ in range(4)], door.dial("127.0.0.2")
    with capture_logs() as lines:
        limit.look()
        limit.look()
    assert [is_closed(each) for each in (*first, other)] == [False, False, False]
    assert sum(map(is_closed, late)) == 3
    assert counts.over_budget == {BUDGET: 3}
    assert [(line["event"], line["peer"]) for line in lines] == [("connection_refused", "127.0.0.1")] * 3


def test_who_goes_leaves_a_place(door: Door) -> None:
    """While an address has its number the kernel takes up nothing from it, and something again once one has ended."""
    limit, counts = limit_of(door, 1)
    dialled = door.dial()
    limit.look()
    assert (door.lets_in(), door.lets_in("127.0.0.2"), is_closed(dialled)) == (False, True, False)
    door.accepted[0].close()
    limit.look()
    assert not is_closed(door.dial())
    assert counts.over_budget == {}


def test_who_had_too_many_is_kept_out_for_a_while(door: Door) -> None:
    """Once one was closed its address dials in vain even with a place left, and no longer than that."""
    limit, _ = limit_of(door, 1)
    door.dial()
    door.dial()
    limit.look()
    for accepted in door.accepted:
        accepted.close()
    limit.look()
    assert (door.lets_in(), door.lets_in("127.0.0.2")) == (False, True)
    door.now_s = KEPT_OUT_S
    limit.look()
    assert door.lets_in()


@pytest.mark.parametrize("count", [0, 1, KEPT_OUT_MAX - 1])
@pytest.mark.parametrize("host", ["127.0.0.1", "::1"])
def test_a_filter_keeps_out_whom_it_names(host: str, count: int) -> None:
    """Whether an address is the only one or stands behind others of both kinds; and nobody whom it does not name."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    others = [f"10.0.0.{number}" if number % 2 else f"::1:{number}" for number in range(count)]
    try:
        listener = socket.create_server((host, 0), family=family)
    except OSError:
        pytest.skip(f"this machine has no {host}")
    with listener, socket.socket(family) as named, socket.socket(family) as unnamed:
        target = listener.getsockname()[:2]
        keep_out(listener, [*others, host])
        assert not is_taken_up(named, (host, 0), target)
        keep_out(listener, others)
        assert is_taken_up(unnamed, (host, 0), target)


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
