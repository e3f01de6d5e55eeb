"""How a group's client batches commands and questions, and how much of it may be under way.

How it finds its way is a ``ViewConfig``.

Owns the named maximum of every queue and batch, and what must hold between them.
"""

from __future__ import annotations

from dataclasses import dataclass

from replica.bounds import ENTRIES_MAX

KEEP_ALIVES_PER_TTL = 3
"""How often an idle session is heard of while it could expire: two in a row may be lost."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupConfig:
    """``session_ttl_ms`` is how long the group remembers a client that it does not hear of."""

    session_ttl_ms: int = 30_000
    commands_in_flight_max: int = 1024
    """How many calls of ``apply`` may be open at once; the next one waits for room."""
    session_window: int = 8192
    """How far the newest command that was sent may be ahead of the oldest that is not settled. The group has such a
    bound as well, and refuses what goes beyond."""
    batch_entries_max: int = 256
    batch_bytes_max: int = 256 << 10
    """How many bytes of entries one request carries; a command that is larger travels alone."""
    requests_in_flight_max: int = 4
    close_timeout_ms: int = 1000
    """How long ``close`` tries to end the session. One that is not ended expires."""

    def __post_init__(self) -> None:
        for name in self.__slots__:
            if getattr(self, name) <= 0:
                raise ValueError(f"{name} is {getattr(self, name)}; it must be above 0")
        if self.batch_entries_max > ENTRIES_MAX:
            raise ValueError(f"batch_entries_max is {self.batch_entries_max}; a group takes {ENTRIES_MAX} at most")
        if self.commands_in_flight_max > self.session_window:
            raise ValueError(
                f"commands_in_flight_max ({self.commands_in_flight_max}) must be at most session_window "
                f"({self.session_window})"
            )

    @property
    def keep_alive_interval_ms(self) -> int:
        """After how long without a sign of the client one is sent."""
        return max(1, self.session_ttl_ms // KEEP_ALIVES_PER_TTL)
