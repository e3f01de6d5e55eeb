"""What no network of processes can suffer: messages that are held up one by one.

Owns these faults; they are done in the simulator only.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from random import Random

from nemesis.faults.fault import Fault
from nemesis.faults.links import Link
from nemesis.faults.look import IMPAIRED
from nemesis.faults.needs import Need
from nemesis.faults.shapes import Shape, cut_links
from nemesis.faults.targets import Role, Target


@dataclass(frozen=True, slots=True, kw_only=True)
class Clog(Fault):
    """Messages on the links of ``shape`` are held up, and all arrive when it is healed."""

    kind = "clog"
    does = "messages are held up; in the simulator only"
    undone = "all of them arrive"
    healer = "unclog"
    need = Need.SIMULATOR
    look = IMPAIRED
    told_by = "shape"
    shape: Shape
    target: Target = Role.NOBODY

    def links(self, nodes: Sequence[int], about: Sequence[int], random: Random) -> frozenset[Link]:
        """Those of the shape."""
        return cut_links(self.shape, nodes, about, random)


@dataclass(frozen=True, slots=True, kw_only=True)
class DelayMetadata(Fault):
    """Each answer to a Fetch of the metadata log reaches ``target`` ``delay_ms`` later; all else comes in time.

    So a broker lives in a leader epoch that is over, while its heartbeats and its fetches of partitions go on.
    """

    kind = "stale-metadata"
    does = "metadata reaches a broker late; in the simulator only"
    undone = "it arrives in time"
    healer = "fresh-metadata"
    need = Need.SIMULATOR
    look = IMPAIRED
    target: Target
    delay_ms: int


SIMULATED: tuple[type[Fault], ...] = (Clog, DelayMetadata)
