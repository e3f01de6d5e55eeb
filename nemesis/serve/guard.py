"""What stands before every page: who may ask, how, and what a browser may do with the answer.

Owns three rules. The ``Host`` of a request must be an IP address, ``localhost`` or a name that was allowed: a page of
somebody else's, whose name was made to point here (DNS rebinding), asks under its own name and gets nothing. Nothing
can be changed: GET and HEAD only. And every answer forbids the browser whatever the pages do not need, and to show them
within others.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Iterable, Mapping
from urllib.parse import urlsplit

from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import PlainTextResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

POLICY = (
    "default-src 'none'; style-src 'self'; script-src 'self'; connect-src 'self'; img-src 'self' data:; "
    "form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
)
REPORT_POLICY = (
    "sandbox allow-scripts allow-downloads; default-src 'none'; script-src 'unsafe-inline'; "
    "style-src 'unsafe-inline'; img-src data: blob:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
"""Of a page that lies in the store and has scripts of its own: it runs as a stranger, who can ask here nothing."""
STORY_POLICY = (
    "default-src 'none'; style-src 'unsafe-inline'; img-src data:; base-uri 'none'; form-action 'none'; "
    "frame-ancestors 'none'"
)
HEADERS: Mapping[str, str] = {
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cache-Control": "no-cache",
}
METHODS = ("GET", "HEAD")
OWN_SITES = ("", "same-origin", "none")
"""What a browser says of who asks when it is a page of this server, or the user himself; others say nothing."""


class Guard:
    """An ASGI application before another one."""

    def __init__(self, app: ASGIApp, names: Iterable[str] = ()) -> None:
        self._app = app
        self._names = {name.lower() for name in names}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Refuse the request, or pass it on and add the headers to the answer."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        refusal = self._refusal(scope)

        async def send_with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                for name, value in {**HEADERS, "Content-Security-Policy": POLICY}.items():
                    headers.setdefault(name, value)
            await send(message)

        await (self._app if refusal is None else refusal)(scope, receive, send_with_headers)

    def _refusal(self, scope: Scope) -> PlainTextResponse | None:
        headers = Headers(scope=scope)
        if not self.allows(headers.get("host", "")):
            return PlainTextResponse("This host name is not allowed: see nemesis serve --allow-host.\n", 421)
        if scope["method"] not in METHODS:
            return PlainTextResponse("Nothing can be changed here.\n", 405, {"Allow": ", ".join(METHODS)})
        if headers.get("sec-fetch-site", "") not in OWN_SITES and headers.get("sec-fetch-mode", "") != "navigate":
            return PlainTextResponse("Pages of other sites get nothing.\n", 403)
        return None

    def allows(self, host: str) -> bool:
        """Whether a request that names this host is answered."""
        try:
            name = urlsplit(f"//{host}").hostname or ""
        except ValueError:
            return False
        if name in ("localhost", *self._names):
            return True
        try:
            ipaddress.ip_address(name)
        except ValueError:
            return False
        return True


def is_from_elsewhere(headers: Mapping[str, str]) -> bool:
    """Whether a link or a form of another site has led here: it must not make the server work."""
    return headers.get("sec-fetch-site", "") not in OWN_SITES
