"""How faults look in the drawing of a run: colour, pattern, and the words of the legend.

Owns the few looks that a reader can tell apart; each fault has one of them.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Look:
    """``pattern`` is one of ``draw.js``, or none, ``swatch`` the shape that comes nearest to it in the legend."""

    words: str
    colour: str
    pattern: str
    swatch: str


KILLED = Look(words="killed", colour="#d0552b", pattern="", swatch="bar")
PAUSED = Look(words="paused", colour="#b08a00", pattern="/", swatch="hatched")
PARTITIONED = Look(words="partitioned", colour="#8a63c7", pattern="x", swatch="crossed")
IMPAIRED = Look(words="network impaired", colour="#4f6bc0", pattern="\\", swatch="hatched")
CHANGED = Look(words="voters or replicas changed", colour="#3b7f8c", pattern="-", swatch="bar")
CLOCK = Look(words="clock set wrong", colour="#a0527a", pattern="|", swatch="hatched")
LOADED = Look(words="burst of load", colour="#6b8e23", pattern="+", swatch="crossed")
OTHER = Look(words="restarted, disk or memory at fault", colour="#808890", pattern=".", swatch="bar")
LOOKS = (KILLED, PAUSED, PARTITIONED, IMPAIRED, CHANGED, CLOCK, LOADED, OTHER)
"""In the order of the legend."""
