"""The clocks that a replica goes by: one for everything that is due, one for the times that records bear.

Owns their protocol and the machine's own. The core is told the time and asks no clock; whoever starts a replica with
other clocks, as a test harness does, has its timers in hand.
"""

from __future__ import annotations

import time
from typing import Protocol


def monotonic_ms() -> int:
    """Return the time that the core lives in: milliseconds of a clock that never jumps."""
    return time.monotonic_ns() // 1_000_000


def unix_ms() -> int:
    """Return the time that records bear: milliseconds since 1970 by the machine's clock."""
    return time.time_ns() // 1_000_000


class Clocks(Protocol):
    """What a driver asks for the time."""

    def monotonic_ms(self) -> int:
        """Return the time that the core lives in, in milliseconds; it never goes back."""

    def unix_ms(self) -> int:
        """Return the time that records bear, in milliseconds since 1970; it may go back."""

    def seconds_until(self, deadline_ms: int) -> float:
        """How long to wait until it may be that late; less does no harm, since the core is asked again then."""


class MachineClocks:
    """The clocks of the machine."""

    def monotonic_ms(self) -> int:
        """Return what the machine has counted."""
        return monotonic_ms()

    def unix_ms(self) -> int:
        """Return what the machine takes for the time of day."""
        return unix_ms()

    def seconds_until(self, deadline_ms: int) -> float:
        """Exactly so long: a second of this clock is a second."""
        return max(0, deadline_ms - monotonic_ms()) / 1000


MACHINE_CLOCKS = MachineClocks()
