"""The page of metrics over HTTP: from threads of its own, to few at once and to nobody for long.

Owns the server. Whoever connects and asks nothing holds a thread and a descriptor, which must not be all there are.
"""

from __future__ import annotations

import socket
from collections.abc import Callable
from socketserver import ThreadingMixIn
from threading import BoundedSemaphore, Thread
from typing import Any
from wsgiref.simple_server import WSGIRequestHandler, WSGIServer

from prometheus_client import CollectorRegistry, make_wsgi_app

READERS_MAX = 8
"""Connections at once; one more is closed."""
READER_TIMEOUT_S = 5.0
"""How long a reader may keep silent."""


class _Handler(WSGIRequestHandler):
    def log_message(self, *_: Any) -> None:
        """Say nothing of each scrape."""


class _Server(ThreadingMixIn, WSGIServer):
    daemon_threads = True

    def __init__(self, host: str, port: int, reader_timeout_s: float) -> None:
        self.address_family = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0][0]
        self._places = BoundedSemaphore(READERS_MAX)
        super().__init__((host, port), type("_Handler", (_Handler,), {"timeout": reader_timeout_s}))

    def verify_request(self, *_: Any) -> bool:
        """Take one reader more, or close the connection."""
        return self._places.acquire(blocking=False)

    def process_request_thread(self, request: Any, client_address: Any) -> None:
        """Answer one reader, in a thread of its own."""
        try:
            super().process_request_thread(request, client_address)
        finally:
            self._places.release()

    def handle_error(self, *_: Any) -> None:
        """Say nothing of a reader that has gone."""


def serve_page(
    registry: CollectorRegistry, host: str, port: int, *, reader_timeout_s: float = READER_TIMEOUT_S
) -> tuple[int, Callable[[], None]]:
    """Serve ``http://host:port/metrics``; returns the port, which is a free one for 0, and what stops it.

    Raises OSError.
    """
    server = _Server(host, port, reader_timeout_s)
    server.set_app(make_wsgi_app(registry))
    thread = Thread(target=server.serve_forever, daemon=True)
    thread.start()

    def stop() -> None:
        server.shutdown()
        server.server_close()
        thread.join()

    return server.server_port, stop
