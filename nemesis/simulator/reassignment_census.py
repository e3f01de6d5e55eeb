"""What happened to the moves of partitions in a cluster world, seen from the metadata as somebody first applies them.

Owns the counting. Judges nothing. Decisions that are applied together count as the one that they come to.
"""

from __future__ import annotations

from collections import Counter
from enum import StrEnum

from nemesis.simulator.node import Node, Step
from nemesis.simulator.world import Observer
from replica.core.metadata.image import MetadataImage
from replica.core.metadata.records import PartitionRegistration
from replica.ids import Offset, ReplicaId


class ReassignmentRare(StrEnum):
    """Events that a sweep over clusters should have seen, of partitions that move."""

    REASSIGNMENT_BEGUN = "reassignment-begun"
    REASSIGNMENT_CHANGED = "reassignment-changed"
    REASSIGNMENT_COMPLETED = "reassignment-completed"
    REASSIGNMENT_CANCELLED = "reassignment-cancelled"
    REASSIGNED_LEADER = "reassigned-leader"


class ReassignmentCensus(Observer):
    """Counts ``ReassignmentRare`` events of one world."""

    def __init__(self) -> None:
        self.counts: Counter[ReassignmentRare] = Counter()
        self._image = MetadataImage()
        self._applied = Offset(0)

    def on_step(self, node: Node, step: Step) -> None:
        """See ``Observer``."""
        if node.core is None or not step.is_whole or node.core.metadata.applied_offset <= self._applied:
            return
        before, self._image = self._image, node.core.metadata.image
        self._applied = node.core.metadata.applied_offset
        if before.topics is self._image.topics:
            return
        for log, now in self._image.partitions():
            was = before.partition(log)
            if was is not None and was is not now:
                self._compare(was, now)

    def _compare(self, was: PartitionRegistration, now: PartitionRegistration) -> None:
        is_cancelled = was.is_reassigned and _members(now) == set(was.replicas) - set(was.adding_replicas)
        if now.is_reassigned and was.is_reassigned:
            self.counts[ReassignmentRare.REASSIGNMENT_CHANGED] += _target(was) != _target(now)
        elif now.is_reassigned:
            self.counts[ReassignmentRare.REASSIGNMENT_BEGUN] += 1
        elif is_cancelled:
            self.counts[ReassignmentRare.REASSIGNMENT_CANCELLED] += 1
        elif was.is_reassigned or was.replicas != now.replicas:
            self.counts[ReassignmentRare.REASSIGNMENT_BEGUN] += not was.is_reassigned
            self.counts[ReassignmentRare.REASSIGNMENT_COMPLETED] += 1
            self.counts[ReassignmentRare.REASSIGNED_LEADER] += was.leader_id not in {None, *_members(now)}


def _members(registration: PartitionRegistration) -> set[ReplicaId]:
    return set(registration.replicas)


def _target(registration: PartitionRegistration) -> tuple[ReplicaId, ...]:
    return tuple(replica for replica in registration.replicas if replica not in registration.removing_replicas)
