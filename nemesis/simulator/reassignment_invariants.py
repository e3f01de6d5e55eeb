"""What must hold of the moves of partitions in a simulated cluster, of every decision that is committed.

Owns the promises about who is a replica; each has a name, which convicts. That no committed record goes with those that
go, ``partition_invariants`` judges. It knows what was asked for, from the requests that came, and never asks a
controller. Source: KIP-455.
"""

from __future__ import annotations

from typing import NoReturn

from nemesis.simulator.node import Node, Step
from nemesis.simulator.violations import BrokenInvariantError
from nemesis.simulator.world import Observer
from replica.core import events as ev
from replica.core import messages as m
from replica.core.metadata.encoding import records_of
from replica.core.metadata.image import MetadataImage
from replica.core.metadata.records import PartitionRecord, PartitionRegistration
from replica.ids import ReplicaId, TopicPartition
from replica.records import RecordBatch

Replicas = tuple[ReplicaId, ...]


class ReassignmentInvariants(Observer):
    """The promises of moves. It is told of committed metadata before it is told of the step."""

    def __init__(self) -> None:
        self._image = MetadataImage()
        self._asked: dict[TopicPartition, set[Replicas]] = {}
        """Every target that somebody asked for."""

    def on_step(self, node: Node, step: Step) -> None:
        """Note what is asked for. In the step that decides it, nothing of it is committed yet: that takes a flush."""
        del node
        match step.event:
            case ev.RequestReceived(request=m.AlterPartitionReassignmentsRequest(partitions=wishes)):
                for wish in wishes:
                    if wish.replicas is not None:
                        self._asked.setdefault(wish.topic_partition, set()).add(wish.replicas)
            case _:
                pass

    def on_metadata(self, batch: RecordBatch) -> None:
        """A batch of the metadata log is committed now: one decision, of which only the whole is judged."""
        before, changed = self._image, dict[TopicPartition, None]()
        for record in () if batch.is_control else records_of(batch):
            self._image = self._image.apply(record)
            if isinstance(record, PartitionRecord):
                changed[TopicPartition(self._image.topic_names[record.topic_id], record.partition)] = None
        for name in changed:
            now, was = self._image.partition(name), before.partition(name)
            if now is not None:
                _check_members(name, now)
                if was is not None:
                    self._check_change(name, was, now)

    def _check_change(self, name: TopicPartition, was: PartitionRegistration, now: PartitionRegistration) -> None:
        if was.replicas == now.replicas and was.is_reassigned == now.is_reassigned:
            return
        gone = set(was.replicas) - set(now.replicas)
        is_cancelled = was.is_reassigned and set(now.replicas) == set(was.replicas) - set(was.adding_replicas)
        if gone and not is_cancelled and not set(now.replicas) <= set(now.isr):
            _convict(
                "reassigned-out-of-sync",
                f"{name} has let replicas {sorted(gone)} go, and of {list(now.replicas)} only {list(now.isr)} are in "
                "sync",
            )
        if gone and now.is_reassigned:
            _convict("reassigned-by-halves", f"{name} has let replicas {sorted(gone)} go and is still under way: {now}")
        if not now.is_reassigned and not is_cancelled and now.replicas not in self._targets(name, was):
            _convict("reassigned-elsewhere", f"{name} has come from {was} to {now}, which nobody has asked for")

    def _targets(self, name: TopicPartition, was: PartitionRegistration) -> set[Replicas]:
        """Where a partition may have come to: what was under way, or what was asked for and is complete at once."""
        under_way = tuple(replica for replica in was.replicas if replica not in was.removing_replicas)
        return {under_way} if not self._asked.get(name) else {under_way, *self._asked[name]}


def _check_members(name: TopicPartition, now: PartitionRegistration) -> None:
    """Whoever counts is a replica; who comes or goes is one for as long, and nobody does both."""
    replicas, adding, removing = set(now.replicas), set(now.adding_replicas), set(now.removing_replicas)
    counted = {*now.isr, *now.elr, *(() if now.leader_id is None else (now.leader_id,))}
    if not counted <= replicas:
        _convict("removed-replica-counts", f"replicas {sorted(counted - replicas)} count for {name}: {now}")
    if len(now.replicas) != len(replicas) or adding & removing or not adding | removing <= replicas:
        _convict("reassignment-of-nobody", f"the replicas of {name} contradict each other: {now}")


def _convict(name: str, detail: str) -> NoReturn:
    raise BrokenInvariantError(name, detail)
