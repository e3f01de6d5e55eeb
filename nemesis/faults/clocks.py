"""Faults of clocks as data: the one that a replica's timers go by, and the one that dates records.

Owns these faults. What leaps or stands still in the simulator as well is in ``values``. A replica has two clocks: its
timers count on one that never goes back, whatever is done to it; the wall clock may go anywhere.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from nemesis.faults.targets import Target

HEALER = "settle"


def check_at_least(least: int, **values: int) -> None:
    """Refuse a fault that could not be done, or would do nothing and be told as done. Raises ValueError."""
    for name, value in values.items():
        if value < least:
            raise ValueError(f"{name} is {value}: give {least} or more")


@dataclass(frozen=True, slots=True, kw_only=True)
class DriftClock:
    """The timers' clock counts ``percent`` milliseconds in a hundred; healed by counting as it should again.

    What it has gained or lost stays with it: such a clock has no true time, only a true rate.
    """

    kind: ClassVar[str] = "clock-drift"
    healer: ClassVar[str] = HEALER
    target: Target
    percent: int

    def __post_init__(self) -> None:
        check_at_least(0, percent=self.percent)


@dataclass(frozen=True, slots=True, kw_only=True)
class JumpWallClock:
    """The wall clock is ``by_ms`` milliseconds ahead, or behind if that is negative; healed by the true time."""

    kind: ClassVar[str] = "wall-clock-jump"
    healer: ClassVar[str] = HEALER
    target: Target
    by_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class StrobeWallClock:
    """The wall clock jumps by ``by_ms`` milliseconds, and back, every ``period_ms``; healed by the true time."""

    kind: ClassVar[str] = "clock-strobe"
    healer: ClassVar[str] = HEALER
    target: Target
    by_ms: int
    period_ms: int

    def __post_init__(self) -> None:
        check_at_least(1, period_ms=self.period_ms)


WallClockFault = JumpWallClock | StrobeWallClock
"""What is done to the wall clock."""
