"""The page of metrics: few at once may read it, and nobody may hold a place for nothing."""

from __future__ import annotations

import socket
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress

from prometheus_client import CollectorRegistry, Counter

from replica.server.metrics_page import READERS_MAX, serve_page

PATIENCE_S = 10.0


@contextmanager
def serving(*, reader_timeout_s: float = PATIENCE_S) -> Iterator[int]:
    """A page with one counter; yields its port."""
    registry = CollectorRegistry()
    Counter("things", "What is counted.", registry=registry).inc(3)
    port, stop = serve_page(registry, "127.0.0.1", 0, reader_timeout_s=reader_timeout_s)
    try:
        yield port
    finally:
        stop()


def idle(port: int) -> socket.socket:
    """A reader that has not asked for anything yet."""
    return socket.create_connection(("127.0.0.1", port), timeout=PATIENCE_S)


def page(port: int) -> bytes:
    """What is served now; nothing if the connection is closed."""
    with idle(port) as reader, suppress(OSError):
        reader.sendall(b"GET /metrics HTTP/1.0\r\n\r\n")
        return b"".join(iter(lambda: reader.recv(1 << 16), b""))
    return b""


def test_the_page_is_served() -> None:
    """To one after the other, as Prometheus reads it."""
    with serving() as port:
        for _ in range(2 * READERS_MAX):
            assert b"things_total 3.0" in page(port)


def test_one_reader_too_many_is_closed() -> None:
    """Those who connect and ask nothing hold so many places and no more; when they go, the page is served again."""
    with serving() as port:
        with ExitStack() as readers:
            for _ in range(READERS_MAX):
                readers.enter_context(idle(port))
            assert page(port) == b""
        deadline_s = time.monotonic() + PATIENCE_S
        while b"things_total 3.0" not in page(port):
            assert time.monotonic() < deadline_s


def test_who_keeps_silent_is_closed() -> None:
    """After a while its place is somebody else's."""
    with serving(reader_timeout_s=0.05) as port, idle(port) as reader:
        assert reader.recv(1) == b""
