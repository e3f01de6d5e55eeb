"""The audit: one line for each call that is refused for who makes it, and for each call that administers.

Owns the line's form. Refusals are written at a bounded rate (``refusal_lines``), administration always. What a line
says of a caller is the principal and the address, never a token.
"""

from __future__ import annotations

import time
from collections.abc import Callable

from structlog.typing import FilteringBoundLogger

from replica.server.refusal_lines import RefusalLines


class Audit:
    """Writes ``audit`` lines; refusals at a rate by ``seconds``, a clock that never goes back."""

    def __init__(self, logger: FilteringBoundLogger, seconds: Callable[[], float] = time.monotonic) -> None:
        self._logger = logger
        self._refusals = RefusalLines(logger, seconds, event="audit")

    def allowed(self, *, principal: str, address: str, rpc: str, resource: str) -> None:
        """Somebody administers."""
        self._logger.info("audit", outcome="allowed", principal=principal, address=address, rpc=rpc, resource=resource)

    def denied(self, *, principal: str, address: str, rpc: str, resource: str, reason: str = "") -> None:
        """Somebody may not do what was asked, or is not believed to be who the call says."""
        self._refusals.warn(
            outcome="denied", principal=principal, address=address, rpc=rpc, resource=resource, reason=reason
        )
