"""Log lines on requests that were refused, at a bounded rate: who attacks must not fill the disk with them.

Owns the rate. What was not said is counted in the next line that is.
"""

from __future__ import annotations

import time
from collections.abc import Callable

from structlog.typing import FilteringBoundLogger

LINES_PER_SECOND_MAX = 100


class RefusalLines:
    """Writes lines of one ``event``, so many a second at most by ``seconds``, a clock that never goes back."""

    def __init__(
        self,
        logger: FilteringBoundLogger,
        seconds: Callable[[], float] = time.monotonic,
        *,
        event: str = "request_refused",
    ) -> None:
        self._logger = logger
        self._event = event
        self._seconds = seconds
        self._second = 0
        self._said = 0
        self._unsaid = 0

    def warn(self, **what: str) -> None:
        """Say that a request was refused, or only count it."""
        second = int(self._seconds())
        if second != self._second:
            self._second, self._said = second, 0
        if self._said >= LINES_PER_SECOND_MAX:
            self._unsaid += 1
            return
        self._said += 1
        unsaid, self._unsaid = self._unsaid, 0
        self._logger.warning(self._event, **what, **({"unsaid_before": unsaid} if unsaid else {}))
